"""A plan that is only shown: by a checkpoint, with few markers, and the one that a run makes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firnline.commit.base import take_base
from firnline.commit.transaction import Change, commit
from firnline.errors import (
    DoubledRowsError,
    InvariantError,
    LogLostError,
    SchemaConflictError,
    UsageError,
)
from firnline.log import codec
from firnline.log.columnar import PartColumns
from firnline.log.records import NO_STATS, Delete, LogContent, Marker, sort_json, stats_json
from firnline.log.schema_changes import Evolved, record
from firnline.log.txn_file import Counts, RunIdentity
from firnline.operations.groups import SPLIT_MARK
from firnline.operations.hold.run import run_hold
from firnline.operations.merge.finishing import FEWEST, fewer, finished_at
from firnline.operations.merge.plan import MergePlan, plan_merge
from firnline.operations.merge.run import preview
from firnline.operations.merge.tiers import LARGE
from firnline.operations.operation import Work
from firnline.operations.options import HoldOptions, MergeOptions
from firnline.types.order import SortKey
from tests.support.checkpoints import ALWAYS, by_checkpoint, by_log, write
from tests.support.effort import examples
from tests.support.log_tables import (
    SCHEMA,
    do_merge,
    do_nothing,
    merge_change,
    newest_number,
    put_append,
)
from tests.support.world import World, make_world

MIB = 2**20
HOUR = 3_600_000
RUN = RunIdentity(run_id="r")
WAITS = "waits until 4 parts of about its size are there"
PARTITIONS = ("d=1", "d=2", "d=3")
SIZES = st.sampled_from([1, MIB // 2, MIB, 3 * MIB, 10 * MIB, 31 * MIB, 40 * MIB, 48 * MIB])
LARGE_SIZES = st.sampled_from([48 * MIB, 50 * MIB, 63 * MIB, 64 * MIB, 90 * MIB])


def clustered(method: str) -> dict[str, Any]:
    return {"columns": ["v"], "method": method, "run_size": "80MiB"}


KINDS: tuple[dict[str, Any], ...] = (
    {},
    {"sort_by": ["ts"]},
    {"primary_key": ["v"]},
    {"primary_key": ["v"], "sort_by": ["ts"]},
    {"cluster_by": clustered("range")},
    {"cluster_by": clustered("hash")},
)


@st.composite
def tables(draw: st.DrawFn) -> World:
    """A table with a checkpoint, and log files that it does not cover."""
    made = make_world(
        partition_by=["d"],
        **draw(st.sampled_from(KINDS)),
        merge={
            "target_size": "64MiB",
            "split_above": "16MiB",
            "min_inputs": draw(st.integers(2, 4)),
            "finish_after": draw(st.sampled_from([None, "1h", "1h", "3h"])),
            "settle": draw(st.sampled_from(["0s", "0s", "0s", "30m"])),
            "settle_max_parts": draw(st.sampled_from([1, 3, 1000])),
            "target_rows": draw(st.sampled_from([None, None, 2048])),
            "max_bytes_per_run": draw(st.sampled_from([None, None, "80MiB"])),
        },
    )
    steps = st.sampled_from([append] * 3 + [append_large] * 3 + [delete, change, end, wait, wait])
    for _ in range(draw(st.integers(1, 6))):
        draw(steps)(made, draw)
    draw(st.sampled_from([append, append_large]))(made, draw)
    write(made)
    for _ in range(draw(st.integers(0, 4))):
        draw(steps)(made, draw)
    return made


def append(world: World, draw: st.DrawFn, sizes: st.SearchStrategy[int] = SIZES) -> None:
    """Parts as appends, merges and other writers leave them."""
    world.clock.advance(draw(st.sampled_from([1, 1, HOUR // 3])))
    now = world.clock.now + draw(st.sampled_from([*[0] * 19, 90 * 24 * HOUR]))
    mark = SPLIT_MARK if world.settings.cluster_by is None else world.settings.cluster_by.mark
    run = f"{mark}-{now}"
    markers = []
    for partition in draw(st.lists(st.sampled_from(PARTITIONS), min_size=1, max_size=5)):
        first = now - draw(st.sampled_from([0, 0, 1, HOUR, 4 * HOUR]))
        low = draw(st.integers(0, 9))
        markers.append(
            Marker(
                p=world.table.paths.data_part(partition, world.ids.uuid7(now)),
                b=draw(sizes),
                t=now,
                n=draw(st.sampled_from([None, 10, 10, 1700])),
                q=draw(st.sampled_from([*[newest_number(world)] * 12, 0, None])),
                o=draw(st.sampled_from([None, now, (first, now), (first, first)])),
                s=stats_json({"v": (low, low + 1, 0)}) if draw(st.booleans()) else NO_STATS,
                c=draw(st.sampled_from([*[None] * 15, run])),
                k=sort_json(draw(st.sampled_from([(), (SortKey("ts"),), (SortKey("v"),)]))),
            )
        )
    name = world.table.paths.append_log(now, f"host-{world.ids.uuid7(now)}")
    content = LogContent(t=now, schema=SCHEMA, markers=markers)
    world.store.put_new(name, codec.encode(content))


def append_large(world: World, draw: st.DrawFn) -> None:
    append(world, draw, LARGE_SIZES)


def delete(world: World, draw: st.DrawFn) -> None:
    number = draw(st.integers(0, 12))
    now = world.clock.now
    one = Delete(
        id=world.ids.uuid7(now),
        seq=0,
        t=0,
        where=msgspec.Raw(b'{"op":"<","column":"v","value":%d}' % number),
        partitions=draw(st.sampled_from([None, ("d=1",), ("d=[23]",)])),
        due=draw(st.sampled_from([None, now - 1, now + HOUR])),
    )
    do(world, Change("delete", (), (), Counts(), deletes=(one,)))


def change(world: World, draw: st.DrawFn) -> None:
    """A column that never was is dropped: parts from before that have to be written anew."""
    what = Evolved(drop=(draw(st.sampled_from(["w", "x"])),))
    do(world, Change("schema", (), (), Counts(), deletes=(record(world.ids.uuid7(0), what),)))


def end(world: World, draw: st.DrawFn) -> None:
    """Some parts die."""
    live = sorted(by_log(world.table).live)
    if live:
        gone = draw(st.lists(st.sampled_from(live), min_size=1, max_size=3, unique=True))
        do(world, Change("drop", tuple(gone), (), Counts(parts_in=len(gone))))


def wait(world: World, draw: st.DrawFn) -> None:
    world.clock.advance(draw(st.sampled_from([HOUR // 2, HOUR, 5 * HOUR])))


def do(world: World, what: Change) -> None:
    world.clock.advance(1)
    commit(world.table, take_base(world.table), what, RUN)


def both(world: World, *, full: bool = False) -> tuple[MergePlan, MergePlan]:
    """The plan by the checkpoint, and by the log files that a run reads."""
    state = by_checkpoint(world.table)
    assert state.covered
    now = world.clock.now
    quick = plan_merge(state, world.settings, now, full=full)
    return quick, plan_merge(take_base(world.table).snapshot, world.settings, now, full=full)


@pytest.mark.long
@examples(100, 5000)
@given(tables(), st.booleans())
def test_a_plan_by_a_checkpoint_is_that_of_a_run(world: World, full: bool) -> None:
    quick, right = both(world, full=full)
    assert quick == right
    assert quick.to_json() == right.to_json()
    assert sum(quick.reasons.values()) + quick.parts_in + quick.parts_hidden == len(
        by_log(world.table).live
    )


def full_world(partitions: int = 3, **merge: object) -> World:
    """A table of large parts, of which only ``d=1`` has small ones; a checkpoint of all of it."""
    made = make_world(merge={"target_size": "64MiB", "finish_after": None, **merge})
    names = [f"d={number}" for number in range(1, partitions + 1)]
    for _ in range(5):
        put_append(made, *names, size=60 * MIB)
    for _ in range(4):
        put_append(made, "d=1", size=MIB)
    write(made)
    return made


def counted_markers(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of rows of which markers are made."""
    made: list[int] = []
    markers = PartColumns.markers

    def counting(self: PartColumns, low: int, high: int, *rest: Any) -> Iterator[Marker]:
        made.append(high - low)
        return markers(self, low, high, *rest)

    monkeypatch.setattr(PartColumns, "markers", counting)
    return made


