"""Clustered tables end to end, without partitions: appends, merges, deletes, drops, verify."""

from __future__ import annotations

import io
import random
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from firnline.appends.append import Appender
from firnline.clock import SystemClock
from firnline.kernel.local import LocalEngine
from firnline.log.records import Marker
from firnline.log.txn_file import RunIdentity
from firnline.operations.delete.run import run_delete
from firnline.operations.drop.run import list_partitions, run_drop
from firnline.operations.merge.run import MergeReport, preview, run_merge
from firnline.operations.operation import Work
from firnline.operations.options import (
    DeleteOptions,
    DropOptions,
    MergeOptions,
    RebuildOptions,
    VerifyOptions,
)
from firnline.operations.rebuild.run import run_rebuild
from firnline.operations.verify.run import run_verify
from firnline.parquet.part import read_pairs
from tests.support.cleanups import keys_under
from tests.support.log_tables import snapshot, v1_live
from tests.support.reading import stored_ids, visible_ids
from tests.support.world import Crashed, Fault, FaultyStore, World, make_world

RUN = RunIdentity(run_id="r")


def world_of(appends: int = 4, method: str = "range", **given: Any) -> World:
    """300 KiB of incompressible rows in each append, ids from anywhere; a target of 1 MiB."""
    cluster = {"columns": ["id", "other"], "method": method}
    world = make_world(cluster_by=cluster, merge={"target_size": "1MiB"}, **given)
    for number in range(appends):
        append(world, number)
    return world


def append(world: World, number: int, ids: range | None = None) -> None:
    chance = random.Random(number)
    picked = list(ids) if ids is not None else [chance.randrange(10_000) for _ in range(300)]
    world.clock.advance(10)
    rows = {
        "id": picked,
        "other": [chance.randrange(10_000) for _ in picked],
        "noise": [chance.randbytes(1_000) for _ in picked],
    }
    Appender(world.table).append(pa.table(rows))


def engine_of(world: World, scratch: Path) -> LocalEngine:
    return LocalEngine(lambda: world.table.store, scratch, world.ids, SystemClock())


def merge(world: World, scratch: Path) -> MergeReport:
    return run_merge(Work(world.table, RUN, lambda: engine_of(world, scratch)), MergeOptions())


def live(world: World) -> list[Marker]:
    found = snapshot(world).live.values()
    return sorted(found, key=lambda m: m.stats()["id"][0])  # type: ignore[arg-type, return-value]  # all of them numbers


def bounds(marker: Marker, column: str = "id") -> tuple[Any, Any]:
    low, high, _ = marker.stats()[column]
    return low, high


@pytest.mark.long
def test_a_table_without_partitions_becomes_parts_that_do_not_overlap(tmp_path: Path) -> None:
    world = world_of(8)
    before = visible_ids(world.table)
    report = merge(world, tmp_path)
    assert (report.counts.parts_in, report.counts.parts_out, report.groups) == (8, 2, 1)
    first, second = live(world)
    assert bounds(first)[1] <= bounds(second)[0]
    assert first.c is not None
    assert first.c == second.c
    assert visible_ids(world.table) == before
    assert v1_live(world) == set(snapshot(world).live)
    assert merge(world, tmp_path).groups == 0


@pytest.mark.long
def test_a_z_order_narrows_both_columns(tmp_path: Path) -> None:
    world = world_of(16, "zorder")
    assert merge(world, tmp_path).counts.parts_out == 5
    for column in ("id", "other"):
        widths = [high - low for low, high in (bounds(m, column) for m in live(world))]
        assert sum(widths) < 0.8 * 5 * 10_000


@pytest.mark.long
def test_late_rows_widen_nothing_for_long(tmp_path: Path) -> None:
    world = world_of(8)
    merge(world, tmp_path)
    append(world, 90, range(4_000, 4_300))
    assert preview(world.table, MergeOptions()).nothing_to_do
    for number in range(91, 94):
        append(world, number, range(4_000, 4_300))
    merge(world, tmp_path)  # the late rows among themselves
    assert len(live(world)) == 3
    for number in range(100, 108):
        append(world, number)
    merge(world, tmp_path)
    spans = [bounds(m) for m in live(world)]
    assert all(before[1] <= after[0] for before, after in pairwise(spans))


@pytest.mark.long
def test_every_output_says_what_it_was_made_of(tmp_path: Path) -> None:
    world = world_of(8)
    inputs = {m.p.rpartition("/")[2] for m in live(world)}
    merge(world, tmp_path)
    for marker in live(world):
        footer = pq.read_metadata(io.BytesIO(world.store.get(marker.p)))
        found = read_pairs(marker.p, footer.metadata)
        assert found is not None
        assert (set(found.replaces), found.rows, found.partition) == (inputs, marker.n, "")


