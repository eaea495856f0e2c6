"""The Spark data source: ``spark.read.format("firnline").load("s3://bucket/prefix")``.

Options are those of docs/reading.md. Credentials are the driver's: environment and AWS chain.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from firnline.errors import UsageError
from firnline.spark.engine import distribute
from firnline.spark.format.options import Opened, flag_option, opened
from firnline.spark.format.types import spark_schema
from firnline.spark.tasks import is_connect
from firnline.state.moment import snapshot_at
from firnline.store.access import StoreAccess

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAME = "firnline"


def register(session: SparkSession, access: StoreAccess | None = None) -> None:
    """Register ``format("firnline")`` in a session.

    Sets ``spark.sql.python.filterPushdown.enabled``, which the option ``pushFilters`` needs.

    Args:
        session: a classic session, or one on a Connect server.
        access: access to the store; it is sent in Spark's closures. None: the environment of this
            process, on Connect that of the server.
    """
    distribute(session)
    session.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    if access is None and not is_connect(session):
        access = StoreAccess.from_env()
    given = {"_access": None if access is None else access.to_json()}
    # A class created here is pickled with its values; one of a module only by its name.
    session.dataSource.register(type("FirnlineSource", (FirnlineSource,), given))


class FirnlineSource(DataSource):
    """A table; Spark creates a new instance for every step of every query."""

    _access: str | None = None
    """``StoreAccess.to_json``; None: the environment of the planning process."""

    def _opened(self) -> Opened:
        return opened(self.options, self._access)

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType:
        """Return the table's columns at the selected time, or those of the option ``columns``."""
        from firnline.spark.format import changes
        from firnline.spark.format.read import narrowed

        snapshot = snapshot_at(self._opened().table(), self.options.get("at"))
        if changes.wanted(self.options):
            return changes.change_schema(snapshot.schema, self.options)
        named = {name.lower(): value for name, value in self.options.items()}
        return spark_schema(narrowed(snapshot.schema, named))

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return a batch read, of rows or of changes."""
        from firnline.spark.format import changes
        from firnline.spark.format.read import PushingReader, Reader

        if changes.wanted(self.options):
            return changes.ChangesReader(self._opened(), self.options, schema)
        make = PushingReader if flag_option(self.options, "pushfilters") else Reader
        return make(self._opened(), self.options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 -- Spark's
        """Return a stream of the table's rows and then its appends or changes, each once."""
        from firnline.spark.format import changes
        from firnline.spark.format.stream import StreamReader

        if changes.wanted(self.options):
            return changes.ChangesStream(self._opened(), self.options, schema)
        return StreamReader(self._opened(), self.options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:  # noqa: ARG002
        """Return an append; with ``mode("overwrite")`` the replacement of an interval."""
        from firnline.spark.format.write import Writer, interval_of

        replaces = interval_of(self.options) if overwrite else None
        return Writer(self._opened(), self.options, replaces=replaces)

    def streamWriter(  # noqa: N802 -- Spark's
        self,
        schema: StructType,  # noqa: ARG002
        overwrite: bool,
    ) -> DataSourceStreamWriter:
        """Return a sink for appends."""
        from firnline.spark.format.sink import StreamWriter

        if overwrite:
            raise UsageError(
                "a stream is appended to a table, batch by batch",
                next_step='leave out .outputMode("complete")',
            )
        return StreamWriter(self._opened(), self.options)
