"""The snapshot does not depend on order, repetition or clocks, and never comes back partial."""

from __future__ import annotations

import random
from dataclasses import replace

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firnline.commit.base import take_base
from firnline.errors import LogCorruptError, SchemaConflictError, SnapshotExpiredError
from firnline.log import codec
from firnline.log.reader import LogObject, LogRead
from firnline.log.records import Delete, LogContent, LogTombstone, Marker, stats_json
from firnline.log.union import union_with
from firnline.paths import TablePaths
from firnline.state.snapshot import Snapshot, build, combine, mark_dead, read_snapshot, union_parts
from tests.support.cleanups import clean_up
from tests.support.effort import examples
from tests.support.log_tables import SCHEMA, do_merge, put_append, snapshot
from tests.support.world import make_world

PATHS = TablePaths("t")


@st.composite
def contents(draw: st.DrawFn) -> list[LogContent]:
    """Log files about a handful of parts: alive, dead, and without the keys of ours."""
    made = []
    for _ in range(draw(st.integers(1, 6))):
        markers = []
        for part in draw(st.sets(st.integers(0, 4), max_size=4)):
            full = Marker(f"t/_data/{part}.parquet", 10, 100 + part, n=5, q=1, o=(part, part))
            kept = draw(st.sampled_from([full, Marker(full.p, full.b, full.t)]))
            tmb = draw(st.none() | st.integers(200, 203))
            markers.append(kept if tmb is None else mark_dead(kept, tmb))
        made.append(LogContent(t=1, schema={}, markers=markers))
    return made


@pytest.mark.long
@given(contents(), st.randoms())
def test_neither_order_nor_repetition_of_log_files_matters(
    files: list[LogContent], rnd: random.Random
) -> None:
    expected = union_parts(files)
    shuffled = files + rnd.choices(files, k=3)
    rnd.shuffle(shuffled)
    assert union_parts(shuffled) == expected


@given(contents())
def test_a_part_that_one_file_buries_is_dead_since_the_earliest_time(
    files: list[LogContent],
) -> None:
    for path, marker in union_parts(files).items():
        said = [m.tmb for f in files for m in f.markers if m.p == path and m.tmb is not None]
        assert marker.tmb == min(said, default=None)


def test_what_a_v1_fold_dropped_comes_back_from_the_other_copy() -> None:
    ours = Marker("t/_data/1", 10, 5, n=3, q=2, o=(1, 4), s=stats_json({"a": (1, 2, 0)}))
    theirs = Marker("t/_data/1", 10, 5, tmb=9)
    for merged in (combine(ours, theirs), combine(theirs, ours)):
        assert (merged.n, merged.q, merged.o, merged.tmb) == (3, 2, (1, 4), 9)
        assert merged.stats() == {"a": (1, 2, 0)}


def test_a_delete_that_any_copy_of_a_marker_has_applied_is_applied() -> None:
    """A client of version 1 drops ``d`` when it folds; two of ours may each have added one."""
    plain = Marker("t/_data/1", 10, 5)
    one, two = (msgspec.structs.replace(plain, d=(delete,)) for delete in ("del1", "del2"))
    assert [combine(one, plain).d, combine(plain, one).d] == [("del1",), ("del1",)]
    assert [combine(one, two).d, combine(two, one).d] == [("del1", "del2"), ("del1", "del2")]
    assert combine(plain, mark_dead(plain, 9)).d is None


def test_two_log_files_that_disagree_on_a_part_are_an_error() -> None:
    with pytest.raises(LogCorruptError, match="t/_data/1"):
        combine(Marker("t/_data/1", 10, 5), Marker("t/_data/1", 11, 5))


def test_an_empty_table_reads_as_empty() -> None:
    state = snapshot(make_world())
    assert (state.live, state.schema, state.seq) == ({}, {}, 0)


def test_a_table_whose_every_part_is_dropped_reads_as_empty_with_its_schema() -> None:
    world = make_world()
    (key,) = put_append(world)
    dead = mark_dead(snapshot(world).parts[key], world.clock.now + 1)
    content = LogContent(t=world.clock.now + 1, schema={}, markers=[dead])
    name = PATHS.append_log(content.t, "host-2")
    world.store.put_new(name, codec.encode(content))
    state = snapshot(world)
    assert state.live == {}
    assert state.schema == SCHEMA
    assert state.partitions == {}


def test_a_type_conflict_names_column_types_and_files() -> None:
    world = make_world()
    put_append(world)
    put_append(world, schema={"v": "VARCHAR"})
    with pytest.raises(SchemaConflictError) as caught:
        snapshot(world)
    text = str(caught.value)
    assert all(word in text for word in ("v", "INTEGER", "VARCHAR"))
    assert text.count(".jsonl") == 2


def test_a_conflict_is_tolerated_only_when_asked_and_its_columns_are_left_out() -> None:
    world = make_world()
    put_append(world)
    put_append(world, schema={"v": "VARCHAR", "w": "DATE"})
    state = read_snapshot(world.store, PATHS, tolerant=True)
    assert state.schema == {"ts": "TIMESTAMP", "w": "DATE"}
    assert len(state.live) == 2
    assert state.conflict is not None
    assert "firnline schema fix" in state.conflict.next_step
    assert snapshot_without_conflict().conflict is None


def snapshot_without_conflict() -> Snapshot:
    world = make_world()
    put_append(world)
    return read_snapshot(world.store, PATHS, tolerant=True)


