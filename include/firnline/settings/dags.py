"""The DAGs that Airflow has for a table, and the schedules by which their runs start."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from firnline.settings.cron import runs_a_day
from firnline.settings.fleet import FleetSettings
from firnline.settings.imports import ImportSettings
from firnline.settings.model import TableSettings
from firnline.settings.sections import (
    ALL_OPERATIONS,
    Operation,
    PlannedSection,
    SweepSettings,
)

SECTIONS: Mapping[Operation, str] = {
    "merge": "merge",
    "tombstone_cleanup": "cleanup",
    "ttl": "ttl",
    "verify": "verify",
    "orphan_sweep": "sweep",
    "import": "import",
}
"""Section of a table with the schedule of an operation."""
PLANNED: frozenset[Operation] = frozenset(SECTIONS) - {"orphan_sweep", "import"}
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
    return frozenset(
        operation
        for operation in PLANNED
        if operation in table.operations
        and isinstance(section := _section(table, operation), PlannedSection)
        and section.by_fleet
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
    section = _section(table, operation)
    if isinstance(section, PlannedSection):
        nobody = section.by_fleet and fleet.schedule is None
        return _WITHOUT_PLANNER.get(operation) if nobody else section.cron
    return None if section is None else section.schedule


def started_by_planner(table: TableSettings, operation: Operation, fleet: FleetSettings) -> bool:
    """Return True if the planner starts an operation of a table, where there is something to do."""
    return fleet.schedule is not None and operation in planned_by_fleet(table)


def runs_of(table: TableSettings, operation: Operation, fleet: FleetSettings) -> tuple[float, str]:
    """Return how many runs a day a clock starts at most, and the settings that say so.

    0 for what only people and events start.
    """
    if not has_dag(table, operation):
        return 0.0, f"no {operation} in the settings"
    named, section = f"{SECTIONS[operation]}.schedule", _section(table, operation)
    if fleet.schedule is not None and started_by_planner(table, operation, fleet):
        most = runs_a_day(fleet.schedule)
        least = _WITHOUT_PLANNER.get(operation)
        a_day = most if least is None else min(most, runs_a_day(least))
        return a_day, f"{named} fleet, fleet.schedule {fleet.schedule}"
    cron = cron_of(table, operation, fleet)
    if isinstance(section, PlannedSection) and section.by_fleet:
        named = f"{named} fleet, fleet.schedule null"
        return (0.0, named) if cron is None else (runs_a_day(cron), f"{named}, so {cron}")
    return (0.0, f"{named} null") if cron is None else (runs_a_day(cron), f"{named} {cron}")


def _section(
    table: TableSettings, operation: Operation
) -> PlannedSection | SweepSettings | ImportSettings | None:
    found: PlannedSection | SweepSettings | None = None
    if operation == "import":
        return table.imports
    if operation in SECTIONS:
        found = getattr(table, SECTIONS[operation])
    return found


def own_dags(table: TableSettings, fleet: FleetSettings) -> tuple[Operation, ...]:
    """Return the operations with a DAG of the table's own: as it asks, or for what starts them.

    All others run in the DAG for all tables, and imports into a table that names no folder.
    """
    return tuple(
        operation
        for operation in ALL_OPERATIONS
        if has_dag(table, operation)
        and (operation != "import" or table.imports is not None)
        and (operation in table.own_dags or _starts_by_itself(table, operation, fleet))
    )


def _starts_by_itself(table: TableSettings, operation: Operation, fleet: FleetSettings) -> bool:
    """Return True for what a clock starts, and for merges that only new rows start."""
    by_rows = operation == "merge" and table.merge.schedule is None
    return by_rows or cron_of(table, operation, fleet) is not None
