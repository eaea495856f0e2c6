"""Tasks that wait in a pool in which they can never start, found in Airflow's database.

``pool_guard`` looks at a run when it starts; a pool may be deleted, closed or narrowed after that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow.models.dagrun import DagRun
from airflow.models.pool import Pool
from airflow.models.taskinstance import TaskInstance
from sqlalchemy import and_, or_, select

from firnline.airflow.notes import add_note, has_note
from firnline.airflow.ours import tagged
from firnline.operations.dag_ids import parse_dag_id
from firnline.operations.pools import waits_for_ever

if TYPE_CHECKING:
    from sqlalchemy.orm import Session


@dataclass(frozen=True, slots=True)
class Stuck:
    """A run of which a task can never start."""

    table: str
    run: Mapping[str, Any]
    """``dag_id``, ``run_id`` and ``conf``."""
    problem: str
    noted: bool
    """The note of the run said it before."""

    @property
    def key(self) -> tuple[str, str, str]:
        """Return what tells it from others."""
        return self.run["dag_id"], self.run["run_id"], self.problem


def stuck_runs(session: Session) -> Iterator[Stuck]:
    """Yield and note the runs of our DAGs of which a task waits for ever.

    One query if there is none. The session saves the notes.
    """
    query = (
        select(DagRun, TaskInstance.pool, TaskInstance.pool_slots, Pool.slots)
        .join(
            TaskInstance,
            and_(TaskInstance.dag_id == DagRun.dag_id, TaskInstance.run_id == DagRun.run_id),
        )
        .outerjoin(Pool, Pool.pool == TaskInstance.pool)
        .where(
            TaskInstance.state == "scheduled",
            TaskInstance.dag_id.in_(tagged()),
            # A pool with -1 slots has no bound.
            or_(
                Pool.slots.is_(None),
                and_(Pool.slots >= 0, Pool.slots < TaskInstance.pool_slots),
            ),
        )
    )
    for run, pool, takes, there in session.execute(query).unique().all():
        dag = parse_dag_id(run.dag_id)
        table = None if dag is None else dag.table_of(run.conf)
        if table is None:
            continue
        for problem in waits_for_ever(pool, takes, there, table):
            noted = has_note(run, problem)
            add_note(run, problem)
            about = {"dag_id": run.dag_id, "run_id": run.run_id, "conf": run.conf}
            yield Stuck(table, about, problem, noted)
