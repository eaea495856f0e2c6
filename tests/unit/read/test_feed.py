"""The feed of changes: each changed row once, with the transaction and the reason, or an error."""

from __future__ import annotations

import datetime
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest

import firnline
from firnline.appends.append import Appender
from firnline.commit import transaction
from firnline.commit.base import take_base
from firnline.commit.change import Change
from firnline.commit.transaction import commit
from firnline.errors import StreamBehindError, UsageError
from firnline.log.txn_file import Counts
from firnline.operations.cleanup.run import run_cleanup
from firnline.operations.delete.run import run_delete
from firnline.operations.drop.run import run_drop
from firnline.operations.operation import Work
from firnline.operations.options import (
    CleanupOptions,
    DeleteOptions,
    DropOptions,
    Evolution,
    LazyOptions,
    RelocateOptions,
    RestoreOptions,
    RewriteOptions,
    SchemaFixOptions,
)
from firnline.operations.relocate.run import run_relocate
from firnline.operations.restore.run import run_restore
from firnline.operations.rewrite.run import run_rewrite
from firnline.operations.schema.lazy import run_lazily
from firnline.operations.schema.run import run_schema_fix
from firnline.read.feed import ChangeFeed
from firnline.read.offsets import Bounds, Offset
from firnline.read.plan import ReadOptions
from firnline.read.position import from_text, to_text
from firnline.state.history import heads
from firnline.table import Table
from tests.support.cleanups import GRACE
from tests.support.log_tables import do_merge, put_append
from tests.support.moving import copied
from tests.support.v1_client import V1Client
from tests.support.visible import RUN, Played
from tests.support.world import FaultyStore, make_world

MERGE = {"min_inputs": 2, "kernel_threads": 1}


def table_of(folder: Path, **declared: Any) -> Played:
    settings = {"partition_by": ["day"], "sort_by": ["id"], "merge": MERGE, **declared}
    return Played(make_world(**settings), folder)


def put(played: Played, ids: list[int], day: int = 1, **more: Any) -> None:
    played.world.clock.advance(10)
    rows = [{"id": n, "day": day, "v": n, **more} for n in ids]
    Appender(played.world.table).append(pa.Table.from_pylist(rows))


def told(table: Table, **options: Any) -> Counter[tuple[Any, ...]]:
    """Rows of the feed as (operation, id, sequence, reason)."""
    found = firnline.changes(table, **options)
    names = ("_operation", "id", "_sequence", "_reason")
    return Counter(tuple(row[name] for name in names) for row in found)


@pytest.mark.long
def test_every_step_tells_its_rows_its_transaction_and_its_reason(tmp_path: Path) -> None:
    played = table_of(tmp_path, deletes="eager")
    world, table = played.world, played.world.table
    put(played, [1, 2, 2])
    put(played, [3, 4], day=2)
    engine = played.engine
    run_delete(Work(table, RUN, engine), DeleteOptions(where="id = 2", mode="eager"))
    world.clock.advance(10)
    run_rewrite(Work(table, RUN, engine), RewriteOptions(where="id <> 3", force=True))
    world.clock.advance(10)
    played.merge()
    put(played, [5])
    run_drop(Work(table, RUN), DropOptions(partitions=("day=2",)))
    world.clock.advance(10)
    run_restore(Work(table, RUN), RestoreOptions(to=1, partitions=("day=2",)))
    seen = told(table, since=0)
    assert seen == {
        ("insert", 1, 1, "append"): 1,
        ("insert", 2, 1, "append"): 2,
        ("insert", 3, 1, "append"): 1,
        ("insert", 4, 1, "append"): 1,
        ("delete", 2, 1, "delete"): 2,
        ("delete", 3, 2, "rewrite"): 1,
        ("insert", 5, 3, "append"): 1,
        ("delete", 4, 3, "drop"): 1,
        ("insert", 3, 4, "restore"): 1,
        ("insert", 4, 4, "restore"): 1,
    }
    counts = [(s.sequence, s.reason, dict(s.rows)) for s in firnline.changes(table, 1).summary()]
    assert counts == [
        (2, "rewrite", {"delete": 1}),
        (3, "append", {"insert": 1}),
        (3, "drop", {"delete": 1}),
        (4, "restore", {"insert": 2}),
    ]
    assert told(table, since=1, until=2) == {("delete", 3, 2, "rewrite"): 1}
    assert told(table, since=1, partitions="day=1") == {("insert", 5, 3, "append"): 1}
    assert told(table, since=0, where="id = 2") == {
        ("insert", 2, 1, "append"): 2,
        ("delete", 2, 1, "delete"): 2,
    }


