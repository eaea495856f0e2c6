"""A table with a primary key: one row per key, the same before and after any merge or delete."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from firnline.appends.append import Appender
from firnline.clock import SystemClock
from firnline.commit.base import take_base
from firnline.commit.keys import place
from firnline.commit.transaction import commit
from firnline.errors import CommitConflictError, UsageError
from firnline.kernel.local import LocalEngine
from firnline.log.txn_file import RunIdentity
from firnline.operations.committer import Committer
from firnline.operations.delete.run import DeleteReport, run_delete
from firnline.operations.drop.ttl import run_ttl
from firnline.operations.erase.run import preview as preview_erase
from firnline.operations.groups import PlannedGroup
from firnline.operations.kernel_tasks import kernel_task
from firnline.operations.merge.run import run_merge
from firnline.operations.operation import Work
from firnline.operations.options import (
    DeleteOptions,
    EraseOptions,
    MergeOptions,
    RestoreOptions,
    RewriteOptions,
    TtlOptions,
)
from firnline.operations.replace.plan import Span, plan_replace
from firnline.operations.restore.run import run_restore
from firnline.operations.rewrite.run import run_rewrite
from firnline.rows import parts as part_rows
from tests.support.histories import drop
from tests.support.log_tables import do_merge, merge_change, snapshot
from tests.support.updates import stored, visible
from tests.support.world import World, make_world

RUN = RunIdentity(run_id="r")
ROW = pa.schema({"id": pa.int64(), "v": pa.int64(), "name": pa.string(), "gone": pa.bool_()})
HOUR = 3_600_000
NOVEMBER = 1_699_574_400_000
"""The tenth, 2023: 300 days after the 14th of January."""


def world_of(**settings: Any) -> World:
    return make_world(**{"primary_key": ["id"], "sort_by": ["name"], **settings})


def put(world: World, *rows: dict[str, Any], at: int = 1_000) -> None:
    """One append of rows, some time after the last."""
    world.clock.advance(at)
    Appender(world.table).append(pa.Table.from_pylist(list(rows), schema=ROW))


def up(key: int, name: str, v: int | None = None) -> dict[str, Any]:
    return {"id": key, "name": name, "v": v}


def gone(key: int, v: int | None = None) -> dict[str, Any]:
    return {"id": key, "gone": True, "v": v}


def names(world: World) -> dict[Any, str]:
    return {key[-1]: row["name"] for key, row in visible(world).items()}


def merge_range(world: World, scratch: Path, first: int, last: int) -> None:
    """Merge neighbouring parts of an unpartitioned table, first to last (excluded)."""
    base = take_base(world.table)
    parts = sorted(base.snapshot.live.values(), key=place)[first:last]
    pending = {d.id: d for m in parts for d in base.snapshot.pending_deletes(m, "")}
    group = PlannedGroup("", tuple(parts), tuple(pending.values()))
    committer = Committer(world.table, RUN, base, lambda *_: None)
    for result in engine_of(world, scratch)().run(
        [kernel_task(world.table, base.snapshot, 0, group)]
    ):
        if result is not None:
            assert result.error is None, result.error
            committer.add((group, result))
    committer.commit_all()
    assert committer.conflicts == 0


def merge_all(world: World, scratch: Path) -> None:
    merge_range(world, scratch, 0, len(snapshot(world).live))


def engine_of(world: World, scratch: Path) -> Any:
    return lambda: LocalEngine(lambda: world.store, scratch, world.ids, SystemClock())


def delete(world: World, scratch: Path, where: str, mode: Any = None) -> DeleteReport:
    options = DeleteOptions(where=where, mode=mode)
    return run_delete(Work(world.table, RUN, engine_of(world, scratch)), options)


def physical(world: World) -> int:
    return sum(len(rows) for _, _, rows in stored(world))


@pytest.mark.long
@pytest.mark.parametrize("version", [None, "v"])
def test_the_last_row_or_the_largest_version_of_a_key_is_seen_however_parts_are_merged(
    version: str | None, tmp_path: Path
) -> None:
    world = world_of(version=version)
    put(world, up(1, "b", 5), up(2, "x", 1))
    put(world, up(1, "a", 4))
    put(world, up(1, "c", 5), up(2, "y", None))
    put(world, up(2, "z", 1))
    expected = {1: "c", 2: "z"}
    assert names(world) == expected
    merge_range(world, tmp_path, 1, 3)
    assert names(world) == expected
    merge_range(world, tmp_path, 0, 2)
    assert names(world) == expected
    merge_all(world, tmp_path)
    assert names(world) == expected
    assert physical(world) == 2


@pytest.mark.parametrize(
    ("version", "expected"), [(None, {1: "a", 2: "a"}), ("v", {1: "b", 2: "a"})]
)
def test_rows_of_one_key_in_one_append_are_one_row_though_the_part_is_sorted(
    version: str | None, expected: dict[int, str]
) -> None:
    world = world_of(version=version)
    put(world, up(1, "c", 1), up(1, "b", 9), up(2, "z", 3), up(2, "a", 3), up(1, "a", 2))
    assert names(world) == expected
    assert physical(world) == 2


def test_parts_of_one_append_stay_in_order_whatever_replaces_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only their names tell which came later, and what replaces a part has a newer name."""
    filled = part_rows.PartBuffer.add

    def each_alone(self: part_rows.PartBuffer, rows: pa.Table) -> Any:
        yield from filled(self, rows)
        yield from self.drain()

    monkeypatch.setattr(part_rows.PartBuffer, "add", each_alone)
    monkeypatch.setattr("firnline.appends.append.gather", lambda tables, _: tables)
    world = world_of(merge={"min_inputs": 2, "max_parts_per_group": 2})
    put(world, up(0, "q"))
    tables = [
        pa.Table.from_pylist(rows, schema=ROW)
        for rows in ([up(1, "z"), up(5, "x")], [up(1, "m")], [up(1, "a")])
    ]
    world.clock.advance(1_000)
    batches = [batch for table in tables for batch in table.to_batches()]
    assert len(Appender(world.table).append(batches).parts) == 3
    put(world, up(6, "r"))
    delete(world, tmp_path, "id = 5")
    assert names(world) == {0: "q", 1: "a", 6: "r"}
    assert len(snapshot(world).live) == 3
    run_merge(Work(world.table, RUN, engine_of(world, tmp_path)), MergeOptions())
    assert names(world) == {0: "q", 1: "a", 6: "r"}