def test_what_a_folded_log_file_says_of_columns_is_over() -> None:
    # Clean-up reads folded log files too: without this it could never delete a wrong one.
    world = make_world()
    put_append(world)
    put_append(world, schema={"v": "VARCHAR"})
    wrong = max(k for k in world.store.objects if "/_log/" in k)
    t = world.clock.now + 1
    stones = [LogTombstone(wrong, t)]
    markers = codec.decode(wrong, world.store.objects[wrong][0], PATHS).markers
    content = LogContent(t=t, schema=SCHEMA, markers=markers, tombstones=stones)
    foreign = f"{PATHS.log_dir}{t}_m_other.jsonl"
    world.store.put_new(foreign, codec.encode(content))
    with pytest.raises(SchemaConflictError):  # folds of foreign clients are not trusted that far
        snapshot(world)
    del world.store.objects[foreign]
    world.store.put_new(PATHS.txn_log(t, 1, world.ids.uuid7(t)), codec.encode(content))
    assert snapshot(world).schema == SCHEMA


def test_live_parts_are_grouped_by_partition() -> None:
    world = make_world()
    put_append(world, "d=2", "d=1")
    put_append(world, "d=1")
    assert {p: len(m) for p, m in snapshot(world).partitions.items()} == {"d=1": 2, "d=2": 1}


def test_an_as_of_read_shows_what_was_live_then() -> None:
    world = make_world()
    (first,) = put_append(world)
    then = world.clock.now
    (second,) = put_append(world)
    do_merge(world, [first, second])
    state = snapshot(world)
    assert set(state.at(then).live) == {first}
    assert set(state.at(world.clock.now).live) == {first, second}
    assert first not in state.live


def test_an_as_of_read_at_or_before_the_purge_horizon_is_refused() -> None:
    world = make_world()
    put_append(world)
    state = snapshot(world)
    state = replace(state, purged=500)
    with pytest.raises(SnapshotExpiredError, match="500"):
        state.at(500)
    assert state.at(501).live == {}


def test_a_marker_without_a_sequence_counts_as_the_newest_transaction_before_it() -> None:
    world = make_world()
    keys = put_append(world) + put_append(world)
    do_merge(world, keys)
    at = world.clock.now
    (before,) = put_append(world, q=None, t=at - 100)
    world.clock.advance(100)
    (after,) = put_append(world, q=None)
    state = snapshot(world)
    assert state.sequence_of(state.parts[before]) == 0
    assert state.sequence_of(state.parts[after]) == 1


def delete_log(seq: int, t: int, partitions: tuple[str, ...] | None = None) -> LogContent:
    where = msgspec.Raw(b'{"op":"is_null","column":"v"}')
    schema = {"v": "INTEGER"}
    return LogContent(t=t, schema=schema, deletes=[Delete("del1", seq, t, where, partitions)])


def test_a_delete_applies_to_older_parts_that_have_not_applied_it() -> None:
    old = Marker("t/_data/d=1/1.parquet", 1, 1, q=1)
    applied = Marker("t/_data/d=1/2.parquet", 1, 1, q=1, d=("del1",))
    newer = Marker("t/_data/d=1/3.parquet", 1, 1, q=2)
    elsewhere = Marker("t/_data/d=2/4.parquet", 1, 1, q=1)
    no_null = Marker("t/_data/d=1/5.parquet", 1, 1, q=1, s=stats_json({"v": (1, 2, 0)}))
    parts = LogContent(t=1, schema={}, markers=[old, applied, newer, elsewhere, no_null])
    names = [PATHS.append_log(i, f"w-{i}") for i in (1, 2)]
    listing = {n: LogObject(PATHS.parse_log(n), 1, 1) for n in names}
    state = build(
        PATHS, LogRead(listing, dict(zip(names, [parts, delete_log(2, 9, ("d=1",))], strict=True)))
    )
    pending = {
        m.p: bool(state.pending_deletes(m, PATHS.parse_part(m.p).partition))
        for m in state.live.values()
    }
    assert [path for path, applies in pending.items() if applies] == [old.p]


@given(contents(), st.integers(0, 6))
def test_further_log_files_are_united_with_parts_that_are_known(
    files: list[LogContent], first: int
) -> None:
    known = union_parts(files[:first])
    before = dict(known)
    assert union_with(known, files[first:]) == union_parts(files)
    assert known == before


@given(st.lists(st.sampled_from(["append", "merge", "clean up", "wait"]), max_size=12))
@examples(60, 600)
def test_the_state_after_an_own_commit_is_that_of_all_its_log_files(steps: list[str]) -> None:
    world = make_world(cleanup={"grace": "1h"}, append={"ttl": "10m"}, commit_ttl="10m")
    base = take_base(world.table)
    for step in steps:
        if step == "append":
            put_append(world)
        elif step == "wait":
            world.clock.advance(7_200_000)
        elif step == "clean up":
            clean_up(world)
        else:
            base = take_base(world.table)
            keys = list(base.snapshot.live)
            for some in (keys[:2], keys[2:4]):  # the second one on the state after the first
                if len(some) < 2:
                    continue
                committed = do_merge(world, some, base).base
                assert committed is not None
                state = committed.snapshot
                log = LogRead(state.listing, state.contents)
                assert state == build(state.paths, log, tolerant=True)
                base = committed
