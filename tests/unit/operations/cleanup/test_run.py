"""A clean-up deletes what nobody can use any more, says so in the log, and nothing else changes."""

from __future__ import annotations

from typing import Any

import pytest

from firnline.errors import (
    ForeignPathError,
    SnapshotExpiredError,
    StoreUnavailableError,
    StoreUnsafeError,
)
from firnline.operations.cleanup.retention import TXN_KEPT
from firnline.operations.cleanup.run import CleanupFailedError, CleanupReport, preview, run_cleanup
from firnline.operations.deletion import DeleteProgress
from firnline.operations.operation import Work
from firnline.operations.options import CleanupOptions
from firnline.paths import TablePaths
from firnline.state.history import history
from firnline.state.snapshot import read_snapshot
from firnline.store.probe import forget
from firnline.table import Table
from tests.support.cleanups import DAY, GRACE, RUN, Refusing, check, clean_up, keys_under
from tests.support.log_tables import do_merge, do_nothing, put_append, snapshot
from tests.support.world import FaultyStore, World, make_world


def merged(parts: int = 3, **settings: Any) -> tuple[World, list[str]]:
    """A table whose parts were merged into one, a grace ago; their keys."""
    world = make_world(**settings)
    keys = [key for _ in range(parts) for key in put_append(world)]
    do_merge(world, keys)
    world.clock.advance(GRACE + 1)
    return world, keys


def spent(report: CleanupReport) -> dict[str, int]:
    return {k: v for k, v in report.requests.items() if v and not k.startswith("bytes")}


def test_replaced_parts_and_folded_log_files_are_deleted() -> None:
    world, _ = merged()
    live = set(snapshot(world).live)
    report = clean_up(world)
    assert (report.parts, report.log_files, report.txn_files) == (3, 3, 0)
    assert report.bytes > 300
    assert keys_under(world, "_data") == live
    assert len(keys_under(world, "_log")) == 2  # the merge's, which the clean-up's has folded
    assert report.waiting == ()
    check(world, live)


def test_the_transaction_says_who_deleted_what_and_how_far_back_one_can_read() -> None:
    world, _ = merged()
    buried = history(world.table)[0].t
    report = clean_up(world)
    (newest, _) = history(world.table)
    assert (newest.op, newest.run, newest.counts.parts_in) == ("cleanup", RUN, 3)
    assert report.transactions == (2,)
    assert report.purged == snapshot(world).purged == buried
    with pytest.raises(SnapshotExpiredError):
        snapshot(world).at(buried)
    assert len(snapshot(world).at(buried + 1).live) == 1


@pytest.mark.long
def test_markers_of_what_is_gone_are_gone_too() -> None:
    world, keys = merged(50)
    before = sum(item.size for item in snapshot(world).listing.values())
    clean_up(world)
    read = read_snapshot(world.store, world.table.paths)
    assert len(read.contents) == 1
    assert not set(keys) & set(read.parts)
    assert read.log_tombstones.keys() - read.listing.keys(), "until the fence has passed them"
    world.clock.advance(3 * GRACE)
    for _ in range(
        2
    ):  # one raises the fence, the other folds what is left with half its lines gone
        do_nothing(world)
    read = read_snapshot(world.store, world.table.paths)
    assert read.log_tombstones.keys() <= read.listing.keys()
    assert sum(read.listing[key].size for key in read.contents) < before / 10


def test_a_large_log_file_of_dead_markers_is_folded_though_no_size_tier_reaches_it() -> None:
    world, keys = merged(50)
    clean = do_merge(world, put_append(world, "d=2", "d=2"))
    assert len(read_snapshot(world.store, world.table.paths).contents) == 2
    clean_up(world)
    assert clean.header.log in snapshot(world).listing, "folded, and its grace is not over"
    assert not set(keys) & set(read_snapshot(world.store, world.table.paths).parts)
    check(world, snapshot(world).live)


def test_a_dead_marker_stays_while_some_log_file_lists_its_part_alive() -> None:
    world = make_world()
    keys = put_append(world, *["d=1"] * 200)
    do_merge(world, keys[:1])  # a large log file, which lists 199 parts alive
    do_merge(world, keys[1:3])  # a small one, which buries two of them
    live = set(snapshot(world).live)
    world.clock.advance(2 * GRACE)
    assert clean_up(world).parts == 3
    assert not set(keys[1:3]) & world.store.objects.keys()
    check(world, live)
    world.clock.advance(2 * GRACE)
    clean_up(world)
    check(world, live)


def test_a_second_run_right_after_sends_no_delete_and_commits_nothing() -> None:
    world, _ = merged()
    clean_up(world)
    before = dict(world.store.objects)
    report = clean_up(world)
    assert spent(report) == {"list": 2, "get": 2}
    assert (report.parts, report.transactions) == (0, ())
    assert report.purged == snapshot(world).purged
    assert world.store.objects == before


