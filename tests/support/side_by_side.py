"""Tests in several processes (pytest-xdist): which stay together, and which begin first.

What shares something that is dear to make (a Spark session, a table that a whole module looks at)
stays in one process. What takes longest begins first, so that no process ends alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

TOGETHER: Mapping[str, str] = {
    "tests/spark/": "one Spark session",
    "tests/e2e/test_cli_spark.py": "one Spark session",
    "tests/e2e/test_schema_conflict.py": "one Spark session",
    "tests/dags/test_merge_dag.py": "one process that parses DAG files",
    "tests/dags/test_operations_dags.py": "one process that parses DAG files",
    "tests/dags/test_humans_dags.py": "one process that parses DAG files",
}
"""Path of tests, or how it begins -> what they share."""
SCATTERED = ("tests/crash/", "tests/hostile/test_fuzz.py")
"""Paths of tests that share nothing: each of them may run anywhere."""
FIRST = (
    # The first three begin together: only one of them needs the Airflow of the run, and starts it.
    "tests/spark/",
    "tests/e2e/test_cli_spark.py",
    "tests/dags/test_backfill_real.py",
    "tests/dags/test_page_browser.py",
    "tests/dags/test_merge_real.py",
    "tests/dags/test_humans_real.py",
    "tests/dags/test_operations_real.py",
    "tests/dags/test_replace_real.py",
    "tests/dags/test_pools_real.py",
    "tests/dags/test_asleep_real.py",
    "tests/dags/",
    "tests/store/test_wire.py",
    "tests/mirrors/test_iceberg.py",
    "tests/crash/",
)
"""How the paths begin of what takes longest, longest first."""

REST = "not unit or long"
"""The marks of what `make test` runs besides `make check`, as the Makefile gives them."""
LONG = "mark.long"
"""What a file says that marks a test of its own as long."""
_UNIT = Path(__file__).resolve().parents[1] / "unit"


def holds_none(path: Path, marks: str) -> bool:
    """Return True if a file of unit tests holds none that a run is for, without importing it.

    That holds for most of them beside `make check`; each process of the run would import them all.

    Args:
        path: of the file, or of a folder.
        marks: of the tests that are wanted, as pytest's ``-m``.
    """
    if marks != REST or not path.name.startswith("test_") or not path.is_relative_to(_UNIT):
        return False
    return LONG not in path.read_text(encoding="utf-8")


def room(nodeid: str) -> str:
    """Return the name that is the same for all tests that stay together with this one."""
    for path, shared in TOGETHER.items():
        if nodeid.startswith(path):
            return shared
    if nodeid.startswith(SCATTERED):
        return nodeid
    return nodeid.partition("::")[0]


def rank(item: pytest.Item) -> int:
    """Return the place of a test among those that are to begin first."""
    places = (place for place, path in enumerate(FIRST) if item.nodeid.startswith(path))
    return next(places, len(FIRST))


class Rooms(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no type information
    """Gives each process one room after the other, in the order of the tests."""

    def __init__(self, config: pytest.Config, log: Any) -> None:
        super().__init__(config, log)
        # Otherwise rooms of many tests begin first, and one of a few minutes may begin last.
        config.option.loadscopereorder = False

    def _split_scope(self, nodeid: str) -> str:
        return room(nodeid)

    def _reschedule(self, node: WorkerController) -> None:
        # A process needs to know one test beyond the one that it runs, not two (as the original
        # has it): the second may be a room of minutes that another process would begin at once.
        if node.shutting_down or (
            self.workqueue and self._pending_of(self.assigned_work[node]) > 1
        ):
            return
        super()._reschedule(node)
