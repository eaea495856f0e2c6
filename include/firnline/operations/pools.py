"""The Airflow pools that tables need: one slot each, so that work on a table queues.

Plain data, usable without Airflow. Pools keep runs from doing work twice; what keeps
them from harming each other is the commit (``firnline.commit.transaction``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from firnline.operations.operation import Lock
from firnline.operations.registry import OPERATIONS

if TYPE_CHECKING:
    # Airflow loads this module into every task's process, which needs no settings.
    from firnline.settings.load import Settings

SLOTS = 1
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
    return {
        pool_name(table, kind): {
            "slots": SLOTS,
            "description": text.format(table=table),
            # A deferred task has to keep its slot.
            "include_deferred": True,
        }
        for table in settings.tables
        for kind, text in _DESCRIPTIONS.items()
    }


def pool_of_dag(dag_id: str) -> str | None:
    """Return the pool that runs of a DAG of ours hold; None for any other DAG."""
    operation, separator, table = dag_id.partition("__")
    kind = _LOCKS.get(operation) if separator and table else None
    return None if kind is None else pool_name(table, kind)


def table_of_dag(dag_id: str) -> str | None:
    """Return the table of a DAG of ours; None for any other, that of the whole fleet among them."""
    return None if pool_of_dag(dag_id) is None else dag_id.partition("__")[2]


def pool_problems(wanted: Iterable[str], slots: Mapping[str, int]) -> list[str]:
    """Return one sentence for each pool that is missing or has not exactly one slot.

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
    if slots == SLOTS:
        return None
    if slots == 0:
        return (
            f"the pool {name} has no slot, so nothing can run in it; repair it with {CREATE_POOLS}"
        )
    many = "any number of slots" if slots < 0 else f"{slots} slots"
    return (
        f"the pool {name} has {many} instead of 1, so runs on this table work against each other; "
        f"narrow it with {CREATE_POOLS}"
    )
