"""What folding may forget, and when."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace as replaced

from firnline.commit.base import Base, take_base
from firnline.commit.fold import choose, delete_is_over, fold, visible_since
from firnline.commit.transaction import Change, commit
from firnline.errors import SnapshotExpiredError
from firnline.ids import format_uuid7
from firnline.log import codec, dated
from firnline.log.fence import Fence, fence_record
from firnline.log.reader import LogObject, LogRead
from firnline.log.records import Delete, LogContent, LogTombstone, Marker, TxnMark
from firnline.log.schema_changes import Evolved
from firnline.log.schema_changes import record as schema_record
from firnline.log.txn_file import Counts
from firnline.operations.delete.run import run_delete
from firnline.operations.operation import Work
from firnline.operations.options import DeleteOptions
from firnline.paths import TablePaths
from firnline.properties.in_force import waits
from firnline.state.snapshot import Snapshot, build, read_snapshot
from tests.support.beside import Beside
from tests.support.evolving import CHANGED, lazily, rows_are, rows_of, world_of
from tests.support.histories import (
    RUN,
    append,
    append_to,
    clean_up,
    delete_lazily,
    filled,
    merge,
    table_world,
)
from tests.support.log_tables import do_merge, put_append, snapshot
from tests.support.paged import Paged
from tests.support.reading import visible_ids, visible_rows
from tests.support.v1_client import V1Client
from tests.support.world import SetClock, World, make_world

DAY = 86_400_000


def never() -> Any:
    raise AssertionError("an engine was started for nothing")


@pytest.mark.long
def test_a_delete_hides_its_rows_from_readers_of_the_past_until_their_parts_are_cleaned_up(
    tmp_path: Path,
) -> None:
    world = filled(2, merge={"min_inputs": 2})
    delete_lazily(world, below=4)
    long = world.settings.append.ttl + world.settings.cleanup.grace + 60_000
    world.clock.advance(1)
    hidden_at = world.clock.now
    for first in (12, 18, 24):  # the first merge applies the delete, the others might forget it
        world.clock.advance(long)
        append(world, first)
        merge(world, tmp_path)
    past = read_snapshot(world.store, world.table.paths).at(hidden_at)
    assert Counter(row["id"] for row in visible_rows(world.table, past)) == Counter(range(4, 12))
    clean_up(world)
    world.clock.advance(long)
    append(world, 30)
    merge(world, tmp_path)
    now = read_snapshot(world.store, world.table.paths)
    assert now.deletes == {}
    assert min(visible_ids(world.table)) == 4
    with pytest.raises(SnapshotExpiredError):
        now.at(hidden_at)


def log_files(world: World) -> set[str]:
    """Keys of the appends' log files."""
    return {key for key, item in snapshot(world).listing.items() if item.name.kind == "append"}


def torn_base(world: World, lasts_ms: int = 0) -> tuple[Base, str]:
    """Return a base whose listing lacks an append that transaction 1 has folded, and its log file.

    The append lands on a page that was read already, the transaction on the next page.
    """
    keys = put_append(world)
    early = world.clock.now - 60_000
    before = log_files(world)

    def meanwhile() -> None:
        do_merge(world, keys + put_append(world, t=early))
        put_append(world, *["d=1"] * 10)  # enough for the next transaction to fold the first
        world.clock.advance(lasts_ms)

    torn = take_base(replace(world.table, store=Paged(world.store, meanwhile)))
    assert torn.seq == 1
    (late,) = log_files(world) - before - torn.snapshot.listing.keys()
    return torn, late


def test_an_append_that_a_torn_listing_does_not_show_stays_folded() -> None:
    world = make_world()
    torn, late = torn_base(world)
    do_merge(world, list(torn.snapshot.live), torn)
    now = read_snapshot(world.store, world.table.paths)
    assert [content.x.seq for content in now.contents.values() if content.x] == [2]
    assert late in now.log_tombstones
    assert late not in now.contents, "it is read again, as if nobody had folded it"


