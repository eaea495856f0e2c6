"""What a plan of a replace knows of the new rows from their footers: what a run would refuse."""

from __future__ import annotations

import io
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from firnline.appends.append import Appender
from firnline.clock import SystemClock
from firnline.errors import FirnlineError, PartUnreadableError, SchemaConflictError, UsageError
from firnline.kernel.local import LocalEngine
from firnline.log.txn_file import RunIdentity
from firnline.operations.operation import Work
from firnline.operations.options import ReplaceOptions
from firnline.operations.replace.plan import ReplacePlan
from firnline.operations.replace.run import preview, run_replace
from tests.support.world import World, make_world

STAGED = "memory://bucket/staged/"


def world_of(**settings: Any) -> World:
    world = make_world(sort_by=["id"], **settings)
    world.clock.advance(10)
    Appender(world.table).append(pa.table({"id": range(10), "name": ["a"] * 10}))
    return world


def stage(world: World, *tables: pa.Table | bytes, **how: Any) -> None:
    for number, table in enumerate(tables):
        sink = io.BytesIO()
        if isinstance(table, bytes):
            sink.write(table)
        else:
            pq.write_table(table, sink, **how)
        world.store.put_new(f"staged/{number}.parquet", sink.getvalue())


def asked(start: Any = 0, end: Any = 10, **more: Any) -> ReplaceOptions:
    return ReplaceOptions(
        **{"column": "id", "start": start, "end": end, "files": (STAGED,), **more}
    )


def planned(world: World, **more: Any) -> ReplacePlan:
    return preview(world.table, asked(**more))


def refused(world: World, tmp_path: Path, **more: Any) -> FirnlineError:
    """Return what the plan raises, after the run raised an error too."""
    engine = LocalEngine(lambda: world.store, tmp_path, world.ids, SystemClock())
    with pytest.raises(FirnlineError):
        run_replace(Work(world.table, RunIdentity(), lambda: engine), asked(**more))
    with pytest.raises(FirnlineError) as raised:
        planned(world, **more)
    return raised.value


def ids(*values: int | None) -> pa.Table:
    return pa.table({"id": pa.array(values, pa.int64())})


def test_the_footers_prove_that_all_rows_lie_inside() -> None:
    world = world_of()
    stage(world, ids(1, 2), ids(3))
    plan = planned(world).to_json()
    assert (plan["rows_new"], plan["rows_new_inside"]) == (3, True)


def test_a_plan_reads_the_end_of_each_staged_file_once() -> None:
    world = world_of()
    stage(world, ids(1, 2), ids(3))
    preview(world.table, asked(nothing=True, files=()))
    before = world.store.counters.get, world.store.counters.list
    preview(world.table, asked(nothing=True, files=()))
    between = world.store.counters.get, world.store.counters.list
    planned(world)
    after = world.store.counters.get, world.store.counters.list
    gets, lists = (b - a for a, b in zip(before, between, strict=True))
    assert (after[0] - between[0], after[1] - between[1]) == (gets + 2, lists + 1)


@pytest.mark.long
def test_without_statistics_rows_are_checked_when_they_are_read() -> None:
    world = world_of()
    stage(world, ids(1, 99), write_statistics=False)
    plan = planned(world).to_json()
    assert (plan["rows_new"], plan["rows_new_inside"]) == (2, False)


@pytest.mark.parametrize(
    ("new", "said"),
    [
        (ids(1, 10), "column 'id' has values from 1 to 10"),
        (ids(-1, 2), "column 'id' has values from -1 to 2"),
        (ids(1, None), "1 of its 2 rows have a null in column 'id'"),
        (pa.table({"name": ["a"]}), "the new rows have no column 'id'"),
        (ids(), "the rows to replace with are none"),
    ],
)
def test_rows_outside_by_their_footer_are_refused(new: pa.Table, said: str, tmp_path: Path) -> None:
    world = world_of()
    stage(world, new)
    error = refused(world, tmp_path)
    assert isinstance(error, UsageError)
    assert said in error.message


def test_every_condition_of_the_interval_counts(tmp_path: Path) -> None:
    world = world_of()
    stage(world, pa.table({"id": [1], "name": ["b"]}))
    error = refused(world, tmp_path, equal={"name": "a"})
    assert error.message.startswith(f"{STAGED}0.parquet has rows that do not lie in id from 0 to 1")
    assert planned(world, equal={"name": "b"}).inside


def test_bounds_that_may_be_wider_than_the_values_prove_only_what_they_can() -> None:
    """Nanoseconds are rounded up to the end of the interval, and the value is before it."""
    world = make_world(sort_by=["ts"])
    day = datetime.fromisoformat("2026-01-01")
    last = pa.array([(1_767_225_600 + 86_400) * 10**9 - 1], pa.timestamp("ns"))
    Appender(world.table).append(pa.table({"ts": last}))
    stage(world, pa.table({"ts": last}))
    span = {"column": "ts", "start": str(day), "end": str(day + timedelta(days=1))}
    assert not planned(world, **span).inside


@pytest.mark.long
def test_files_that_do_not_read_or_fit_are_named(tmp_path: Path) -> None:
    world = world_of()
    stage(world, b"id,name\n1,a\n" * 10)
    error = refused(world, tmp_path)
    assert (type(error), error.exit_code) == (PartUnreadableError, 2)
    assert f"{STAGED}0.parquet" in error.message
    other = world_of()
    stage(other, pa.table({"id": [1], "name": [True]}))
    assert isinstance(refused(other, tmp_path), SchemaConflictError)


def test_a_column_that_holds_nothing_waits_for_its_type() -> None:
    world = world_of()
    stage(world, pa.table({"id": [1], "more": pa.array([None])}))
    assert planned(world).rows_new == 1


def test_a_partition_is_refused_where_the_table_places_rows(tmp_path: Path) -> None:
    world = make_world(sort_by=["id"], partition_by=["name"])
    Appender(world.table).append(pa.table({"id": range(10), "name": ["a"] * 10}))
    stage(world, pa.table({"id": [1], "name": ["a"]}))
    assert "takes partitions from name" in refused(world, tmp_path, partition="x=1").message
    nothing = refused(world, tmp_path, files=(), nothing=True, partition="x=1")
    assert "partition 'x=1' is named for new rows" in nothing.message


def test_new_rows_may_bring_the_column_of_the_interval() -> None:
    world = world_of()
    stage(world, pa.table({"id": [1], "n": [5]}))
    plan = planned(world, column="n")
    assert (plan.rows_new, plan.inside) == (1, True)
