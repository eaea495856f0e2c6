"""Statistics from footers, restated in the log: requests, rivals, crashes, changes of columns."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from firnline.appends.append import Appender
from firnline.clock import SystemClock
from firnline.commit.base import take_base
from firnline.errors import StoreUnavailableError
from firnline.kernel.local import LocalEngine
from firnline.log import codec
from firnline.log.records import NO_STATS, Marker
from firnline.log.txn_file import RunIdentity
from firnline.operations.analyze import run as analyze
from firnline.operations.analyze.run import AnalyzeFailedError, AnalyzeReport, run_analyze
from firnline.operations.delete.run import run_delete
from firnline.operations.merge.run import run_merge
from firnline.operations.operation import Work
from firnline.operations.options import (
    AnalyzeOptions,
    DeleteOptions,
    Evolution,
    LazyOptions,
    MergeOptions,
    RestoreOptions,
    VerifyOptions,
)
from firnline.operations.properties.run import run_apply
from firnline.operations.restore.run import run_restore
from firnline.operations.schema.lazy import run_lazily
from firnline.operations.verify.run import run_verify
from firnline.settings.load import TableSettings
from firnline.store.probe import forget
from firnline.types.order import SortKey
from tests.support.log_tables import snapshot, v1_live
from tests.support.reading import visible_ids
from tests.support.v1_client import V1Client
from tests.support.world import Crashed, World, make_world

RUN = RunIdentity(run_id="r")


def world_of(appends: int = 6, wanted: tuple[str, ...] = ("x",), **given: Any) -> World:
    """Appends of ten ids each, from before the table kept bounds of ``wanted``."""
    world = make_world(**{"partition_by": ["d"], **given})
    for number in range(appends):
        world.clock.advance(10)
        rows = {
            "id": list(range(number * 10, number * 10 + 10)),
            "d": [number % 2] * 10,
            "x": [number] * 9 + [None],
            "f": [0.5] * 10,
        }
        Appender(world.table).append(pa.table(rows))
    keep(world, *wanted, **given)
    return world


def keep(world: World, *columns: str, **given: Any) -> None:
    """Make the table keep bounds of these columns from now on."""
    plain = {"name": "t", "root": "memory://bucket/t", "partition_by": ["d"], **given}
    world.settings = TableSettings.model_validate({**plain, "statistics": columns})
    world.table = replace(world.table, settings=world.settings)
    run_apply(world.table, RUN)


def call(world: World, **options: Any) -> AnalyzeReport:
    return run_analyze(Work(world.table, RUN), AnalyzeOptions(**options))


def live(world: World) -> list[Marker]:
    return sorted(snapshot(world).live.values(), key=lambda m: m.p)


def bounds(world: World, column: str = "x") -> list[Any]:
    state = snapshot(world)
    return [state.stats_of(marker).get(column) for marker in live(world)]


def merge(world: World, scratch: Path) -> None:
    engine = LocalEngine(lambda: world.table.store, scratch, world.ids, SystemClock())
    run_merge(Work(world.table, RUN, lambda: engine), MergeOptions())


def test_the_log_states_what_the_footers_say_and_no_part_is_written() -> None:
    world = world_of()
    parts, before = set(snapshot(world).live), visible_ids(world.table)
    assert bounds(world) == [None] * 6
    report = call(world)
    assert sorted(bounds(world)) == [(n, n, 1) for n in range(6)]
    assert set(snapshot(world).live) == parts == v1_live(world)
    assert visible_ids(world.table) == before
    assert (report.parts, report.parts_without, report.parts_gone, report.failed) == (6, 0, 0, 0)
    assert not run_verify(Work(world.table), VerifyOptions(deep=True)).findings


def test_a_part_costs_one_ranged_get_and_5000_parts_two_puts() -> None:
    world = world_of()
    base = take_base(world.table)
    before = world.store.counters.as_dict()
    take_base(world.table)
    reading = {k: v - before[k] for k, v in world.store.counters.as_dict().items()}
    forget()
    assert base.seq == 1
    report = call(world)
    assert report.requests["get"] == 6 + reading["get"] + 1  # one of the probe of the store
    assert report.transactions == (2,)
    assert report.plan["requests"] == 6


def test_a_second_run_reads_nothing() -> None:
    world = world_of()
    call(world)
    report = call(world)
    assert (report.parts, report.transactions, report.plan["parts"]) == (0, (), 0)
    assert snapshot(world).seq == 2


def test_a_dry_run_changes_nothing() -> None:
    world = world_of()
    report = call(world, dry_run=True)
    assert (report.plan["parts"], report.parts, report.transactions) == (6, 0, ())
    assert analyze.preview(world.table, AnalyzeOptions()).to_json() == report.plan
    assert snapshot(world).seq == 1


def test_partitions_that_are_not_chosen_stay_as_they_are() -> None:
    world = world_of()
    report = call(world, partitions=("d=1",))
    assert report.parts == 3
    assert sum(found is None for found in bounds(world)) == 3


def test_each_batch_is_a_transaction(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(analyze, "BATCH", 4)
    world = world_of()
    said: list[tuple[int, int]] = []
    report = run_analyze(
        Work(world.table, RUN, tell=lambda done, total: said.append((done, total))),
        AnalyzeOptions(),
    )
    assert report.transactions == (2, 3)
    assert report.parts == 6
    assert said == [(6, 6)]


def test_a_part_of_another_client_gets_its_number_of_rows_too() -> None:
    world = world_of(1)
    rows = pa.table({"id": [90], "d": [1], "x": [7]})
    kinds = {"id": "BIGINT", "d": "BIGINT", "x": "BIGINT", "f": "DOUBLE"}
    V1Client(world).append_rows("d=1", rows, kinds)
    call(world)
    (foreign,) = [m for m in live(world) if m.stats().get("x") == (7, 7, 0)]
    assert foreign.n == 1
    assert foreign.q is not None  # as in every marker that a transaction writes


def beside(world: World, act: Callable[[], object]) -> None:
    """Let ``act`` happen right before the run puts its transaction."""
    real, done = world.store.put_new, list[str]()

    def put_new(key: str, data: bytes) -> None:
        if "/_txn/" in key and not done:
            done.append(key)
            act()
        real(key, data)

    world.store.put_new = put_new  # type: ignore[method-assign]


def test_a_merge_that_replaces_the_parts_meanwhile_is_not_undone(tmp_path: Path) -> None:
    world = world_of(6, merge={"min_inputs": 2})
    before = visible_ids(world.table)
    beside(world, lambda: merge(world, tmp_path))
    report = call(world)
    assert (report.parts, report.parts_gone, report.transactions) == (0, 6, ())
    assert len(live(world)) == 2
    assert visible_ids(world.table) == before
    assert None not in bounds(world)  # of the merge itself


@pytest.mark.long
def test_parts_that_stay_are_restated_beside_a_merge_of_others(tmp_path: Path) -> None:
    world = world_of(6, merge={"min_inputs": 2})
    engine = LocalEngine(lambda: world.table.store, tmp_path, world.ids, SystemClock())
    only = MergeOptions(partitions=("d=1",))
    beside(world, lambda: run_merge(Work(world.table, RUN, lambda: engine), only))
    report = call(world)
    assert (report.parts, report.parts_gone) == (3, 3)
    assert len(live(world)) == 4
    assert None not in bounds(world)


@pytest.mark.long
def test_a_delete_that_is_noted_in_the_markers_meanwhile_stays_noted(tmp_path: Path) -> None:
    world = world_of(2)
    engine = LocalEngine(lambda: world.table.store, tmp_path, world.ids, SystemClock())
    where = DeleteOptions(where="f = 9.5", mode="eager")  # no part holds such a row
    beside(world, lambda: run_delete(Work(world.table, RUN, lambda: engine), where))
    call(world)
    assert all(marker.d for marker in live(world))
    assert None not in bounds(world)


@pytest.mark.long
@pytest.mark.parametrize("keys", ["_txn/", "_log/"])
@pytest.mark.parametrize("effect", ["before", "after"])
def test_a_run_that_dies_has_done_all_or_nothing_and_the_next_goes_on(
    keys: str, effect: str
) -> None:
    world = world_of()
    before = visible_ids(world.table)
    real = world.store.put_new

    def put_new(key: str, data: bytes) -> None:
        if keys in key and effect == "before":
            raise Crashed
        real(key, data)
        if keys in key:
            raise Crashed

    world.store.put_new = put_new  # type: ignore[method-assign]
    with pytest.raises(Crashed):
        call(world)
    world.store.put_new = real  # type: ignore[method-assign]
    call(world)
    assert None not in bounds(world)
    assert visible_ids(world.table) == before


def test_a_renamed_column_waits_for_the_merge_that_renames_it_in_the_parts(tmp_path: Path) -> None:
    world = world_of(2, wanted=(), partition_by=[], merge={"min_inputs": 2})
    run_lazily(Work(world.table, RUN), LazyOptions(evolution=Evolution(rename={"x": "y"})))
    keep(world, "y", partition_by=[], merge={"min_inputs": 2})
    assert call(world).plan["parts"] == 0
    merge(world, tmp_path)
    assert bounds(world, "y") == [(0, 1, 2)]


def test_a_widened_column_has_the_bounds_of_its_narrower_values() -> None:
    world = world_of(1, wanted=())
    world.clock.advance(10)
    days = pa.array([3, 4], pa.date32())
    Appender(world.table).append(pa.table({"id": [90, 91], "d": [0, 0], "day": days}))
    run_lazily(Work(world.table, RUN), LazyOptions(evolution=Evolution(widen={"day": "TIMESTAMP"})))
    keep(world, "day")
    call(world)
    first, last = "1970-01-04T00:00:00.000000", "1970-01-05T00:00:00.000000"
    assert sorted(bounds(world, "day"), key=str) == [(first, last, 0), (None, None, 10)]
    assert call(world).plan["parts"] == 0


def test_a_new_column_is_null_in_parts_from_before_it() -> None:
    world = world_of(1, wanted=())
    world.clock.advance(10)
    Appender(world.table).append(pa.table({"id": [90], "d": [0], "new": [5]}))
    keep(world, "new")
    call(world)
    assert sorted(bounds(world, "new"), key=str) == [(5, 5, 0), (None, None, 10)]


def test_a_footer_that_cannot_be_read_is_named_and_the_others_are_done() -> None:
    world = world_of()
    broken = live(world)[2].p
    world.store.objects[broken] = (b"x" * 2_000, 1)
    with pytest.raises(AnalyzeFailedError) as caught:
        call(world)
    report = caught.value.report
    assert (report.parts, report.failed) == (5, 1)
    assert report.failures[0].key == broken
    assert sum(found is None for found in bounds(world)) == 1


def test_a_part_with_other_rows_than_the_log_says_is_named() -> None:
    world = world_of(2)
    part = live(world)[0]
    buffer = io.BytesIO()
    pq.write_table(pa.table({"id": [1], "d": [0], "x": [1], "f": [0.5]}), buffer)
    size = part.b
    data = buffer.getvalue()
    world.store.objects[part.p] = (data.rjust(size, b" ") if len(data) < size else data[-size:], 1)
    with pytest.raises(AnalyzeFailedError, match="has 1 row, and the log says 10"):
        call(world)


@pytest.mark.long
def test_a_footer_without_bounds_is_counted_and_read_again_by_the_next_run() -> None:
    world = world_of(1, wanted=())
    client, buffer = V1Client(world), io.BytesIO()
    rows = pa.table({"id": [90], "d": [1], "x": [7]})
    pq.write_table(rows, buffer, write_statistics=False)
    kinds = {"id": "BIGINT", "d": "BIGINT", "x": "BIGINT", "f": "DOUBLE"}
    key = client.append_rows("d=1", rows, kinds)
    data = buffer.getvalue()
    padded = world.store.objects[key][0]
    assert len(padded) >= len(data)
    world.store.objects[key] = (data.rjust(len(padded), b" "), 1)
    keep(world, "x")
    for _ in range(2):
        report = call(world)
        assert report.parts_without == 1


def test_a_store_that_fails_ends_the_run() -> None:
    world = world_of()

    def get_range(key: str, start: int, length: int) -> bytes:
        raise StoreUnavailableError(f"no answer to {key}", next_step="try again")

    world.store.get_range = get_range  # type: ignore[method-assign]
    with pytest.raises(StoreUnavailableError):
        call(world)
    assert snapshot(world).seq == 1


@pytest.mark.long
def test_a_restore_to_before_an_analyze_undoes_nothing() -> None:
    world = world_of()
    call(world)
    parts, before = set(snapshot(world).live), bounds(world)
    run_restore(Work(world.table, RUN, tell=lambda _: None), RestoreOptions(to=1))
    assert set(snapshot(world).live) == parts
    assert bounds(world) == before


SORTED: dict[str, Any] = {"sort_by": ["x desc", "id"]}
BY_X = (SortKey("x", descending=True), SortKey("id"))


def forgotten(world: World) -> None:
    """Take the orders out of the log: a version before they were stated has written it."""
    for key in [k for k in world.store.objects if k.startswith(world.table.paths.log_dir)]:
        content = codec.decode(key, world.store.objects[key][0], world.table.paths)
        markers = [msgspec.structs.replace(m, k=NO_STATS) for m in content.markers]
        data = codec.encode(msgspec.structs.replace(content, markers=markers))
        world.store.objects[key] = (data, world.store.objects[key][1])


@pytest.mark.long
def test_parts_of_a_sorted_table_say_in_the_log_what_their_footers_say_of_the_order() -> None:
    world = world_of(wanted=(), **SORTED)
    assert {m.sorted_by() for m in live(world)} == {BY_X}
    assert call(world).plan["parts"] == 0
    forgotten(world)
    before = [(m.p, m.g, m.s) for m in live(world)]
    report = call(world)
    assert (report.parts, report.plan["parts_without_order"]) == (6, 6)
    assert [(m.p, m.g, m.s) for m in live(world)] == before
    assert {m.sorted_by() for m in live(world)} == {BY_X}
    assert not run_verify(Work(world.table), VerifyOptions(deep=True)).findings
    assert call(world).plan["parts"] == 0


@pytest.mark.long
def test_bounds_and_order_are_taken_from_one_look_at_the_footer() -> None:
    world = world_of(wanted=("x", "id"), **SORTED)
    forgotten(world)
    report = call(world)
    assert (report.parts, report.plan["requests"]) == (6, 6)
    assert sorted(bounds(world)) == [(n, n, 1) for n in range(6)]
    assert {m.sorted_by() for m in live(world)} == {BY_X}


def test_a_footer_that_says_nothing_of_the_order_leaves_the_part_without() -> None:
    world = world_of(wanted=())
    keep(world, **SORTED)
    report = call(world)
    # Bounds of the columns that it is sorted by now are another matter.
    assert report.plan["parts_without_order"] == 6
    assert {m.sorted_by() for m in live(world)} == {()}
