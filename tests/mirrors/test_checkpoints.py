"""Checkpoints of a mirror: made on any store, read by every engine, and what goes behind them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from firnline.log.txn_file import RunIdentity
from firnline.mirror.delta import checkpoint
from firnline.mirror.delta.head import list_versions, read_head
from firnline.mirror.delta.replay import replay
from firnline.operations.mirror.check import run_check
from firnline.operations.mirror.run import MirrorReport, run_mirror
from firnline.operations.operation import Work
from firnline.operations.options import MirrorOptions
from tests.mirrors.conftest import Mirrored
from tests.support.log_tables import do_merge, put_append
from tests.support.mirrors import mirrored_world
from tests.support.world import SetClock, World

RUN = RunIdentity(run_id="r")


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint, "EVERY", 3)


def test_engines_read_through_checkpoints(mirrored: Mirrored, often: None) -> None:
    made = []
    for number in range(8):
        mirrored.append(6 * number, 2)
        report = run_mirror(Work(mirrored.table(), RUN), MirrorOptions())
        assert report.warnings == ()
        made.append(report.checkpoint)
    assert made == [None, None, None, 3, None, None, 6, None]
    table = mirrored.table()
    listing = list_versions(table.store, table.paths, whole=True)
    assert checkpoint.expire(table.store, listing, 6) == (7, 0)
    assert len(mirrored.same()) == 16
    head = read_head(table.store, table.paths)
    assert head is not None
    assert len(replay(table.store, table.paths, head.version).files) == 16
    assert run_check(table).same
    mirrored.append(90, 2)
    assert mirrored.publish().written
    assert len(mirrored.same()) == 18


def mirror(world: World) -> MirrorReport:
    return run_mirror(Work(world.table, RUN), MirrorOptions())


def numbers(world: World) -> tuple[list[int], list[int]]:
    found = list_versions(world.store, world.table.paths, whole=True)
    return [v.number for v in found.versions], [c.number for c in found.checkpoints]


def test_versions_expire_behind_a_checkpoint_that_is_as_old_as_the_grace(often: None) -> None:
    world = mirrored_world(cleanup={"grace": "1d"})
    for _ in range(7):
        put_append(world)
        mirror(world)
    assert numbers(world) == ([0, 1, 2, 3, 4, 5, 6], [3, 6])
    world.clock.advance(86_400_000)
    for _ in range(3):
        put_append(world)
        expired = mirror(world).expired
        assert expired == (7 if numbers(world)[0][-1] == 9 else 0)
    assert numbers(world) == ([6, 7, 8, 9], [6, 9])
    do_merge(world, put_append(world))
    world.clock.advance(86_400_000)
    published = mirror(world).delta
    assert published is not None
    assert published.replayed
    assert run_check(world.table).same


def test_without_the_library_the_mirror_is_published_and_says_what_it_lacks(
    often: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint, "find_spec", lambda name: None)
    world = mirrored_world()
    reports = []
    for _ in range(4):
        put_append(world)
        reports.append(mirror(world))
    assert [len(report.warnings) for report in reports] == [0, 0, 0, 1]
    assert "pip install 'deltalake" in reports[3].warnings[0]
    assert run_check(world.table).same


def test_a_checkpoint_that_fails_is_a_warning(often: None, monkeypatch: pytest.MonkeyPatch) -> None:
    from firnline.errors import MirrorDamagedError

    def fails(*_: Any) -> None:
        raise MirrorDamagedError("it is broken", next_step="mend it")

    monkeypatch.setattr(checkpoint, "write_checkpoint", fails)
    world = mirrored_world()
    warnings: list[str] = []
    for _ in range(4):
        put_append(world)
        warnings += mirror(world).warnings
    assert warnings == ["it is broken; mend it"]
    assert numbers(world) == ([0, 1, 2, 3], [])


def test_a_checkpoint_is_not_made_over_a_version_that_is_missing(often: None) -> None:
    world = mirrored_world()
    for _ in range(6):
        put_append(world)
        mirror(world)
    del world.store.objects[world.table.paths.delta_version(4)]
    put_append(world)
    (warning,) = mirror(world).warnings
    assert "lacks versions between 3 and 6" in warning


def test_a_failure_of_the_library_is_a_warning_too(
    often: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any, **__: Any) -> None:
        raise OSError("no space left\nand more")

    monkeypatch.setattr("deltalake.DeltaTable", fails)
    world = mirrored_world()
    for _ in range(3):
        put_append(world)
        mirror(world)
    put_append(world)
    report = mirror(world)
    assert report.delta is not None
    assert report.delta.written
    (warning,) = report.warnings
    assert "makes no checkpoint of version 3 of the mirror: OSError: no space left;" in warning


def test_who_publishes_with_a_clock_that_is_ahead_lets_nothing_expire(often: None) -> None:
    world = mirrored_world()
    for _ in range(6):
        put_append(world)
        mirror(world)
    put_append(world)
    ahead = SetClock(world.clock.now + 30 * 86_400_000, world.clock.elapsed)
    report = run_mirror(Work(replace(world.table, clock=ahead), RUN), MirrorOptions())
    assert (report.checkpoint, report.expired) == (6, 0)
    assert numbers(world) == ([0, 1, 2, 3, 4, 5, 6], [3, 6])