@pytest.mark.long
def test_a_lazy_delete_is_told_once_and_its_merge_is_silent(tmp_path: Path) -> None:
    played = table_of(tmp_path)
    table = played.world.table
    put(played, [1, 2])
    put(played, [2, 3])
    since = firnline.changes(table, None).position
    run_delete(Work(table, RUN, played.engine), DeleteOptions(where="id = 2", mode="lazy"))
    played.world.clock.advance(10)
    found = firnline.changes(table, since)
    assert Counter((r["_operation"], r["id"], r["_reason"]) for r in found) == {
        ("delete", 2, "delete"): 2
    }
    played.merge()
    assert firnline.changes(table, found.position).nothing
    assert told(table, since=since) == {("delete", 2, 1, "delete"): 2}


@pytest.mark.long
def test_a_merge_by_a_query_tells_the_rows_that_it_changed(tmp_path: Path) -> None:
    sql = "select id, day, case when id = 2 then 20 else v end as v from source_files"
    played = table_of(tmp_path, merge={**MERGE, "sql": sql})
    put(played, [1])
    put(played, [2])
    played.merge()
    told_rows = [
        (row["_operation"], row["id"], row["v"], row["_reason"])
        for row in firnline.changes(played.world.table, 0)
        if row["_reason"] != "append"
    ]
    assert sorted(told_rows) == [("delete", 2, 2, "merge"), ("insert", 2, 20, "merge")]
    plain = replace(
        played.world.table,
        settings=make_world(partition_by=["day"], sort_by=["id"], merge=MERGE).settings,
    )
    assert told(plain, since=0) == told(played.world.table, since=0), "the log says so"


@pytest.mark.long
def test_with_a_key_the_feed_tells_what_a_reader_saw_and_sees(tmp_path: Path) -> None:
    played = table_of(tmp_path, primary_key=["id"], deleted="gone")
    table = played.world.table
    put(played, [1, 2, 3], gone=False)
    since = firnline.changes(table, None).position
    put(played, [1], gone=False)  # the same row again
    put(played, [3], gone=True)
    rows = [{"id": 2, "day": 1, "v": 20, "gone": False}, {"id": 4, "day": 1, "v": 4, "gone": False}]
    Appender(table).append(pa.Table.from_pylist(rows))
    played.world.clock.advance(10)
    expected = [
        ("delete", 3, 3),
        ("insert", 4, 4),
        ("update_after", 2, 20),
        ("update_before", 2, 2),
    ]
    found = firnline.changes(table, since)
    assert sorted((r["_operation"], r["id"], r["v"]) for r in found) == expected
    played.merge()
    assert list(firnline.changes(table, found.position)) == []
    late = firnline.changes(table, since, where="v = 20")
    assert [(r["_operation"], r["id"]) for r in late] == [("update_after", 2)]


def test_rows_are_told_in_the_columns_of_now(tmp_path: Path) -> None:
    played = table_of(tmp_path)
    table = played.world.table
    put(played, [1], note="a")
    put(played, [2], note="b")
    run_delete(Work(table, RUN, played.engine), DeleteOptions(where="id = 1", mode="eager"))
    played.world.clock.advance(10)
    options = LazyOptions(evolution=Evolution(rename={"note": "remark"}, drop=("v",)))
    run_lazily(Work(table, RUN), options)
    rows = list(firnline.changes(table, 0))
    assert {tuple(row)[:3] for row in rows} == {("id", "day", "remark")}
    assert Counter((r["_operation"], r["id"], r["remark"]) for r in rows) == {
        ("insert", 1, "a"): 1,
        ("insert", 2, "b"): 1,
        ("delete", 1, "a"): 1,
    }
    seq = firnline.changes(table, 0).seq
    run_schema_fix(
        Work(table, RUN, played.engine),
        SchemaFixOptions(evolution=Evolution(rename={"remark": "text"})),
    )
    with pytest.raises(StreamBehindError, match="has changed the table's columns at once"):
        firnline.changes(table, seq)
    assert told(table, since=seq + 1) == {}


