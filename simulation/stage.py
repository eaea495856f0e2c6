"""What an actor works with: its table, its run, its chance."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from firnline.kernel.engine import Engine
from firnline.log.txn_file import RunIdentity
from firnline.settings.load import TableSettings
from firnline.table import Table
from simulation.columns import value_of
from simulation.kinds import KINDS, Kind
from simulation.oracle import Oracle
from simulation.rows import RowEngine
from simulation.store import SimStore
from simulation.world import Actor, SimClock, SimIds, World


@dataclass(frozen=True)
class Stage:
    """What an actor works with."""

    world: World
    oracle: Oracle
    actor: Actor
    table: Table
    run: RunIdentity

    @property
    def r(self) -> random.Random:
        """The actor's chance."""
        return self.actor.r

    @property
    def kind(self) -> Kind:
        """Of the table."""
        return KINDS[self.world.mix.kind]

    def table_of(self, rows: list[dict[str, Any]]) -> pa.Table:
        """Rows as a writer brings them, who knows what is committed now."""
        columns, schema = self.oracle.columns, self.kind.arrow
        if columns is not None:
            name = f"c{columns.newest}"
            schema = schema.append(pa.field(name, pa.int32()))
            rows = [row | {name: value_of(row["k"])} for row in rows]
            columns.stated.update((row["k"], columns.newest) for row in rows)
        return pa.Table.from_pylist(rows, schema=schema)

    def with_settings(self, settings: TableSettings) -> Stage:
        """The same for a process with other settings."""
        return replace(self, table=replace(self.table, settings=settings, wanted=None))

    def engine(self) -> Engine:
        """A kernel for this actor."""
        return RowEngine(SimStore(self.actor), SimIds(self.world), SimClock(self.actor), self.kind)


def stage_of(
    world: World, oracle: Oracle, actor: Actor, settings: TableSettings | None = None
) -> Stage:
    """Give an actor its table; with settings of its own, or those of the world."""
    store, clock, ids = SimStore(actor), SimClock(actor), SimIds(world)
    table = Table(settings or world.settings, store, world.paths, clock, ids)
    return Stage(world, oracle, actor, table, RunIdentity(run_id=actor.name))