def test_a_log_file_that_is_gone_is_forgotten_once_the_fence_has_passed_its_fold() -> None:
    world = make_world()
    (key,) = put_append(world)
    (gone,) = log_files(world)
    do_merge(world, [key])
    del world.store.objects[gone]
    ended = waits((), world.settings, 0).ended
    for ms, kept in ((ended - 1000, True), (2000, False)):
        world.clock.advance(ms)
        do_merge(world, list(snapshot(world).live) + put_append(world, *["d=1"] * 10))
        now = read_snapshot(world.store, world.table.paths)
        assert len(now.contents) == 1, "the newest transaction has folded all others"
        assert (gone in now.log_tombstones) is kept


def test_one_that_was_folded_by_a_clock_that_is_behind_is_remembered_as_long() -> None:
    """A listing of several pages may have begun before, and show it alone."""
    world = make_world()
    (key,) = put_append(world)
    (gone,) = log_files(world)
    folded = do_merge(world, [key]).header.log
    world.clock.advance(3 * world.settings.cleanup.grace)
    world.store.objects[folded] = (world.store.objects[folded][0], world.clock.now)
    del world.store.objects[gone]
    do_merge(world, list(snapshot(world).live) + put_append(world, *["d=1"] * 10))
    now = read_snapshot(world.store, world.table.paths)
    assert len(now.contents) == 1
    assert gone in now.log_tombstones


def test_a_base_that_is_hours_old_keeps_what_may_have_been_folded_since() -> None:
    world = make_world(commit_ttl="6h", cleanup={"grace": "1h"})
    torn, late = torn_base(world, lasts_ms=world.settings.cleanup.grace + 1)
    do_merge(world, list(torn.snapshot.live), torn)
    assert late in read_snapshot(world.store, world.table.paths).log_tombstones


def test_a_delete_dated_by_a_clock_that_is_behind_stays_for_the_appends_that_are_under_way(
    tmp_path: Path,
) -> None:
    """By its own time it is old, and no part needs it: what counts is since when it is visible."""
    world = table_world(merge={"min_inputs": 2})
    append(world, 100)
    append(world, 106)
    world.clock.advance(30 * DAY)
    behind = replace(world, table=replace(world.table, clock=SetClock(world.clock.now - 29 * DAY)))

    def meanwhile() -> None:
        delete_lazily(behind, below=4)
        world.clock.advance(60_000)
        merge(world, tmp_path)

    store = Beside(world.store, what="put t/_log", act=meanwhile)
    append_to(world.table, store, 0)
    assert store.met
    assert visible_ids(world.table) == Counter((4, 5, *range(100, 112)))


def test_which_transaction_a_foreign_part_came_after_is_known_when_that_one_is_forgotten() -> None:
    """Its marker says nothing, and a transaction of long ago has no log file any more."""
    world = make_world()
    do_merge(world, put_append(world) + put_append(world))
    world.clock.advance(10)
    foreign = V1Client(world).append("d=2")
    assert snapshot(world).sequence_of(snapshot(world).parts[foreign]) == 1
    for _ in range(2):
        world.clock.advance(1)
        do_merge(world, put_append(world) + put_append(world))
        clean_up(world)
    state = snapshot(world)
    assert 1 not in [item.name.seq for item in state.listing.values()]
    assert foreign in state.live
    assert state.sequence_of(state.parts[foreign]) == 1


def test_log_files_without_a_part_stand_beside_those_that_are_emptied() -> None:
    world = make_world()
    keys = put_append(world)
    (appended,) = log_files(world)
    do_merge(world, keys)
    del world.store.objects[appended]  # clean-up has passed, but for the part
    t = world.clock.now + 1
    key = world.table.paths.append_log(t, f"w-{world.ids.uuid7(t)}")
    world.store.put_new(key, codec.encode(LogContent(t=t, schema={"v": "INTEGER"})))
    assert choose(snapshot(world), 10, purged=t)


# --- which records may be forgotten ---------------------------------------------------------------

PATHS = TablePaths("t")
APPENDED = PATHS.append_log(10, "w-1")
ROWS = Delete("rows", 1, 20, msgspec.Raw(b'{"op":"<","column":"w","value":4}'), ("d=1",))
RENAMED = replaced(schema_record("renamed", Evolved(rename={"v": "w"})), seq=1, t=20)
WIDENED = replaced(schema_record("widened", Evolved(widen={"w": "BIGINT"})), seq=2, t=30)
LATE = 1_000
PASSED = Fence(99, 10**13)


