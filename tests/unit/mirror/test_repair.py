"""A damaged mirror is found, and one command makes it good."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from firnline.errors import UsageError
from firnline.mirror.delta.publish import publish
from firnline.operations.mirror.check import MirrorDiffersError, refuse_differences, run_check
from firnline.operations.mirror.run import MirrorReport, run_mirror
from firnline.operations.operation import Work
from firnline.operations.options import MirrorOptions, VerifyOptions
from firnline.operations.verify.run import run_verify
from tests.support.log_tables import SCHEMA, do_merge, put_append, snapshot
from tests.support.mirrors import RUN, mirrored_world, states, versions
from tests.support.world import World, make_world


def without(world: World, version: int, word: bytes) -> None:
    """Take the first line with a word out of a version."""
    key = world.table.paths.delta_version(version)
    data, at = world.store.objects[key]
    lines = data.splitlines(keepends=True)
    del lines[next(number for number, line in enumerate(lines) if word in line)]
    world.store.objects[key] = (b"".join(lines), at)


def mirror(world: World, *, repair: bool = True, dry_run: bool = False) -> MirrorReport:
    return run_mirror(Work(world.table, RUN), MirrorOptions(repair=repair, dry_run=dry_run))


def is_sound(world: World) -> bool:
    found = run_verify(Work(world.table), VerifyOptions()).findings
    return run_check(world.table).same and not [f for f in found if f.kind.startswith("mirror")]


def two_versions() -> World:
    world = mirrored_world()
    put_append(world)
    publish(world.table)
    put_append(world)
    publish(world.table)
    return world


def nothing(_: World) -> None:
    """Leave the table as it is."""


@pytest.mark.parametrize("lag", [nothing, put_append], ids=["newest", "lags"])
@pytest.mark.parametrize(
    ("version", "word"), [(0, b'"protocol"'), (0, b'"metaData"'), (0, b'"add"'), (1, b'"add"')]
)
def test_the_next_step_of_a_check_makes_a_damaged_mirror_good(
    version: int, word: bytes, lag: Callable[[World], object]
) -> None:
    world = two_versions()
    without(world, version, word)
    lag(world)
    with pytest.raises(MirrorDiffersError) as caught:
        refuse_differences(run_check(world.table))
    assert caught.value.next_step.startswith("run `firnline mirror t --repair`")
    done = mirror(world).delta
    assert done is not None
    assert (done.written, done.repaired) == (True, True)
    assert is_sound(world)
    assert states(world)[-1] == set(snapshot(world).live)
    last = versions(world)[-1]
    assert {"protocol", "metaData"} <= {name for action in last for name in action}


def test_a_part_that_a_damaged_mirror_shows_and_that_is_dead_goes() -> None:
    world = mirrored_world()
    keys = put_append(world)
    publish(world.table)
    do_merge(world, keys)
    publish(world.table)
    without(world, 1, b'"remove"')
    mirror(world)
    assert is_sound(world)


def test_a_mirror_without_damage_gets_no_version_of_a_repair() -> None:
    world = two_versions()
    done = mirror(world).delta
    assert done is not None
    assert (done.written, done.version) == (False, 1)
    put_append(world)
    done = mirror(world).delta
    assert done is not None
    assert (done.written, done.version, done.repaired) == (True, 2, False)
    assert not [action for action in versions(world)[-1] if "protocol" in action]


def test_a_dry_run_of_a_repair_tells_and_writes_nothing() -> None:
    world = two_versions()
    without(world, 1, b'"add"')
    done = mirror(world, dry_run=True).delta
    assert done is not None
    assert (done.repaired, done.adds, done.version) == (True, 1, 1)
    assert len(versions(world)) == 2


def test_a_publication_that_reads_the_mirror_itself_repairs_what_it_finds() -> None:
    world = two_versions()
    without(world, 0, b'"protocol"')
    world.clock.advance(30 * 86_400_000)  # the log does not tell so far back
    put_append(world)
    done = mirror(world, repair=False).delta
    assert done is not None
    assert (done.replayed, done.repaired) == (True, True)
    assert is_sound(world)


def test_a_table_without_a_delta_mirror_has_none_to_repair() -> None:
    world = make_world(mirror=["iceberg"])
    with pytest.raises(UsageError, match="--repair is for a Delta mirror"):
        mirror(world)


def test_a_column_without_a_place_in_the_mirror_is_a_difference_and_its_own_sentence() -> None:
    world = two_versions()
    put_append(world, schema={**SCHEMA, "wide": "UBIGINT"})
    with pytest.raises(MirrorDiffersError, match="'wide' of table t is UBIGINT") as caught:
        refuse_differences(run_check(world.table))
    assert caught.value.exit_code == 1
    assert caught.value.next_step.startswith(
        "change the column, or drop it with `firnline evolve TABLE --drop wide`"
    )
