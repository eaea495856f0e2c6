"""Tests of Spark in every version of it: what some version does not have."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from firnline.spark.versions import SPARK_4_0_PLUS, VERSION

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

NO_SOURCE = f"Spark {VERSION} has no Python data sources (4.0)"
with_source = pytest.mark.skipif(not SPARK_4_0_PLUS, reason=NO_SOURCE)
_OF_SOURCES = {
    *("spark/test_changes.py", "spark/test_source.py"),
    *(f"spark/format/test_{name}.py" for name in ("read", "sink", "stream", "write")),
}
"""Modules of tests that can only be imported with data sources."""


class _Skipped(pytest.Module):
    def collect(self) -> list[pytest.Item | pytest.Collector]:
        pytest.skip(NO_SOURCE)


def pytest_pycollect_makemodule(
    module_path: Path, parent: pytest.Collector
) -> pytest.Module | None:
    """Skip, without importing it, a module that needs data sources where there are none."""
    of_sources = any(module_path.as_posix().endswith(f"/{name}") for name in _OF_SOURCES)
    if SPARK_4_0_PLUS or not of_sources:
        return None
    found: pytest.Module = _Skipped.from_parent(parent, path=module_path)
    return found


def as_arrow(rows: DataFrame) -> pa.Table:
    """Return all rows, as Spark itself makes Arrow of them."""
    if SPARK_4_0_PLUS:
        return rows.toArrow()
    batches = rows._collect_as_arrow()  # type: ignore[operator]  # of 3.5
    if batches:
        return pa.Table.from_batches(batches)
    return pa.table({name: [] for name in rows.columns})
