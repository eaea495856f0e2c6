"""The Spark data source: ``spark.read.format("firnline").load("s3://bucket/prefix")``.

Options are those of docs/reading.md. Credentials are the driver's: environment and AWS chain.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from firnline.spark.engine import distribute
from firnline.spark.tasks import is_connect
from firnline.spark.versions import refuse_data_source
from firnline.store.access import StoreAccess

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(session: SparkSession, access: StoreAccess | None = None) -> None:
    """Register ``format("firnline")`` in a session.

    Sets ``spark.sql.python.filterPushdown.enabled``, which the option ``pushFilters`` needs; Spark
    knows it from 4.1 on.

    Args:
        session: a classic session, or one on a Connect server.
        access: access to the store; it is sent in Spark's closures. None: the environment of this
            process, on Connect that of the server.

    Raises EnvironmentFaultError: Spark is older than 4.0, which brought Python data sources.
    """
    refuse_data_source()
    # Not before: its module takes what no older Spark has.
    from firnline.spark.format.source import FirnlineSource

    distribute(session)
    session.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    if access is None and not is_connect(session):
        access = StoreAccess.from_env()
    given = {"_access": None if access is None else access.to_json()}
    # A class created here is pickled with its values; one of a module only by its name.
    session.dataSource.register(type("FirnlineSource", (FirnlineSource,), given))
