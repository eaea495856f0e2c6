"""Facts of Airflow's database on tables: holders of locks, ends of runs, open questions.

Read in the API server, three queries for all tables together.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection
from dataclasses import asdict, dataclass, field
from typing import Any

from airflow.models.dagrun import DagRun
from airflow.models.hitl import HITLDetail
from airflow.models.taskinstance import TaskInstance
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from firnline.airflow.tables import dag_id
from firnline.operations.operation import Lock
from firnline.operations.pools import LOCKS, pool_name
from firnline.operations.registry import OPERATIONS

_HOLDING = ("running", "queued", "restarting")


@dataclass(frozen=True, slots=True)
class Holder:
    """A task that holds the slot of a table's pool."""

    dag_id: str
    run_id: str
    since_ms: int | None
    """Start of the task, unix ms; None for one that is queued."""


@dataclass(frozen=True, slots=True)
class LastRun:
    """The newest run of a DAG."""

    run_id: str
    state: str
    ended_ms: int | None


@dataclass(slots=True)
class Facts:
    """The facts of one table."""

    holders: dict[Lock, Holder] = field(default_factory=dict)
    runs: dict[str, LastRun] = field(default_factory=dict)
    """Operation -> newest run of its DAG."""
    questions: int = 0
    """Tasks that wait for a person."""

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return asdict(self)


def facts_of(tables: Collection[str], session: Session) -> dict[str, Facts]:
    """Return the facts of tables by name."""
    found: dict[str, Facts] = defaultdict(Facts)
    pools = {pool_name(table, lock): (table, lock) for table in tables for lock in LOCKS}
    for pool, holder in _holders(pools.keys(), session):
        table, lock = pools[pool]
        found[table].holders[lock] = holder
    dags = {dag_id(each.dag, table): (table, each.name) for table in tables for each in OPERATIONS}
    for dag, run in _last_runs(dags.keys(), session):
        table, operation = dags[dag]
        found[table].runs[operation] = run
    for dag, count in _questions(dags.keys(), session).items():
        found[dags[dag][0]].questions += count
    return dict(found)


def _holders(pools: Collection[str], session: Session) -> list[tuple[str, Holder]]:
    columns = (
        TaskInstance.pool,
        TaskInstance.dag_id,
        TaskInstance.run_id,
        TaskInstance.start_date,
    )
    rows = session.execute(select(*columns).where(TaskInstance.state.in_(_HOLDING)))
    return [
        (pool, Holder(dag_id, run_id, _ms(started)))
        for pool, dag_id, run_id, started in rows
        if pool in pools
    ]


def _last_runs(dags: Collection[str], session: Session) -> list[tuple[str, LastRun]]:
    newest = select(func.max(DagRun.id).label("id")).group_by(DagRun.dag_id).subquery()
    columns = (DagRun.dag_id, DagRun.run_id, DagRun.state, DagRun.end_date)
    rows = session.execute(select(*columns).join(newest, DagRun.id == newest.c.id))
    return [
        (dag_id, LastRun(run_id, str(state), _ms(ended)))
        for dag_id, run_id, state, ended in rows
        if dag_id in dags
    ]


def _questions(dags: Collection[str], session: Session) -> Counter[str]:
    query = (
        select(TaskInstance.dag_id)
        .join(HITLDetail, HITLDetail.ti_id == TaskInstance.id)
        .where(HITLDetail.responded_at.is_(None), TaskInstance.state == "awaiting_input")
    )
    return Counter(dag_id for (dag_id,) in session.execute(query) if dag_id in dags)


def _ms(moment: Any) -> int | None:  # noqa: ANN401 - a datetime of the ORM
    return None if moment is None else round(moment.timestamp() * 1000)