def part(name: str, q: int, tmb: int | None = None, partition: str = "d=1") -> Marker:
    return Marker(PATHS.data_part(partition, name), 1, 10, tmb=tmb, q=q)


def built(
    *deletes: Delete, parts: list[Marker], folded: bool = True, wide: bool = True
) -> Snapshot:
    """An append, and a transaction after it with records; ``folded``: the append by that one."""
    seq = max(delete.seq for delete in deletes)
    t = 10 + 10 * seq
    key = PATHS.txn_log(t, seq, format_uuid7(t, seq))
    contents = {
        APPENDED: LogContent(t=10, schema={"v": "INTEGER"}, markers=[part("first", 0, 20)]),
        key: LogContent(
            t=t,
            schema={"w": "BIGINT" if wide else "INTEGER"},
            markers=parts,
            deletes=list(deletes),
            tombstones=[LogTombstone(APPENDED, t)] if folded else [],
            x=TxnMark(seq, key, "evolve", 0),
        ),
    }
    listing = {k: LogObject(PATHS.parse_log(k), 1, c.t) for k, c in contents.items()}
    return build(PATHS, LogRead(listing, contents))


@pytest.mark.parametrize(
    ("parts", "purged", "over"),
    [
        ([], 20, True),
        ([], 19, False),  # the first part died at 20
        ([part("a", 0)], 20, False),
        ([part("a", 1)], 20, True),
        ([part("a", 0, tmb=25)], 24, False),
        ([part("a", 0, tmb=25)], 25, True),
        ([part("a", 1, tmb=25)], 20, True),
    ],
)
def test_a_change_of_the_columns_is_needed_by_every_part_that_can_be_read_and_does_not_show_it(
    parts: list[Marker], purged: int, over: bool
) -> None:
    """Those of the past too: they are read in the columns of today."""
    found = delete_is_over(built(RENAMED, parts=parts), RENAMED, LATE, purged, fence=PASSED)
    assert found is over


@pytest.mark.parametrize(("stay", "over"), [(None, False), ((APPENDED,), False), ((), True)])
def test_a_change_of_the_columns_is_needed_by_lines_that_would_say_something_else(
    stay: tuple[str, ...] | None, over: bool
) -> None:
    state = built(RENAMED, parts=[], folded=False, wide=False)
    left = None if stay is None else frozenset(stay)
    assert delete_is_over(state, RENAMED, LATE, 20, left, PASSED) is over


def test_one_change_of_the_columns_is_over_while_another_is_needed() -> None:
    state = built(RENAMED, WIDENED, parts=[part("a", 1)])
    assert delete_is_over(state, RENAMED, LATE, 20, fence=PASSED)
    assert not delete_is_over(state, WIDENED, LATE, 20, fence=PASSED)
    narrow = built(RENAMED, WIDENED, parts=[], folded=False, wide=False)
    assert not delete_is_over(narrow, RENAMED, LATE, 20, frozenset({APPENDED}), PASSED)
    assert delete_is_over(narrow, RENAMED, LATE, 20, frozenset(narrow.listing) - {APPENDED}, PASSED)


@pytest.mark.parametrize("changes", [(), (RENAMED,)])
@pytest.mark.parametrize(
    ("parts", "purged", "over"),
    [
        ([], 0, True),  # the first part was dead before anybody could ask for it without its rows
        ([part("a", 0)], 0, False),
        ([part("a", 0, partition="d=2")], 0, True),
        ([part("a", 1)], 0, True),
        ([part("a", 0, tmb=20)], 0, True),
        ([part("a", 0, tmb=21)], 0, False),
        ([part("a", 0, tmb=25)], 24, False),
        ([part("a", 0, tmb=25)], 25, True),
    ],
)
def test_a_delete_is_needed_by_every_part_that_it_hides_rows_of_and_that_can_be_read(
    parts: list[Marker], purged: int, over: bool, changes: tuple[Delete, ...]
) -> None:
    """Whatever became of the columns meanwhile."""
    state = built(ROWS, *changes, parts=parts)
    assert delete_is_over(state, ROWS, LATE, purged, fence=PASSED) is over
    assert not delete_is_over(state, ROWS, 19, purged, fence=PASSED), "an append may still land"
    assert not delete_is_over(state, ROWS, LATE, purged), "one that slept may land still"


