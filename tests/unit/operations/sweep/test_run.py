"""A sweep deletes what dead runs left behind, and never what anybody names or may still name."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firnline.appends.append import Appender
from firnline.commit.base import take_base
from firnline.commit.transaction import commit
from firnline.errors import LogLostError, OutcomeUnknownError, StoreAccessError, UsageError
from firnline.operations.operation import Work
from firnline.operations.options import SweepOptions
from firnline.operations.sweep.run import SweepFailedError, preview, run_sweep
from firnline.settings.ages import LEAST_ORPHAN_MS
from firnline.settings.load import TableSettings
from firnline.state.snapshot import read_snapshot
from firnline.table import open_table
from tests.support.cleanups import DAY, GRACE, RUN, Refusing, check, clean_up, keys_under, sweep
from tests.support.log_tables import (
    do_merge,
    do_nothing,
    merge_change,
    part_key,
    put_append,
    snapshot,
)
from tests.support.world import FaultyStore, SetClock, World, make_world


def littered(count: int = 3, **settings: Any) -> tuple[World, list[str]]:
    """A table with parts of dead runs, four days old, and transactions since; their keys."""
    world = make_world(**settings)
    put_append(world)
    keys = [part_key(world) for _ in range(count)]
    do_nothing(world)
    do_nothing(world)
    world.clock.advance(4 * DAY)
    return world, keys


def test_orphans_are_deleted_and_named_parts_stay() -> None:
    world, keys = littered()
    live = set(snapshot(world).live)
    report = sweep(world)
    assert (report.orphans, report.deleted, report.bytes) == (3, 3, 12)
    assert keys_under(world, "_data") == live
    assert (report.left, report.failed) == ({}, 0)
    check(world, live)
    again = sweep(world)
    assert (again.orphans, again.requests["delete"]) == (0, 0)
    assert set(keys).isdisjoint(world.store.objects)


def test_a_dry_run_lists_and_deletes_nothing() -> None:
    world, keys = littered()
    before = dict(world.store.objects)
    report = sweep(world, dry_run=True)
    assert (report.orphans, report.deleted) == (3, 0)
    made = preview(world.table, SweepOptions())
    assert [o.key for o in made.orphans] == sorted(keys)
    assert world.store.objects == before


def test_dead_parts_are_named_until_clean_up_forgets_them() -> None:
    world = make_world()
    keys = put_append(world) + put_append(world)
    do_merge(world, keys)
    world.clock.advance(30 * DAY)
    assert sweep(world).orphans == 0
    assert set(keys) <= world.store.objects.keys()


def test_log_files_that_a_reader_leaves_out_are_read_by_who_deletes() -> None:
    world, _ = littered(0)
    keys = put_append(world) + put_append(world)
    do_merge(world, keys)
    world.clock.advance(4 * DAY)
    read = read_snapshot(world.store, world.table.paths)
    assert read.skipped
    report = sweep(world)
    assert keys_under(world, "_data") >= set(keys)
    assert report.requests["get"] == len(read.listing)


def test_a_committed_transaction_that_nobody_published_is_published_first() -> None:
    class DiesBeforePublishing(FaultyStore):
        def put_new(self, key: str, data: bytes) -> None:
            if "/_log/" in key:
                raise OutcomeUnknownError("gone", next_step="wait")
            super().put_new(key, data)

        def get(self, key: str) -> bytes:
            raise OutcomeUnknownError("gone", next_step="wait")

    world = make_world()
    keys = put_append(world) + put_append(world)
    base = take_base(world.table)
    change = merge_change(world, keys, base)
    dying = replace(world.table, store=DiesBeforePublishing(world.store))
    commit(dying, base, change, RUN)
    world.clock.advance(30 * DAY)
    assert sweep(world).orphans == 0
    assert snapshot(world).seq == 1
    check(world, [m.p for m in change.adds])


def test_a_part_whose_append_is_still_under_way_stays() -> None:
    world, _ = littered(0)
    key = part_key(world)
    world.clock.advance(2 * DAY)
    report = sweep(world)
    assert (report.orphans, report.young, report.young_bytes) == (0, 1, 4)
    assert key in world.store.objects


def test_only_approved_keys_go_and_only_while_they_are_orphans() -> None:
    world, keys = littered()
    (named,) = snapshot(world).live
    report = sweep(world, approved=(keys[0], named, "t/_data/never.parquet"))
    assert (report.deleted, report.gone) == (1, 2)
    assert report.left == {"was not approved": 2}
    assert named in world.store.objects
    assert keys_under(world, "_data") == {named, *keys[1:]}
    assert sweep(world, approved=()).deleted == 0


@pytest.mark.long
def test_foreign_names_go_only_by_their_key() -> None:
    world, _ = littered(1)
    foreign = "t/_data/d=1/old.parquet"
    world.store.objects[foreign] = (b"x", world.clock.now - 30 * DAY)
    report = sweep(world)
    assert (report.deleted, list(report.left.values())) == (1, [1])
    assert foreign in world.store.objects
    assert sweep(world, approved=(foreign,)).deleted == 1
    assert foreign not in world.store.objects


@pytest.mark.parametrize(
    ("older_than", "settings", "step"),
    [
        (DAY - 1, {}, "ask for at least 1d"),
        (0, {}, "ask for at least 1d"),
        (2 * DAY, {"append": {"ttl": "2d"}}, "ask for more than 2d"),
    ],
)
def test_the_floor_cannot_be_talked_away(
    older_than: int, settings: dict[str, Any], step: str
) -> None:
    world, _ = littered(**settings)
    before = dict(world.store.objects)
    with pytest.raises(UsageError, match=step):
        sweep(world, older_than=older_than)
    assert world.store.objects == before


def test_another_age_than_the_tables_can_be_asked_for() -> None:
    world, _ = littered(2)
    assert sweep(world, older_than=30 * DAY).orphans == 0
    assert sweep(world, older_than=DAY).deleted == 2


def test_a_table_whose_log_was_lost_is_not_swept() -> None:
    world = make_world()
    do_merge(world, put_append(world) + put_append(world))
    for key in keys_under(world, "_log"):
        del world.store.objects[key]
    world.clock.advance(30 * DAY)
    before = dict(world.store.objects)
    with pytest.raises(LogLostError, match="rebuild"):
        sweep(world)
    assert world.store.objects == before


def test_keys_of_an_erase_that_died_are_swept_once_it_cannot_be_under_way() -> None:
    world, _ = littered()
    sweep(world)
    paths = world.table.paths
    keys = paths.erase_keys(world.ids.uuid7(world.clock.now))
    others = [paths.certificate(world.ids.uuid7(world.clock.now)), f"{paths.erase_dir}x.txt"]
    for key in (keys, *others):
        world.store.objects[key] = (b"{}", world.clock.now)
    assert (sweep(world).young, keys in world.store.objects) == (1, True)
    world.clock.advance(10 * LEAST_ORPHAN_MS)
    assert sweep(world).deleted == 1
    assert keys not in world.store.objects
    assert world.store.objects.keys() >= set(others)


@pytest.mark.long
def test_what_cannot_be_deleted_is_reported_and_the_rest_goes() -> None:
    world, keys = littered()
    store = Refusing(world.store, refuse=frozenset(keys[:1]))
    with pytest.raises(SweepFailedError, match=r"1 of 3 orphans.*locked") as caught:
        sweep(world, store)
    assert [f.key for f in caught.value.report.failures] == keys[:1]
    assert sweep(world).deleted == 1


def test_a_run_deletes_no_more_than_it_may_and_the_next_goes_on() -> None:
    world, _ = littered(2_500, cleanup={"max_deletes_per_run": 1_000})
    deleted = [sweep(world).deleted for _ in range(4)]
    assert deleted == [1_000, 1_000, 500, 0]


def test_requests_are_listings_and_deletes() -> None:
    world, _ = littered(2_500, cleanup={"deletes_per_second": 100_000})
    report = sweep(world)
    assert {k: v for k, v in report.requests.items() if v and "bytes" not in k} == {
        # Of the log, _txn/ twice, prepared changes, parts, probes and keys; of a commit, and of
        # the state after it.
        "list": 7 + 1 + 2,
        "get": 3 + 1 + 4,  # log files, the probe of the store, and log files once more
        "put": 2 + 2,
        "delete": 3 + 1,
    }
    again = sweep(world)
    assert (again.requests["list"], again.requests["put"], again.requests["delete"]) == (7, 0, 0)


@pytest.mark.long
@given(st.lists(st.sampled_from(["append", "merge", "die", "wait", "clean", "sweep"]), max_size=25))
def test_sweeps_delete_exactly_what_nobody_names_and_is_old(actions: list[str]) -> None:
    world = make_world()
    put_append(world)
    born: dict[str, int] = {}
    for action in actions:
        world.clock.advance(1)
        if action == "append":
            put_append(world)
        elif action == "merge":
            do_merge(world, list(snapshot(world).live))
        elif action == "die":
            born[part_key(world)] = world.clock.now
        elif action == "wait":
            world.clock.advance(GRACE + 10)
        elif action == "clean":
            clean_up(world)
        else:
            old = {key for key, at in born.items() if world.clock.now - at > 3 * DAY}
            sweep(world)  # where nothing was committed since, it only marks them for the next
            world.clock.advance(2 * DAY)
            sweep(world)
            young = {key for key, at in born.items() if world.clock.now - at <= 3 * DAY}
            assert old.isdisjoint(world.store.objects)
            assert young <= world.store.objects.keys()
        check(world, snapshot(world).live)
        named = set(snapshot(world).parts)
        assert named - world.store.objects.keys() <= {
            p for p, m in snapshot(world).parts.items() if m.tmb is not None
        }


def test_a_sweep_follows_no_symbolic_link_out_of_the_tables_folder(tmp_path: Path) -> None:
    clock = SetClock()
    settings = TableSettings(name="t", root=f"file://{tmp_path}/lake/t")
    table = replace(open_table(settings), clock=clock)
    Appender(table).append(pa.table({"id": [1]}))
    outside, name = tmp_path / "outside", table.ids.uuid7(clock.now)
    outside.mkdir()
    precious = outside / f"{name}.parquet"
    precious.write_bytes(b"somebody else's")
    link = tmp_path / "lake/t/_data/d=1"
    link.symlink_to(outside)
    clock.advance(10 * DAY)
    os.utime(precious, (0, 0))
    with pytest.raises(StoreAccessError, match="_data/d=1 is a symbolic link"):
        run_sweep(Work(table, RUN), SweepOptions())
    assert precious.exists()
    link.unlink()
    assert run_sweep(Work(table, RUN), SweepOptions()).orphans == 0