@pytest.mark.long
def test_a_key_tombstone_hides_what_came_before_it_and_nothing_after(tmp_path: Path) -> None:
    world = world_of(deleted="gone")
    put(world, up(1, "a"), up(2, "b"))
    put(world, gone(1))
    put(world, gone(2), up(3, "c"))
    put(world, up(2, "again"))
    for first, last in [(1, 3), (1, 3), (0, 2)]:
        assert names(world) == {2: "again", 3: "c"}
        merge_range(world, tmp_path, first, last)
    assert names(world) == {2: "again", 3: "c"}
    assert physical(world) == 3  # the tombstone of 1 is young


@pytest.mark.long
def test_a_merge_forgets_key_tombstones_only_with_the_oldest_part_and_after_ttl_and_grace(
    tmp_path: Path,
) -> None:
    world = world_of(deleted="gone", append={"ttl": "1h"}, cleanup={"grace": "1h"})
    put(world, up(1, "a"))
    put(world, gone(1), gone(2))
    put(world, up(3, "c"), at=2 * HOUR - 1)
    merge_range(world, tmp_path, 1, 3)
    assert physical(world) == 4
    put(world, up(4, "d"), at=2)
    merge_range(world, tmp_path, 0, 3)  # its part counts from the youngest of its inputs on
    assert physical(world) == 4
    put(world, up(4, "e"), at=3 * HOUR)
    merge_range(world, tmp_path, 0, 2)
    assert names(world) == {3: "c", 4: "e"}
    assert physical(world) == 2


