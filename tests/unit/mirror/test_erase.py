"""A certificate of an erase is complete when no version of the mirror has bounds of its parts."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pyarrow as pa
import pytest

from firnline.append.append import Appender
from firnline.clock import SystemClock
from firnline.kernel.local import LocalEngine
from firnline.mirror.delta.publish import publish
from firnline.operations.erase import mirrors
from firnline.operations.erase.certificate import Certificate
from firnline.operations.erase.completion import complete_certificate
from firnline.operations.erase.run import run_erase
from firnline.operations.mirror.check import run_check
from firnline.operations.options import EraseOptions
from tests.support.cleanups import GRACE
from tests.support.mirrors import RUN
from tests.support.world import World, make_world

SECRET = 4_711_083


def erased(tmp_path: Path) -> tuple[World, str]:
    world = make_world(mirror=["delta"], statistics=["k"])
    Appender(world.table).append(pa.table({"k": [1, SECRET]}))
    publish(world.table)
    world.clock.advance(1_000)
    engine = LocalEngine(lambda: world.store, tmp_path, world.ids, SystemClock())
    options = EraseOptions(columns=("k",), keys=((SECRET,),))
    report = run_erase(world.table, lambda: engine, options, RUN)
    world.clock.advance(10 * GRACE)
    assert report.certificate is not None
    return world, report.certificate


def check(world: World, erase: str) -> Certificate:
    return complete_certificate(world.table, erase, RUN)


def speaking(world: World) -> list[str]:
    folder = world.table.paths.delta_dir
    objects = world.store.objects.items()
    return [k for k, (data, _) in objects if k.startswith(folder) and str(SECRET).encode() in data]


def kinds(certificate: Certificate) -> set[str]:
    return {entry.kind for entry in certificate.remaining if entry.blocks}


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


def test_without_the_library_for_checkpoints_the_certificate_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, erase = erased(tmp_path)
    publish(world.table)
    world.clock.advance(GRACE)
    monkeypatch.setattr(mirrors, "find_spec", lambda name: None)
    found = check(world, erase)
    assert found.status == "waiting"
    assert "install firnline[delta]" in msgspec.json.encode(found).decode()
