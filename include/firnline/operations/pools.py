"""The Airflow pools that tables need: one slot each, so that work on a table queues.

Plain data, usable without Airflow. Pools keep runs from doing work twice; what keeps
them from harming each other is the commit (``firnline.commit.transaction``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from firnline.operations.dag_ids import parse_dag_id
from firnline.operations.operation import Lock
from firnline.operations.registry import OPERATIONS

if TYPE_CHECKING:
    # Airflow loads this module into every task's process, which needs no settings.
    from firnline.settings.load import Settings

SLOTS = 1
NO_TABLE = "firnline.no_table"
"""Pool of tasks whose table is not known when the DAG is made. It has no slot: Airflow's policy
(``firnline.airflow.policy``) gives each task the pool of its run's table, and where the policy is
missing the task waits here instead of running without a lock."""
_NO_TABLE = {
    "slots": 0,
    "description": "tasks that have not got the pool of their table: nothing runs here",
    "include_deferred": True,
}
CREATE_POOLS = "`firnline pools > pools.json` and then `airflow pools import pools.json`"
"""Command that creates missing pools and sets pools to one slot."""

_DESCRIPTIONS: Mapping[Lock, str] = {
    "merge": "whatever replaces parts of table {table}: one at a time",
    "cleanup": "whatever deletes objects of table {table}: one at a time",
}
_LOCKS: Mapping[str, Lock] = {each.dag: each.lock for each in OPERATIONS}
"""DAG id before ``__`` -> the table's pool that its runs hold."""
LOCKS: tuple[Lock, ...] = tuple(_DESCRIPTIONS)


def pool_name(table: str, lock: Lock) -> str:
    """Return the name of a table's pool."""
    return f"{table}.{lock}"


def pools_json(settings: Settings) -> dict[str, dict[str, Any]]:
    """Return pools by name, as ``airflow pools import`` reads them."""
    of_tables = {
        pool_name(table, kind): {
            "slots": SLOTS,
            "description": text.format(table=table),
            # A deferred task has to keep its slot.
            "include_deferred": True,
        }
        for table in settings.tables
        for kind, text in _DESCRIPTIONS.items()
    }
    return {**of_tables, NO_TABLE: _NO_TABLE}


def pool_of_operation(operation: str, table: str) -> str:
    """Return the pool that runs of an operation hold. Raises KeyError for an unknown operation."""
    return pool_name(table, _LOCKS[operation])


def pool_of_run(dag_id: str, conf: Mapping[str, Any] | None) -> str | None:
    """Return the pool that a run holds; None for any other DAG, and for a run that names no table.

    Args:
        dag_id: of the run.
        conf: configuration that the run was started with.
    """
    found = parse_dag_id(dag_id)
    table = None if found is None else found.table_of(conf)
    return None if found is None or table is None else pool_of_operation(found.operation, table)


def pool_problems(wanted: Iterable[str], slots: Mapping[str, int]) -> list[str]:
    """Return one sentence for each pool that is missing or has not exactly the slots it must have.

    Args:
        wanted: names of pools.
        slots: pool -> slots, of all pools there are; a missing key is a missing pool.
    """
    return [problem for name in wanted if (problem := _problem(name, slots.get(name)))]


def _problem(name: str, slots: int | None) -> str | None:
    if slots is None:
        return (
            f"the pool {name} does not exist, so nothing that needs it can run; "
            f"create it with {CREATE_POOLS}"
        )
    if slots == (0 if name == NO_TABLE else SLOTS):
        return None
    if name == NO_TABLE:
        return (
            f"the pool {name} has slots, so a task that has not got the pool of its table would "
            f"run without a lock; set it to 0 slots with {CREATE_POOLS}"
        )
    if slots == 0:
        return (
            f"the pool {name} has no slot, so nothing can run in it; repair it with {CREATE_POOLS}"
        )
    many = "any number of slots" if slots < 0 else f"{slots} slots"
    return (
        f"the pool {name} has {many} instead of 1, so runs on this table work against each other; "
        f"narrow it with {CREATE_POOLS}"
    )
