"""Erases of before a downgrade: those that slept through it are void, and certified ones stay."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from firnline.appends.append import Appender
from firnline.clock import SystemClock
from firnline.errors import CommitExpiredError
from firnline.kernel.engine import Engine
from firnline.kernel.local import LocalEngine
from firnline.operations.erase.certificate import list_certificates
from firnline.operations.erase.completion import complete_certificate
from firnline.operations.erase.run import run_erase
from firnline.operations.operation import Work
from firnline.operations.options import (
    EraseOptions,
    RebuildOptions,
    VerifyOptions,
)
from firnline.operations.rebuild.run import run_rebuild
from firnline.operations.verify.run import run_verify
from firnline.read.scan import scan
from tests.support.cleanups import RUN
from tests.support.downgrades import downgraded
from tests.support.log_tables import do_nothing
from tests.support.v1_client import V1Client
from tests.support.world import Asleep, World, make_world

DAY_MS = 86_400_000
KEYS = EraseOptions(columns=("c",), keys=(("needle-17",),))


def local(world: World, scratch: Path) -> Callable[[], Engine]:
    return lambda: LocalEngine(lambda: world.store, scratch, world.ids, SystemClock())


def append(world: World, c: list[str], k: list[int]) -> None:
    world.clock.advance(10)
    Appender(world.table).append(pa.table({"c": c, "k": k}))


def rows(world: World) -> list[int]:
    found: list[int] = scan(world.table).to_arrow().column("k").to_pylist()
    return sorted(found)


def folded(world: World) -> None:
    client = V1Client(world)
    for k in (7, 8):
        columns = {"c": "VARCHAR", "k": "BIGINT"}
        client.append_rows("d=9", pa.table({"c": ["v"], "k": [k]}), columns)
    client.merge_rows("d=9")
    client.clean_up()


def back(world: World) -> None:
    folded(world)
    do_nothing(world)


def errors(world: World) -> list[str]:
    found = run_verify(Work(world.table), VerifyOptions()).findings
    return [finding.kind for finding in found if finding.severity == "error"]


@pytest.mark.long
@pytest.mark.parametrize("then", [lambda _: None, folded, back], ids=["v1", "folded", "back"])
def test_an_erase_that_slept_through_a_downgrade_is_void_and_its_rows_stay(
    tmp_path: Path, then: Callable[[World], None]
) -> None:
    world = make_world()
    engine = local(world, tmp_path)
    append(world, ["needle-17", "z"], [1, 2])
    do_nothing(world)
    append(world, ["y"], [3])

    def meanwhile() -> None:
        world.clock.advance(world.settings.commit_ttl)
        do_nothing(world)
        downgraded(world, engine)
        then(world)

    store = Asleep(world.store, at="put t/_txn/00000000000000000002", meanwhile=meanwhile)
    table = replace(world.table, store=store, clock=replace(world.clock))
    with pytest.raises(CommitExpiredError, match="has not happened"):
        run_erase(Work(table, RUN, engine), KEYS)
    world.clock.advance(3 * DAY_MS)
    there = rows(world)
    assert there[:3] == [1, 2, 3]
    (listed,) = list_certificates(world.table)
    assert complete_certificate(world.table, listed.id, RUN).status == "void"
    assert errors(world) == []
    run_rebuild(Work(world.table, RUN), RebuildOptions(force=True))
    assert rows(world) == there


@pytest.mark.long
def test_a_certificate_of_before_a_downgrade_is_right_whatever_has_become_of_the_log(
    tmp_path: Path,
) -> None:
    world = make_world()
    engine = local(world, tmp_path)
    append(world, ["needle-17", "z"], [1, 2])
    append(world, ["y"], [3])
    run_erase(Work(world.table, RUN, engine), KEYS)
    world.clock.advance(10 * world.settings.commit_ttl)
    downgraded(world, engine)
    for then in (lambda _: None, folded, do_nothing):
        then(world)
        assert errors(world) == []
        run_rebuild(Work(world.table, RUN), RebuildOptions(force=True, dry_run=True))
        assert rows(world)[:2] == [2, 3]
