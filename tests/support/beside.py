"""Whoever works beside an operation: somebody acts, or looks, between two of its store calls."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from firnline.state.snapshot import read_snapshot
from tests.support.cleanups import GRACE
from tests.support.log_tables import do_merge, put_append, snapshot, v1_live
from tests.support.world import FaultyStore, World, make_world


def busy() -> tuple[World, set[str]]:
    """A table with a past: merges of merges, appends after them; what is live.

    Half of its dead parts are due.
    """
    world = make_world()
    for day in range(3):
        keys = put_append(world, f"d={day}") + put_append(world, f"d={day}")
        do_merge(world, keys)
    live = [m.p for m in snapshot(world).partitions["d=0"]]
    do_merge(world, live + put_append(world, "d=0"))
    world.clock.advance(GRACE + 10)
    put_append(world, "d=1")
    do_merge(world, [m.p for m in snapshot(world).partitions["d=1"]])
    put_append(world, "d=2")
    return world, set(snapshot(world).live)


@dataclass
class Beside(FaultyStore):
    """Once, before call number ``when`` or the first with ``what`` in its name, somebody acts."""

    when: int = -1
    act: Callable[[], object] = lambda: None
    what: str | None = None
    met: list[int] = field(default_factory=list)

    def _call(self, name: str, act: Callable[[], Any], *, put: bool = False) -> Any:
        here = len(self.calls) == self.when or (self.what is not None and self.what in name)
        if here and not self.met:
            self.met.append(len(self.calls))
            self.act()
        return super()._call(name, act, put=put)


@dataclass
class Watched(FaultyStore):
    """After every call somebody looks: what a run that died right there would leave behind."""

    look: Callable[[], object] = lambda: None

    def _call(self, name: str, act: Callable[[], Any], *, put: bool = False) -> Any:
        answer = super()._call(name, act, put=put)
        self.look()
        return answer


def nothing_dangles(world: World) -> None:
    """Whatever a reader of either kind takes for alive has its object."""
    ours = set(read_snapshot(world.store, world.table.paths, everything=True).live)
    quick = set(read_snapshot(world.store, world.table.paths).live)
    assert ours | quick | v1_live(world) <= world.store.objects.keys()