@pytest.mark.long
@pytest.mark.parametrize(("keep", "left"), [(None, 2), ("2h", 1)])
def test_with_versions_key_tombstones_stay_unless_the_settings_say_how_late_versions_come(
    keep: str | None, left: int, tmp_path: Path
) -> None:
    settings = {"append": {"ttl": "1h"}, "cleanup": {"grace": "1h"}, "deleted_keep": keep}
    world = world_of(deleted="gone", version="v", **settings)
    put(world, gone(1, 7))
    put(world, up(1, "older", 6), up(2, "b", 1), at=4 * HOUR)
    assert names(world) == {2: "b"}
    merge_range(world, tmp_path, 0, 1)
    assert physical(world) == 3  # another part may hold older versions
    merge_all(world, tmp_path)
    assert names(world) == {2: "b"}
    assert physical(world) == left
    put(world, up(1, "late", 5))
    assert names(world) == {2: "b"} | ({1: "late"} if keep else {})


@pytest.mark.parametrize("mode", ["eager", "lazy"])
def test_a_delete_by_key_takes_every_version(mode: str, tmp_path: Path) -> None:
    world = world_of(deletes=mode)
    put(world, up(1, "a"), up(2, "x"))
    put(world, up(1, "b"))
    report = delete(world, tmp_path, "id = 1")
    assert report.delete is not None
    assert names(world) == {2: "x"}
    merge_all(world, tmp_path)
    assert names(world) == {2: "x"}
    put(world, up(1, "new"))
    assert names(world) == {1: "new", 2: "x"}


@pytest.mark.long
def test_a_delete_by_other_columns_takes_rows_as_readers_see_them_and_no_older_one_comes_back(
    tmp_path: Path,
) -> None:
    world = world_of(deleted="gone")
    put(world, up(1, "old"), up(2, "bad"), up(3, "bad"), up(4, "old"))
    put(world, up(1, "bad"), up(3, "good"), gone(4))
    with pytest.raises(UsageError, match="bring an older one back; delete eagerly"):
        delete(world, tmp_path, "name = 'bad'", "lazy")
    before = len(snapshot(world).deletes)
    report = delete(world, tmp_path, "name = 'bad'")
    assert (report.delete, report.transaction) == (None, 1)
    assert (report.counts.rows_deleted, report.counts.rows_out) == (2, 2)
    assert len(snapshot(world).deletes) == before
    assert names(world) == {3: "good"}
    assert delete(world, tmp_path, "name = 'bad'").transaction is None
    assert delete(world, tmp_path, "name = 'nobody'").transaction is None


def test_an_append_under_way_comes_after_a_delete_by_other_columns(tmp_path: Path) -> None:
    world = world_of()
    put(world, up(1, "bad"))
    engine = LocalEngine(lambda: world.store, tmp_path, world.ids, SystemClock())

    def late() -> Any:
        put(world, up(1, "active"), up(2, "bad"))
        return engine

    options = DeleteOptions(where="name = 'bad'")
    assert run_delete(Work(world.table, RUN, late), options).transaction == 1
    assert names(world) == {1: "active", 2: "bad"}


def test_a_rewrite_by_other_columns_keeps_what_readers_see_of_the_rows_that_stay(
    tmp_path: Path,
) -> None:
    world = world_of()
    put(world, up(1, "keep"), up(2, "keep"))
    put(world, up(1, "drop"))
    options = RewriteOptions(where="name = 'keep'")
    report = run_rewrite(Work(world.table, RUN, engine_of(world, tmp_path)), options)
    assert report.counts.rows_removed == 1
    assert names(world) == {2: "keep"}


def test_a_query_is_refused_where_it_would_see_key_tombstones(tmp_path: Path) -> None:
    world = world_of(deleted="gone")
    put(world, up(1, "a"))
    options = RewriteOptions(sql="select * from _rows")
    with pytest.raises(UsageError, match="would take for rows"):
        run_rewrite(Work(world.table, RUN, engine_of(world, tmp_path)), options)


def test_an_erase_goes_by_columns_of_the_key() -> None:
    world = world_of()
    put(world, up(1, "a"))
    erase = EraseOptions(columns=("name",), keys=(("a",),))
    with pytest.raises(UsageError, match=r"an erase on table t .*look up the primary keys"):
        preview_erase(world.table, erase)


