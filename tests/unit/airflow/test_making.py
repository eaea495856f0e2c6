"""Which DAGs the DAG files make."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from firnline.airflow import making
from firnline.airflow.making import is_in, make_for_all_tables, make_of_single_tables
from firnline.airflow.tables import DagTable
from firnline.settings.cron import spread
from firnline.settings.sections import OWN_DAGS
from tests.support.timetables import cron_of

TABLES = """tables:
  a: {root: 's3://b/a', own_dags: [merge], sweep: {schedule: '@daily'}}
  a__b: {root: 's3://b/c', operations: [merge, restore]}
  merge__a: {root: 's3://b/d', own_dags: [merge]}
"""

Made = Callable[[], list[str]]


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Made:
    """Ids of the DAGs of operations that both files make, for the DAG that is asked for."""
    found: list[tuple[str, DagTable]] = []

    class Graph:
        def __init__(self, operation: str) -> None:
            self.operation = operation

        def make(self, table: DagTable, jobs: Path) -> None:
            assert jobs == tmp_path
            found.append((self.operation, table))

    monkeypatch.setattr(making, "graph_of", Graph)
    monkeypatch.setattr(making, "fleet_to_plan", lambda: None)
    monkeypatch.setenv("FIRNLINE_TABLES", str(tmp_path / "tables.yaml"))
    (tmp_path / "tables.yaml").write_text(TABLES)

    def ids() -> list[str]:
        found.clear()
        make_for_all_tables(tmp_path)
        make_of_single_tables(tmp_path, Path("own_dags.py"))
        return [table.dag_id(operation) for operation, table in found]

    return ids


def test_each_operation_has_a_dag_for_all_tables_and_those_that_tables_ask_for(made: Made) -> None:
    names = made()
    shared, own = names[:13], names[13:]
    assert set(shared) > {"merge", "restore", "rewrite_partitions", "orphan_sweep", "verify"}
    assert "ttl" not in shared, "no table has a time to live"
    assert own == ["merge__a", "orphan_sweep__a", "merge__merge__a"]


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ("merge", ["merge"]),
        ("merge__a", ["merge__a"]),
        ("merge__merge__a", ["merge__merge__a"]),
        ("merge__a__b", []),
        ("a", []),
        ("ttl", []),
        ("merge__gone", []),
        ("somebody_s", []),
    ],
)
def test_a_task_that_starts_makes_its_own_dag_only(
    made: Made, wanted: str, found: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("_AIRFLOW_PARSING_CONTEXT_DAG_ID", wanted)
    assert made() == found


@pytest.mark.long
def test_a_dag_of_its_own_has_the_schedule_of_its_table(
    made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    clocks = {}

    class Graph:
        def __init__(self, operation: str) -> None:
            self.operation = operation

        def make(self, table: DagTable, _: Path) -> None:
            clock = table.clock
            name = table.dag_id(self.operation)
            clocks[name] = None if clock is None else cron_of(clock)

    made()
    monkeypatch.setattr(making, "graph_of", Graph)
    make_of_single_tables(Path(), Path("own_dags.py"))
    assert clocks == {
        "merge__a": None,
        "orphan_sweep__a": spread("@daily", "orphan_sweep__a"),
        "merge__merge__a": None,
    }


def test_files_with_shares_in_their_names_divide_the_tables() -> None:
    files = [Path(f"/dags/own_dags_{number}_of_3.py") for number in (1, 2, 3)]
    names = [f"t{number}" for number in range(90)]
    for name in names:
        assert [is_in(name, file) for file in files].count(True) == 1
        assert is_in(name, Path("/dags/own_dags.py"))
    counts = [sum(is_in(name, file) for name in names) for file in files]
    assert min(counts) > 15, counts


def test_every_operation_has_a_graph() -> None:
    for operation in OWN_DAGS:
        assert callable(making.graph_of(operation).make)
