"""One table, and processes whose settings say different things of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa

from firnline.appends.append import Appender
from firnline.commit.base import take_base
from firnline.properties.record import Properties
from firnline.settings.load import TableSettings
from firnline.table import Table
from tests.support.v1_client import V1Client
from tests.support.world import World, make_world

SMALL = {"min_inputs": 2}


def world_of(**settings: Any) -> World:
    """An empty table that is merged early."""
    return make_world(merge=SMALL, **settings)


def under(world: World, **settings: Any) -> Table:
    """The same table for a process with settings of its own; without any it is a root URL."""
    root = world.settings.root
    declared = TableSettings.model_validate({"name": "t", "root": root, "merge": SMALL, **settings})
    return replace(world.table, settings=declared)


def rows(*ids: int, v: int = 0) -> pa.Table:
    """Rows that all have one ``v``."""
    return pa.table({"id": list(ids), "v": [v] * len(ids)})


def append(table: Table, *ids: int, v: int = 0) -> None:
    """One append, a moment later."""
    table.clock.sleep(0.01)
    Appender(table).append(rows(*ids, v=v))


def begin_at_once(world: World, first: str, second: str) -> dict[str, tuple[bytes, int]]:
    """Two appends that begin the table, with an ``append.ttl`` each, and see nothing of the other.

    Returns the birth records that they wrote; none of them is left.
    """
    births: dict[str, tuple[bytes, int]] = {}

    def take(ttl: str) -> None:
        births[ttl] = world.store.objects.pop(world.table.paths.birth)

    def slowly() -> Iterator[pa.RecordBatch]:
        yield from rows(2).to_batches()
        append(under(world, append={"ttl": first}), 1)
        take(first)
        world.clock.advance(10)

    Appender(under(world, append={"ttl": second})).append(slowly())
    take(second)
    return births


def said(world: World) -> Properties:
    """What the table says of itself."""
    found = take_base(under(world)).properties
    assert found is not None
    return found


def told_nothing() -> World:
    """A table that says nothing of itself: two rows of one key, by clients of version 1."""
    world = world_of()
    client = V1Client(world)
    for v in (1, 2):
        client.append_rows("d=1", rows(1, v=v), {"id": "BIGINT", "v": "BIGINT"})
        world.clock.advance(1)
    return world