def test_a_replace_of_an_interval_goes_by_columns_of_the_key() -> None:
    world = world_of()
    put(world, up(1, "a", 5))
    columns = snapshot(world).schema
    with pytest.raises(UsageError, match="a replace on table t"):
        plan_replace(snapshot(world), world.settings, Span("v", 0, 9), columns, mode="lazy")
    assert plan_replace(
        snapshot(world), world.settings, Span("id", 0, 9), columns, mode="lazy"
    ).dropped


def days(world: World, *rows: tuple[int, int]) -> None:
    """An append of (id, day of January 2023) rows."""
    world.clock.advance(1_000)
    day = [datetime.datetime(2023, 1, d, tzinfo=datetime.UTC) for _, d in rows]
    Appender(world.table).append(pa.table({"id": [i for i, _ in rows], "ts": day}))


def days_seen(world: World) -> dict[int, int]:
    return {key[-1]: row["ts"].day for key, row in visible(world).items()}


@pytest.mark.parametrize("version", [None, "ts"])
def test_ttl_by_a_column_never_brings_an_older_row_back(version: str | None) -> None:
    """The newest row of 1 is past and the one before it is not."""
    world = world_of(ttl={"keep": "300d", "column": "ts"}, sort_by=[], version=version)
    world.clock.now = NOVEMBER
    days(world, (1, 30), (2, 30))
    days(world, (1, 2))
    days(world, (9, 1))
    run_ttl(Work(world.table, RUN), TtlOptions(force=True))
    # By version the 30th wins, and rows that lost may go; else what is seen of 1 stays.
    assert days_seen(world) == ({1: 30, 2: 30} if version else {1: 2, 2: 30})


def test_ttl_by_a_column_drops_the_oldest_parts_together() -> None:
    world = world_of(ttl={"keep": "300d", "column": "ts"}, sort_by=[])
    world.clock.now = NOVEMBER
    days(world, (1, 1))
    days(world, (1, 2))
    days(world, (1, 30))
    days(world, (2, 3))
    run_ttl(Work(world.table, RUN), TtlOptions(force=True))
    assert days_seen(world) == {1: 30}


@pytest.mark.long
def test_a_merge_is_not_committed_when_a_late_append_came_between_its_parts(
    tmp_path: Path,
) -> None:
    world = world_of(merge={"min_inputs": 2})
    put(world, up(1, "a"))
    put(world, up(1, "c"))
    late = world.clock.now - 500
    engine = LocalEngine(lambda: world.store, tmp_path, world.ids, SystemClock())

    def slow() -> Any:
        now, world.clock.now = world.clock.now, late
        put(world, up(1, "b"), at=0)
        world.clock.now = now
        return engine

    assert names(world) == {1: "c"}
    report = run_merge(Work(world.table, RUN, slow), MergeOptions())
    assert report.replans == 1
    assert names(world) == {1: "c"}
    assert physical(world) == 1


def beside(world: World, scratch: Path, act: Callable[[], object]) -> Any:
    """An engine; somebody acts once, before it is there."""
    acts = [act]

    def slow() -> Any:
        if acts:
            acts.pop()()
        return LocalEngine(lambda: world.store, scratch, world.ids, SystemClock())

    return slow


def test_an_append_that_lands_after_what_a_merge_puts_together_is_no_reason_to_plan_again(
    tmp_path: Path,
) -> None:
    world = world_of(merge={"min_inputs": 2})
    put(world, up(1, "a"))
    put(world, up(1, "c"))
    engine = beside(world, tmp_path, lambda: put(world, up(1, "d")))
    assert run_merge(Work(world.table, RUN, engine), MergeOptions()).replans == 0
    assert names(world) == {1: "d"}


