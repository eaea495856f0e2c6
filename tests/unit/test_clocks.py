"""A writer's clock that is years ahead: nothing waits for its date (docs/guarantees.md, W2)."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from firnline.appends.append import Appender
from firnline.clock import SystemClock
from firnline.commit import checkpoint
from firnline.commit.base import take_base
from firnline.commit.keys import forgettable
from firnline.commit.transaction import Change, commit
from firnline.errors import SnapshotExpiredError
from firnline.kernel.local import LocalEngine
from firnline.log import dated
from firnline.log.records import LogContent
from firnline.log.txn_file import Counts, RunIdentity
from firnline.operations.downgrade.run import run_downgrade
from firnline.operations.erase.completion import complete_certificate
from firnline.operations.erase.run import run_erase
from firnline.operations.merge.run import run_merge
from firnline.operations.operation import Work
from firnline.operations.options import (
    DowngradeOptions,
    EraseOptions,
    MergeOptions,
    RebuildOptions,
    SweepOptions,
    VerifyOptions,
)
from firnline.operations.rebuild.run import run_rebuild
from firnline.operations.sweep.run import run_sweep
from firnline.operations.verify.run import run_verify
from firnline.properties.in_force import waits
from firnline.state.moment import snapshot_at
from firnline.state.snapshot import read_snapshot
from tests.support.checkpoints import by_checkpoint, by_log
from tests.support.cleanups import DAY, GRACE, check, clean_up, keys_under
from tests.support.log_tables import do_merge, part_key, put_append, snapshot
from tests.support.reading import visible_ids
from tests.support.world import World, make_world

HOUR = 3_600_000
YEARS = 10 * 365 * DAY
RUN = RunIdentity(run_id="r", user="ana")


def engine_of(world: World, scratch: Path) -> Callable[[], LocalEngine]:
    return lambda: LocalEngine(lambda: world.store, scratch, world.ids, SystemClock())


def beside(world: World) -> tuple[World, list[str]]:
    """A table with an append of now and one that is dated ten years ahead."""
    keys = put_append(world)
    return world, keys + put_append(world, t=world.clock.now + YEARS)


def at_now(world: World) -> set[str]:
    return set(snapshot_at(world.table, world.clock.now).live)


@pytest.mark.long
def test_what_is_dated_years_ahead_is_there_now() -> None:
    world, keys = beside(make_world())
    assert at_now(world) == set(keys)
    before = world.clock.now - 1
    assert set(snapshot_at(world.table, before).live) == set(keys[:1]), "it was not there before"
    world.clock.advance(10)
    do_merge(world, keys)
    assert at_now(world) == set(snapshot(world).live)
    assert set(snapshot_at(world.table, world.clock.now - 1).live) == set(keys)


def test_the_past_of_a_table_with_a_date_years_ahead_stays_as_it_was() -> None:
    """At every moment of it, also once the log file that said so is folded and deleted."""
    world, keys = beside(make_world())
    past: dict[int, set[str]] = {}

    def happened(live: set[str]) -> None:
        past[world.clock.now] = live
        world.clock.advance(HOUR)

    happened(set(keys))
    do_merge(world, keys)
    happened(set(snapshot(world).live))
    late = put_append(world)
    happened(set(snapshot(world).live))
    do_merge(world, late)
    happened(set(snapshot(world).live))

    def check_past() -> int:
        refused = 0
        for ms, live in past.items():
            try:
                assert set(snapshot_at(world.table, ms).live) == live
            except SnapshotExpiredError:
                refused += 1
        return refused

    assert check_past() == 0
    world.clock.advance(GRACE - 2 * HOUR)
    assert clean_up(world).parts == 2
    assert check_past() == 2, "only what was up to the first merge is gone"
    happened(set(snapshot(world).live))
    world.clock.advance(GRACE)
    clean_up(world)
    world.clock.advance(GRACE)
    clean_up(world)
    assert check_past() == 4, "all but the last, which is behind the second merge"
    assert at_now(world) == set(snapshot(world).live)


def test_clean_up_waits_no_longer_than_the_grace_for_what_is_dated_years_ahead() -> None:
    world, keys = beside(make_world())
    do_merge(world, keys)
    live = set(snapshot(world).live)
    world.clock.advance(GRACE - 1)
    waiting = clean_up(world)
    assert waiting.parts == 0
    assert {w.last_ms for w in waiting.waiting} == {world.clock.now + 1}
    world.clock.advance(2)
    done = clean_up(world)
    assert (done.parts, done.log_files) == (2, 2)
    check(world, live)
    assert keys_under(world, "_data") == live


@pytest.mark.long
def test_the_log_of_a_table_with_a_date_years_ahead_does_not_grow() -> None:
    """Tombstones, dates and transactions go as in any other table."""
    world, keys = beside(make_world())
    do_merge(world, keys)
    tombstones = []
    for _ in range(8):
        world.clock.advance(GRACE + HOUR)
        put_append(world)
        do_merge(world, list(snapshot(world).live))
        clean_up(world)
        tombstones.append(len(snapshot(world).log_tombstones))
    state = snapshot(world)
    assert len(keys_under(world, "_log")) <= 7
    assert max(tombstones) <= 9, "three rounds, until the fence has passed them"
    assert state.seq - state.fence.seq <= 4
    assert len(state.other) <= 12, "those of the last grace, some of them corrected once"
    check(world, state.live)


def test_an_erase_is_complete_although_an_append_is_dated_years_ahead(tmp_path: Path) -> None:
    world = make_world(sort_by=["id"])
    Appender(world.table).append(pa.table({"id": [1, 2], "user": ["a", "b"]}))
    ahead = dataclasses.replace(world.clock, now=world.clock.now + YEARS)
    Appender(dataclasses.replace(world.table, clock=ahead)).append(
        pa.table({"id": [3, 4], "user": ["a", "b"]})
    )
    world.clock.advance(1000)
    options = EraseOptions(columns=("user",), keys=(("a",),))
    erased = run_erase(Work(world.table, RUN, engine_of(world, tmp_path)), options)
    assert erased.certificate is not None
    world.clock.advance(2 * GRACE)
    clean_up(world)
    seen = complete_certificate(world.table, erased.certificate, RUN)
    assert seen.status == "complete", seen.remaining
    assert visible_ids(world.table) == Counter([2, 4])
    assert at_now(world) == set(snapshot(world).live)


@pytest.mark.long
def test_a_merge_settles_what_is_dated_years_ahead(tmp_path: Path) -> None:
    world = make_world(merge={"settle": "1h"})
    ahead = dataclasses.replace(world.clock, now=world.clock.now + YEARS)
    for clock in (world.clock, ahead) * 6:
        Appender(dataclasses.replace(world.table, clock=clock)).append(pa.table({"id": [1]}))
    world.clock.advance(2 * HOUR)
    report = run_merge(Work(world.table, RUN, engine_of(world, tmp_path)), MergeOptions())
    assert report.transactions
    assert len(snapshot(world).live) == 1


def test_a_sweep_waits_for_no_name_from_the_future() -> None:
    """Nobody can have named an object tomorrow: the store's time is all that counts then."""
    world = make_world(orphan_grace="24h")
    put_append(world)
    key = world.table.paths.data_part("d=1", world.ids.uuid7(world.clock.now + YEARS))
    world.store.objects[key] = (b"rows", world.clock.now)
    world.clock.advance(DAY)
    run_sweep(Work(world.table, RUN), SweepOptions())
    assert key in world.store.objects, "not older than a day yet"
    world.clock.advance(HOUR)
    run_sweep(Work(world.table, RUN), SweepOptions())
    assert key in world.store.objects, "this sweep was the first transaction since"
    world.clock.advance(waits((), world.settings, 0).ended + 1)
    run_sweep(Work(world.table, RUN), SweepOptions())
    assert key not in world.store.objects


