"""The environment of an actor: its table, its run and its random generator."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from firnline.kernel.engine import Engine
from firnline.log.txn_file import RunIdentity
from firnline.settings.load import TableSettings
from firnline.table import Table
from simulation.aging import moment_of
from simulation.columns import value_of
from simulation.kinds import KINDS, Kind
from simulation.oracle import Oracle
from simulation.proofs import Mistakes, values_of
from simulation.rows import RowEngine
from simulation.store import SimStore
from simulation.world import Actor, SimClock, SimIds, World


@dataclass(frozen=True)
class Stage:
    """The environment of an actor."""

    world: World
    oracle: Oracle
    actor: Actor
    table: Table
    run: RunIdentity
    mistakes: Mistakes

    @property
    def r(self) -> random.Random:
        """Return the actor's random generator."""
        return self.actor.r

    @property
    def kind(self) -> Kind:
        """Return the kind of the table."""
        return KINDS[self.world.mix.kind]

    def table_of(self, rows: list[dict[str, Any]]) -> pa.Table:
        """Return rows as a writer appends them that knows the committed columns."""
        columns, schema = self.oracle.columns, self.kind.arrow
        if columns is not None:
            name = f"c{columns.newest}"
            schema = schema.append(pa.field(name, pa.int32()))
            rows = [row | {name: value_of(row["k"])} for row in rows]
            columns.stated.update((row["k"], columns.newest) for row in rows)
        if "at" in self.kind.schema:
            rows = [row | {"at": moment_of(row["k"])} for row in rows]
        if self.kind.updates:
            rows = [row | {"s": ""} for row in rows]
        if self.kind.proven:
            rows = [row | values_of(row["k"]) for row in rows]
        return pa.Table.from_pylist(rows, schema=schema)

    def with_settings(self, settings: TableSettings) -> Stage:
        """Return the same environment with other settings."""
        return replace(self, table=replace(self.table, settings=settings, wanted=None))

    def engine(self) -> Engine:
        """Return a kernel for this actor."""
        store, ids = SimStore(self.actor), SimIds(self.world)
        return RowEngine(store, ids, SimClock(self.actor), self.kind, self.mistakes)


def stage_of(
    world: World, oracle: Oracle, actor: Actor, settings: TableSettings | None = None
) -> Stage:
    """Return the environment of an actor, with its own settings or those of the world."""
    store, clock, ids = SimStore(actor), SimClock(actor), SimIds(world)
    table = Table(settings or world.settings, store, world.paths, clock, ids)
    mistakes = Mistakes(actor, oracle.stats.update)
    return Stage(world, oracle, actor, table, RunIdentity(run_id=actor.name), mistakes)