def test_only_partitions_with_a_group_have_markers(monkeypatch: pytest.MonkeyPatch) -> None:
    world = full_world()
    made = counted_markers(monkeypatch)
    plan = preview(world.table, MergeOptions(), checkpoint_above=ALWAYS)
    assert [(g.partition, len(g.parts)) for g in plan.groups] == [("d=1", 4)]
    assert plan.reasons == {LARGE: 15}
    assert made == [9]


def test_a_finished_partition_of_full_parts_has_no_markers(monkeypatch: pytest.MonkeyPatch) -> None:
    world = full_world(finish_after="1h")
    world.clock.advance(2 * HOUR)
    made = counted_markers(monkeypatch)
    plan = preview(world.table, MergeOptions(), checkpoint_above=ALWAYS)
    assert plan.reasons[FEWEST] == 14  # one of d=1 is merged with its small ones
    assert made == [9]


def test_a_large_log_costs_one_list_more_and_one_get_for_all_that_is_covered() -> None:
    world = full_world()
    put_append(world, "d=2", size=60 * MIB)

    def spent(plan: Callable[[], object]) -> tuple[int, int, int]:
        counters = world.store.counters
        before = (counters.list, counters.get, counters.put)
        plan()
        return (
            counters.list - before[0],
            counters.get - before[1],
            counters.put - before[2],
        )

    def by(above: int) -> MergePlan:
        return preview(world.table, MergeOptions(), checkpoint_above=above)

    assert spent(lambda: by(ALWAYS)) == (3, 2, 0)
    assert spent(lambda: preview(world.table, MergeOptions())) == (2, 10, 0)
    assert spent(lambda: take_base(world.table)) == (2, 10, 0)
    assert by(ALWAYS) == preview(world.table, MergeOptions())