def test_an_idle_table_comes_to_rest() -> None:
    world, _ = merged(20)
    live = set(snapshot(world).live)
    clean_up(world)
    world.clock.advance(2 * GRACE)
    assert spent(clean_up(world)) == {"list": 2, "get": 2, "delete": 1}, "a log file, no commit"
    for _ in range(6):
        clean_up(world)
        world.clock.advance(2 * GRACE)
    assert snapshot(world).seq == 2
    assert len(keys_under(world, "_log")) == 1
    assert clean_up(world).to_json()["waiting"] == ()
    check(world, live)


def test_what_waits_is_told_with_its_time() -> None:
    world, _ = merged()
    do_merge(world, put_append(world) + put_append(world))
    report = clean_up(world)
    assert report.parts == 3
    assert [(w.what, w.count) for w in report.waiting] == [("parts", 2), ("log files", 3)]
    assert all(w.last_ms == world.clock.now + 1 + GRACE for w in report.waiting)
    assert report.to_json()["waiting"][0]["reason"].startswith("readers may still")  # type: ignore[index]  # plain data
    world.clock.advance(2 * GRACE)
    assert clean_up(world).parts == 2


def test_a_dry_run_reports_what_would_go_and_deletes_nothing() -> None:
    world, _ = merged()
    before = dict(world.store.objects)
    report = clean_up(world, dry_run=True)
    assert (report.parts, report.log_files, report.dry_run) == (3, 3, True)
    assert report.transactions == ()
    made = preview(world.table, CleanupOptions())
    assert (len(made.parts), made.bytes) == (3, report.bytes)
    assert world.store.objects == before


def test_an_empty_table_has_nothing_to_clean_up() -> None:
    assert clean_up(make_world()).to_json()["parts"] == 0


def test_a_bounded_run_takes_the_oldest_and_the_next_goes_on() -> None:
    world = make_world()
    live = []
    for day in range(4):
        keys = put_append(world, f"d={day}") + put_append(world, f"d={day}")
        world.clock.advance(1_000)
        do_merge(world, keys)
        live = list(snapshot(world).live)
    world.clock.advance(2 * GRACE)
    horizons = []
    for _ in range(20):
        report = clean_up(world, max_deletes=3)
        assert report.parts + report.log_files <= 3
        horizons.append(snapshot(world).purged)
        check(world, live)
        if not report.waiting and not report.parts:
            break
    assert keys_under(world, "_data") == set(live)
    assert horizons == sorted(horizons)


@pytest.mark.long
def test_the_rate_holds_over_the_whole_run() -> None:
    world = make_world(cleanup={"deletes_per_second": 1_000})
    keys = put_append(world, *["d=1"] * 2_500)
    do_merge(world, keys)
    world.clock.advance(GRACE + 1)
    seen: list[DeleteProgress] = []
    report = run_cleanup(Work(world.table, RUN, tell=seen.append), CleanupOptions())
    assert report.seconds == 2
    assert [p.deleted for p in seen] == [1_000, 2_000, 2_501]
    assert seen[-1].objects == 2_501


@pytest.mark.long
def test_old_transactions_go_once_their_work_is_done() -> None:
    world = make_world()
    for _ in range(TXN_KEPT + 5):
        do_merge(world, put_append(world))
    live = set(snapshot(world).live)
    world.clock.advance(8 * DAY)
    assert clean_up(world).txn_files == 0, "its transaction raises the fence"
    report = clean_up(world)
    assert report.txn_files == 6
    sequences = sorted(map(world.table.paths.parse_txn, keys_under(world, "_txn")))
    assert sequences == list(range(7, TXN_KEPT + 7)), "the newest hundred, its own included"
    check(world, live)
    assert clean_up(world).txn_files == 0
    do_merge(world, put_append(world))  # the history goes on without a gap
    assert snapshot(world).seq == TXN_KEPT + 7


@pytest.mark.long
def test_transactions_stay_while_a_part_that_one_of_them_buried_cannot_be_deleted() -> None:
    world = make_world()
    keys = [key for _ in range(TXN_KEPT + 5) for key in put_append(world)]
    for key in keys:
        do_merge(world, [key])
    world.clock.advance(8 * DAY)
    with pytest.raises(CleanupFailedError) as caught:
        clean_up(world, Refusing(world.store, refuse=frozenset(keys[1:2])))
    assert caught.value.report.txn_files == 0
    assert len(keys_under(world, "_txn")) == TXN_KEPT + 6
    clean_up(world)
    assert len(keys_under(world, "_txn")) <= TXN_KEPT + 2