def test_verify_tells_what_is_due_although_it_is_dated_years_ahead() -> None:
    world, keys = beside(make_world())
    do_merge(world, keys)
    orphan = part_key(world)
    world.clock.advance(2 * DAY)
    kinds = {f.kind for f in run_verify(Work(world.table), VerifyOptions()).findings}
    assert {"log-clean-up-due", "log-from-the-future"} <= kinds
    assert orphan in world.store.objects


def test_rows_of_version_1_clients_are_not_hidden_by_deletes_of_before() -> None:
    """Their sequence follows from the time, and transactions are dated years ahead by now."""
    world, keys = beside(make_world())
    world.clock.advance(HOUR)
    merged = do_merge(world, keys)
    world.clock.advance(HOUR)
    foreign = put_append(world, q=None)
    state = read_snapshot(world.store, world.table.paths)
    assert state.sequence_of(state.parts[foreign[0]]) == merged.header.seq


@pytest.mark.parametrize("ms", [0, dated.FAR_MS])
def test_a_little_ahead_is_dated_as_it_says(ms: int) -> None:
    world = make_world()
    t = world.clock.now + 1 + ms
    keys = put_append(world, t=t)
    assert not snapshot(world).dated
    world.clock.advance(ms)
    assert at_now(world) == set(keys)
    with pytest.raises(AssertionError):
        assert set(snapshot(world).at(t - 1).live) == set(keys)


