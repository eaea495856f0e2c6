"""Deletes on real parts in memory: what goes, what stays unchanged, what is hidden."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from firnline.appends.append import Appender
from firnline.clock import SystemClock
from firnline.errors import CommitConflictError, UsageError
from firnline.kernel.local import LocalEngine
from firnline.log.txn_file import RunIdentity
from firnline.operations.delete.run import DeleteFailedError, DeleteReport, preview, run_delete
from firnline.operations.drop.run import run_drop
from firnline.operations.merge.run import run_merge
from firnline.operations.operation import Work
from firnline.operations.options import DeleteOptions, DropOptions, MergeOptions
from firnline.parquet.part import read_pairs
from tests.support.log_tables import snapshot, v1_live
from tests.support.reading import stored_ids, visible_ids
from tests.support.world import World, make_world

RUN = RunIdentity(run_id="r")


def world_of(**settings: Any) -> World:
    """Four appends of six ids each, a partition of even and one of odd ones."""
    world = make_world(partition_by=["day"], sort_by=["id"], **settings)
    for first in range(0, 24, 6):
        append(world, range(first, first + 6))
    return world


def append(world: World, ids: range) -> None:
    world.clock.advance(10)
    rows = {"id": list(ids), "day": [i % 2 for i in ids], "name": [f"n{i}" for i in ids]}
    Appender(world.table).append(pa.table(rows))


def engine_of(world: World, scratch: Path) -> LocalEngine:
    return LocalEngine(lambda: world.store, scratch, world.ids, SystemClock())


def never() -> Any:
    raise AssertionError("no engine is needed")


@pytest.fixture
def delete(tmp_path: Path) -> Callable[..., DeleteReport]:
    def call(world: World, where: str, **options: Any) -> DeleteReport:
        asked = DeleteOptions(where=where, **options)
        return run_delete(Work(world.table, RUN, lambda: engine_of(world, tmp_path)), asked)

    return call


Delete = Callable[..., DeleteReport]


def test_an_eager_delete_rewrites_only_the_parts_that_hold_matching_rows(delete: Delete) -> None:
    world = world_of()
    before = set(snapshot(world).live)
    report = delete(world, "id in (3, 8)")
    after = set(snapshot(world).live)
    assert (report.parts_rewritten, report.counts.rows_deleted) == (2, 2)
    assert (len(before - after), len(after - before)) == (2, 2)
    assert visible_ids(world.table) == Counter(set(range(24)) - {3, 8})
    # Of the parts of the first two appends, whose bounds enclose 3 or 8.
    assert (report.parts_read, report.parts_excluded) == (4, 4)


@pytest.mark.long
def test_v1_clients_see_an_eager_delete_at_once(delete: Delete) -> None:
    world = world_of()
    delete(world, "name = 'n7'")
    assert v1_live(world) == set(snapshot(world).live)
    assert stored_ids(world.table) == Counter(set(range(24)) - {7})


def test_parts_whose_statistics_do_not_say_are_read_and_left_as_they_are(delete: Delete) -> None:
    world = world_of()
    before = set(snapshot(world).live)
    report = delete(world, "name = 'nobody'")
    assert (report.parts_read, report.parts_rewritten, report.parts_excluded) == (8, 0, 0)
    assert set(snapshot(world).live) == before
    assert report.counts.rows_in == 0
    assert report.transaction == 1


@pytest.mark.long
def test_parts_that_were_read_and_hold_no_matching_row_are_not_read_for_it_again(
    delete: Delete, tmp_path: Path
) -> None:
    world = world_of()
    report = delete(world, "name = 'n7'")
    assert report.parts_rewritten == 1
    state = snapshot(world)
    for partition, markers in state.partitions.items():
        assert not [d for m in markers for d in state.pending_deletes(m, partition)]
    merged = run_merge(
        Work(world.table, RUN, lambda: engine_of(world, tmp_path)),
        MergeOptions(partitions=("day=1",)),
    )
    assert merged.groups == 1
    assert visible_ids(world.table) == Counter(set(range(24)) - {7})
    assert v1_live(world) == set(snapshot(world).live)


@pytest.mark.long
def test_a_part_that_dies_while_others_are_read_stays_dead(tmp_path: Path) -> None:
    world = world_of()

    class Rival(LocalEngine):
        def run(self, tasks: Any) -> Any:
            found = list(super().run(tasks))
            if not done:
                done.append(1)
                run_drop(Work(world.table, RUN), DropOptions(partitions=("day=0",)))
            yield from found

    done: list[int] = []
    rival = Rival(lambda: world.store, tmp_path, world.ids, SystemClock())
    report = run_delete(Work(world.table, RUN, lambda: rival), DeleteOptions(where="name = 'n7'"))
    assert report.replans == 0  # only parts of day=1 are replaced
    assert visible_ids(world.table) == Counter(i for i in range(24) if i % 2 and i != 7)
    assert v1_live(world) == set(snapshot(world).live)


def test_a_part_that_matches_as_a_whole_is_dropped_without_being_read(tmp_path: Path) -> None:
    world = world_of()
    gets = world.store.counters.get
    report = run_delete(Work(world.table, RUN, never), DeleteOptions(where="id < 6"))
    assert (report.parts_dropped, report.parts_read, report.counts.rows_deleted) == (2, 0, 6)
    assert world.store.counters.get - gets <= 5  # log files and the probe, no part
    assert visible_ids(world.table) == Counter(range(6, 24))
    assert stored_ids(world.table) == Counter(range(6, 24))


def test_a_part_that_matches_as_a_whole_is_dropped_with_rows_that_were_hidden_before(
    delete: Delete,
) -> None:
    world = world_of()
    delete(world, "id = 1", mode="lazy")
    report = delete(world, "id < 6")
    assert (report.parts_dropped, report.parts_read) == (2, 0)
    assert report.counts.rows_deleted == 6
    assert visible_ids(world.table) == Counter(range(6, 24))


@pytest.mark.long
def test_a_part_whose_rows_nobody_counted_is_read_even_if_all_of_it_matches(
    delete: Delete,
) -> None:
    world = world_of()
    for key, (data, modified) in list(world.store.objects.items()):
        if "/_log/" in key:
            lines = [line.replace(b'"n":3,', b"") for line in data.split(b"\n")]
            body = [line for line in lines if not line.startswith((b'{"sum"', b'{"props"'))]
            header = msgspec.json.decode(body[0])
            del header["ext"]
            header["f"] = 2
            body[0] = msgspec.json.encode(header)
            world.store.objects[key] = (b"\n".join(body), modified)
    report = delete(world, "id < 6")
    assert (report.parts_dropped, report.parts_read) == (0, 2)
    assert report.counts.rows_deleted == 6


def test_a_lazy_delete_hides_rows_and_touches_no_part(tmp_path: Path) -> None:
    world = world_of()
    before = set(snapshot(world).live)
    report = run_delete(Work(world.table, RUN, never), DeleteOptions(where="id < 9", mode="lazy"))
    assert (report.mode, report.parts_hidden, report.parts_read) == ("lazy", 4, 0)
    assert set(snapshot(world).live) == before
    assert visible_ids(world.table) == Counter(range(9, 24))
    assert stored_ids(world.table) == Counter(range(24))


def test_the_next_merge_removes_what_a_lazy_delete_hides(tmp_path: Path) -> None:
    world = world_of()
    run_delete(Work(world.table, RUN, never), DeleteOptions(where="id < 9", mode="lazy"))
    report = run_merge(Work(world.table, RUN, lambda: engine_of(world, tmp_path)), MergeOptions())
    assert report.counts.rows_deleted == 9
    assert stored_ids(world.table) == visible_ids(world.table) == Counter(range(9, 24))


def test_lazy_is_what_the_table_says_when_nobody_asks(tmp_path: Path) -> None:
    world = world_of(deletes="lazy")
    assert run_delete(Work(world.table, RUN, never), DeleteOptions(where="id < 9")).mode == "lazy"


def test_an_append_that_began_before_a_delete_loses_its_matching_rows(delete: Delete) -> None:
    world = world_of()

    def late() -> Iterator[pa.RecordBatch]:
        rows = pa.table({"id": [3, 100], "day": [1, 0], "name": ["late", "late"]})
        yield from rows.to_batches()
        delete(world, "id = 3")
        world.clock.advance(10)

    Appender(world.table).append(late())
    append(world, range(3, 4))
    assert visible_ids(world.table) == Counter([*range(24), 100])


def test_rows_of_an_eager_delete_are_not_hidden_a_second_time(delete: Delete) -> None:
    world = world_of()
    before = set(snapshot(world).live)
    report = delete(world, "id = 3")
    (new,) = [m for p, m in snapshot(world).live.items() if p not in before]
    assert new.d == (report.delete,)
    assert new.q == 0
    assert not snapshot(world).pending_deletes(new, "day=1")


def test_a_part_that_loses_all_rows_by_reading_is_not_replaced_by_an_empty_one(
    delete: Delete,
) -> None:
    world = world_of()
    report = delete(world, "name in ('n0', 'n2', 'n4')")
    assert (report.counts.parts_in, report.counts.parts_out) == (1, 0)
    assert visible_ids(world.table) == Counter(set(range(24)) - {0, 2, 4})


@pytest.mark.long
def test_only_the_partitions_that_are_asked_for_lose_rows(delete: Delete) -> None:
    world = world_of()
    report = delete(world, "name in ('n2', 'n3')", partitions=("day=1",))
    assert report.counts.rows_deleted == 1
    assert visible_ids(world.table) == Counter(set(range(24)) - {3})


def test_a_null_is_never_deleted_by_a_comparison(delete: Delete) -> None:
    world = make_world()
    Appender(world.table).append(pa.table({"id": [1, 2, None]}))
    delete(world, "not (id = 1)")
    assert visible_ids(world.table) == stored_ids(world.table) == Counter([1, None])
    delete(world, "id is null")
    assert visible_ids(world.table) == stored_ids(world.table) == Counter([1])


@pytest.mark.long
def test_a_predicate_as_json_does_the_same(delete: Delete) -> None:
    world = world_of()
    delete(world, '{"op":"=","column":"id","value":3}')
    assert visible_ids(world.table) == Counter(set(range(24)) - {3})


@pytest.mark.long
@pytest.mark.parametrize(
    ("where", "said"),
    [
        ("id + 1 = 2", "is not supported in a condition"),
        ("nobody = 2", "has no column 'nobody'"),
        ("id = 'x'", "'x' is not a number"),
        ("  ", "the condition is empty"),
        ('{"op":"="}', "the predicate cannot be parsed"),
        ("id = 1; drop table t", "`"),
    ],
)
def test_a_condition_that_is_none_changes_nothing(where: str, said: str, delete: Delete) -> None:
    world = world_of()
    before = dict(world.store.objects)
    with pytest.raises(UsageError) as raised:
        delete(world, where)
    assert said in raised.value.message
    assert world.store.objects == before


def test_a_partition_that_is_not_there_is_named(delete: Delete) -> None:
    with pytest.raises(UsageError, match="no partition of the table matches 'day=9'"):
        delete(world_of(), "id = 1", partitions=("day=9",))


def test_a_dry_run_counts_and_writes_nothing(delete: Delete) -> None:
    world = world_of()
    before = dict(world.store.objects)
    asked = DeleteOptions(where="id < 8")
    plan = preview(world.table, asked).to_json()
    assert (plan["parts_to_drop"], plan["rows_to_drop"], plan["parts_to_read"]) == (2, 6, 2)
    assert plan["where"] == {"op": "<", "column": "id", "value": 8}
    assert plan["left_alone"] == {"its statistics prove that no row matches": 4}
    report = delete(world, "id < 8", dry_run=True)
    assert (report.dry_run, report.transaction, report.counts.rows_deleted) == (True, None, 0)
    assert world.store.objects == before


def test_a_dry_run_says_when_only_the_record_would_be_committed() -> None:
    plan = preview(world_of().table, DeleteOptions(where="id > 1000"))
    assert plan.only_record
    assert not plan.nothing_to_do


def test_the_record_is_committed_also_when_no_row_matches() -> None:
    world = world_of()
    report = run_delete(Work(world.table, RUN, never), DeleteOptions(where="id > 1000"))
    assert report.transaction == 1
    assert list(snapshot(world).deletes) == [report.delete]


def test_a_part_that_does_not_read_stops_the_delete_and_leaves_no_output(delete: Delete) -> None:
    world = world_of()
    broken = next(k for k, m in snapshot(world).live.items() if m.stats()["id"][0] == 6)
    data, modified = world.store.objects[broken]
    world.store.objects[broken] = (data[:-9], modified)
    before = {k for k in world.store.objects if "_probe" not in k}
    with pytest.raises(DeleteFailedError) as raised:
        delete(world, "id in (3, 8)")
    assert raised.value.report.failures[0].key == broken
    assert set(world.store.objects) == before


@pytest.mark.long
def test_a_merge_in_between_makes_the_delete_plan_again(tmp_path: Path) -> None:
    world = world_of()
    merges: list[int] = []

    class Rival(LocalEngine):
        def run(self, tasks: Any) -> Any:
            found = list(super().run(tasks))
            if not merges:
                merges.append(1)
                own = engine_of(world, tmp_path)
                run_merge(Work(world.table, RUN, lambda: own), MergeOptions())
            yield from found

    rival = Rival(lambda: world.store, tmp_path, world.ids, SystemClock())
    report = run_delete(Work(world.table, RUN, lambda: rival), DeleteOptions(where="id = 3"))
    assert report.replans == 1
    assert visible_ids(world.table) == stored_ids(world.table) == Counter(set(range(24)) - {3})
    objects = {k for k in world.store.objects if "/_data/" in k}
    assert objects == set(snapshot(world).parts)


def test_a_delete_gives_up_after_losing_too_often(tmp_path: Path) -> None:
    world = world_of(merge={"max_replans": 0, "min_inputs": 2})

    class Rival(LocalEngine):
        def run(self, tasks: Any) -> Any:
            found = list(super().run(tasks))
            own = engine_of(world, tmp_path)
            run_merge(Work(world.table, RUN, lambda: own), MergeOptions())
            yield from found

    rival = Rival(lambda: world.store, tmp_path, world.ids, SystemClock())
    with pytest.raises(CommitConflictError, match="took parts of t away 1 time"):
        run_delete(Work(world.table, RUN, lambda: rival), DeleteOptions(where="id = 3"))
    assert visible_ids(world.table) == Counter(range(24))


@pytest.mark.long
def test_an_append_between_plan_and_commit_is_covered_by_the_record(tmp_path: Path) -> None:
    world = world_of()

    class Beside(LocalEngine):
        def run(self, tasks: Any) -> Any:
            append(world, range(3, 5))
            yield from super().run(tasks)

    beside = Beside(lambda: world.store, tmp_path, world.ids, SystemClock())
    report = run_delete(Work(world.table, RUN, lambda: beside), DeleteOptions(where="id = 3"))
    assert report.replans == 0
    assert visible_ids(world.table) == Counter([i for i in [*range(24), 4] if i != 3])


@pytest.mark.long
def test_with_a_primary_key_every_touched_part_stays_by_itself(delete: Delete) -> None:
    world = make_world(primary_key=["id"])
    for value in (1, 2, 3):
        world.clock.advance(10)
        Appender(world.table).append(pa.table({"id": [7, value], "v": [value, value]}))
    before = {m.order() for m in snapshot(world).live.values()}
    delete(world, "id in (1, 3)")
    live = snapshot(world).live.values()
    assert {m.order() for m in live} == before
    assert len(live) == 3


@pytest.mark.long
def test_the_footer_of_a_rewritten_part_names_only_what_it_replaces(delete: Delete) -> None:
    world = world_of()
    before = snapshot(world).live
    delete(world, "name = 'n7'")
    after = snapshot(world)
    (new,) = set(after.live) - set(before)
    footer = pq.read_metadata(io.BytesIO(world.store.objects[new][0]))
    stated = read_pairs(new, footer.metadata)
    gone = [k for k in before if k not in after.live]
    assert stated is not None
    assert list(stated.replaces) == [k.rpartition("/")[2] for k in gone]
    assert stated.writer == "delete"
    assert after.parts[new].order() == stated.o == before[gone[0]].order()
