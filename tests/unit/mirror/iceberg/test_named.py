"""An Iceberg mirror whose settings give it another name than it has."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from firnline.errors import MirrorRefusedError
from firnline.mirror.iceberg.publish import publish
from firnline.operations.mirror.check import MirrorDiffersError, run_checks
from firnline.operations.mirror.run import run_mirror
from firnline.operations.operation import Work
from firnline.operations.options import MirrorOptions, VerifyOptions
from firnline.operations.verify.run import run_verify
from tests.support.in_catalog import ROOT, catalog_world, drop, loaded, shown, where
from tests.support.log_tables import put_append, snapshot
from tests.support.mirrors import RUN
from tests.support.world import World, make_world


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = catalog_world(tmp_path)
    put_append(world)
    publish(world.table)
    put_append(world)
    return world


def named(world: World, folder: Path, **mirror: Any) -> World:
    """The same table under settings that name another table of the catalog."""
    given = {**where(folder), "name": "ns.other", **mirror}
    settings = make_world(root=ROOT, mirror=[{"iceberg": given}]).settings
    return replace(world, settings=settings, table=replace(world.table, settings=settings))


def kinds(world: World) -> list[str]:
    found = run_verify(Work(world.table), VerifyOptions()).findings
    return [each.kind for each in found if each.kind.startswith("mirror")]


def test_no_second_table_is_made_while_the_first_is_there(world: World, tmp_path: Path) -> None:
    other = named(world, tmp_path)
    with pytest.raises(MirrorRefusedError, match=r"is mirrored by ns\.t of the Iceberg") as caught:
        run_mirror(Work(other.table, RUN), MirrorOptions())
    assert caught.value.next_step.startswith("write ns.t into the settings again, or drop that")
    assert shown(other) == set()
    assert kinds(other) == ["mirror-renamed"]
    with pytest.raises(MirrorDiffersError, match=r"no version yet, table t is mirrored by ns\.t"):
        run_checks(other.table).refuse()
    assert publish(world.table).written, "under its own name it goes on"


@pytest.mark.long
def test_once_the_former_table_is_dropped_it_has_the_other_name(
    world: World, tmp_path: Path
) -> None:
    other = named(world, tmp_path)
    drop(world)
    done = run_mirror(Work(other.table, RUN), MirrorOptions())
    assert done.warnings == ()
    assert shown(other) == set(snapshot(world).live)
    assert kinds(other) == []
    put_append(world)
    assert publish(other.table).written


def test_a_table_that_was_dropped_is_made_again_under_its_name(world: World) -> None:
    drop(world)
    assert kinds(world) == ["mirror-missing"]
    assert run_mirror(Work(world.table, RUN), MirrorOptions()).warnings == ()
    assert shown(world) == set(snapshot(world).live)


@pytest.mark.long
def test_a_former_table_in_another_catalog_is_a_warning(world: World, tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    other = named(world, tmp_path / "b", catalog="sea")
    (warning,) = run_mirror(Work(other.table, RUN), MirrorOptions()).warnings
    assert "was published before as ns.t of the Iceberg catalog lake" in warning
    assert shown(other) == set(snapshot(world).live)
    put_append(world)
    assert run_mirror(Work(other.table, RUN), MirrorOptions()).warnings == (), "it is told once"


def test_a_record_without_a_name_is_a_warning(world: World, tmp_path: Path) -> None:
    for key in [key for key in world.store.objects if "/_iceberg/shown/" in key]:
        world.store.objects[key] = (b"{}\n", world.store.objects[key][1])
    (warning,) = run_mirror(Work(named(world, tmp_path).table, RUN), MirrorOptions()).warnings
    assert "under a name that is not known" in warning
    assert loaded(world).current_snapshot() is not None, "nobody drops what is somebody's"


def test_a_publication_that_died_before_it_told_counts_too(world: World, tmp_path: Path) -> None:
    for key in [key for key in world.store.objects if "/_iceberg/shown/" in key]:
        if key.endswith(".json"):
            del world.store.objects[key]
    with pytest.raises(MirrorRefusedError, match=r"is mirrored by ns\.t"):
        publish(named(world, tmp_path).table)
