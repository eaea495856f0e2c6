"""A streaming read delivers every append once, whatever is merged and deleted beside it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from firnline.commit.base import take_base
from firnline.commit.transaction import Change, commit
from firnline.errors import LogLostError, StreamBehindError, UsageError
from firnline.log.dated import FAR_MS
from firnline.log.records import Delete
from firnline.log.txn_file import Counts, RunIdentity
from firnline.operations.cleanup.run import CleanupFailedError
from firnline.operations.operation import Work
from firnline.operations.options import RebuildOptions
from firnline.operations.rebuild.run import run_rebuild
from firnline.read.offsets import MOST_SEEN, Bounds, Offset, View, advance
from firnline.read.plan import ReadOptions
from firnline.read.stream import AppendStream
from firnline.settings.ages import LEAST_ORPHAN_MS
from firnline.state.moment import At
from firnline.state.snapshot import read_snapshot
from firnline.store.base import ObjectMeta
from tests.support.beside import Beside
from tests.support.cleanups import Refusing, clean_up
from tests.support.effort import examples
from tests.support.log_tables import do_merge, put_append
from tests.support.v1_client import V1Client
from tests.support.world import FaultyStore, MemoryStore, World, make_world

HOUR = 3_600_000
ALL = Bounds()


@dataclass
class Reader:
    """What Spark does with a stream, and which parts its batches were read from."""

    world: World
    at: At | None = None
    stream: AppendStream = field(init=False)
    offset: Offset = field(init=False)
    read: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.restart()
        self.offset = self.stored(self.stream.start(self.at))

    def restart(self) -> None:
        """A driver that has nothing but its checkpoint."""
        self.stream = AppendStream(self.world.table)

    @staticmethod
    def stored(offset: Offset) -> Offset:
        return Offset.from_json(json.loads(json.dumps(offset.to_json())))

    def batch(self, end: Offset) -> list[str]:
        plan = self.stream.batch(self.offset, end, lambda _: ReadOptions())
        return [part.key for part in plan.task.parts]

    def poll(self, bounds: Bounds = ALL, *, dies: bool = False) -> list[str]:
        """One batch; ``dies``: after its end was written down, and is done by the next driver."""
        end = self.stored(self.stream.latest(self.offset, bounds))
        found = self.batch(end)
        assert set(found) <= self.world.store.objects.keys(), "what is gone cannot be read"
        if dies:
            self.restart()
            assert self.batch(end) == found
        self.read += found
        self.offset = end
        return found

    def drain(self) -> list[str]:
        """All that is there."""
        begin = len(self.read)
        while True:
            before = self.offset
            self.poll()
            if self.offset == before:
                return self.read[begin:]


def drop(world: World, keys: list[str]) -> None:
    base = take_base(world.table)
    rows = sum(base.snapshot.live[key].n or 0 for key in keys)
    counts = Counts(parts_in=len(keys), rows_in=rows, rows_deleted=rows)
    commit(world.table, base, Change("drop", tuple(keys), (), counts), RunIdentity(run_id="r"))


def live(world: World) -> list[str]:
    return sorted(read_snapshot(world.store, world.table.paths).live)


@dataclass
class History:
    """A table to which everything happens, and which appended part each row came with."""

    world: World
    reader: Reader
    leaves: dict[str, frozenset[str]]
    """Part -> the parts of appends that its rows came with."""
    logs: dict[str, str] = field(default_factory=dict)
    """Part of an append -> its log file."""

    def append(self, shift: int, parts: int) -> None:
        t, before = self.world.clock.now + shift, {*self.world.store.objects}
        for key in put_append(self.world, *(f"d={n}" for n in range(parts)), t=t):
            self.leaves[key] = frozenset([key])
            new = self.world.store.objects.keys() - before
            (self.logs[key],) = (name for name in new if "/_log/" in name)

    def merge(self, some: int) -> None:
        first = live(self.world)[:1]
        folder = first[0].rpartition("/")[0] if first else ""
        keys = [key for key in live(self.world) if key.startswith(folder)][:some]
        if len(keys) > 1:
            do_merge(self.world, keys)
            (new,) = set(live(self.world)) - self.leaves.keys()
            self.leaves[new] = frozenset().union(*(self.leaves[key] for key in keys))

    def drop(self) -> None:
        drop(self.world, live(self.world)[:1])


CHANGES = st.one_of(
    st.tuples(st.just("append"), st.integers(-2 * HOUR, HOUR), st.integers(1, 3)),
    st.tuples(st.just("merge"), st.integers(2, 9)),
    st.tuples(st.just("drop")),
    st.tuples(st.just("wait"), st.integers(1, 40)),
    st.tuples(st.just("clean")),
)
STEPS = st.one_of(
    CHANGES,
    st.tuples(st.just("poll"), st.integers(1, 6), st.booleans()),
    st.tuples(st.just("restart")),
)


@pytest.mark.long
@examples(40, 2_000)
@given(before=st.lists(CHANGES, max_size=12), after=st.lists(STEPS, min_size=8, max_size=30))
@example(  # transactions that are dated far ahead after one that is so by less
    before=[("append", 1, 1), ("drop",), ("append", FAR_MS - 1, 1)],
    after=[*[("drop",)] * 3, *[("append", 0, 1)] * 3, *[("drop",)] * 2],
)
@example(  # an append that is ahead by as much as is trusted, and a transaction right after it
    before=[("append", FAR_MS + 1, 1), ("drop",)],
    after=[*[("append", 0, 1)] * 3, *[("drop",)] * 5],
)
@example(  # such a transaction, beside an append that was dated far ahead when it landed
    before=[("append", 56 * 60_000 + 3, 1), ("wait", 51), ("append", 2, 1), ("drop",)],
    after=[("append", 0, 1), *[("drop",)] * 7],
)
@example(  # a transaction after a date far ahead, and after one that is trusted
    before=[("append", 60_002, 1), ("append", FAR_MS + 60_001, 1), ("drop",)],
    after=[*[("drop",)] * 2, ("restart",), ("drop",), *[("append", 0, 1)] * 3, ("restart",)],
)
def test_every_append_is_delivered_once_or_the_stream_says_that_it_is_behind(
    before: list[tuple[object, ...]], after: list[tuple[object, ...]]
) -> None:
    world = make_world(cleanup={"grace": "1h"}, locking="pool-only")
    put_append(world, "d=0", "d=1")
    history = History(world, Reader(world, "now"), {k: frozenset([k]) for k in live(world)})
    play(history, before)
    wanted = Counter(leaf for key in live(world) for leaf in history.leaves[key])
    history.reader = reader = Reader(world)
    known = set(history.leaves)
    try:
        play(history, after)
        reader.drain()
    except StreamBehindError:
        read = {leaf for key in reader.read for leaf in history.leaves[key]}
        objects, first = world.store.objects.keys(), reader.offset.initial
        if first is not None and first.t <= read_snapshot(world.store, world.table.paths).purged:
            return  # no state at or before the purge horizon is read, nor that of its transaction
        assert any(history.leaves[key] - read for key in history.leaves.keys() - objects) or any(
            log not in objects for leaf, log in history.logs.items() if leaf not in read
        )
        return
    wanted += Counter(key for key in history.leaves.keys() - known if is_append(history, key))
    assert Counter(leaf for key in reader.read for leaf in history.leaves[key]) == wanted
    assert reader.offset.seen == {
        name for name in reader.offset.seen if name in "".join(world.store.objects)
    }


def is_append(history: History, key: str) -> bool:
    return history.leaves[key] == {key}


def play(history: History, steps: list[tuple[object, ...]]) -> None:
    for name, *args in steps:
        match name, args:
            case "append", [int(shift), int(parts)]:
                history.append(shift, parts)
            case "merge", [int(some)]:
                history.merge(some)
            case "drop", _:
                history.drop() if live(history.world) else None
            case "wait", [int(minutes)]:
                history.world.clock.advance(minutes * 60_000)
            case "clean", _:
                clean_up(history.world)
            case "poll", [int(parts), bool(dies)]:
                history.reader.poll(Bounds(parts=parts), dies=dies)
            case _:
                history.reader.restart()


def test_an_append_that_was_merged_is_read_from_its_own_part() -> None:
    world = make_world()
    put_append(world)
    reader = Reader(world, "now")
    keys = [key for _ in range(2) for key in put_append(world)]
    late = put_append(world, t=world.clock.now - HOUR)
    do_merge(world, keys)
    drop(world, late)
    assert sorted(reader.drain()) == sorted([*keys, *late])
    assert (reader.offset.seq, reader.offset.seen) == (2, frozenset())


def test_bounded_batches_neither_lose_nor_repeat_what_was_merged_between_them() -> None:
    world = make_world()
    held = [put_append(world, f"d={n}") for n in range(3)]
    drop(world, held[0])
    whole = Reader(world)
    assert [whole.poll(Bounds(parts=1)) for _ in range(3)] == [held[1], held[2], []]
    for bound in (1, 2, 3):
        reader = Reader(world, "now")
        keys = [key for _ in range(4) for key in put_append(world)]
        do_merge(world, keys[:2])
        assert reader.poll(Bounds(parts=bound), dies=True) == keys[:bound]
        do_merge(world, keys[2:])
        last = put_append(world)
        assert reader.drain() == [*keys[bound:], *last]


def test_a_look_at_a_table_where_nothing_has_changed_is_one_request() -> None:
    world = make_world()
    put_append(world)
    reader = Reader(world)
    reader.drain()
    before = world.store.counters.as_dict()
    assert reader.stream.latest(reader.offset, ALL) == reader.offset
    spent = {k: v - before[k] for k, v in world.store.counters.as_dict().items() if v - before[k]}
    assert spent == {"list": 1}
    put_append(world)
    reader.poll()
    assert world.store.counters.get - before["get"] == 1, "log files that are known are not fetched"


class SlowListing(MemoryStore):
    """Lets something happen between two pages of the listing of the log."""

    meanwhile: Callable[[], None] | None = None

    def list(self, prefix: str, start_after: str | None = None) -> Iterator[ObjectMeta]:
        last = start_after
        for last in (meta.key for meta in super().list(prefix, start_after)):
            yield super().head(last)
        act, self.meanwhile = self.meanwhile, None
        if act is not None and prefix.endswith("_log/"):
            act()
        yield from super().list(prefix, last)


def slow(world: World, reader: Reader, meanwhile: Callable[[], None]) -> None:
    """``meanwhile`` happens during the next listing of the log by this reader."""
    store = SlowListing(world.clock)
    store.objects, store.meanwhile = world.store.objects, meanwhile
    reader.restart()
    reader.stream.table = replace(world.table, store=store)


def test_an_append_that_landed_behind_the_back_of_a_listing_is_not_lost() -> None:
    """A late log file lands on a page that was read, and the page that was not shows its merge."""
    world = make_world()
    put_append(world, t=world.clock.now - 2 * HOUR)
    keys = put_append(world)
    reader = Reader(world, "now")
    late: list[str] = []

    def meanwhile() -> None:
        late.extend(put_append(world, t=world.clock.now - 3 * HOUR))
        do_merge(world, keys)

    slow(world, reader, meanwhile)
    assert reader.poll() == late
    assert reader.drain() == []


def test_a_listing_that_misses_a_transaction_repeats_nothing() -> None:
    """It shows the transaction after it, and an append that has a later time than both."""
    world = make_world()
    put_append(world)
    reader = Reader(world, "now")
    keys = put_append(world, *(["d=1"] * 40))
    base = take_base(world.table)
    ahead = put_append(world, t=world.clock.now + HOUR)

    def meanwhile() -> None:
        do_merge(world, keys, base)
        drop(world, ahead)

    slow(world, reader, meanwhile)
    reader.stream.hold()
    assert [reader.poll(Bounds(parts=1)) for _ in range(3)] == [keys, ahead, []]


def test_a_stream_begins_after_a_transaction_or_a_time() -> None:
    world = make_world()
    first = put_append(world)
    do_merge(world, [*first, *put_append(world)])
    second = put_append(world)
    time = world.clock.now
    third = put_append(world)
    do_merge(world, [*second, *third])
    fourth = put_append(world)
    assert Reader(world, 0).drain()[0] == first[0]
    assert Reader(world, 1).drain() == [*second, *third, *fourth]
    assert Reader(world, time).drain() == [*third, *fourth]
    assert Reader(world, 2).drain() == fourth
    assert Reader(world, "now").drain() == []
    whole = Reader(world)
    assert whole.poll() == [key for key in live(world) if key not in fourth]
    assert whole.drain() == fourth
    with pytest.raises(UsageError, match="has no transaction 3"):
        Reader(world, 3)
    fresh = make_world()
    put_append(fresh)
    with pytest.raises(UsageError, match="table t has no transaction at all"):
        Reader(fresh, 3)


@pytest.mark.long
def test_what_a_stream_after_a_time_delivers_is_what_was_not_there_at_that_time() -> None:
    """Also where transactions are dated ahead, some by little and some by much."""
    world = make_world()
    start = world.clock.now
    keys = put_append(world)
    keys += put_append(world, t=start + FAR_MS)
    came = {key: frozenset([key]) for key in keys}

    def merge(some: list[str]) -> None:
        world.clock.advance(1000)
        before = set(live(world))
        do_merge(world, some)
        (new,) = set(live(world)) - before
        came[new] = frozenset().union(*(came[key] for key in some))

    merge(keys[:1])
    late = put_append(world, t=start + 9 * FAR_MS)
    came[late[0]] = frozenset(late)
    merge(live(world))
    merge(live(world))
    world.clock.advance(2 * FAR_MS)
    state = read_snapshot(world.store, world.table.paths)
    for moment in range(start + 500, world.clock.now, 500):
        there = [leaf for key in state.at(moment).live for leaf in came[key]]
        assert sorted(there + Reader(world, moment).drain()) == sorted(keys + late)


def test_a_stream_that_holds_ends_with_what_was_there() -> None:
    world = make_world()
    keys = [key for _ in range(3) for key in put_append(world)]
    reader = Reader(world, 0)
    reader.stream.hold()
    later = put_append(world)
    do_merge(world, [*keys, *later])
    assert [reader.poll(Bounds(parts=2)), reader.poll(Bounds(parts=2))] == [keys[:2], keys[2:]]
    assert reader.poll() == []
    reader.restart()
    assert reader.drain() == later


def test_a_stream_behind_the_clean_up_says_so() -> None:
    world = make_world(cleanup={"grace": "1h"}, locking="pool-only")
    put_append(world)
    reader = Reader(world, "now")
    keys = [key for _ in range(2) for key in put_append(world)]
    do_merge(world, keys)
    world.clock.advance(2 * HOUR)
    clean_up(world)
    with pytest.raises(StreamBehindError, match="behind by more than cleanup") as caught:
        reader.poll()
    assert "startingAt" in caught.value.next_step


def test_a_part_that_is_gone_before_its_log_file_is_missed() -> None:
    world = make_world(cleanup={"grace": "1h"}, locking="pool-only")
    put_append(world)
    reader = Reader(world, "now")
    keys = [key for _ in range(2) for key in put_append(world)]
    do_merge(world, keys)
    world.clock.advance(2 * HOUR)
    logs = frozenset(key for key in world.store.objects if key.startswith("t/_log/"))
    with pytest.raises(CleanupFailedError):
        clean_up(world, Refusing(world.store, refuse=logs))
    with pytest.raises(StreamBehindError, match="was merged or dropped and deleted before"):
        reader.poll()


def rebuilt_meanwhile(world: World) -> None:
    """The log is lost, and somebody rebuilds it."""
    for key in [k for k in world.store.objects if "/_log/" in k]:
        del world.store.objects[key]
    rebuild(world)


def rebuild(world: World) -> None:
    run_rebuild(
        Work(world.table, RunIdentity(run_id="r")), RebuildOptions(exclude=("*",), force=True)
    )


def test_a_stream_is_told_that_the_log_was_rebuilt_and_not_that_it_is_behind() -> None:
    # It has listed the log, and not fetched the appends of its batch, when the log goes.
    world = make_world()
    do_merge(world, put_append(world))
    reader = Reader(world, at="now")
    do_merge(world, put_append(world))
    end = reader.stored(reader.stream.latest(reader.offset, ALL))
    watched = FaultyStore(world.store)
    reader.stream = AppendStream(replace(world.table, store=watched))
    assert reader.batch(end)
    fetch = max(n for n, call in enumerate(watched.calls) if call == "get many")
    store = Beside(world.store, when=fetch, act=lambda: rebuilt_meanwhile(world))
    reader.stream = AppendStream(replace(world.table, store=store))
    with pytest.raises(StreamBehindError, match="the log was rebuilt by transaction 3") as caught:
        reader.batch(end)
    assert "deleted before" not in str(caught.value)


def test_a_log_file_that_somebody_deletes_before_it_is_read_was_not_merged() -> None:
    world = make_world()
    put_append(world)
    reader = Reader(world, at="now")
    (part,) = put_append(world)
    end = reader.stored(reader.stream.latest(reader.offset, ALL))
    (log,) = (name for name in end.seen - reader.offset.seen)
    reader.restart()
    del world.store.objects[f"t/_log/{log}.jsonl"]
    with pytest.raises(StreamBehindError, match="no transaction has folded it"):
        reader.batch(end)
    assert part in world.store.objects


def test_a_stream_is_told_that_the_log_is_lost_and_not_that_it_is_behind() -> None:
    world = make_world()
    do_merge(world, put_append(world))
    do_merge(world, put_append(world))
    reader = Reader(world, at="now")
    put_append(world)
    for key in [k for k in world.store.objects if "/_log/" in k]:
        del world.store.objects[key]
    with pytest.raises(LogLostError, match="`firnline rebuild`"):
        reader.poll()


def test_rows_that_a_delete_hides_are_not_delivered() -> None:
    world = make_world()
    put_append(world)
    reader = Reader(world, "now")
    put_append(world)
    where = msgspec.Raw(b'{"op":"=","column":"v","value":1}')
    record = Delete(id=world.ids.uuid7(0), seq=0, t=0, where=where)
    base = take_base(world.table)
    change = Change(op="delete", replaces=(), adds=(), counts=Counts(), deletes=(record,))
    commit(world.table, base, change, RunIdentity(run_id="r"))
    end = reader.stream.latest(reader.offset, ALL)
    task = reader.stream.batch(reader.offset, end, lambda _: ReadOptions()).task
    assert [part.hidden for part in task.parts] == [0]
    assert task.hidden == ("((\"v\" = CAST('1' AS INTEGER)))",)


@pytest.mark.parametrize("behind", [0, HOUR])
def test_rows_of_deletes_that_the_log_has_forgotten_are_not_delivered_either(behind: int) -> None:
    """Nobody cleans up, so the part is there; the record that hides rows of it is not.

    Also by a reader whose clock is behind that of the transaction that forgot the record.
    """
    world = make_world(cleanup={"grace": "1h"}, append={"ttl": "1h"}, commit_ttl="1h")
    put_append(world)
    reader, whole = Reader(world, "now"), Reader(world)
    keys = put_append(world)
    where = msgspec.Raw(b'{"op":"=","column":"v","value":1}')
    record = Delete(id=world.ids.uuid7(0), seq=0, t=0, where=where)
    gone = [*keys, live(world)[0]]
    change = Change("delete", tuple(gone), (), Counts(parts_in=2), deletes=(record,))
    commit(world.table, take_base(world.table), change, RunIdentity(run_id="r"))
    end = reader.stream.latest(reader.offset, ALL)
    task = reader.stream.batch(reader.offset, end, lambda _: ReadOptions()).task
    assert task.hidden  # the record is there: its rows are left out
    world.clock.advance(LEAST_ORPHAN_MS + 2 * HOUR)  # the fence has reached the delete
    for _ in range(9):
        drop(world, [])  # one of them folds the record's log file, without it
    assert not read_snapshot(world.store, world.table.paths).deletes
    world.clock.advance(-behind)
    for one in (reader, whole):
        with pytest.raises(StreamBehindError, match="before this stream read it"):
            one.drain()


def test_parts_that_no_record_hid_are_delivered_however_long_they_are_dead() -> None:
    world = make_world(cleanup={"grace": "1h"}, append={"ttl": "1h"})
    put_append(world)
    reader = Reader(world, "now")
    keys = put_append(world)
    drop(world, keys)
    world.clock.advance(3 * HOUR)
    assert reader.drain() == keys


def test_a_change_of_columns_ends_what_is_left_of_the_first_state() -> None:
    world = make_world()
    held = [put_append(world, f"d={n}") for n in range(3)]
    drop(world, held[0])
    reader = Reader(world)
    assert reader.poll(Bounds(parts=1)) == held[1]
    change = Change(op="evolve", replaces=(), adds=(), counts=Counts())
    commit(world.table, take_base(world.table), change, RunIdentity(run_id="r"))
    with pytest.raises(StreamBehindError, match="transaction 2 has changed the table's columns"):
        reader.poll()


def test_a_part_whose_columns_were_renamed_is_not_read_as_nulls() -> None:
    world = make_world()
    put_append(world)
    reader = Reader(world, "now")
    keys = put_append(world, schema={"old": "INTEGER"})
    end = reader.stream.latest(reader.offset, ALL)
    assert reader.batch(end) == keys
    renamed = replace(reader.stream._look(), schema={"v": "INTEGER"})
    reader.stream._snapshot = renamed
    with pytest.raises(StreamBehindError, match="column old, which was renamed or dropped"):
        reader.batch(end)


def test_maintenance_by_clients_of_version_1_ends_a_stream_and_does_not_forbid_one() -> None:
    world = make_world()
    client = V1Client(world)
    old = [client.append("d=1") for _ in range(2)]
    reader = Reader(world, "now")
    new = client.append("d=1")
    assert reader.drain() == [new]
    merged = client.merge("d=1")
    with pytest.raises(StreamBehindError, match="a client of version 1 has merged"):
        reader.poll()
    with pytest.raises(UsageError, match="clients of version 1 have merged this table"):
        Reader(world, 0)
    whole, now = Reader(world), Reader(world, "now")
    last = client.append("d=1")
    do_merge(world, [str(merged), last])
    assert whole.drain() == [merged, last]
    assert now.drain() == [last]
    assert len({*old, new, merged, last}) == 5


@pytest.mark.long
def test_an_offset_names_no_more_appends_than_it_may() -> None:
    names = [f"{n:013d}_w-{n}" for n in range(MOST_SEEN + 1)]
    view = View(seq=0, unfolded=frozenset(names), foreign=frozenset(), folds={})
    waiting = [(1, name) for name in names]
    with pytest.raises(UsageError, match="wait for a merge"):
        advance(Offset(seq=0), view, waiting, len(waiting))
    assert len(advance(Offset(seq=0), view, waiting, MOST_SEEN).seen) == MOST_SEEN


def test_the_offset_of_another_program_is_refused() -> None:
    for plain in ({}, {"v": 2, "seq": 1, "seen": ""}, {"v": 1, "seq": "x", "seen": ""}):
        with pytest.raises(UsageError, match="not written by this version of firnline"):
            Offset.from_json(plain)
