"""Who published too late writes no checkpoint: it would cover the log file that it brought back."""

from __future__ import annotations

from dataclasses import replace

import pytest

from firnline.commit.base import take_base
from firnline.commit.transaction import commit
from firnline.operations.cleanup.run import run_cleanup
from firnline.operations.operation import Work
from firnline.operations.options import CleanupOptions
from firnline.state.snapshot import read_snapshot
from tests.support.histories import RUN
from tests.support.log_tables import do_merge, merge_change, put_append, snapshot
from tests.support.world import Asleep, World, make_world


def merged_and_cleaned(world: World) -> None:
    """All parts of a partition become one, and what it was made of is deleted."""
    put_append(world, q=snapshot(world).seq)
    base = take_base(world.table)
    do_merge(world, [key for key in base.snapshot.live if "d=1" in key], base)
    world.clock.advance(2 * world.settings.cleanup.grace)
    run_cleanup(Work(world.table, RUN), CleanupOptions())


@pytest.mark.long
def test_a_checkpoint_of_a_process_that_slept_brings_no_dead_part_back() -> None:
    world = make_world(checkpoint={"min_parts": 1})
    keys = put_append(world) + put_append(world)
    put_append(world, "d=2")

    def sleeps() -> None:
        take_base(world.table)  # publishes its transaction
        for _ in range(4):
            merged_and_cleaned(world)
        for key in [key for key in world.store.objects if "/_ckpt/" in key]:
            del world.store.objects[key]  # a cache, which is not there or of no use

    asleep = replace(world.table, store=Asleep(world.store, at="put t/_log/", meanwhile=sleeps))
    base = take_base(asleep)
    made = commit(asleep, base, merge_change(world, keys, base), RUN)
    assert (made.header.seq, made.checkpoint, made.base) == (1, None, None)
    found = read_snapshot(world.store, world.table.paths, checkpoint_above=0)
    assert found.live == snapshot(world).live
    assert all(key in world.store.objects for key in found.live)
