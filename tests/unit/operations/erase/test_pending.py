"""Which certificates may be complete, and what it costs to know that."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from firnline.appends.append import Appender
from firnline.clock import SystemClock
from firnline.commit.base import read_base
from firnline.errors import StoreAccessError
from firnline.kernel.local import LocalEngine
from firnline.log.txn_file import RunIdentity
from firnline.operations.erase.completion import complete_certificate
from firnline.operations.erase.pending import longest_wait, ripe_certificates
from firnline.operations.erase.run import run_erase
from firnline.operations.fleet.chores import daily, due
from firnline.operations.operation import Work
from firnline.operations.options import EraseOptions
from firnline.operations.registry import CLEANUP
from tests.support.histories import clean_up
from tests.support.world import Crashed, Fault, FaultyStore, World, make_world

RUN = RunIdentity(run_id="r")
HOUR = 3_600_000
DAY = 24 * HOUR


@pytest.fixture
def world() -> World:
    made = make_world(cleanup={"grace": "6h"}, append={"ttl": "2h"}, commit_ttl="3h")
    Appender(made.table).append(pa.table({"c": ["a", "b", "z"]}))
    return made


def erase(world: World, scratch: Path, key: str, store: Any = None) -> str:
    world.clock.advance(10)
    table = world.table if store is None else replace(world.table, store=store)
    engine = LocalEngine(lambda: table.store, scratch, world.ids, SystemClock())
    asked = EraseOptions(columns=("c",), keys=((key,),))
    found = run_erase(Work(table, RUN, lambda: engine), asked).certificate
    assert found is not None
    return found


def ripe(world: World, *, after: int = 0) -> tuple[str, ...]:
    """What is ripe at a time after now, with the requests that it takes counted as LIST."""
    base = read_base(world.table)
    return ripe_certificates(base.table, base.snapshot, world.clock.now_ms() + after)


def requests(world: World, *, after: int = 0) -> dict[str, int]:
    base = read_base(world.table)
    before = world.store.counters.as_dict()
    ripe_certificates(base.table, base.snapshot, world.clock.now_ms() + after)
    found = world.store.counters.as_dict()
    return {name: found[name] - before[name] for name in found if found[name] != before[name]}


def test_a_table_without_erases_costs_no_request(world: World) -> None:
    assert (ripe(world, after=100 * DAY), requests(world, after=100 * DAY)) == ((), {})


@pytest.mark.long
def test_the_only_erase_costs_no_request_before_its_time_and_one_list_after_it(
    world: World, tmp_path: Path
) -> None:
    certificate = erase(world, tmp_path, "a")
    wait = longest_wait(world.table)
    assert wait == 6 * HOUR
    assert (ripe(world, after=wait - 1), requests(world, after=wait - 1)) == ((), {})
    assert ripe(world, after=wait) == (certificate,)
    assert requests(world, after=wait) == {"list": 1}


@pytest.mark.parametrize(
    ("settings", "hours"),
    [
        ({"cleanup": {"grace": "1s"}, "append": {"ttl": "5h"}, "commit_ttl": "3h"}, 5),
        ({"cleanup": {"grace": "1s"}, "append": {"ttl": "2h"}, "commit_ttl": "4h"}, 4),
    ],
)
def test_it_waits_for_appends_and_runs_too(settings: dict[str, Any], hours: int) -> None:
    assert longest_wait(make_world(**settings).table) == hours * HOUR


def test_an_older_one_that_is_open_is_found_beside_a_young_one(
    world: World, tmp_path: Path
) -> None:
    first = erase(world, tmp_path, "a")
    world.clock.advance(5 * HOUR)
    second = erase(world, tmp_path, "b")
    world.clock.advance(2 * HOUR)
    assert ripe(world) == (first,)
    assert ripe(world, after=5 * HOUR) == (first, second)
    complete_certificate(world.table, first, RUN)
    assert ripe(world, after=5 * HOUR) == (second,)


def test_the_certificate_of_a_run_that_died_after_its_commit_is_found(
    world: World, tmp_path: Path
) -> None:
    certificate = dies_writing(world, tmp_path, "_erase/", ".json")
    assert ripe(world, after=DAY) == (certificate,)
    world.clock.advance(DAY)
    complete_certificate(world.table, certificate, RUN)
    assert ripe(world) == ()


@pytest.mark.long
def test_an_erase_that_was_never_committed_is_no_reason_to_try_for_ever(
    world: World, tmp_path: Path
) -> None:
    erase(world, tmp_path, "a")
    dead = dies_writing(world, tmp_path, "_txn/", "")
    world.clock.advance(DAY)
    assert dead not in ripe(world, after=DAY)


def dies_writing(world: World, scratch: Path, folder: str, ending: str) -> str:
    """An erase that dies before it puts an object of a folder; the id of its plan."""

    class Dying(FaultyStore):
        def _next(self, name: str) -> str:
            is_put = name.startswith("put") and folder in name and name.endswith(ending)
            if is_put and "plan" not in name and self.fault is None:
                self.fault = Fault(len(self.calls), "before")
            return super()._next(name)

    before = plans(world)
    with pytest.raises(Crashed):
        erase(world, scratch, "b", Dying(world.store))
    (found,) = plans(world) - before
    return found


def plans(world: World) -> set[str]:
    start = world.table.paths.erase_dir
    found = (key.removeprefix(start) for key in world.store.objects if key.startswith(start))
    return {name.partition(".")[0] for name in found if name.endswith(".plan.json")}


def test_one_that_is_dated_in_the_future_is_tried(world: World, tmp_path: Path) -> None:
    world.clock.advance(1_000 * DAY)
    certificate = erase(world, tmp_path, "a")
    world.clock.advance(-1_000 * DAY)
    assert ripe(world) == (certificate,)


def test_a_certificate_alone_makes_a_clean_up_due_each_day_until_it_is_complete(
    world: World, tmp_path: Path
) -> None:
    certificate = erase(world, tmp_path, "a")
    for _ in range(5):  # until nothing is left to delete
        world.clock.advance(DAY)
        clean_up(world)
    world.clock.advance(2 * DAY)
    days = set[str]()
    for _ in range(3):
        assert clean_up_due(world) == "1 certificate may be completed"
        days |= {each.run for each in due(read_base(world.table), (CLEANUP.dag,))}
        world.clock.advance(DAY)
    assert len(days) == 3, "one run a day, by its id"
    complete_certificate(world.table, certificate, RUN)
    assert clean_up_due(world) is None


def test_a_listing_that_is_refused_starts_the_run_that_says_so(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    erase(world, tmp_path, "a")
    world.clock.advance(1_000)
    assert clean_up_due(world) is None

    def refuse(*_: object) -> None:
        raise StoreAccessError("no permission to list", next_step="give it")

    monkeypatch.setattr("firnline.operations.fleet.chores._seems_ripe", lambda *_: False)
    monkeypatch.setattr("firnline.operations.erase.pending.list_certificates", refuse)
    name = world.settings.name
    world.clock.advance(daily(name, world.clock.now_ms()) + 2 * DAY - world.clock.now_ms())
    assert clean_up_due(world) == "certificates cannot be listed: no permission to list"


def clean_up_due(world: World) -> str | None:
    found = due(read_base(world.table), (CLEANUP.dag,))
    return found[0].why if found else None