def test_a_delete_is_as_old_as_the_log_files_that_carry_it_whatever_its_own_time_says() -> None:
    behind = msgspec.structs.replace(ROWS, t=1)
    state = built(behind, parts=[])
    assert delete_is_over(state, behind, LATE, 20, fence=PASSED)
    assert not delete_is_over(state, behind, 19, 20, fence=PASSED)


@pytest.mark.long
def test_a_fold_carries_deletes_and_changes_of_the_columns_as_long_as_a_part_needs_them() -> None:
    """Years later: else deleted rows would be back, and the new column empty."""
    world = world_of(2)
    run_delete(Work(world.table, RUN, never), DeleteOptions(where="id = 0", mode="lazy"))
    lazily(world, **CHANGED)
    for _ in range(3):
        world.clock.advance(100 * DAY)
        base = take_base(world.table)
        folded = commit(world.table, base, Change("merge", (), (), Counts()), RUN)
        assert folded.header.counts.logs_folded
        clean_up(world)
        rows_are(world, rows_of(2)[1:])


# --- which markers may be forgotten ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("appended", "carried"), [("read", True), ("not read", True), ("deleted", False)]
)
def test_a_deleted_part_stays_dead_as_long_as_a_log_file_may_say_that_it_is_alive(
    appended: str, carried: bool
) -> None:
    """A client of version 1 reads every log file, also those that a transaction has folded."""
    dead = part("first", 0, tmb=20)
    whole = built(ROWS, parts=[dead, part("a", 1)])
    key = max(whole.listing)
    alive = LogContent(t=10, schema={"v": "INTEGER"}, markers=[part("first", 0)])
    read = {key: whole.contents[key]} | ({APPENDED: alive} if appended == "read" else {})
    listing = {k: v for k, v in whole.listing.items() if k == key or appended != "deleted"}
    state = build(PATHS, LogRead(listing, read))
    cutoffs: dict[str, Any] = {"delete_cutoff": 0, "fence": PASSED}
    folded = fold(state, (key,), 50, own=frozenset(), purged=20, **cutoffs)
    assert (dead in folded.markers) is carried
    assert fold(state, (key,), 50, own=frozenset(), purged=19, **cutoffs).markers[0] == dead


def unfolded(**sizes: int) -> Snapshot:
    """Log files by size: an append, and transactions m1, m2, ... of one live part each."""
    contents: dict[str, LogContent] = {}
    listing: dict[str, LogObject] = {}
    for name, size in sizes.items():
        seq = 0 if name == "append" else int(name[1:])
        t = 10 + 10 * seq
        key = PATHS.txn_log(t, seq, format_uuid7(t, seq)) if seq else APPENDED
        mark = TxnMark(seq, key, "merge", 0, tuple(range(1, seq))) if seq else None
        line = {"v": "INTEGER"}
        contents[key] = LogContent(t=t, schema=line, markers=[part(name, 0)], x=mark)
        listing[key] = LogObject(PATHS.parse_log(key), size, t)
    return build(PATHS, LogRead(listing, contents))


@pytest.mark.parametrize(
    ("sizes", "own", "folded"),
    [
        ({"append": 9_000}, 1, 1),  # however large it is
        ({"m1": 9_000}, 1, 0),
        ({"m1": 9_000}, 0, 1),  # a log file of nothing but its head does not read
        ({"append": 10, "m1": 9_000}, 0, 1),
        ({"append": 10, "m1": 20}, 0, 2),
        ({"append": 10, "m1": 21}, 0, 1),
        ({"append": 10, "m1": 60, "m2": 20}, 0, 3),  # the smaller one first
    ],
)
def test_appends_are_folded_and_log_files_of_transactions_that_are_not_much_larger(
    sizes: dict[str, int], own: int, folded: int
) -> None:
    state = unfolded(**sizes)
    assert choose(state, own) == tuple(sorted(state.listing))[:folded]


