"""What Spark writes is imported with the values that Spark reads, whatever its options."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from firnline.errors import PartSchemaError
from tests.models.test_any_file import Taken, same, values
from tests.support.spark_versions import as_arrow

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OPTIONS = {
    "as it is": {},
    "INT96, old forms": {"outputTimestampType": "INT96", "writeLegacyFormat": "true"},
    "microseconds": {"outputTimestampType": "TIMESTAMP_MICROS"},
    "milliseconds, old forms": {
        "outputTimestampType": "TIMESTAMP_MILLIS",
        "writeLegacyFormat": "true",
    },
}
ROWS = """
SELECT id AS k,
  array(DATE '2024-02-29', NULL, DATE '1969-12-31', DATE '1582-10-15', DATE '0001-01-01')[id % 5]
    AS day,
  CASE WHEN id > 0 THEN timestamp_millis(id * 123456789 - 200000000) END AS at,
  CASE WHEN id > 0 THEN timestamp_ntz '2024-01-01 10:00:00.5' END AS local,
  CAST(id - 3 AS DECIMAL(5, 2)) AS d5, CAST(-id AS DECIMAL(18, 4)) AS d18,
  CAST(id AS DECIMAL(38, 10)) AS d38,
  CASE WHEN id > 0 THEN array(id, NULL, 2) END AS items,
  CASE id WHEN 1 THEN array() ELSE array(named_struct('a', id, 'b', array('x', NULL))) END AS deep,
  map('k', id, 'n', NULL) AS pairs,
  CAST(id AS BYTE) AS tiny, CAST(id AS FLOAT) / 3 AS small, CAST('NaN' AS DOUBLE) AS nan,
  encode(CAST(id AS STRING), 'UTF-8') AS raw, id % 2 = 0 AS flag, concat('é', id) AS text
FROM range(6)
"""


@contextmanager
def settings(spark: SparkSession, changed: dict[str, str]) -> Iterator[None]:
    names = {f"spark.sql.parquet.{name}": value for name, value in changed.items()}
    before = {name: spark.conf.get(name, None) for name in names}
    try:
        for name, value in names.items():
            spark.conf.set(name, value)
        yield
    finally:
        for name, old in before.items():
            if old is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, old)


def written(spark: SparkSession, query: str, options: dict[str, str], folder: Path) -> pa.Table:
    """Write the rows of a query as one file; return them as Spark reads that file."""
    with settings(spark, options):
        spark.sql(query).coalesce(1).write.parquet(str(folder))
        return as_arrow(spark.read.parquet(str(folder)))


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.turn
def test_what_spark_writes_can_be_kept(spark: SparkSession, tmp_path: Path, name: str) -> None:
    expected = written(spark, ROWS, OPTIONS[name], tmp_path / "file")
    (file,) = (tmp_path / "file").glob("*.parquet")
    taken = Taken(tmp_path / "scratch")
    taken.take({"part-0.parquet": file})
    same(taken.reads(None), values(expected))
    taken.can_be_kept(values(expected))


@pytest.mark.parametrize("kind", ["DATE", "TIMESTAMP"])
def test_days_of_the_julian_calendar_are_refused_and_later_ones_are_not(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    old = {"datetimeRebaseModeInWrite": "LEGACY", "outputTimestampType": "TIMESTAMP_MICROS"}
    for day, fits in (("1582-10-04", False), ("1582-10-15", True)):
        query = f"SELECT id AS k, {kind} '{day}' AS x FROM range(2)"
        expected = written(spark, query, old, tmp_path / day)
        (file,) = (tmp_path / day).glob("*.parquet")
        taken = Taken(tmp_path / "scratch")
        if fits:
            taken.take({"part-0.parquet": file})
            taken.can_be_kept(values(expected))
        else:
            with pytest.raises(PartSchemaError, match=r"part-0\.parquet: column 'x' has days"):
                taken.take({"part-0.parquet": file})
