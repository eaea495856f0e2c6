"""Tables that are dropped as a whole, up to the moment at which all of it may be deleted."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from firnline.errors import FirnlineError
from firnline.operations.drop_table.plan import DropTablePlan
from firnline.operations.drop_table.run import DropTableReport, preview, run_drop_table
from firnline.operations.operation import Work
from firnline.operations.options import DropTableOptions
from firnline.state.snapshot import read_snapshot
from firnline.table import Table
from tests.support.histories import RUN, filled
from tests.support.world import World


def drop_table(table: Table, **options: Any) -> DropTableReport:
    """Run it as somebody who has typed the name."""
    given = DropTableOptions(**{"name": table.settings.name, **options})
    return run_drop_table(Work(table, RUN), given)


def plan(table: Table, **options: Any) -> DropTablePlan:
    return preview(table, DropTableOptions(**options))


def dropped(appends: int = 2, **settings: Any) -> World:
    """A table of some parts, a minute after the first run."""
    world = filled(appends, **settings)
    world.clock.advance(10)
    drop_table(world.table)
    world.clock.advance(60_000)
    return world


def due(appends: int = 2, **settings: Any) -> World:
    """A table that was dropped, and whose time is over."""
    world = dropped(appends, **settings)
    world.clock.advance(plan(world.table).wait_ms)
    return world


def state_of(table: Table) -> str:
    """What a reader meets: dropped, live, or the name of an error."""
    try:
        snapshot = read_snapshot(table.store, table.paths)
    except FirnlineError as error:
        return type(error).__name__
    if not snapshot.listing:
        return "nothing"
    return "live" if snapshot.live else "dropped"


def over(world: World, store: Any) -> Table:
    """The table through another store."""
    return replace(world.table, store=store)
