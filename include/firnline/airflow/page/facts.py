"""Facts of Airflow's database on tables: holders of locks, ends of runs, open questions.

Read in the API server, three queries for all tables together.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from airflow.models.dag import DagModel
from airflow.models.dagrun import DagRun
from airflow.models.taskinstance import TaskInstance
from sqlalchemy import and_, func, select, union_all
from sqlalchemy.orm import Session

from firnline.airflow.ours import tagged
from firnline.airflow.versions import AIRFLOW_3_1_PLUS, AWAITS_INPUT
from firnline.operations.dag_ids import TABLE, dag_id, parse_dag_id
from firnline.operations.operation import Lock
from firnline.operations.pools import LOCKS, pool_name
from firnline.operations.registry import DAGS

if TYPE_CHECKING:
    from sqlalchemy import Select  # 1.4, which Airflow 3.0 has, keeps it elsewhere

_FOR_ALL = tuple(dag_id(each.dag) for each in DAGS)
_NAMES = {each.dag: each.name for each in DAGS}
_MOST_RUNS = 1_000
"""Newest runs of each DAG for all tables that are looked through for the last one of each table."""
_HOLDING = ("running", "queued", "restarting")
_LATER_MS = 1 << 62
"""Of a task that has not started yet, which comes after those that have."""


@dataclass(frozen=True, slots=True)
class Holder:
    """A task that holds slots of a table's pool."""

    dag_id: str
    run_id: str
    since_ms: int | None
    """Start of the task, unix ms; None for one that is queued."""


@dataclass(frozen=True, slots=True)
class LastRun:
    """The newest run of a DAG."""

    dag_id: str
    run_id: str
    state: str
    ended_ms: int | None


@dataclass(slots=True)
class Facts:
    """The facts of one table."""

    holders: dict[Lock, list[Holder]] = field(default_factory=dict)
    """Lock -> the tasks that hold it, the longest first: several merges may."""
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
        found[table].holders.setdefault(lock, []).append(holder)
    for name, operation, run in _last_runs(session):
        if name in tables:
            found[name].runs.setdefault(operation, run)
    for name, count in _questions(session).items():
        if name in tables:
            found[name].questions += count
    return dict(found)


def _holders(pools: Collection[str], session: Session) -> list[tuple[str, Holder]]:
    columns = (
        TaskInstance.pool,
        TaskInstance.dag_id,
        TaskInstance.run_id,
        TaskInstance.start_date,
    )
    rows = session.execute(select(*columns).where(TaskInstance.state.in_(_HOLDING)))
    found = [
        (pool, Holder(dag_id, run_id, _ms(started)))
        for pool, dag_id, run_id, started in rows
        if pool in pools
    ]
    return sorted(found, key=lambda each: (each[1].since_ms or _LATER_MS, each[1].run_id))


def _last_runs(session: Session) -> Iterator[tuple[str, str, LastRun]]:
    """Yield (table, operation, run), the newest first: of a table's own DAG and of that for all."""
    columns = (DagRun.dag_id, DagRun.run_id, DagRun.state, DagRun.end_date, DagRun.conf)
    newest = union_all(_newest_for_all(), _newest_of_own()).subquery()
    runs = select(*columns).join(newest, DagRun.id == newest.c.id).order_by(DagRun.id.desc())
    for ran, run_id, state, ended, conf in session.execute(runs):
        dag = parse_dag_id(ran)
        table = None if dag is None else dag.table_of(conf)
        if dag is not None and table is not None:
            yield table, _NAMES[dag.operation], LastRun(ran, run_id, str(state), _ms(ended))


def _newest_for_all() -> Select[Any]:
    """Select the newest run of each table in the DAGs for all tables.

    A query for each of these DAGs, which ends at its limit: numbering the runs of all of them reads
    every run that Airflow has kept. The table is read in the database, so that the runs that are
    not the newest of their table do not come here.
    """
    latest = (
        select(DagRun.id, DagRun.dag_id, DagRun.conf[TABLE].as_string().label("named"))
        .where(DagRun.dag_id == dag)
        .order_by(DagRun.id.desc())
        .limit(_MOST_RUNS)
        .subquery()
        for dag in _FOR_ALL
    )
    every = union_all(*map(select, latest)).subquery()
    newest = select(func.max(every.c.id).label("id"))
    return newest.group_by(every.c.dag_id, every.c.named)


def _newest_of_own() -> Select[Any]:
    """Select the newest run of each DAG of a table's own; reads no run of those for all tables."""
    own = select(DagModel.dag_id).where(
        DagModel.dag_id.contains("__", autoescape=True), DagModel.dag_id.in_(tagged())
    )
    newest = select(func.max(DagRun.id).label("id")).where(DagRun.dag_id.in_(own))
    return newest.group_by(DagRun.dag_id)


def _questions(session: Session) -> Counter[str]:
    if not AIRFLOW_3_1_PLUS:
        return Counter()  # nobody can be asked there
    from firnline.airflow.versions import HITLDetail

    query = (
        select(TaskInstance.dag_id, DagRun.conf)
        .join(HITLDetail, HITLDetail.ti_id == TaskInstance.id)
        .join(
            DagRun,
            and_(DagRun.dag_id == TaskInstance.dag_id, DagRun.run_id == TaskInstance.run_id),
        )
        .where(
            HITLDetail.responded_at.is_(None),
            TaskInstance.state == AWAITS_INPUT,
            TaskInstance.dag_id.in_(tagged()),
        )
    )
    dags = ((parse_dag_id(asking), conf) for asking, conf in session.execute(query))
    tables = (dag.table_of(conf) for dag, conf in dags if dag is not None)
    return Counter(table for table in tables if table is not None)


def _ms(moment: Any) -> int | None:  # noqa: ANN401 - a datetime of the ORM
    return None if moment is None else round(moment.timestamp() * 1000)
