"""One table, and processes whose settings say different things of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa

from firnline.append.append import Appender
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
