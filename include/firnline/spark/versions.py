"""The differences between versions of Spark, from 3.5 on.

All of it is here: constants by the version of the pyspark that this process imports, names that
pyspark has only from some version on, and the few functions that do one thing in two ways. Each
process decides for itself: a client of Spark Connect may be newer than its server.

Names of data sources do not exist here before Spark 4.0, and those of filters not before 4.1:
modules that import them are imported only where they are needed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark
from pyspark.sql import Column
from pyspark.sql.pandas import types as arrow_types

from firnline.errors import EnvironmentFaultError
from firnline.spark.tasks import is_connect

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


def release_of(version: str) -> tuple[int, int]:
    """Return major and minor number of a version of Spark, such as ``3.5.6-amzn``.

    Raises EnvironmentFaultError: it has no two numbers at its beginning.
    """
    found = re.match(r"(\d+)\.(\d+)", version)
    if found is None:
        raise EnvironmentFaultError(
            f"pyspark states the version {version!r}, which is no version of Spark",
            next_step="install a pyspark of a release of Spark, 3.5 or newer",
        )
    return int(found[1]), int(found[2])


VERSION: str = pyspark.__version__
_RELEASE = release_of(VERSION)
SPARK_4_0_PLUS = _RELEASE >= (4, 0)
"""There are Python data sources, artifacts of classic sessions and a Connect client in pyspark."""
SPARK_4_1_PLUS = _RELEASE >= (4, 1)
"""Data sources get filters, and streaming sinks state that they take Arrow."""
SPARK_4_2_PLUS = _RELEASE >= (4, 2)
"""Streaming data sources get limits of a batch, and a say in what is available now."""
OLDEST_JAVA = 17 if SPARK_4_0_PLUS else 8
"""Oldest Java version on which this Spark starts."""

# ``TYPE_CHECKING or``: types are checked against the newest version alone.
if TYPE_CHECKING or SPARK_4_1_PLUS:
    from pyspark.sql.datasource import (
        DataSourceStreamArrowWriter,
        EqualNullSafe,
        EqualTo,
        Filter,
        GreaterThan,
        GreaterThanOrEqual,
        In,
        IsNotNull,
        IsNull,
        LessThan,
        LessThanOrEqual,
        Not,
    )
elif SPARK_4_0_PLUS:
    from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamWriter

    class DataSourceStreamArrowWriter(DataSourceStreamWriter, DataSourceArrowWriter):
        """A streaming sink that takes Arrow.

        Spark 4.0 hands Arrow to whatever is a DataSourceArrowWriter, of a batch or of a stream.
        Its rows instead would be others: a time in the hour that a change of clocks repeats loses
        which of the two it is.
        """


if TYPE_CHECKING or SPARK_4_2_PLUS:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxBytes,
        ReadMaxFiles,
        SupportsTriggerAvailableNow,
    )
else:

    class ReadLimit:
        """Stands for what Spark passes to a stream from 4.2 on; before, it passes none."""

    @dataclass(frozen=True)
    class ReadAllAvailable(ReadLimit):
        """No limit."""

    @dataclass(frozen=True)
    class ReadMaxFiles(ReadLimit):
        """A limit of parts."""

        max_files: int

    @dataclass(frozen=True)
    class ReadMaxBytes(ReadLimit):
        """A limit of bytes."""

        max_bytes: int

    class SupportsTriggerAvailableNow:
        """Before 4.2 Spark itself holds a stream to what there was at its start."""


__all__ = [
    "OLDEST_JAVA",
    "SPARK_4_0_PLUS",
    "SPARK_4_1_PLUS",
    "SPARK_4_2_PLUS",
    "VERSION",
    "DataSourceStreamArrowWriter",
    "EqualNullSafe",
    "EqualTo",
    "Filter",
    "GreaterThan",
    "GreaterThanOrEqual",
    "In",
    "IsNotNull",
    "IsNull",
    "LessThan",
    "LessThanOrEqual",
    "Not",
    "ReadAllAvailable",
    "ReadLimit",
    "ReadMaxBytes",
    "ReadMaxFiles",
    "SupportsTriggerAvailableNow",
    "arrow_schema",
    "part_metadata",
    "refuse_connect",
    "refuse_data_source",
    "release_of",
    "send_package",
]


def refuse_data_source() -> None:
    """Raise EnvironmentFaultError if this Spark has no Python data sources."""
    if not SPARK_4_0_PLUS:
        raise EnvironmentFaultError(
            f'the data source format("firnline") needs Spark 4.0 or newer, and this is {VERSION}',
            next_step="read with firnline.spark.frame(spark, table), write with firnline.append",
        )


def refuse_connect() -> None:
    """Raise EnvironmentFaultError if this pyspark is no client of Spark Connect for firnline."""
    if not SPARK_4_0_PLUS:
        raise EnvironmentFaultError(
            f"firnline uses Spark Connect with PySpark 4.0 or newer, and this is {VERSION}",
            next_step="name a master instead of a server, or install a newer pyspark",
        )


def send_package(session: SparkSession, package: Path) -> None:
    """Send a zip with Python modules to the executors of a session, classic or Connect."""
    if SPARK_4_0_PLUS or is_connect(session):
        session.addArtifacts(str(package), pyfile=True)
    else:
        session.sparkContext.addPyFile(str(package))


def arrow_schema(schema: StructType) -> pa.Schema:
    """Return the Arrow types that Spark expects of a data source; times with a zone are in UTC."""
    if SPARK_4_2_PLUS:
        return arrow_types.to_arrow_schema(schema, timezone="UTC")
    return arrow_types.to_arrow_schema(schema)


def part_metadata(rows: DataFrame, field: str) -> Column:
    """Return what Spark knows of the file of each row: a field of its hidden column ``_metadata``.

    A column of that name in the file is another one.
    """
    if SPARK_4_0_PLUS:
        return rows.metadataColumn("_metadata").getField(field)
    hidden = rows._jdf.metadataColumn("_metadata")  # noqa: SLF001 -- 3.5 has it in the JVM alone
    return Column(hidden).getField(field)
