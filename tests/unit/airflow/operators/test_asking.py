"""Operators for what asks a person."""

from __future__ import annotations

from typing import Any

import pytest

from firnline.airflow import Drop, Erase, Sweep
from firnline.airflow.erase import EraseWork
from firnline.airflow.operators.asking import AskingOperator
from firnline.airflow.removal import RemoveWork
from firnline.airflow.sweep import SweepWork
from firnline.airflow.work import Work
from tests.support.signatures import arguments_of


@pytest.mark.parametrize(
    ("operator", "work"), [(Drop, RemoveWork()), (Erase, EraseWork()), (Sweep, SweepWork())]
)
def test_what_is_asked_of_people_has_the_params_of_its_dag(
    operator: type[AskingOperator], work: Work[object]
) -> None:
    params = work.all_params().keys() - {"again", "keys"}  # a new run each time; a file of keys
    params -= {"requests", "asked_in"}  # of the DAG erase_person alone
    assert arguments_of(operator).keys() == params | {"table"}


def test_it_starts_a_run_of_the_dag_for_all_tables() -> None:
    task = Erase(table="users", columns=["id"], keys_file="s3://lake/{{ ds }}.csv")
    assert (task.task_id, task.trigger_dag_id) == ("erase", "erase")
    assert task.conf == {
        "table": "users",
        "columns": ["id"],
        "keys_file": "s3://lake/{{ ds }}.csv",
        "answer_within": "24h",
        "dry_run": False,
    }
    assert "conf" in task.template_fields
    drop: Any = Drop(table="{{ params.of }}", partitions=["day=2020-*"], wait_for_completion=True)
    assert (drop.trigger_dag_id, drop.conf["partitions"]) == ("remove_partitions", ["day=2020-*"])
    assert Sweep(table="users").conf == {
        "table": "users",
        "answer_within": "24h",
        "dry_run": False,
    }
