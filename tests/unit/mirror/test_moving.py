"""The mirror of a table that is renamed, cloned or restored."""

from __future__ import annotations

from dataclasses import replace

import pytest

from firnline.mirror.delta.publish import publish
from firnline.operations.clone.run import run_clone
from firnline.operations.drop.run import run_drop
from firnline.operations.mirror.check import run_check
from firnline.operations.operation import Work
from firnline.operations.options import CloneOptions, DropOptions, RelocateOptions, RestoreOptions
from firnline.operations.relocate.run import run_relocate
from firnline.operations.restore.run import run_restore
from tests.support.log_tables import do_merge, put_append, snapshot
from tests.support.mirrors import RUN, mirrored_world, states
from tests.support.moving import beside, copied, sized


@pytest.mark.parametrize("rename", [False, True])
def test_a_table_that_was_moved_goes_on_with_its_mirror(rename: bool) -> None:
    world = mirrored_world()
    keys = put_append(world, "d=1", "d=2")
    publish(world.table)
    do_merge(world, keys[:1])
    sized(world)
    place = copied(world, rename=rename)
    run_relocate(Work(place.table), RelocateOptions())
    done = publish(place.table)
    assert (done.version, done.replayed) == (1, False)
    assert run_check(place.table).same
    assert states(place)[-1] == set(snapshot(place).live)


@pytest.mark.parametrize("history", [False, True])
def test_a_clone_gets_a_mirror_of_its_own(history: bool) -> None:
    world = mirrored_world()
    put_append(world, "d=1", "d=2")
    publish(world.table)
    sized(world)
    target = beside(world.table, "copy")
    run_clone(Work(world.table, RUN), CloneOptions(history=history), target=target)
    assert publish(target).version == 0
    clone = replace(world, table=target)
    assert states(clone) == [set(snapshot(clone).live)]


def test_a_restore_brings_files_back_under_new_names() -> None:
    world = mirrored_world()
    keys = put_append(world, "d=1", "d=2")
    publish(world.table)
    run_drop(Work(world.table, RUN), DropOptions(partitions=("d=1",)))
    publish(world.table)
    run_restore(Work(world.table, RUN), RestoreOptions(to=1))
    done = publish(world.table)
    assert (done.adds, done.removes, done.replayed) == (1, 0, False)
    assert keys[0] not in states(world)[-1] == set(snapshot(world).live)