@pytest.mark.parametrize("effect", [True, False])
def test_an_object_without_a_confirmation_is_reported_and_holds_the_horizon(effect: bool) -> None:
    world = make_world()
    first, second = put_append(world, "d=1", "d=1"), put_append(world, "d=2", "d=2")
    one = do_merge(world, first).header.t
    world.clock.advance(1_000)
    do_merge(world, second)
    live = set(snapshot(world).live)
    world.clock.advance(GRACE + 1)
    with pytest.raises(
        CleanupFailedError, match=r"1 of 7 objects of table t could not.*locked"
    ) as caught:
        clean_up(world, Refusing(world.store, refuse=frozenset(second[:1]), effect=effect))
    report = caught.value.report
    assert (report.parts, report.failed) == (3, 1)
    assert [f.key for f in report.failures] == second[:1]
    assert one <= report.purged == snapshot(world).purged
    assert history(world.table)[0].counts.parts_in == 3, "what is confirmed, and no other"
    assert set(second) <= set(snapshot(world).parts), "its markers are kept"
    check(world, live)
    again = clean_up(world)
    assert again.parts == 2  # one of them is gone already, and not found counts as gone
    assert keys_under(world, "_data") == live
    check(world, live)


def test_when_the_oldest_part_cannot_be_deleted_nothing_is_forgotten() -> None:
    world, keys = merged()
    with pytest.raises(CleanupFailedError):
        clean_up(world, Refusing(world.store, refuse=frozenset(keys[:1])))
    assert snapshot(world).seq == 1
    assert set(keys) <= set(snapshot(world).parts)
    assert clean_up(world).transactions == (2,)


class Overwrites(FaultyStore):
    """A store that ignores create-only puts."""

    def put_new(self, key: str, data: bytes) -> None:
        self.inner.objects[key] = (data, self.inner.clock.now)


def test_a_store_without_create_only_puts_is_refused_before_anything_is_deleted() -> None:
    world, keys = merged()
    forget()
    with pytest.raises(StoreUnsafeError):
        clean_up(world, Overwrites(world.store))
    assert set(keys) <= world.store.objects.keys()


def test_nor_is_there_a_commit_of_what_is_gone_already_on_such_a_store() -> None:
    """A bounded run has deleted the rest of what one transaction replaced, and died."""
    world, keys = merged()
    for key in keys:
        del world.store.objects[key]
    before = dict(world.store.objects)
    forget()
    with pytest.raises(StoreUnsafeError):
        clean_up(world, Overwrites(world.store), max_deletes=4)
    assert {k: v for k, v in world.store.objects.items() if "/_probe/" not in k} == before


def test_a_table_that_only_its_pool_locks_is_cleaned_on_any_store() -> None:
    world, keys = merged(locking="pool-only")
    live = set(snapshot(world).live)
    forget()
    assert clean_up(world, Overwrites(world.store)).parts == len(keys)
    assert keys_under(world, "_data") == live


def test_a_run_that_commits_nothing_does_not_ask_whether_the_store_can() -> None:
    world, _ = merged()
    clean_up(world)
    world.clock.advance(2 * GRACE)
    forget()
    assert spent(clean_up(world)) == {"list": 2, "get": 2, "delete": 1}


def test_a_clean_up_that_could_not_publish_its_transaction_says_how_far_it_came() -> None:
    """It is committed: whoever takes the next base publishes it."""

    class Unpublished(FaultyStore):
        def put_new(self, key: str, data: bytes) -> None:
            if "/_log/" in key:
                raise StoreUnavailableError("no answer", next_step="try again")
            super().put_new(key, data)

    world, keys = merged()
    live = set(snapshot(world).live)
    buried = history(world.table)[0].t
    report = clean_up(world, Unpublished(world.store))
    assert (report.parts, report.transactions, report.purged) == (len(keys), (2,), buried)
    assert len(keys_under(world, "_log")) == 1
    assert clean_up(world).purged == snapshot(world).purged == buried
    assert len(keys_under(world, "_log")) == 2
    check(world, live)


def test_a_copied_table_deletes_nothing_of_the_original() -> None:
    world, _ = merged()
    copies = {
        key.replace("t/", "copy/", 1): value for key, value in dict(world.store.objects).items()
    }
    world.store.objects.update(copies)
    before = dict(world.store.objects)
    settings = world.settings.model_copy(update={"root": "memory://bucket/copy"})
    copied = Table(settings, world.store, TablePaths("copy"), world.clock, world.ids)
    with pytest.raises(ForeignPathError, match="copied"):
        run_cleanup(Work(copied, RUN), CleanupOptions())
    assert world.store.objects == before


@pytest.mark.long
def test_requests_are_few_beside_the_deletes() -> None:
    world = make_world()
    keys = put_append(world, *["d=1"] * 5_000)
    do_merge(world, keys)
    world.clock.advance(GRACE + 1)
    forget()
    report = clean_up(world)
    assert report.requests["delete"] == 6 + 1  # 5,001 objects; the probe deletes its own
    assert sum(spent(report).values()) - 6 <= 11 + 2 + 1