def test_what_is_not_published_yet_is_published_first() -> None:
    world = full_world()
    done = do_merge(world, [m.p for m in by_log(world.table).partitions["d=1"] if m.b == MIB])
    del world.store.objects[done.header.log]
    plan = preview(world.table, MergeOptions(), checkpoint_above=ALWAYS)
    assert done.header.log in world.store.objects
    assert (plan.seq, plan.nothing_to_do) == (1, True)


def test_columns_that_contradict_each_other_are_refused_as_by_the_log() -> None:
    world = full_world()
    put_append(world, schema={"ts": "TIMESTAMP", "v": "VARCHAR"})
    with pytest.raises(SchemaConflictError) as by_it:
        preview(world.table, MergeOptions(), checkpoint_above=ALWAYS)
    with pytest.raises(SchemaConflictError) as without:
        take_base(world.table)
    assert str(by_it.value) == str(without.value)


def test_rows_that_are_there_twice_are_refused_as_by_the_log() -> None:
    world = full_world()
    do_nothing(world)
    keys = [m.p for m in by_log(world.table).partitions["d=1"] if m.b == MIB]
    base = take_base(world.table)
    planned = merge_change(world, keys, base)
    first = do_merge(world, keys).header
    del world.store.objects[world.table.paths.txn(first.seq)]
    world.clock.advance(1_000)
    commit(world.table, base, planned, RUN)
    with pytest.raises(DoubledRowsError) as by_it:
        preview(world.table, MergeOptions(), checkpoint_above=ALWAYS)
    with pytest.raises(DoubledRowsError) as without:
        take_base(world.table)
    assert str(by_it.value) == str(without.value)


def test_a_lost_log_is_refused_although_a_checkpoint_has_all_of_it() -> None:
    world = full_world()
    do_merge(world, [m.p for m in by_log(world.table).partitions["d=1"] if m.b == MIB])
    write(world)
    for key in [key for key in world.store.objects if key.startswith(world.table.paths.log_dir)]:
        del world.store.objects[key]
    with pytest.raises(LogLostError):
        preview(world.table, MergeOptions(), checkpoint_above=ALWAYS)


def test_a_hold_refuses_a_merge_with_a_query_by_a_checkpoint_too() -> None:
    world = make_world(merge={"sql": "SELECT * FROM parts"})
    put_append(world)
    hold = HoldOptions(name="case-17", where="v = 5", why="Miller v. Acme", by="ana")
    run_hold(Work(world.table, RUN), hold)
    write(world)
    with pytest.raises(UsageError, match="case-17"):
        preview(world.table, MergeOptions(), checkpoint_above=ALWAYS)