@pytest.mark.long
def test_what_is_older_than_the_grace_is_an_error_and_not_a_gap(tmp_path: Path) -> None:
    played = table_of(tmp_path)
    world, table = played.world, played.world.table
    put(played, [1, 2])
    run_delete(Work(table, RUN, played.engine), DeleteOptions(where="id = 2", mode="eager"))
    world.clock.advance(10)
    since = firnline.changes(table, 0).position
    run_drop(Work(table, RUN), DropOptions(partitions=("day=1",)))
    held = firnline.changes(table, since)
    world.clock.advance(2 * GRACE)
    run_cleanup(Work(table, RUN), CleanupOptions())
    for late in (since, 0, 1):
        with pytest.raises(StreamBehindError) as caught:
            list(firnline.changes(table, late))
        assert "begin again without `since`" in str(caught.value.next_step)
    with pytest.raises(StreamBehindError, match=r"further back than cleanup\.grace"):
        list(held)
    again = firnline.changes(table, None)
    assert list(again) == []
    put(played, [7])
    assert told(table, since=again.position) == {("insert", 7, None, "append"): 1}


@pytest.mark.long
def test_a_time_ends_and_begins_between_appends(tmp_path: Path) -> None:
    played = table_of(tmp_path)
    table = played.world.table
    moments = []
    for number in (1, 2, 3):
        put(played, [number])
        ms = played.world.clock.now_ms()
        moments.append(datetime.datetime.fromtimestamp(ms / 1000, datetime.UTC))
        played.world.clock.advance(1_000)
    assert told(table, since=moments[0]) == {("insert", n, None, "append"): 1 for n in (2, 3)}
    all_of_it = firnline.changes(table, None).position
    nothing = firnline.changes(table, all_of_it, until=0)
    assert (nothing.nothing, nothing.position) == (True, all_of_it), "what was told stays told"
    middle = firnline.changes(table, moments[0], until=moments[1])
    assert [row["id"] for row in middle] == [2]
    played.merge()
    assert told(table, since=middle.position) == {("insert", 3, 1, "append"): 1}
    assert told(table, since=middle.position, until=middle.position) == {}
    with pytest.raises(UsageError, match="the end 'transaction 0' is before the beginning"):
        firnline.changes(table, 1, until=0)


@pytest.mark.long
def test_an_end_before_the_beginning_is_refused_also_between_two_transactions(
    tmp_path: Path,
) -> None:
    played = table_of(tmp_path)
    table, clock = played.world.table, played.world.clock
    before = clock.now_ms()
    put(played, [1])
    clock.advance(1_000)
    after = clock.now_ms()
    for since, until in ((after, before), (after, 0), ("now", before)):
        with pytest.raises(UsageError, match="is before the beginning") as caught:
            firnline.changes(table, since, until=until)
        assert "exchange `since` and `until`" in str(caught.value.next_step)
    assert told(table, since=before, until=after) == {("insert", 1, None, "append"): 1}
    assert told(table, since=after, until=after) == {}


def test_another_key_or_a_merge_of_version_1_ends_a_feed() -> None:
    world = make_world()
    client = V1Client(world)
    client.append("d=1")
    client.append("d=1")
    feed = ChangeFeed(world.table)
    start = feed.newest(None)
    client.merge("d=1")
    with pytest.raises(StreamBehindError, match="a client of version 1 has merged"):
        feed.newest(start)
    begun = feed.newest(None)
    assert read_by(feed, None, begun) == sorted(client.live()), "a new feed begins with it"
    new = client.append("d=1")
    do_merge(world, sorted(client.live()))
    assert read_by(feed, begun, feed.newest(begun)) == [new]
    keyed = make_world(primary_key=["v"])
    put_append(keyed)
    do_merge(keyed, put_append(keyed))
    base = take_base(keyed.table)
    assert base.properties is not None
    other = msgspec.structs.replace(base.properties, version="ts")
    change = Change("properties", (), (), Counts(), properties=other)
    commit(keyed.table, base, change, RUN)
    settings = make_world(primary_key=["v"], version="ts").settings
    with pytest.raises(StreamBehindError, match="has changed which rows are one row"):
        firnline.changes(replace(keyed.table, settings=settings), 1)


