"""The example DAGs of docs/examples/airflow: Airflow reads them, and the docs name each."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest

import firnline.airflow
from firnline.airflow.versions import DagBag, DagSerialization
from tests.support.tables import loaded
from tools.bootstrap import REPO

FOLDER = REPO / "docs" / "examples" / "airflow"
FILES = sorted(FOLDER.glob("*.py"))
TABLES = """
tables:
  events:
    root: 's3://lake/events'
    partition_by: [day]
    ttl: {keep: 30d, column: ts}
    own_dags: [verify]
    verify: {schedule: null}
  users: {root: 's3://lake/users', partition_by: [day(ts)]}
  orders: {root: 's3://lake/orders', partition_by: [day]}
"""


@pytest.fixture(scope="module")
def bag(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What Airflow finds in the folder."""
    folder = tmp_path_factory.mktemp("examples")
    loaded(folder, TABLES)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FIRNLINE_TABLES", str(folder / "tables.yaml"))
        patch.setenv("AIRFLOW__CORE__LOAD_EXAMPLES", "False")
        return DagBag(str(FOLDER))


@pytest.mark.long
def test_every_example_is_read_and_can_be_stored(bag: Any) -> None:
    assert bag.import_errors == {}
    for dag in bag.dags.values():
        DagSerialization.from_dict(DagSerialization.to_dict(dag))
    assert {Path(dag.fileloc).name for dag in bag.dags.values()} == {file.name for file in FILES}


def test_there_is_an_example_of_everything_that_a_dag_imports() -> None:
    imported = {
        name.name
        for file in FILES
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.ImportFrom) and node.module == "firnline.airflow"
        for name in node.names
    }
    assert imported == set(firnline.airflow.__all__)


def test_every_working_task_of_an_example_is_in_a_pool_of_its_table(bag: Any) -> None:
    names = ("load_and_merge", "nightly_ttl", "nightly_cleanup", "load_days", "maintain_events")
    pools = {task.pool for name in names for task in bag.dags[name].tasks}
    assert pools == {"default_pool", "events.merge", "events.cleanup", "users.merge"}


def test_the_example_for_airflow_2_needs_neither_its_sdk_nor_our_package() -> None:
    text = (FOLDER / "command_line.py").read_text()
    modules = {
        node.module for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ImportFrom)
    }
    assert not [m for m in modules if m and m.startswith(("airflow.sdk", "firnline"))]


def test_the_docs_name_every_example() -> None:
    text = (REPO / "docs" / "airflow.md").read_text()
    assert [f.name for f in FILES if f"examples/airflow/{f.name}" not in text] == []
