"""The class behind ``format("firnline")``, as Spark creates it. For Spark 4.0 and later."""

from __future__ import annotations

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from firnline.errors import UsageError
from firnline.spark.format.options import Opened, flag_option, opened
from firnline.spark.format.types import spark_schema
from firnline.state.moment import snapshot_at

NAME = "firnline"


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
