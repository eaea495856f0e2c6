"""The Iceberg mirror of a table that was renamed, copied or cloned."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from firnline.errors import MirrorRefusedError
from firnline.mirror.iceberg.publish import publish
from firnline.operations.clone.run import run_clone
from firnline.operations.mirror.check import run_checks
from firnline.operations.operation import Work
from firnline.operations.options import CloneOptions, RelocateOptions
from firnline.operations.relocate.run import run_relocate
from firnline.table import Table
from tests.support.in_catalog import catalog_world, drop, loaded, shown
from tests.support.log_tables import do_merge, put_append, snapshot
from tests.support.mirrors import RUN
from tests.support.moving import beside, copied, sized
from tests.support.world import World


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = catalog_world(tmp_path)
    keys = put_append(world, "d=1", "d=2")
    publish(world.table)
    do_merge(world, keys[:1])
    return sized(world)


def under_the_name_of_the_mirror(table: Table) -> Table:
    """The settings of a table, so that they name the catalog's table of ``world``."""
    return replace(table, settings=table.settings.model_copy(update={"name": "t"}))


@pytest.mark.long
@pytest.mark.parametrize("rename", [False, True])
def test_a_table_that_was_moved_is_refused_until_the_old_mirror_is_dropped(
    world: World, rename: bool
) -> None:
    place = copied(world, rename=rename)
    place = replace(place, table=under_the_name_of_the_mirror(place.table))
    run_relocate(Work(place.table), RelocateOptions())
    before = dict(world.store.objects)
    with pytest.raises(MirrorRefusedError, match="is not a mirror of s3://bucket/copy") as caught:
        publish(place.table)
    assert "drop that table in the catalog, without its files" in str(caught.value.next_step)
    assert world.store.objects == before
    drop(world)
    assert publish(place.table).written
    assert shown(place) == set(snapshot(place).live)
    assert run_checks(place.table).same


@pytest.mark.parametrize("history", [False, True])
def test_a_clone_gets_a_table_of_its_own_in_the_catalog(world: World, history: bool) -> None:
    target = beside(world.table, "copy")
    run_clone(Work(world.table, RUN), CloneOptions(history=history), target=target)
    assert publish(target).version == 1
    clone = replace(world, table=target)
    assert shown(clone) == set(snapshot(clone).live)
    assert loaded(clone).metadata.table_uuid != loaded(world).metadata.table_uuid
    publish(world.table)
    assert shown(world) == set(snapshot(world).live)


def test_a_clone_under_the_same_name_is_refused_and_the_mirror_of_the_other_stays(
    world: World,
) -> None:
    target = under_the_name_of_the_mirror(beside(world.table, "copy"))
    run_clone(Work(world.table, RUN), CloneOptions(), target=target)
    before = shown(world)
    with pytest.raises(MirrorRefusedError, match="give another name in the settings"):
        publish(target)
    assert shown(world) == before
