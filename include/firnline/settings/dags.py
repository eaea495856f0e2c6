"""Which DAGs Airflow has for a table, and what starts their runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from firnline.settings.fleet import FleetSettings
from firnline.settings.model import TableSettings
from firnline.settings.sections import ALL_OPERATIONS, Operation, PlannedSection

_PLANNED: Mapping[Operation, Callable[[TableSettings], PlannedSection | None]] = {
    "merge": lambda table: table.merge,
    "ttl": lambda table: table.ttl,
    "tombstone_cleanup": lambda table: table.cleanup,
    "verify": lambda table: table.verify,
}
PLANNED: frozenset[Operation] = frozenset(_PLANNED)
"""Operations that the planner of the fleet can start."""

_WITHOUT_PLANNER: Mapping[Operation, str] = {
    "ttl": "@daily",
    "tombstone_cleanup": "@daily",
    "verify": "@weekly",
}
"""Schedules of what a planner should start that has no schedule itself."""


def has_dag(table: TableSettings, operation: Operation) -> bool:
    """Return True if an operation of a table can be run in Airflow."""
    return operation in table.operations and (operation != "ttl" or table.ttl is not None)


def planned_by_fleet(table: TableSettings) -> frozenset[Operation]:
    """Return the operations that the planner of the fleet starts for a table."""
    found = {operation: section(table) for operation, section in _PLANNED.items()}
    return frozenset(
        operation
        for operation, section in found.items()
        if section is not None and section.by_fleet and operation in table.operations
    )


def fleet_tables(
    tables: Iterable[TableSettings], operations: frozenset[Operation] = PLANNED
) -> list[TableSettings]:
    """Return the tables whose logs the planner of the fleet reads.

    Args:
        tables: all tables.
        operations: those that it looks at now; without any it publishes mirrors only.
    """
    return [t for t in tables if t.mirror_every is not None or planned_by_fleet(t) & operations]


def cron_of(table: TableSettings, operation: Operation, fleet: FleetSettings) -> str | None:
    """Return the schedule by which an operation of a table runs in a DAG of its own; None: none."""
    if operation == "orphan_sweep":
        return table.sweep.schedule
    section = _PLANNED[operation](table) if operation in _PLANNED else None
    if section is None:
        return None
    if section.by_fleet and fleet.schedule is None:
        return _WITHOUT_PLANNER.get(operation)
    return section.cron


def own_dags(table: TableSettings, fleet: FleetSettings) -> tuple[Operation, ...]:
    """Return the operations with a DAG of the table's own: as it asks, or for what starts them.

    All others run in the DAG for all tables.
    """
    return tuple(
        operation
        for operation in ALL_OPERATIONS
        if has_dag(table, operation)
        and (operation in table.own_dags or _starts_by_itself(table, operation, fleet))
    )


def _starts_by_itself(table: TableSettings, operation: Operation, fleet: FleetSettings) -> bool:
    """Return True for what a clock starts, and for merges that only new rows start."""
    by_rows = operation == "merge" and table.merge.schedule is None
    return by_rows or cron_of(table, operation, fleet) is not None
