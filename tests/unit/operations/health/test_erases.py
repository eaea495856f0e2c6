"""The erases that the page of a table shows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from firnline.appends.append import Appender
from firnline.clock import SystemClock
from firnline.errors import UsageError
from firnline.kernel.local import LocalEngine
from firnline.log.txn_file import RunIdentity
from firnline.operations.erase.certificate import stored
from firnline.operations.erase.completion import complete_certificate
from firnline.operations.erase.run import run_erase
from firnline.operations.health.detail import detail_of
from firnline.operations.health.erases import ERASES, Erased
from firnline.operations.health.reading import read
from firnline.operations.operation import Work
from firnline.operations.options import EraseOptions
from tests.support.world import World, make_world

RUN = RunIdentity(dag_id="erase", run_id="r", user="ana", approved_by="bo")
HOUR = 3_600_000
KEY = "needle-17"


@pytest.fixture
def world() -> World:
    made = make_world(
        cleanup={"grace": "6h"}, append={"ttl": "1h"}, commit_ttl="1h", partition_by=["c"]
    )
    Appender(made.table).append(pa.table({"c": [KEY, "b", "z"]}))
    return made


def erase(world: World, scratch: Path, key: str = KEY) -> str:
    world.clock.advance(10)
    engine = LocalEngine(lambda: world.store, scratch, world.ids, SystemClock())
    asked = EraseOptions(columns=("c",), keys=((key,), ("q",)))
    found = run_erase(Work(world.table, RUN, lambda: engine), asked).certificate
    assert found is not None
    return found


def shown(world: World) -> list[dict[str, Any]]:
    erases: list[dict[str, Any]] = detail_of(read(world.table, erases={}))["erases"]
    return erases


def test_the_details_of_a_table_name_its_erases_the_newest_first_and_no_key(
    world: World, tmp_path: Path
) -> None:
    first = erase(world, tmp_path)
    t = world.clock.now_ms()
    world.clock.advance(6 * HOUR)
    complete_certificate(world.table, first, RUN)
    second = erase(world, tmp_path, "b")
    newest, oldest = shown(world)
    assert (newest["id"], newest["status"], newest["completed_ms"]) == (second, "waiting", None)
    assert newest["after_ms"] == world.clock.now_ms() + 6 * HOUR
    assert (oldest["id"], oldest["status"]) == (first, "complete")
    assert (oldest["t"], oldest["completed_ms"]) == (t, t + 6 * HOUR)
    assert (oldest["keys"], oldest["columns"]) == (2, ("c",))
    assert (oldest["by"], oldest["approved_by"]) == ("ana", "bo")
    assert KEY not in json.dumps(shown(world))


def test_the_transaction_of_an_erase_names_no_partition_after_a_key(
    world: World, tmp_path: Path
) -> None:
    erase(world, tmp_path)
    unread: tuple[dict[str, Erased] | None, ...] = ({}, None)
    for known in unread:
        plain = detail_of(read(world.table, erases=known))
        (one,) = plain["transactions"]
        assert (one["op"], one["partitions"], one["partition_count"]) == ("erase", ["c=…"], 1)
        assert KEY not in json.dumps(plain["transactions"])


def test_the_transaction_of_an_erase_names_partitions_by_other_columns(tmp_path: Path) -> None:
    world = make_world(partition_by=["day"])
    Appender(world.table).append(pa.table({"c": [KEY, "b"], "day": [1, 2]}))
    erase(world, tmp_path)
    (one,) = detail_of(read(world.table, erases={}))["transactions"]
    assert one["partitions"] == ["day=1"]
    (unknown,) = detail_of(read(world.table))["transactions"]
    assert unknown["partitions"] == ["day=…"]


def test_a_table_without_erases_shows_none_and_pays_nothing_for_it(world: World) -> None:
    def requests(known: dict[str, Erased] | None) -> dict[str, int]:
        before = world.store.counters.as_dict()
        read(world.table, erases=known)
        after = world.store.counters.as_dict()
        return {name: after[name] - before[name] for name in after}

    assert requests(None) == requests({})
    assert shown(world) == []


@pytest.mark.long
def test_a_certificate_is_read_once_and_again_when_it_is_complete(
    world: World, tmp_path: Path
) -> None:
    known: dict[str, Erased] = {}

    def gets() -> int:
        nonlocal known
        plain = _gets(world, None)
        before = world.store.counters.get
        known = {each.id: each for each in read(world.table, erases=known).erases}
        return world.store.counters.get - before - plain

    certificate = erase(world, tmp_path)
    assert (gets(), gets()) == (1, 0)
    world.clock.advance(6 * HOUR)
    complete_certificate(world.table, certificate, RUN)
    assert (gets(), gets()) == (1, 0)
    assert known[certificate].status == "complete"


def _gets(world: World, known: dict[str, Erased] | None) -> int:
    before = world.store.counters.get
    read(world.table, erases=known)
    return world.store.counters.get - before


def test_one_that_does_not_read_hides_no_other(world: World, tmp_path: Path) -> None:
    broken, whole = erase(world, tmp_path), erase(world, tmp_path, "b")
    key = world.table.paths.certificate(broken)
    good = world.store.objects[key]
    world.store.objects[key] = (b"{", world.clock.now)
    newest, oldest = shown(world)
    assert (newest["id"], newest["problem"]) == (whole, "")
    assert (oldest["id"], oldest["keys"]) == (broken, None)
    assert "does not read" in oldest["problem"]
    known = {each.id: each for each in read(world.table, erases={}).erases}
    world.store.objects[key] = good
    repaired = read(world.table, erases=known).erases[1]
    assert (repaired.problem, repaired.keys) == ("", 2)


def test_only_the_newest_are_shown(world: World, tmp_path: Path) -> None:
    ids = [erase(world, tmp_path, f"k{n}") for n in range(ERASES + 1)]
    assert [each["id"] for each in shown(world)] == ids[:0:-1]


def test_a_certificate_is_handed_out_as_it_is_stored(world: World, tmp_path: Path) -> None:
    certificate = erase(world, tmp_path)
    paths, objects = world.table.paths, world.store.objects
    assert stored(world.table, certificate) == objects[paths.certificate(certificate)][0]
    world.clock.advance(6 * HOUR)
    complete_certificate(world.table, certificate, RUN)
    assert stored(world.table, certificate) == objects[paths.completed_certificate(certificate)][0]
    assert KEY.encode() not in stored(world.table, certificate)


def test_a_certificate_that_may_name_keys_is_not_handed_out(world: World, tmp_path: Path) -> None:
    certificate = erase(world, tmp_path)
    key = world.table.paths.certificate(certificate)
    plain = json.loads(world.store.objects[key][0]) | {"version": 1}
    world.store.objects[key] = (json.dumps(plain).encode(), world.clock.now)
    with pytest.raises(UsageError, match="may hold keys"):
        stored(world.table, certificate)


@pytest.mark.parametrize("erase", ["../_log/x", "01a1fde9-c84a-773c-a413-b1d33b39382f"])
def test_what_is_no_certificate_of_the_table_is_not_handed_out(world: World, erase: str) -> None:
    with pytest.raises(UsageError, match=r"is not the id of a|there is no") as refused:
        stored(world.table, erase)
    assert erase in refused.value.message