def test_the_past_is_read_from_a_checkpoint_as_from_the_log() -> None:
    world, keys = beside(make_world())
    moments = [world.clock.now]
    for act in (lambda: do_merge(world, keys), lambda: put_append(world)):
        world.clock.advance(HOUR)
        act()
        moments += [world.clock.now - 1, world.clock.now]
    checkpoint.write(world.table, by_log(world.table))
    put_append(world)
    quick, whole = by_checkpoint(world.table), by_log(world.table)
    assert quick.covered
    for ms in moments:
        assert dict(quick.at(ms).live) == dict(whole.at(ms).live)
    assert quick.at(moments[0]).live.keys() == set(keys)


@pytest.mark.long
def test_a_downgrade_deletes_what_is_left_over_after_the_grace(tmp_path: Path) -> None:
    world, keys = beside(make_world())
    do_merge(world, keys)
    run_downgrade(Work(world.table, RUN, engine_of(world, tmp_path)), DowngradeOptions())
    world.clock.advance(2 * GRACE)
    report = run_downgrade(Work(world.table, RUN, engine_of(world, tmp_path)), DowngradeOptions())
    assert report.objects_deleted >= len(keys)
    assert keys_under(world, "_data") == set(snapshot(world).live)


def test_a_key_tombstone_that_is_dated_years_ahead_is_forgotten_in_time() -> None:
    world = make_world(primary_key=["ts"], deleted="v")
    keys = [*put_append(world), *put_append(world, t=world.clock.now + YEARS)]
    state = snapshot(world)
    parts = [state.parts[key] for key in keys]
    age = world.settings.append.ttl + GRACE
    now = world.clock.now
    assert forgettable(state, world.settings, "d=1", parts, now + age - 1) == {keys[0]}
    assert forgettable(state, world.settings, "d=1", parts, now + age) == set(keys)


def test_a_rebuild_asks_about_no_part_for_a_transaction_that_is_dated_years_ahead() -> None:
    """Else any append that was not folded yet would be older than its time to live."""
    world = make_world()
    for ahead in (0, YEARS):
        clock = dataclasses.replace(world.clock, now=world.clock.now + ahead)
        Appender(dataclasses.replace(world.table, clock=clock)).append(pa.table({"id": [1]}))
    do_merge(world, list(snapshot(world).live))
    world.clock.advance(HOUR)
    Appender(world.table).append(pa.table({"id": [2]}))
    before = set(snapshot(world).live)
    for key in keys_under(world, "_log"):
        del world.store.objects[key]
    run_rebuild(Work(world.table, RUN), RebuildOptions())
    assert set(snapshot(world).live) == before == at_now(world)


def test_a_maintenance_clock_that_is_behind_dates_nothing_back() -> None:
    """Two transactions of one run: of its own log file only a listing says when it was there."""
    world = make_world()
    keys = [*put_append(world), *put_append(world, "d=2")]
    moment = world.clock.now
    world.clock.advance(HOUR)
    late = dataclasses.replace(world.clock, now=world.clock.now - 10 * DAY)
    behind = dataclasses.replace(world, table=dataclasses.replace(world.table, clock=late))
    first = do_merge(behind, keys[:1])
    do_merge(behind, keys[1:], first.base)
    state = snapshot(world)
    assert not dated.recorded(state.other)
    assert set(state.at(moment).live) == set(keys)