def test_a_transaction_says_which_log_files_of_others_it_leaves() -> None:
    """By that a reader knows that one of them is lost."""
    state = unfolded(append=10, m1=10, m2=10, m3=10)
    keys = sorted(state.listing)
    cutoffs: dict[str, Any] = {"delete_cutoff": 0, "fence": PASSED}
    for folded, left in ((keys[2:3], (1, 3)), (keys, ()), (keys[:1], (1, 2, 3))):
        found = fold(state, tuple(folded), 60, own=frozenset(), purged=0, **cutoffs)
        assert found.standing == left


@pytest.mark.parametrize(
    ("purged", "died", "folded"),
    [
        (29, (30, 30), False),
        (30, (30, 31), True),
        (30, (30, 31, 31), False),
        (30, (31, 31), False),
        (30, (30, None), True),
    ],
)
def test_a_large_log_file_is_folded_once_half_of_its_parts_may_be_left_out(
    purged: int, died: tuple[int | None, ...], folded: bool
) -> None:
    key = PATHS.txn_log(40, 3, format_uuid7(40, 3))
    markers = [part(str(number), 0, tmb) for number, tmb in enumerate(died)]
    content = LogContent(
        t=40, schema={"v": "INTEGER"}, markers=markers, x=TxnMark(3, key, "merge", 0)
    )
    log = LogRead({key: LogObject(PATHS.parse_log(key), 10_000, 40)}, {key: content})
    assert choose(build(PATHS, log), 10, purged) == ((key,) if folded else ())


@pytest.mark.parametrize(("markers", "folded"), [(1, True), (3, True), (4, False), (99, False)])
def test_tombstones_that_may_be_left_out_count_among_all_lines(markers: int, folded: bool) -> None:
    """For a tombstone or two nobody writes all markers of a large log file again."""
    key = PATHS.txn_log(40, 3, format_uuid7(40, 3))
    gone = [LogTombstone(PATHS.append_log(9, f"w-{format_uuid7(9, n)}"), 20) for n in range(3)]
    content = LogContent(
        t=40,
        schema={"v": "INTEGER"},
        markers=[part(str(number), 0) for number in range(markers)],
        tombstones=gone,
        other=[fence_record(Fence(2, 30))],
        x=TxnMark(3, key, "merge", 0),
    )
    log = LogRead({key: LogObject(PATHS.parse_log(key), 10_000, 40)}, {key: content})
    assert choose(build(PATHS, log), 10) == ((key,) if folded else ())


def test_of_dates_a_fold_keeps_those_that_something_has_and_of_two_the_earlier() -> None:
    """As long as the log is small it is read at once."""
    kept = [b'{"later":{"a":1}}', dated.record(10, 9), dated.record(40, 7)]
    over = [dated.record(15, 9), dated.record(40, 8)]
    live = part("a", 0)
    assert live.t == 10
    content = LogContent(t=50, schema={}, markers=[live], other=[*kept, *over])
    log = LogRead({APPENDED: LogObject(PATHS.parse_log(APPENDED), 1, 50)}, {APPENDED: content})
    cutoffs: dict[str, Any] = {"delete_cutoff": 0, "fence": PASSED}
    found = fold(build(PATHS, log), (APPENDED,), 60, own=frozenset(), purged=30, **cutoffs)
    assert sorted(found.other) == sorted(kept)


def test_a_delete_is_visible_since_the_first_log_file_that_carries_it() -> None:
    """Not since one with another: appends of before it may still be under way."""
    state = built(ROWS, parts=[part("a", 0)])
    for seq, record in ((2, WIDENED), (3, ROWS)):
        t = 10 + 10 * seq
        key = PATHS.txn_log(t, seq, format_uuid7(t, seq))
        content = LogContent(t=t, schema={}, deletes=[record], x=TxnMark(seq, key, "evolve", 0))
        state = state.with_log(LogObject(PATHS.parse_log(key), 1, t), content)
    assert visible_since(state, ROWS.id) == 20
    assert visible_since(state, WIDENED.id) == 30