def test_nothing_is_committed_on_a_state_of_a_checkpoint() -> None:
    world = full_world()
    base = take_base(world.table, checkpoint_above=ALWAYS)
    before = dict(world.store.objects)
    keys = [m.p for m in base.snapshot.partitions["d=1"]]
    with pytest.raises(InvariantError, match="built on a checkpoint"):
        commit(world.table, base, Change("drop", tuple(keys), (), Counts(parts_in=9)), RUN)
    assert world.store.objects == before


@given(
    st.lists(st.tuples(st.integers(0, 99), st.integers(0, 20)), min_size=1, max_size=12),
    st.integers(1, 30),
    st.integers(0, 200),
    st.booleans(),
)
def test_fewer_spans_say_the_same(
    drawn: list[tuple[int, int]], wait: int, now: int, odd: bool
) -> None:
    policy = make_world().settings.merge.model_copy(update={"finish_after": wait})
    spans = [(first, first + more) for first, more in drawn]
    if odd:  # of another writer: it ends before it begins
        spans.append((spans[0][1], spans[0][0] - 1))
    first, last = (np.array(each, np.int64) for each in zip(*spans, strict=True))
    reduced = fewer(first, last, policy)
    assert finished_at(reduced, policy, now) == finished_at(spans, policy, now)


def test_a_number_that_fits_into_no_array_has_its_partition_planned_by_markers() -> None:
    world = full_world()
    now = world.clock.now
    part = Marker(world.table.paths.data_part("d=2", world.ids.uuid7(now)), 2**64, now, n=1, q=0)
    name = world.table.paths.append_log(now, f"host-{world.ids.uuid7(now)}")
    content = LogContent(t=now, schema=SCHEMA, markers=[part])
    world.store.put_new(name, codec.encode(content))
    quick, right = both(world)
    assert quick == right


# --- where numbers alone would say something else -------------------------------------------------


def agreed(world: World) -> MergePlan:
    write(world)
    quick, right = both(world)
    assert quick == right
    return quick


def table_of(*sizes: int, primary_key: tuple[str, ...] = (), **merge: object) -> World:
    made = make_world(primary_key=primary_key, merge={"target_size": "64MiB", **merge})
    for size in sizes:
        put_append(made, size=size, rows=4000)
    return made


def test_parts_of_a_split_group_are_one_part() -> None:
    world = table_of(finish_after="1h")
    now = world.clock.now
    paths = world.table.paths
    parts = [
        Marker(
            paths.data_part("d=1", world.ids.uuid7(now)), MIB, now, n=1, q=0, c=f"{SPLIT_MARK}-1"
        )
        for _ in range(2)
    ]
    name = paths.append_log(now, f"host-{world.ids.uuid7(now)}")
    world.store.put_new(name, codec.encode(LogContent(t=now, schema=SCHEMA, markers=parts)))
    assert agreed(world).next_due is None


def test_an_append_that_is_dated_far_ahead_counts_from_when_it_came() -> None:
    world = table_of(finish_after="1h")
    put_append(world, size=60 * MIB, t=world.clock.now + 90 * 24 * HOUR)
    world.clock.advance(2 * HOUR)
    assert agreed(world).reasons == {FEWEST: 1}


def test_a_part_that_is_full_by_its_rows_is_large() -> None:
    world = table_of(MIB, finish_after=None, target_rows=4096)
    assert agreed(world).reasons == {LARGE: 1}


def test_with_a_primary_key_the_order_counts() -> None:
    sizes = [3 * MIB // 2, 4 * MIB, 12 * MIB, 30 * MIB]
    assert not agreed(table_of(*sizes, finish_after=None)).groups
    assert agreed(table_of(*sizes, finish_after=None, primary_key=("v",))).parts_in == 4


def test_parts_beside_a_large_one_of_the_same_time_have_a_reason() -> None:
    world = table_of(60 * MIB, primary_key=("v",), finish_after=None)
    (key,) = put_append(world, size=60 * MIB)
    put_append(world, size=MIB, t=by_log(world.table).live[key].t)
    assert agreed(world).reasons == {LARGE: 2, WAITS: 1}