def test_batches_have_whole_steps_and_at_least_one(tmp_path: Path) -> None:
    played = table_of(tmp_path)
    table = played.world.table
    for n in range(4):
        put(played, [n])
        if n % 2:
            run_delete(
                Work(table, RUN, played.engine), DeleteOptions(where=f"id = {n}", mode="eager")
            )
            played.world.clock.advance(10)
    feed = ChangeFeed(table)
    at, ends = Offset(seq=0), list[int]()
    while (end := feed.newest(at, Bounds(parts=1))) != at:
        assert feed.changes(at, end, lambda _: ReadOptions())
        ends.append(end.seq)
        at = end
    assert ends == [1, 2]


def test_a_feed_that_is_read_for_long_keeps_nothing_of_what_is_behind_it(tmp_path: Path) -> None:
    played = table_of(tmp_path)
    feed, at, kept = ChangeFeed(played.world.table), Offset(seq=0), list[int]()
    for round_ in range(4):
        put(played, [2 * round_])
        put(played, [2 * round_ + 1])
        do_merge(played.world, list(take_base(played.world.table).snapshot.live))
        end = feed.newest(at, Bounds(parts=100))
        assert feed.changes(at, end, lambda _: ReadOptions())
        at = end
        kept.append(
            len(feed._contents) + len(feed._folds) + len(feed._effects) + len(feed._digests)
        )
    assert len(set(kept[1:])) == 1


def test_what_is_no_position_is_refused_and_a_position_survives_its_text(tmp_path: Path) -> None:
    played = table_of(tmp_path)
    put(played, [1])
    table = played.world.table
    for wrong in ("p1.", "p1.AAAA", "p1.%%", to_text(Offset(seq=9))[:-9]):
        with pytest.raises(UsageError, match="is not a position"):
            firnline.changes(table, wrong)
    for given in ({"since": to_text(Offset(seq=9))}, {"since": 0, "until": to_text(Offset(seq=9))}):
        with pytest.raises(StreamBehindError, match="names transaction 9"):
            firnline.changes(table, **given)
    offset = Offset(seq=3, seen=frozenset({"a", "b"}), foreign=frozenset({"c"}))
    assert from_text(to_text(offset)) == offset


def test_a_column_that_the_feed_calls_its_own_is_refused(tmp_path: Path) -> None:
    played = table_of(tmp_path)
    put(played, [1], _reason="x")
    with pytest.raises(UsageError, match="has a column _reason"):
        firnline.changes(played.world.table, None)