@pytest.mark.long
@pytest.mark.parametrize("others", ["ac", "a"])
def test_an_append_of_the_same_millisecond_as_what_a_merge_or_delete_replaces_keeps_its_place(
    others: str, tmp_path: Path
) -> None:
    """Only names tell then what came last, and what is made of the others has a later name."""
    world = world_of(merge={"min_inputs": 2})
    for name in others:
        put(world, up(1, name), up(2, "x"), at=0)
    same = world.clock.now
    world.clock.advance(500)

    def late() -> None:
        now, world.clock.now = world.clock.now, same
        put(world, up(1, "b"), at=0)
        world.clock.now = now

    engine = beside(world, tmp_path, late)
    if len(others) > 1:
        replans = run_merge(Work(world.table, RUN, engine), MergeOptions()).replans
    else:
        delete = DeleteOptions(where="id = 2", mode="eager")
        replans = run_delete(Work(world.table, RUN, engine), delete).replans
    assert names(world)[1] == "b"
    assert replans == 1


def test_an_append_of_the_same_millisecond_is_seen_in_the_listing_and_in_a_newer_base() -> None:
    world = world_of()
    for name in "ac":
        put(world, up(1, name), at=0)
    base = take_base(world.table)
    first, last = sorted(base.snapshot.live)
    put(world, up(1, "b"), at=0)
    change = replace(merge_change(world, [first, last], base), planned=base.snapshot)
    with pytest.raises(CommitConflictError, match="landed late"):
        commit(world.table, base, change, RUN)
    with pytest.raises(CommitConflictError, match="inserted between"):
        commit(world.table, take_base(world.table), change, RUN)


def test_a_part_that_was_there_when_its_twin_was_planned_is_no_rival() -> None:
    """As where the other one could not be read: to plan again would find the same."""
    world = world_of()
    for name in "ac":
        put(world, up(1, name), at=0)
    first, _ = sorted(snapshot(world).live)
    do_merge(world, [first])


@pytest.mark.long
@pytest.mark.parametrize("version", [None, "v"])
def test_a_merge_that_forgets_a_key_tombstone_is_not_committed_when_older_rows_were_restored(
    version: str | None, tmp_path: Path
) -> None:
    brief = {"append": {"ttl": "1h"}, "cleanup": {"grace": "1h"}, "merge": {"min_inputs": 2}}
    if version is not None:
        brief["deleted_keep"] = "3h"
    world = world_of(deleted="gone", version=version, **brief)
    put(world, up(1, "old", 1))
    drop(world, "")
    put(world, gone(1, 2))
    put(world, up(2, "other", 1))
    world.clock.advance(4 * HOUR)
    engine = LocalEngine(lambda: world.store, tmp_path, world.ids, SystemClock())

    def slow() -> Any:
        run_restore(Work(world.table, RUN), RestoreOptions(to=0))
        return engine

    report = run_merge(Work(world.table, RUN, slow), MergeOptions())
    assert report.replans == 1
    assert names(world) == {2: "other"}


def test_a_part_inserted_between_those_of_a_group_is_named() -> None:
    world = world_of()
    for name in "abc":
        put(world, up(1, name))
    base = take_base(world.table)
    first, _, last = sorted(base.snapshot.live)
    with pytest.raises(CommitConflictError, match="inserted between"):
        do_merge(world, [first, last], base)


def contradictions() -> Iterable[tuple[dict[str, Any], str]]:
    yield {"deleted": "gone", "primary_key": []}, "deleted needs a primary_key"
    yield {"deleted": "id"}, "name another column"
    yield {"deleted_keep": "2h"}, "deleted_keep needs deleted"
    yield {"deleted": "gone", "merge": {"sql": "select 1"}}, "exclude each other"


@pytest.mark.parametrize(("settings", "piece"), list(contradictions()), ids=str)
def test_settings_that_contradict_each_other_are_refused(
    settings: dict[str, Any], piece: str
) -> None:
    with pytest.raises(ValueError, match=piece):
        world_of(**settings)


def test_the_column_of_key_tombstones_is_a_boolean(tmp_path: Path) -> None:
    world = world_of(deleted="name")
    put(world, up(1, "a"))
    with pytest.raises(UsageError, match=r"'name' of table t .setting deleted. is VARCHAR"):
        run_merge(Work(world.table, RUN, engine_of(world, tmp_path)), MergeOptions())
