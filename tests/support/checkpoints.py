"""Reading with and without checkpoints, and whether both tell the same."""

from __future__ import annotations

from firnline.commit import checkpoint
from firnline.operations.verify.checkpoints import difference
from firnline.state.snapshot import Snapshot, read_snapshot
from firnline.table import Table
from tests.support.world import World

ALWAYS = -1
"""Bytes of log above which a checkpoint is looked for: for every table."""


def by_checkpoint(table: Table) -> Snapshot:
    """The state as a reader of a very large table reads it."""
    return read_snapshot(table.store, table.paths, checkpoint_above=ALWAYS)


def by_log(table: Table) -> Snapshot:
    """The state by every log file that exists."""
    return read_snapshot(table.store, table.paths, everything=True)


def write(world: World) -> str:
    """Write a checkpoint of the state now, due or not; returns its key."""
    return checkpoint.write(world.table, by_log(world.table))


def assert_same(table: Table) -> Snapshot:
    """Both readings agree in everything that a reader can ask; returns that by checkpoint."""
    quick, whole = by_checkpoint(table), by_log(table)
    assert difference(quick, whole) == ""
    assert dict(quick.live) == dict(whole.live)
    assert list(quick.partitions) == list(whole.partitions)
    for partition, markers in whole.partitions.items():
        assert sorted(m.p for m in quick.partitions[partition]) == sorted(m.p for m in markers)
    assert quick.times[-1:] == whole.times[-1:]
    return quick


def checkpoints(world: World) -> list[str]:
    """Keys under ``_ckpt/``, oldest first."""
    return sorted(k for k in world.store.objects if k.startswith(world.table.paths.checkpoint_dir))
