"""A run fails with its work, whatever was skipped before the work had ended."""

from __future__ import annotations

import pytest
from airflow.sdk import DAG

from tools.reference.dags import load_dags

BEFOREHAND = {"mirror", "certificates"}
"""Tasks that the first task of a run skips if they have nothing to do in it."""


def last_tasks(dag: DAG) -> set[str]:
    """Return the tasks by which Airflow tells the state of a run."""
    return {
        task_id
        for task_id, task in dag.task_dict.items()
        if not task.is_teardown
        and all(dag.task_dict[each].is_teardown for each in task.downstream_task_ids)
    }


@pytest.mark.long
@pytest.mark.parametrize("mirror", ["", ", mirror: [delta]"])
def test_each_task_has_a_last_one_after_it_that_is_never_skipped_beforehand(
    mirror: str,
) -> None:
    dags = load_dags(("t",), mirror)
    assert len(dags) > 5
    for name, dag in dags.items():
        last = last_tasks(dag) - BEFOREHAND
        for task_id, task in dag.task_dict.items():
            if task.is_teardown or task_id in BEFOREHAND:
                continue
            after = {task_id} | {each.task_id for each in task.get_flat_relatives(upstream=False)}
            assert after & last, f"a failure of {task_id} in {name} would be a success of the run"
