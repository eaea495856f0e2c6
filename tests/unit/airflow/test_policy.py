"""The pool that a task of a DAG for all tables gets from Airflow's policy."""

from __future__ import annotations

from importlib.metadata import entry_points
from types import SimpleNamespace
from typing import Any

import pytest

from firnline.airflow import policy
from firnline.operations.pools import NO_TABLE


def pool(dag_id: str, conf: dict[str, Any] | None, given: str = NO_TABLE) -> str:
    """Return the pool of a task after Airflow has asked."""
    task: Any = SimpleNamespace(dag_id=dag_id, pool=given)
    run: Any = SimpleNamespace(conf=conf)
    policy.task_instance_mutation_hook(task, run)
    return str(task.pool)


def test_a_task_gets_the_pool_of_the_table_that_its_run_names() -> None:
    assert pool("restore", {"table": "flights"}) == "flights.merge"
    assert pool("rebuild", {"table": "flights"}) == "flights.cleanup"


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
