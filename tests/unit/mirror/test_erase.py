"""A certificate of an erase is complete when no version of the mirror has bounds of its parts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest

from firnline.appends.append import Appender
from firnline.clock import SystemClock
from firnline.kernel.local import LocalEngine
from firnline.mirror.delta.head import list_versions
from firnline.mirror.delta.publish import publish
from firnline.mirror.delta.replay import replay
from firnline.operations.cleanup.run import run_cleanup
from firnline.operations.erase import mirrors
from firnline.operations.erase.certificate import Certificate
from firnline.operations.erase.completion import complete_certificate
from firnline.operations.erase.run import run_erase
from firnline.operations.merge.run import run_merge
from firnline.operations.mirror.check import run_check
from firnline.operations.operation import Work
from firnline.operations.options import CleanupOptions, EraseOptions, MergeOptions
from tests.support.cleanups import GRACE
from tests.support.mirrors import RUN
from tests.support.world import World, make_world

SECRET = 4_711_083


def erased(tmp_path: Path) -> tuple[World, str]:
    world = make_world(mirror=["delta"], statistics=["k"])
    Appender(world.table).append(pa.table({"k": [1, SECRET]}))
    publish(world.table)
    world.clock.advance(1_000)
    done = erase(world, tmp_path)
    world.clock.advance(10 * GRACE)
    return world, done


def local(world: World, scratch: Path) -> LocalEngine:
    return LocalEngine(lambda: world.store, scratch, world.ids, SystemClock())


def erase(world: World, scratch: Path) -> str:
    options = EraseOptions(columns=("k",), keys=((SECRET,),))
    report = run_erase(Work(world.table, RUN, lambda: local(world, scratch)), options)
    assert report.certificate is not None
    return report.certificate


def check(world: World, erase: str) -> Certificate:
    return complete_certificate(world.table, erase, RUN)


def speaking(world: World) -> list[str]:
    folder = world.table.paths.delta_dir
    objects = world.store.objects.items()
    return [k for k, (data, _) in objects if k.startswith(folder) and str(SECRET).encode() in data]


def kinds(certificate: Certificate) -> set[str]:
    return {entry.kind for entry in certificate.remaining if entry.blocks}


@pytest.mark.long
def test_versions_with_bounds_of_erased_rows_go_before_a_certificate_is_complete(
    tmp_path: Path,
) -> None:
    world, erase = erased(tmp_path)
    found = check(world, erase)
    assert (found.status, kinds(found)) == ("waiting", {"replaced part", "mirror"})
    publish(world.table)
    found = check(world, erase)
    assert (found.status, kinds(found)) == ("waiting", {"replaced part", "mirror"})
    assert speaking(world)
    world.clock.advance(GRACE)
    found = check(world, erase)
    assert (found.status, kinds(found)) == ("complete", set())
    assert speaking(world) == []
    assert run_check(world.table).same
    Appender(world.table).append(pa.table({"k": [5]}))
    assert publish(world.table).written
    assert run_check(world.table).same


@pytest.mark.long
def test_without_the_library_for_checkpoints_the_certificate_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, erase = erased(tmp_path)
    publish(world.table)
    world.clock.advance(GRACE)
    monkeypatch.setattr(mirrors, "find_spec", lambda name: None)
    found = check(world, erase)
    assert found.status == "waiting"
    assert "pip install 'deltalake" in msgspec.json.encode(found).decode()


@pytest.mark.long
def test_versions_that_readers_of_the_mirror_may_still_use_outlive_the_certificate(
    tmp_path: Path,
) -> None:
    world, erase = erased(tmp_path)
    publish(world.table)
    world.clock.advance(GRACE)
    for key in (5, 6):
        Appender(world.table).append(pa.table({"k": [key]}))
        publish(world.table)
    assert check(world, erase).status == "complete"
    listing = list_versions(world.store, world.table.paths, whole=True)
    assert [version.number for version in listing.versions] == [1, 2, 3]
    assert [checkpoint.number for checkpoint in listing.checkpoints] == [1]
    assert len(replay(world.store, world.table.paths, 2).files) == 2
    assert run_check(world.table).same


@pytest.mark.long
def test_versions_go_that_had_bounds_of_a_part_which_landed_late_under_the_erase(
    tmp_path: Path,
) -> None:
    vectors = [{"delta": {"deletes": "vectors"}}]
    world = make_world(mirror=vectors, statistics=["k"], merge={"min_inputs": 2})
    erases: list[str] = []

    def batches() -> Iterator[pa.RecordBatch]:
        yield from pa.table({"k": [2, SECRET]}).to_batches()
        erases.append(erase(world, tmp_path))

    Appender(world.table).append(pa.table({"k": [1, SECRET]}))
    publish(world.table)
    Appender(world.table).append(batches())
    done = publish(world.table)
    assert (done.hold, done.vectors) == (None, 1)
    assert len(speaking(world)) == 2
    world.clock.advance(10 * GRACE)
    assert check(world, erases[0]).status == "waiting"
    before, shows = (world.table.paths.delta_version(number) for number in (0, 1))
    assert (before in speaking(world), shows in speaking(world)) == (False, True)
    run_merge(Work(world.table, RUN, lambda: local(world, tmp_path)), MergeOptions())
    publish(world.table)
    world.clock.advance(10 * GRACE)
    run_cleanup(Work(world.table, RUN), CleanupOptions())
    check(world, erases[0])
    found = check(world, erases[0])
    assert (found.status, kinds(found)) == ("complete", set())
    assert speaking(world) == []
    assert run_check(world.table).same
