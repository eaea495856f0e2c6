"""Looking at one table as the planner of the fleet does."""

from __future__ import annotations

from collections.abc import Collection

from firnline.operations.fleet.need import Need
from firnline.operations.fleet.run import Member, look_at_fleet
from firnline.settings.fleet import FleetSettings
from firnline.settings.sections import Operation
from firnline.table import Table

BUDGET = FleetSettings.model_validate({"budget": "1TiB/day"})


def need_of(
    table: Table, *, budgeted: bool, starts: Collection[Operation] = frozenset({"merge"})
) -> Need:
    """What a table needs that can be read."""
    fleet = BUDGET if budgeted else FleetSettings()
    (found,) = look_at_fleet(
        [Member(table.settings.name, lambda: table, starts)], fleet, table.clock.now_ms()
    )
    assert isinstance(found, Need), found
    return found