@pytest.mark.long
def test_a_merge_that_an_append_slipped_into_tells_who_wins_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An append that is dated between merged ones, and lands after the last look before commit."""
    monkeypatch.setattr(transaction, "_refuse_late_append", lambda *_: None)
    played = table_of(tmp_path, primary_key=["id"], merge={**MERGE, "min_inputs": 9})
    world, table = played.world, played.world.table
    put(played, [1], note="first")
    late_t = world.clock.now_ms() + 5
    put(played, [1], note="last")
    base = take_base(table)
    rows = pa.Table.from_pylist([{"id": 1, "day": 1, "v": 1, "note": "late"}])
    now, world.clock.now = world.clock.now, late_t
    Appender(table).append(rows)
    world.clock.now = now + 100
    feed_before = firnline.changes(table, None)
    assert [row["note"] for row in feed_before] == ["last"]
    live = [m for p, m in base.snapshot.live.items()]
    newest = max(live, key=lambda m: m.order())
    order = (min(m.order() for m in live)[0], newest.order()[1])
    copy = table.paths.data_part("day=1", world.ids.uuid7(world.clock.now))
    world.store.put_new(copy, world.store.get(newest.p))
    marker = msgspec.structs.replace(newest, p=copy, q=base.seq, o=order, t=0)
    counts = Counts(parts_in=2, parts_out=1, rows_in=2, rows_out=1, rows_deduplicated=1)
    change = Change("merge", tuple(m.p for m in live), (marker,), counts, query=False)
    commit(table, base, change, RUN)
    assert [row["note"] for row in firnline.scan(table)] == ["late"]
    found = firnline.changes(table, feed_before.position)
    assert sorted((r["_operation"], r["note"], r["_reason"]) for r in found) == [
        ("update_after", "late", "merge"),
        ("update_before", "last", "merge"),
    ]


def read_by(feed: ChangeFeed, start: Offset | None, end: Offset) -> list[str]:
    """The parts that the changes are read from, without those of merges, which are compared."""
    tasks = [t for t in feed.changes(start, end, lambda _: ReadOptions()) if t.reason != "merge"]
    return sorted(part.key for task in tasks for read in task.reads for part in read.parts)


def position_of(table: Table) -> str:
    return firnline.changes(table, None).position


def lived_on(folder: Path, transactions: int = 2) -> Played:
    """Appends and as many transactions."""
    played = table_of(folder)
    for number in range(transactions):
        put(played, [10 * number, 10 * number + 1])
        put(played, [10 * number + 2])
        played.world.clock.advance(10)
        played.merge()
    return played


@pytest.mark.parametrize("transactions", [0, 1, 2])
def test_a_position_of_another_table_is_refused_in_one_sentence(
    tmp_path: Path, transactions: int
) -> None:
    one, other = lived_on(tmp_path / "one", 1), lived_on(tmp_path / "other", 2)
    if not transactions:
        one = table_of(tmp_path / "one")
    one.world.clock.advance(5)  # the names of its appends are others
    put(one, [77])
    given = position_of(one.world.table)
    for since in range(transactions):
        put(other, [100 + since])
        other.merge()
    with pytest.raises(UsageError, match="the position is not one of table t: ") as refused:
        firnline.changes(other.world.table, given)
    assert refused.value.next_step
    with pytest.raises(UsageError, match="the position is not one of table t: "):
        firnline.changes(other.world.table, 0, until=given)


@pytest.mark.long
@pytest.mark.parametrize("rename", [True, False])
def test_a_position_goes_on_where_the_table_was_moved_or_copied_to(
    tmp_path: Path, rename: bool
) -> None:
    played = lived_on(tmp_path)
    given = position_of(played.world.table)
    world = copied(played.world, rename=rename)
    run_relocate(Work(world.table), RelocateOptions())
    there = Played(world, tmp_path)
    put(there, [50, 51])
    there.merge()
    put(there, [52])
    found = firnline.changes(world.table, given)
    assert Counter(row["id"] for row in found) == {50: 1, 51: 1, 52: 1}


@pytest.mark.long
def test_a_position_without_a_digest_is_taken_as_before(tmp_path: Path) -> None:
    """As older versions gave it."""
    played = lived_on(tmp_path)
    offset = from_text(position_of(played.world.table))
    assert offset.digest
    put(played, [60, 61])
    played.merge()
    found = firnline.changes(played.world.table, to_text(replace(offset, digest="")))
    assert Counter(row["id"] for row in found) == {60: 1, 61: 1}


def test_a_position_costs_a_request_only_where_the_log_does_not_name_its_transaction(
    tmp_path: Path,
) -> None:
    played = lived_on(tmp_path)
    offset = from_text(position_of(played.world.table))
    assert calls_since(played, offset) == calls_since(played, replace(offset, digest=""))
    put(played, [60, 61])
    put(played, [62])
    played.merge()
    asked = calls_since(played, offset) - calls_since(played, replace(offset, digest=""))
    assert asked == {"get heads": 1, "get many": 1}  # one header, and none that is longer


def calls_since(played: Played, offset: Offset) -> Counter[str]:
    store = FaultyStore(played.world.store)
    firnline.changes(replace(played.world.table, store=store), to_text(offset))
    return Counter(store.calls)


@pytest.mark.long
def test_every_position_on_the_way_names_its_table(tmp_path: Path) -> None:
    played = lived_on(tmp_path, 4)
    feed, at = ChangeFeed(played.world.table), Offset(seq=0)
    while (reached := feed.newest(at, Bounds(parts=1))) != at:
        at = reached
        assert at.digest == digest_at(played, at.seq)
    assert at.seq == 4
    assert from_text(firnline.changes(played.world.table, 0, until=2).position).digest


def digest_at(played: Played, seq: int) -> str:
    table = played.world.table
    ((_, digest),) = heads(table, [table.paths.txn(seq)])
    return digest


@pytest.mark.long
def test_a_position_right_after_a_transaction_is_known_by_that_transaction(tmp_path: Path) -> None:
    """No append waits, whose name would show it."""
    one, other = table_of(tmp_path / "one"), lived_on(tmp_path / "other", 2)
    one.world.clock.advance(5)
    put(one, [1])
    put(one, [2])
    one.merge()
    given = position_of(one.world.table)
    assert not from_text(given).seen
    with pytest.raises(UsageError, match="table t: transaction 1 is another one there"):
        firnline.changes(other.world.table, given)
