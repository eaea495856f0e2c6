"""Every byte of a small checkpoint changed, lost or doubled: the state stays the right one.

A checkpoint is Parquet, with its own headers, lengths and offsets; none of them is followed before
the checksum over the whole object fits.
"""

from __future__ import annotations

import logging
from functools import cache

import pytest

from firnline.commit import checkpoint
from firnline.errors import CheckpointError
from firnline.log import checkpoint as checkpoint_file
from firnline.paths import TablePaths
from firnline.state.snapshot import Snapshot
from tests.support.checkpoints import assert_same, by_checkpoint, by_log, checkpoints
from tests.support.hostile import replaced, shifted
from tests.support.log_tables import do_merge, put_append
from tests.support.world import World, make_world

PATHS = TablePaths("t")


@cache
def whole() -> tuple[str, bytes]:
    """A checkpoint of a small table, with its key."""
    world = table()
    (key,) = checkpoints(world)
    return key, world.store.objects[key][0]


def table() -> World:
    world = make_world()
    do_merge(world, put_append(world) + put_append(world))
    put_append(world, "d=2", "d=3")
    checkpoint.write(world.table, by_log(world.table))
    put_append(world, "d=2")
    return world


def said(state: Snapshot) -> object:
    return dict(state.live), dict(state.schema), state.seq, state.purged


def test_a_checkpoint_is_refused_by_name_whatever_byte_is_hit() -> None:
    key, data = whole()
    assert checkpoint_file.decode(key, data, PATHS).head.parts == 5
    for at in range(len(data)):
        for damaged in (next(replaced(data, at)), *shifted(data, at)):
            if damaged == data:
                continue
            with pytest.raises(CheckpointError, match=key):
                checkpoint_file.decode(key, damaged, PATHS)


@pytest.mark.parametrize("kind", ["flip", "cut"])
def test_a_table_with_a_damaged_checkpoint_reads_right(
    kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    world = table()
    (key,) = checkpoints(world)
    data, modified = world.store.objects[key]
    right = said(by_log(world.table))
    assert by_checkpoint(world.table).covered
    for at in range(0, len(data), 5):
        hit = next(replaced(data, at)) if kind == "flip" else data[:at]
        world.store.objects[key] = (hit, modified)
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            state = by_checkpoint(world.table)
        assert said(state) == right
        assert not state.covered
        assert key in caplog.text


def test_bytes_of_another_tables_checkpoint_are_of_no_use() -> None:
    """A table that was copied: what its checkpoint covers is the original's."""
    world = make_world("memory://bucket/other")
    put_append(world)
    key = world.table.paths.checkpoint(9, world.ids.uuid7(world.clock.now))
    world.store.objects[key] = (whole()[1], world.clock.now)
    assert not assert_same(world.table).covered
