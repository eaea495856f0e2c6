"""The pool that a task of a DAG for all tables gets from Airflow's policy."""

from __future__ import annotations

from importlib.metadata import entry_points
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from firnline.airflow import policy
from firnline.operations.pools import NO_TABLE


@pytest.fixture(autouse=True)
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "tables.yaml"
    file.write_text(
        "tables:\n  flights: {root: 's3://b/flights'}\n"
        "  shared: {root: 's3://b/shared', partition_by: [d], merge: {slots: 4}}\n"
    )
    monkeypatch.setenv("FIRNLINE_TABLES", str(file))
    return file


def asked(dag_id: str, conf: dict[str, Any] | None, given: str = NO_TABLE) -> Any:
    """Return a task after Airflow has asked."""
    task: Any = SimpleNamespace(dag_id=dag_id, pool=given, pool_slots=1)
    run: Any = SimpleNamespace(conf=conf)
    policy.task_instance_mutation_hook(task, run)
    return task


def pool(dag_id: str, conf: dict[str, Any] | None, given: str = NO_TABLE) -> str:
    """Return the pool of a task after Airflow has asked."""
    return str(asked(dag_id, conf, given).pool)


def test_a_task_gets_the_pool_of_the_table_that_its_run_names() -> None:
    assert pool("restore", {"table": "flights"}) == "flights.merge"
    assert pool("rebuild", {"table": "flights"}) == "flights.cleanup"


def test_a_task_takes_all_slots_of_a_pool_that_merges_share() -> None:
    assert asked("restore", {"table": "shared"}).pool_slots == 4
    assert asked("rebuild", {"table": "shared"}).pool_slots == 1
    assert asked("restore", {"table": "flights"}).pool_slots == 1


def test_without_readable_settings_a_task_stays_where_nothing_runs(settings: Path) -> None:
    """Not an error: it would stop the scheduler, which creates the tasks of all DAGs."""
    settings.write_text("tables: {shared: {merge: {slots: many}}}")
    task = asked("restore", {"table": "shared"})
    assert (task.pool, task.pool_slots) == (NO_TABLE, 1)


@pytest.mark.parametrize("conf", [None, {}, {"table": 7}])
def test_a_task_of_a_run_without_a_table_stays_where_nothing_runs(
    conf: dict[str, Any] | None,
) -> None:
    assert pool("restore", conf) == NO_TABLE


@pytest.mark.parametrize("given", ["default_pool", "flights.merge"])
def test_no_other_task_is_touched(given: str) -> None:
    assert pool("restore", {"table": "other"}, given) == given
    assert pool("somebody_elses", {"table": "other"}) == NO_TABLE


def test_a_task_without_a_run_is_left_as_it_is() -> None:
    task: Any = SimpleNamespace(dag_id="restore", pool=NO_TABLE)
    policy.task_instance_mutation_hook(task, None)
    assert task.pool == NO_TABLE


def test_airflow_finds_the_policy_and_asks_it() -> None:
    """Also where there is no airflow_local_settings.py: Airflow would skip the policies there."""
    import airflow.settings

    (found,) = entry_points(group="airflow.policy", name="firnline")
    assert found.load() is policy
    assert airflow.settings.task_instance_mutation_hook.is_noop is False  # type: ignore[attr-defined] # set on a function