def test_a_rebuild_writes_down_that_what_is_dated_years_ahead_is_there() -> None:
    """Else its parts would be of the future, and clean-up would wait years for what is dead."""
    world = make_world()
    for ahead in (0, YEARS):
        clock = dataclasses.replace(world.clock, now=world.clock.now + ahead)
        Appender(dataclasses.replace(world.table, clock=clock)).append(pa.table({"id": [1]}))
    do_merge(world, list(snapshot(world).live))
    for key in keys_under(world, "_log"):
        del world.store.objects[key]
    run_rebuild(Work(world.table, RUN), RebuildOptions())
    do_merge(world, list(snapshot(world).live))
    after = snapshot(world)
    dates = {t for m in after.parts.values() for t in (m.t, m.tmb) if t is not None}
    assert max(dates) > world.clock.now + HOUR
    assert all(after.effective(t) <= world.clock.now + HOUR for t in dates)
    near = {t for t in dates if t < world.clock.now + HOUR}
    assert near
    assert near.isdisjoint(dated.recorded(after.other)), "these say it themselves"


def nothing(world: World) -> LogContent:
    """A transaction without a change of its own: what its log file holds."""
    world.clock.advance(1)
    made = commit(world.table, take_base(world.table), Change("merge", (), (), Counts()), RUN)
    assert made.base is not None
    return made.base.snapshot.contents[made.header.log]


def test_a_transaction_that_is_dated_years_ahead_says_itself_when_it_took_effect() -> None:
    """Last-modified times are those of the copy once somebody has copied the bucket."""
    world, keys = beside(make_world())
    moment = world.clock.now
    world.clock.advance(HOUR)
    do_merge(world, keys)
    merged = world.clock.now
    world.clock.advance(HOUR)
    for key in keys_under(world, "_log"):
        world.store.objects[key] = (world.store.objects[key][0], world.clock.now)
    assert at_now(world) == set(snapshot(world).live)
    assert set(snapshot(world).at(merged).live) == set(snapshot(world).live)
    assert set(snapshot(world).at(merged - 1).live) == set(keys)
    assert set(snapshot(world).at(moment).live) == set(keys)


def test_a_log_file_says_once_when_something_took_effect() -> None:
    world, keys = beside(make_world())
    do_merge(world, keys)
    for _ in range(4):
        others = nothing(world).other
        assert others
        assert len(others) == len(set(others))


def test_what_is_dated_years_ahead_and_before_the_horizon_is_not_of_the_time_before_it_came() -> (
    None
):
    """Also once its log file is folded and deleted: an as-of read does not change its answer."""
    world, keys = beside(make_world())
    do_merge(world, keys)
    world.clock.advance(GRACE + HOUR)
    clean_up(world)
    moment = world.clock.now
    world.clock.advance(HOUR)
    (late,) = put_append(world, t=world.clock.now + YEARS // 2)
    assert snapshot(world).purged > snapshot(world).parts[late].t
    (log,) = [key for key, item in snapshot(world).listing.items() if "_host-" in key]
    nothing(world)
    for _ in range(2):
        assert late not in snapshot(world).at(moment).live
        assert late in at_now(world)
        world.clock.advance(GRACE + HOUR)
        clean_up(world)
    assert log not in world.store.objects
    assert late not in snapshot(world).at(moment).live


@pytest.mark.long
def test_no_row_is_lost_or_twice_there_at_any_moment_with_dates_ahead_by_little_and_by_much() -> (
    None
):
    """What is dated far ahead takes effect by the clock, but after what it replaced was there."""
    world = make_world()
    first, start = put_append(world), world.clock.now
    came = dict.fromkeys(first + put_append(world, t=start + dated.FAR_MS), 1)

    def merge(keys: list[str]) -> None:
        world.clock.advance(1000)
        before = set(snapshot(world).live)
        do_merge(world, keys)
        (new,) = set(snapshot(world).live) - before
        came[new] = sum(came[key] for key in keys)

    merge(first)  # dated after both appends, so nearly five minutes ahead
    (late,) = put_append(world, t=start + YEARS)
    came[late] = 1
    merge(sorted(snapshot(world).live))
    merge(sorted(snapshot(world).live))
    live = snapshot(world).live
    for moment in range(start, start + dated.FAR_MS + 9000, 500):
        live = snapshot(world).at(moment).live
        appends = 1 + (late in live or moment > start + dated.FAR_MS)
        assert sum(came[key] for key in live) in (appends, 3)
    assert sum(came[key] for key in live) == 3
