"""The Airflow pools that tables need, so that work on a table queues.

A pool has one slot, that of merges ``merge.slots``: a merge takes one of them, every other
operation all, so that it runs alone. Plain data, usable without Airflow. Pools keep runs from doing
work twice; what keeps them from harming each other is the commit (``commit.transaction``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from firnline.operations.dag_ids import parse_dag_id
from firnline.operations.operation import AnyDag, Lock
from firnline.operations.registry import DAGS

if TYPE_CHECKING:
    # Airflow loads this module into every task's process, which needs no settings.
    from firnline.settings.load import Settings, TableSettings

NO_TABLE = "firnline.no_table"
"""Pool of tasks whose table is not known when the DAG is made. Airflow's policy
(``firnline.airflow.policy``) gives each of them the pool of its run's table. Where the policy is
missing the task waits here, taking more slots than there are, and never runs without a lock."""
NO_TABLE_TAKES = 2
"""Slots of it that a task takes."""
# With none at all the same would hold, but the Astro CLI leaves out a pool that has none.
_NO_TABLE_SLOTS = NO_TABLE_TAKES - 1
_NO_TABLE = {
    "slots": _NO_TABLE_SLOTS,
    "description": "tasks that have not got the pool of their table: nothing runs here",
    "include_deferred": True,
}
POOL_WRONG = "pool_wrong"
"""Reason with which a notifier is called for a run whose pool is missing or too small."""
CREATE_POOLS = "`firnline pools > pools.json` and then `airflow pools import pools.json`"
"""Command that creates missing pools and gives all of them the slots of the settings."""

_WITHOUT_TABLE = (
    "the tasks of this run did not get the pool of table {table}: "
    "the process that started it lacks the policy of firnline, or could not read the settings; "
    "install the package firnline wherever Airflow runs, set FIRNLINE_TABLES there, restart "
    "it, and start a new run"
)
_DESCRIPTIONS: Mapping[Lock, str] = {
    "merge": "whatever replaces parts of table {table}: one at a time",
    "cleanup": "whatever deletes objects of table {table}: one at a time",
}
_SHARED = "{slots} merges of table {table}, or one of whatever else replaces its parts"
_OPERATIONS: Mapping[str, AnyDag] = {each.dag: each for each in DAGS}
"""By DAG id before ``__``."""
LOCKS: tuple[Lock, ...] = tuple(_DESCRIPTIONS)


def pool_name(table: str, lock: Lock) -> str:
    """Return the name of a table's pool."""
    return f"{table}.{lock}"


def is_lock_of(pool: str, table: str) -> bool:
    """Return True if a pool is one of those of a table."""
    return any(pool == pool_name(table, lock) for lock in LOCKS)


def pool_slots(table: TableSettings, lock: Lock | None) -> int:
    """Return the slots that a table's pool has to have; 1 without a pool."""
    return table.merge.slots if lock == "merge" else 1


def pools_json(settings: Settings) -> dict[str, dict[str, Any]]:
    """Return pools by name, as ``airflow pools import`` reads them."""
    of_tables = {
        pool_name(name, lock): _pool(table, lock)
        for name, table in settings.tables.items()
        for lock in LOCKS
    }
    return {**of_tables, NO_TABLE: _NO_TABLE}


def _pool(table: TableSettings, lock: Lock) -> dict[str, Any]:
    slots = pool_slots(table, lock)
    text = _DESCRIPTIONS[lock] if slots == 1 else _SHARED
    return {
        "slots": slots,
        "description": text.format(table=table.name, slots=slots),
        # A deferred task has to keep its slot.
        "include_deferred": True,
    }


def pool_of_operation(operation: str, table: str) -> str | None:
    """Return the pool that runs of an operation hold; None for one that waits for nobody.

    Raises KeyError for an unknown operation.
    """
    lock = _OPERATIONS[operation].lock
    return None if lock is None else pool_name(table, lock)


def slots_of_operation(operation: str, table: TableSettings) -> int:
    """Return the slots of its pool that a run takes: all, or one beside others of its kind.

    Raises KeyError for an unknown operation.
    """
    about = _OPERATIONS[operation]
    return 1 if shares(about, table) else pool_slots(table, about.lock)


def shares(about: AnyDag, table: TableSettings) -> bool:
    """Return True if runs of an operation take one slot of the table's lock instead of all."""
    return about.shares_lock or (about.may_share and table.rewrite.beside_merges)