@pytest.mark.long
@pytest.mark.parametrize("mode", ["lazy", "eager"])
def test_a_delete_in_a_run_rewrites_its_parts_one_by_one_and_leaves_the_run(
    mode: Any, tmp_path: Path
) -> None:
    world = world_of(8)
    before = visible_ids(world.table)
    merge(world, tmp_path)
    (run,) = {m.c for m in live(world)}
    unchanged = live(world)[1].p
    victim = bounds(live(world)[0])[0]
    options = DeleteOptions(where=f"id = {victim}", mode=mode)
    run_delete(Work(world.table, RUN, lambda: engine_of(world, tmp_path)), options)
    if mode == "lazy":
        assert merge(world, tmp_path).counts.parts_in == 1
    assert {m.c for m in live(world)} == {run}
    assert live(world)[1].p == unchanged
    del before[victim]
    assert visible_ids(world.table) == stored_ids(world.table) == before
    assert merge(world, tmp_path).groups == 0


@pytest.mark.long
def test_a_lazy_delete_while_a_clustered_merge_runs_applies_to_all_outputs(tmp_path: Path) -> None:
    world = world_of(8)
    before = visible_ids(world.table)

    class Slow(LocalEngine):
        def run(self, tasks: Any) -> Any:
            options = DeleteOptions(where="id < 9000", mode="lazy")
            run_delete(Work(world.table, RUN, lambda: engine_of(world, tmp_path)), options)
            yield from super().run(tasks)

    slow = Slow(lambda: world.store, tmp_path, world.ids, SystemClock())
    report = run_merge(Work(world.table, RUN, lambda: slow), MergeOptions())
    assert (report.replans, report.counts.parts_out) == (0, 2)
    left = Counter({i: n for i, n in before.items() if i >= 9_000})
    assert visible_ids(world.table) == left
    again = merge(world, tmp_path)
    # The statistics of the first output prove that it is hidden as a whole.
    assert (again.counts.parts_in, again.counts.parts_out) == (2, 1)
    assert stored_ids(world.table) == left


@pytest.mark.long
def test_outputs_of_a_lost_race_are_deleted_all_of_them(tmp_path: Path) -> None:
    world = world_of(8)
    before = visible_ids(world.table)

    class Rival(LocalEngine):
        def run(self, tasks: Any) -> Any:
            found = list(super().run(tasks))
            if not done:
                done.append(1)
                merge(world, tmp_path / "rival")
            yield from found

    done: list[int] = []
    rival = Rival(lambda: world.store, tmp_path, world.ids, SystemClock())
    report = run_merge(Work(world.table, RUN, lambda: rival), MergeOptions())
    assert (report.replans, report.counts.parts_out) == (1, 0)
    assert visible_ids(world.table) == before
    assert keys_under(world, "_data") == set(snapshot(world).parts)


def attempt(world: World, scratch: Path, fault: Fault | None) -> list[str]:
    """A merge on a store with a fault; the calls it made."""
    store = FaultyStore(world.store, fault)
    table = replace(world.table, store=store)
    engine = LocalEngine(lambda: store, scratch, world.ids, SystemClock())
    with suppress(Crashed):
        run_merge(Work(table, RUN, lambda: engine), MergeOptions())
    return store.calls


@pytest.mark.long
def test_all_outputs_come_at_once_or_not_at_all(tmp_path: Path) -> None:
    world = world_of(8)
    before = set(snapshot(world).live)
    calls = attempt(world_of(8), tmp_path, None)
    puts = [at for at, call in enumerate(calls) if call.startswith("put") and "_probe" not in call]
    assert len(puts) == 4
    for at in puts:
        assert set(snapshot(world).live) == before
        attempt(world, tmp_path, Fault(at, "after"))
        now = set(snapshot(world).live)
        if now != before:
            assert len(now) == 2
            break
    else:
        # Committed, not published: the next to come does that.
        assert merge(world, tmp_path).groups == 0
    assert len(snapshot(world).live) == 2


@pytest.mark.long
def test_verify_and_rebuild_know_outputs_with_one_origin(tmp_path: Path) -> None:
    world = world_of(8)
    before = visible_ids(world.table)
    merge(world, tmp_path)
    append(world, 50)
    before = visible_ids(world.table)
    assert not run_verify(Work(world.table), VerifyOptions()).findings
    for key in keys_under(world, "_log"):
        del world.store.objects[key]
    run_rebuild(Work(world.table, RUN), RebuildOptions())
    assert visible_ids(world.table) == before
    assert len(snapshot(world).live) == 3


def test_the_whole_of_a_table_without_partitions_can_be_dropped() -> None:
    world = world_of(2)
    (listed,) = list_partitions(world.table)
    assert (listed.partition, listed.parts) == ("", 2)
    run_drop(Work(world.table, RUN), DropOptions(partitions=("",)))
    assert not snapshot(world).live


@pytest.mark.long
def test_requests_are_a_get_for_each_input_and_a_put_for_each_output(tmp_path: Path) -> None:
    world = world_of(8)
    calls = Counter(
        call.split("/")[0] for call in attempt(world, tmp_path, None) if "/_data/" in call
    )
    assert calls == {"get t": 8, "put t": 2}
