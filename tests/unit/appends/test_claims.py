"""Appends with a key: of all tries the rows of one become visible, once."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pytest

from firnline.appends.append import Appender, AppendResult
from firnline.appends.claims import ATTEMPTS
from firnline.errors import (
    AppendExpiredError,
    CommitUnknownError,
    FirnlineError,
    LogCorruptError,
    SnapshotUnstableError,
    UsageError,
)
from firnline.log import keyed
from firnline.state.snapshot import read_snapshot
from tests.support.beside import Beside
from tests.support.cleanups import DAY, clean_up, keys_under, sweep
from tests.support.log_tables import do_merge, do_nothing, v1_live
from tests.support.world import INTERRUPTED, Asleep, Crashed, Fault, FaultyStore, World, make_world

ROWS = pa.table({"id": [1, 2, 3]})
KEY = "batch-17"
DIGEST = keyed.digest_of(KEY)


def attempt(world: World, key: str | None = KEY, store: Any = None) -> AppendResult:
    """One try, by a process of its own."""
    table = world.table if store is None else replace(world.table, store=store)
    return Appender(table).append(ROWS, key=key)


def live_rows(world: World, *, late: bool = False) -> int:
    """Rows that readers see, by what markers state.

    ``late``: a log file landed behind the fence, which clients of version 1 do not know.
    """
    snapshot = read_snapshot(world.store, world.table.paths)
    assert set(snapshot.live) <= world.store.objects.keys()
    assert late or set(snapshot.live) == v1_live(world)
    return sum(marker.n or 0 for marker in snapshot.live.values())


def die_with_a_claim(world: World) -> None:
    """A try dies right before its log file."""
    with pytest.raises(Crashed):
        attempt(world, store=Dying(world.store, at="put t/_log/"))


@dataclass
class Dying(FaultyStore):
    """The process dies right before, or after, a call that begins with ``at``."""

    at: str = ""
    after: str = ""

    def _call(self, name: str, act: Callable[[], Any], *, put: bool = False) -> Any:
        self.dead = self.dead or bool(self.at and name.startswith(self.at))
        answer = super()._call(name, act, put=put)
        self.dead = self.dead or bool(self.after and name.startswith(self.after))
        return answer


def fold(world: World) -> None:
    """A transaction folds the log files of appends."""
    do_nothing(world)


def days_pass(world: World, days: int = 6) -> None:
    """Transactions, clean-ups and sweeps of some days."""
    for _ in range(days):
        world.clock.advance(DAY)
        do_nothing(world)
        clean_up(world)
        sweep(world)


def test_the_same_key_again_adds_nothing_and_says_so() -> None:
    world = make_world()
    first, again = attempt(world), attempt(world)
    assert (first.rows, first.repeated) == (3, False)
    assert (again.rows, again.parts, again.log_key) == (0, (), None)
    assert again.repeated
    assert again.t == first.t
    assert live_rows(world) == 3
    assert attempt(world, "batch-18").rows == 3
    assert live_rows(world) == 6


def test_it_is_known_after_the_log_file_was_folded_and_deleted() -> None:
    world = make_world()
    first = attempt(world)
    assert first.log_key is not None
    for _ in range(4):
        world.clock.advance(DAY)
        do_nothing(world)
        clean_up(world)
    assert first.log_key not in world.store.objects
    assert attempt(world).repeated
    assert live_rows(world) == 3


def test_it_is_known_after_the_rows_were_merged() -> None:
    world = make_world()
    parts = [part.key for part in attempt(world).parts]
    do_merge(world, parts)
    assert attempt(world).repeated


def test_an_append_without_a_key_costs_what_it_did() -> None:
    plain, with_key = make_world(), make_world()
    assert attempt(plain, None).requests == {**attempt(with_key).requests, "put": 3} | {
        "bytes_out": plain.store.counters.bytes_out
    }
    assert not keys_under(plain, "_once")


def test_a_key_costs_one_put_and_its_repetition_no_part() -> None:
    world = make_world()
    appender = Appender(world.table)
    appender.append(ROWS, key="warm")
    plain, first = appender.append(ROWS), appender.append(ROWS, key=KEY)
    assert {k: first.requests[k] - plain.requests[k] for k in ("get", "put", "list")} == {
        "get": 0,
        "put": 1,
        "list": 0,
    }
    again = appender.append(ROWS, key=KEY)
    assert again.repeated
    assert (again.requests["put"], again.requests["delete"]) == (1, 0)
    # The claim, and every log file: nothing has folded these.
    assert again.requests["get"] == 1 + len(keys_under(world, "_log"))


@pytest.mark.long
@pytest.mark.parametrize("between", [None, fold, days_pass])
@pytest.mark.parametrize("kind", ["before", "after", "lost"])
def test_wherever_a_try_dies_the_next_adds_the_rows_once(
    kind: str, between: Callable[[World], None] | None
) -> None:
    at, ended = 0, False
    while not ended:
        world = make_world()
        attempt(world, "another")
        store = FaultyStore(world.store, Fault(at, kind))
        try:
            attempt(world, store=store)
            ended = len(store.calls) <= at
        except (Crashed, FirnlineError):
            pass
        if between is not None:
            between(world)
        attempt(world)
        assert live_rows(world) == 6, f"{kind} call {at}: {store.calls[-1]}"
        assert attempt(world).repeated
        at += 1
    assert at > 5


@pytest.mark.parametrize("interrupt", ["Ctrl-C", "SIGTERM", "out of memory"])
@pytest.mark.parametrize("kind", ["before", "after"])
def test_wherever_a_try_is_interrupted_the_next_adds_the_rows_once(
    kind: str, interrupt: str
) -> None:
    at, ended = 0, False
    while not ended:
        world = make_world()
        attempt(world, "another")
        store = FaultyStore(world.store, Fault(at, kind, interrupt))
        try:
            attempt(world, store=store)
            ended = len(store.calls) <= at
        except (*INTERRUPTED, FirnlineError):
            pass
        attempt(world)
        assert live_rows(world) == 6, f"{kind} call {at}: {store.calls[-1]}"
        at += 1


@pytest.mark.long
@pytest.mark.parametrize("kind", ["before", "after", "lost"])
def test_wherever_the_second_try_dies_the_third_adds_the_rows_once(kind: str) -> None:
    """The first died with its claim, so the second takes the name away and claims the next."""
    at, ended = 0, False
    while not ended:
        world = make_world()
        attempt(world, "another")
        die_with_a_claim(world)
        store = FaultyStore(world.store, Fault(at, kind))
        try:
            attempt(world, store=store)
            ended = len(store.calls) <= at
        except (Crashed, FirnlineError):
            pass
        attempt(world)
        assert live_rows(world) == 6, f"{kind} call {at}: {store.calls[-1]}"
        at += 1
    assert at > 8


PUTS = ["put t/_once/", "put t/_data/", "put t/_log/"]


@pytest.mark.parametrize("meanwhile", ["a try", "a try and a fold", "a try and days"])
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("at", PUTS)
def test_of_two_tries_at_the_same_time_one_adds_its_rows(
    at: str, after: bool, meanwhile: str
) -> None:
    world = make_world()
    attempt(world, "another")

    def others() -> None:
        attempt(world)
        if meanwhile == "a try and a fold":
            fold(world)
        if meanwhile == "a try and days":
            days_pass(world, 6)

    store = Asleep(world.store, at=at, meanwhile=others, after=after)
    slow = meanwhile == "a try and days"
    with suppress(*(AppendExpiredError, CommitUnknownError) if slow else ()):
        attempt(world, store=store)
    assert store.slept == 1
    assert live_rows(world, late=slow) == 6
    assert attempt(world).repeated
    days_pass(world, 3)
    assert live_rows(world) == 6


@pytest.mark.long
@pytest.mark.parametrize("days", [0, 3, 6])
def test_a_try_that_slept_right_before_its_log_file_finds_it_taken(days: int) -> None:
    """Its own clock stands still, as in a paused machine: no check of time holds it back."""
    world = make_world()
    attempt(world, "another")

    def others() -> None:
        attempt(world)
        for _ in range(days):
            world.clock.advance(DAY)
            do_nothing(world)
            clean_up(world)
            sweep(world)

    store = Beside(world.store, act=others, what="put t/_log/")
    paused = type(world.clock)(world.clock.now, world.clock.elapsed)
    table = replace(world.table, store=store, clock=paused)
    Appender(table).append(ROWS, key=KEY)
    assert live_rows(world, late=days > 0) == 6


@pytest.mark.long
def test_tries_that_take_each_others_names_away_end_with_an_error() -> None:
    world = make_world()
    attempt(world, "another")

    def rival() -> None:
        made = len(keys_under(world, "_once"))
        with pytest.raises(Crashed):
            attempt(world, store=Dying(world.store, after=f"put t/_once/{DIGEST}/{made:06d}"))

    store = Asleep(world.store, at="put t/_log/", meanwhile=rival, times=10 * ATTEMPTS)
    with pytest.raises(SnapshotUnstableError, match="with the same key took over 20 times"):
        attempt(world, store=store)
    assert live_rows(world) == 3
    assert attempt(world).rows == 3


def test_a_key_is_forgotten_once_its_time_is_over_and_the_record_is_bounded() -> None:
    world = make_world(append={"once": "2d"})
    for number in range(5):
        attempt(world, f"old-{number}")
    days_pass(world, 2)
    assert attempt(world, "old-0").repeated, "for two days at least, and the grace"
    days_pass(world, 6)
    assert len(keys_under(world, "_once")) == 0
    lines = read_snapshot(world.store, world.table.paths).other
    assert sum(keyed.any_key([line]) for line in lines) == 1, "the one that says there were keys"
    assert attempt(world, "old-0").rows == 3


def test_a_fold_forgets_names_that_were_taken_away() -> None:
    world = make_world()
    attempt(world, "another")
    die_with_a_claim(world)
    attempt(world)
    assert any(b"void" in line for line in read_snapshot(world.store, world.table.paths).other)
    fold(world)
    assert not any(b"void" in line for line in read_snapshot(world.store, world.table.paths).other)
    assert live_rows(world) == 6


@pytest.mark.parametrize(
    ("key", "says"),
    [
        ("", "is empty"),
        (" ", "is empty"),
        ("k" * 1001, "between 1 and 1,000"),
        (5, "is 5, which is no text"),
        ("\ud800", "which is no text"),
    ],
)
def test_a_key_that_names_nothing_is_refused(key: Any, says: str) -> None:
    world = make_world()
    with pytest.raises(UsageError, match=says):
        attempt(world, key)
    assert not world.store.objects


def test_a_store_without_create_only_puts_is_refused_a_key() -> None:
    world = make_world(locking="pool-only")
    with pytest.raises(UsageError, match="could add the rows of one key twice"):
        attempt(world)
    assert not world.store.objects


@pytest.mark.long
@pytest.mark.parametrize("data", [b"{", b'{"v":9,"t":1,"writer":"w"}'])
def test_a_claim_that_does_not_read_is_an_error(data: bytes) -> None:
    world = make_world()
    world.store.put_new(world.table.paths.claim(keyed.digest_of(KEY), 1), data)
    with pytest.raises(LogCorruptError, match="the claim t/_once/"):
        attempt(world)
    assert live_rows(world) == 0


def test_nothing_that_is_stored_repeats_the_key() -> None:
    world = make_world()
    attempt(world)
    fold(world)
    assert not any(KEY.encode() in data for data, _ in world.store.objects.values())
    assert not any(KEY in key for key in world.store.objects)