def pool_of_run(dag_id: str, conf: Mapping[str, Any] | None) -> str | None:
    """Return the pool that a run holds; None for any other DAG, and for a run that names no table.

    None also for an operation that waits for nobody.

    Args:
        dag_id: of the run.
        conf: configuration that the run was started with.
    """
    found = parse_dag_id(dag_id)
    table = None if found is None else found.table_of(conf)
    return None if found is None or table is None else pool_of_operation(found.operation, table)


@dataclass(frozen=True, slots=True)
class RunLock:
    """What the task of a run that works holds."""

    pool: str
    takes: int
    """Slots that the task takes."""
    of: int
    """Slots that the pool has to have."""


def lock_of_run(
    dag_id: str, conf: Mapping[str, Any] | None, tables: Mapping[str, TableSettings]
) -> RunLock | None:
    """Return what a run holds; None where ``pool_of_run`` does.

    Args:
        dag_id: of the run.
        conf: configuration that the run was started with.
        tables: of the settings; of one that is not among them a run takes one slot of one.
    """
    parsed, pool = parse_dag_id(dag_id), pool_of_run(dag_id, conf)
    if parsed is None or pool is None:
        return None
    table = tables.get(parsed.table_of(conf) or "")
    if table is None:
        return RunLock(pool, 1, 1)
    lock = _OPERATIONS[parsed.operation].lock
    return RunLock(pool, slots_of_operation(parsed.operation, table), pool_slots(table, lock))


def pool_problems(wanted: Mapping[str, int], slots: Mapping[str, int]) -> list[str]:
    """Return one sentence for each pool that is missing or has not exactly the slots it must have.

    Args:
        wanted: pool -> slots that it must have.
        slots: pool -> slots, of all pools there are; a missing key is a missing pool.
    """
    found = (_problem(name, most, slots.get(name)) for name, most in wanted.items())
    return [problem for problem in found if problem is not None]


def _problem(name: str, needed: int, slots: int | None) -> str | None:
    if slots is None:
        return (
            f"the pool {name} does not exist, so nothing that needs it can run; "
            f"create it with {CREATE_POOLS}"
        )
    # Without a slot it is what `firnline pools` printed before, and keeps tasks as well.
    if slots == needed or (name == NO_TABLE and slots == 0):
        return None
    if name == NO_TABLE:
        return (
            f"the pool {name} has more slots than one, so a task that has not got the pool of its "
            f"table would run without a lock; set it to 1 slot with {CREATE_POOLS}"
        )
    if slots == 0:
        return (
            f"the pool {name} has no slot, so nothing can run in it; repair it with {CREATE_POOLS}"
        )
    some = "1 slot" if slots == 1 else f"{slots} slots"
    many = "any number of slots" if slots < 0 else some
    if 0 < slots < needed:
        return (
            f"the pool {name} has {many} instead of {needed}, so fewer merges run at once than "
            f"merge.slots says, and an operation that takes all {needed} slots would wait for "
            f"ever; widen it with {CREATE_POOLS}"
        )
    harm = "so runs on this table work against each other"
    if needed > 1:
        harm = "so what is to run alone on this table may meet a merge, and work in vain"
    return f"the pool {name} has {many} instead of {needed}, {harm}; narrow it with {CREATE_POOLS}"


def uncounted(pool: str) -> str:
    """Return the sentence on a pool that does not count deferred tasks, where some are deferred."""
    return (
        f"the pool {pool} does not count deferred tasks, so a task that waits for its job in a "
        f"trigger would hold no lock; repair it with {CREATE_POOLS}"
    )


def waits_for_ever(pool: str, takes: int, there: int | None, table: str) -> list[str]:
    """Return one sentence if a task of a run cannot start in its pool as it is.

    Args:
        pool: of the task.
        takes: slots that it takes.
        there: slots of the pool; None: it is missing, -1: no bound.
        table: of the run.
    """
    if pool == NO_TABLE:
        return [_WITHOUT_TABLE.format(table=table)]
    if not there:
        return pool_problems({pool: 1}, {} if there is None else {pool: there})
    if not 0 < there < takes:
        return []
    slots = "1 slot" if there == 1 else f"{there} slots"
    problem = (
        f"the pool {pool} has {slots} and a task of this run takes {takes}, so it would wait "
        "for ever: merge.slots was changed, and the pool or the DAG still says what it was before; "
        f"import the pools with {CREATE_POOLS}, wait until Airflow has read the DAG again, and "
        "start a new run"
    )
    return [problem]
