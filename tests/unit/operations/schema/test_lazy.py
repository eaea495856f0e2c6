"""Columns that change at once for readers, and part by part in the parts."""

from __future__ import annotations

import datetime
import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import firnline
from firnline.errors import UsageError
from firnline.log.records import Delete
from firnline.operations.delete.run import run_delete
from firnline.operations.operation import Work
from firnline.operations.options import DeleteOptions, Evolution, LazyOptions, VerifyOptions
from firnline.operations.schema.lazy import preview
from firnline.operations.verify.run import run_verify
from firnline.predicate.tree import parse_json
from firnline.state.history import history
from firnline.state.snapshot import Snapshot, read_snapshot
from tests.support.cleanups import clean_up
from tests.support.evolving import (
    DAY,
    RUN,
    at_once,
    columns_in_parts,
    engine,
    lazily,
    merged,
    put,
    rows_are,
    schema_of,
)
from tests.support.log_tables import v1_live
from tests.support.world import World, make_world

FLOAT = float(pa.scalar(0.1, pa.float32()).as_py())


def world_of(**given: Any) -> World:
    """Two appends of two rows."""
    world = make_world(**{"sort_by": ["id"], "merge": {"min_inputs": 2}, **given})
    for n in range(2):
        put(world, columns_of(n))
    return world


def columns_of(n: int) -> dict[str, Any]:
    return {
        "id": pa.array([2 * n, 2 * n + 1], pa.int32()),
        "price": pa.array([0.1, None], pa.float32()),
        "note": [f"n{n}", None],
        "gone": pa.array([n, n], pa.int16()),
    }


def row(n: int, **more: Any) -> dict[str, Any]:
    """The row with an id after ``note`` became ``remark`` and ``gone`` went."""
    plain: dict[str, Any] = {"id": n, "price": None, "remark": None}
    return plain | ({"price": FLOAT, "remark": f"n{n // 2}"} if n % 2 == 0 else {}) | more


CHANGED: dict[str, Any] = {
    "widen": {"id": "BIGINT", "price": "DOUBLE"},
    "rename": {"note": "remark"},
    "drop": ("gone",),
}
AFTER = {"id": "BIGINT", "price": "DOUBLE", "remark": "VARCHAR"}
FILES = {("id", "int64"), ("price", "double"), ("remark", "string")}


def state(world: World) -> Snapshot:
    return read_snapshot(world.store, world.table.paths)


def test_one_small_transaction_changes_what_readers_see_and_touches_no_part() -> None:
    world = world_of()
    before, live = dict(world.store.objects), set(state(world).live)
    report = lazily(world, **CHANGED)
    new = world.store.objects.keys() - before.keys()
    assert sorted(key.split("/")[1] for key in new) == ["_log", "_txn"]
    assert all(world.store.objects[key] == data for key, data in before.items())
    assert report.requests["get"] <= 5  # two appends, and the probe of the store
    assert report.transaction == 1
    assert schema_of(world) == AFTER
    rows_are(world, [row(n) for n in range(4)])
    assert set(state(world).live) == live == v1_live(world)
    (entry,) = history(world.table)
    assert (entry.op, entry.why) == (
        "evolve",
        "id is BIGINT; price is DOUBLE; note is remark; gone is gone",
    )
    assert not run_verify(Work(world.table), VerifyOptions(deep=True)).findings


@pytest.mark.parametrize("name", ["delta", "iceberg"])
def test_a_change_that_would_hold_a_mirror_is_refused(name: str) -> None:
    world = world_of(mirror=[name])
    changes: list[dict[str, Any]] = [{"rename": {"note": "remark"}}, {"drop": ("gone",)}]
    for asked in changes:
        with pytest.raises(UsageError, match=rf"has a mirror \({name}\), which would stand still"):
            lazily(world, **asked)
    assert lazily(world, widen=CHANGED["widen"]).transaction == 1


def test_merges_write_the_new_form_and_the_record_goes_by_rule(tmp_path: Path) -> None:
    world = world_of()
    lazily(world, **CHANGED)
    merged(world, tmp_path)
    assert columns_in_parts(world) == FILES
    assert len(state(world).changes) == 1  # an append that began before may still land
    world.clock.advance(2 * DAY)
    clean_up(world)
    put(world, {"id": [4]})
    put(world, {"id": [5]})
    merged(world, tmp_path)
    assert state(world).changes == ()
    assert schema_of(world) == AFTER
    rows_are(world, [*(row(n) for n in range(4)), {"id": 4}, {"id": 5}])
    assert not run_verify(Work(world.table), VerifyOptions(deep=True)).findings


@pytest.mark.long
@pytest.mark.parametrize("given", [{}, {"cluster_by": {"columns": ["id"], "method": "range"}}])
@pytest.mark.parametrize("size", [1, 2**21])
def test_a_part_that_no_merge_would_touch_is_written_anew_by_itself(
    given: dict[str, Any], size: int, tmp_path: Path
) -> None:
    world = make_world(merge={"target_size": 2**20, "min_inputs": 2}, **given)
    text = random.Random(0).randbytes(size // 2).hex() or "x"
    put(world, {**columns_of(0), "note": [text, None]})
    assert merged(world, tmp_path).groups == 0
    lazily(world, **CHANGED)
    assert merged(world, tmp_path).groups == 1
    assert columns_in_parts(world) == FILES
    assert merged(world, tmp_path).groups == 0
    rows_are(world, [{**row(0), "remark": text}, row(1)])


@pytest.mark.long
def test_a_column_that_comes_again_under_an_old_name_shows_no_old_value(tmp_path: Path) -> None:
    world = world_of()
    lazily(world, **CHANGED)
    put(world, {"id": pa.array([4], pa.int64()), "note": ["new"], "gone": ["text"]})
    expected = [*(row(n) for n in range(4)), {"id": 4, "note": "new", "gone": "text"}]
    assert schema_of(world) == {**AFTER, "note": "VARCHAR", "gone": "VARCHAR"}
    rows_are(world, expected)
    rows_are(world, [{"note": "new"}, *[{}] * 4], columns=["note"])
    rows_are(world, expected[4:], where="note is not null or gone = 'text'")
    merged(world, tmp_path)
    rows_are(world, expected)
    lazily(world, rename={"note": "again"}, drop=("gone",))
    rows_are(world, [*(row(n) for n in range(4)), {"id": 4, "again": "new"}])


@pytest.mark.long
def test_names_may_go_round(tmp_path: Path) -> None:
    world = world_of()
    lazily(world, rename={"note": "a"}, drop=("gone", "price"))
    put(world, {"id": pa.array([4], pa.int32()), "a": ["x"]})
    lazily(world, rename={"a": "note"})
    put(world, {"id": pa.array([5], pa.int32()), "note": ["y"], "a": ["other"]})
    expected = [{"id": n, "note": row(n)["remark"]} for n in range(4)]
    expected += [{"id": 4, "note": "x"}, {"id": 5, "note": "y", "a": "other"}]
    rows_are(world, expected)
    merged(world, tmp_path)
    rows_are(world, expected)


@pytest.mark.long
def test_filters_deletes_and_statistics_speak_of_the_columns_of_today(tmp_path: Path) -> None:
    world = world_of()
    lazily(world, **CHANGED)
    rows_are(world, [row(2)], where="remark = 'n1' and id > 1")
    assert firnline.scan(world.table, where="id > 1").plan.passed_over == {"no row can match": 1}
    rows_are(world, [row(0), row(2)], where=f"price = {FLOAT!r}")
    options = DeleteOptions(where="remark = 'n0'", mode="lazy")
    run_delete(Work(world.table, RUN, engine(world, tmp_path)), options)
    rows_are(world, [row(n) for n in (1, 2, 3)])
    run_delete(
        Work(world.table, RUN, engine(world, tmp_path)), DeleteOptions(where="remark = 'n1'")
    )
    rows_are(world, [row(1), row(3)])
    assert run_verify(Work(world.table), VerifyOptions(deep=True)).severities.get("error", 0) == 0


@pytest.mark.long
@pytest.mark.parametrize(
    ("values", "wider", "where"),
    [
        (pa.array([1, 300], pa.uint16()), "BIGINT", "v > 2"),
        (pa.array([Decimal("1.50"), Decimal("3.00")]), "DECIMAL(14,4)", "v > 2.0001"),
        (
            pa.array([datetime.date(2020, 1, 1), datetime.date(2021, 1, 1)]),
            "TIMESTAMP",
            "v > '2020-06-01 12:00:00'",
        ),
    ],
)
def test_bounds_of_the_narrower_type_go_on_ruling_parts_out(
    values: pa.Array, wider: str, where: str, tmp_path: Path
) -> None:
    world = make_world(sort_by=["v"], merge={"min_inputs": 2})
    for value in values:
        put(world, {"v": pa.array([value.as_py()], values.type)})
    lazily(world, widen={"v": wider})
    assert schema_of(world) == {"v": wider}
    scan = firnline.scan(world.table, where=where)
    assert scan.to_arrow().num_rows == len(scan.plan.task.parts) == 1
    merged(world, tmp_path)
    assert firnline.scan(world.table, where=where).to_arrow() == scan.to_arrow()


@pytest.mark.long
def test_keys_are_told_apart_as_before(tmp_path: Path) -> None:
    world = make_world(primary_key=["id"], version="v", merge={"min_inputs": 2})
    put(world, {"id": pa.array([1, 2], pa.int32()), "v": [1, 5], "x": ["a", "b"]})
    lazily(world, widen={"id": "BIGINT"}, rename={"x": "y"})
    put(world, {"id": pa.array([1, 2], pa.int64()), "v": [2, 4], "y": ["c", "d"]})
    expected = [{"id": 1, "v": 2, "y": "c"}, {"id": 2, "v": 5, "y": "b"}]
    rows_are(world, expected)
    rows_are(world, expected[1:], where="y = 'b'")
    merged(world, tmp_path)
    rows_are(world, expected)


@pytest.mark.long
def test_a_change_at_once_and_a_lazy_one_go_on_top_of_each_other(tmp_path: Path) -> None:
    world = world_of()
    lazily(world, **CHANGED)
    put(world, {"id": [4], "remark": ["x"], "note": ["again"]})
    at_once(world, tmp_path, rename={"remark": "word"}, drop=("note",))
    expected = [{"id": n, "price": row(n)["price"], "word": row(n)["remark"]} for n in range(4)] + [
        {"id": 4, "word": "x"}
    ]
    rows_are(world, expected)
    assert columns_in_parts(world) == {("id", "int64"), ("price", "double"), ("word", "string")}
    lazily(world, rename={"word": "note"})
    expected = [{**r, "note": r["word"], "word": None} for r in expected]
    rows_are(world, expected)
    merged(world, tmp_path)
    rows_are(world, expected)


def test_a_column_that_is_renamed_at_once_keeps_the_type_that_it_was_widened_to(
    tmp_path: Path,
) -> None:
    world = make_world(sort_by=["id"])
    put(world, {"id": [1], "v": pa.array([1], pa.int32())})
    lazily(world, widen={"v": "BIGINT"})
    put(world, {"id": [2], "v": pa.array([2], pa.int64())})
    at_once(world, tmp_path, rename={"v": "w"})
    assert schema_of(world) == {"id": "BIGINT", "w": "BIGINT"}
    assert columns_in_parts(world) == {("id", "int64"), ("w", "int64")}
    rows_are(world, [{"id": 1, "w": 1}, {"id": 2, "w": 2}])


@pytest.mark.long
def test_the_past_is_seen_in_the_columns_of_today() -> None:
    world = world_of()
    at = world.clock.now + 5
    lazily(world, **CHANGED)
    put(world, {"id": [4], "note": ["new"]})
    rows_are(world, [row(n) for n in range(4)], at=at)


def test_a_second_run_finds_nothing_to_widen_and_a_dry_run_writes_nothing() -> None:
    world = world_of()
    before = dict(world.store.objects)
    options = LazyOptions(evolution=Evolution(**CHANGED))
    plan = preview(world.table, options)
    assert (plan.parts, dict(plan.schema)) == (2, AFTER)
    assert world.store.objects == before
    lazily(world, widen={"id": "BIGINT"})
    assert lazily(world, widen={"id": "BIGINT"}).transaction is None


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"rename": {"note": "price"}}, "has a column 'price'"),
        ({"rename": {"note": "x", "gone": "X"}}, "'X' already"),
        ({"rename": {"note": "again"}}, "'again' already"),
        ({"drop": ("id",)}, "stands in sort_by"),
        ({"widen": {"id": "SMALLINT"}}, "not wider"),
        ({}, "no column is named"),
    ],
)
def test_what_cannot_be_is_refused_and_nothing_changes(asked: dict[str, Any], said: str) -> None:
    world = world_of()
    put(world, {"again": ["of the same type"], "id": pa.array([9], pa.int32())})
    before = dict(world.store.objects)
    with pytest.raises(UsageError, match=said):
        lazily(world, **asked)
    assert world.store.objects == before


def test_a_version_that_does_not_know_the_record_refuses_the_table() -> None:
    world = world_of()
    lazily(world, rename={"note": "remark"})
    (change,) = state(world).records.values()
    assert isinstance(change, Delete)
    with pytest.raises(UsageError, match="'schema'"):
        parse_json(change.where)  # as it does for every delete that may hide rows of a part


@pytest.mark.parametrize("change", [lazily, at_once], ids=["lazily", "at once"])
def test_a_column_that_is_renamed_stays_where_it_is(change: Any, tmp_path: Path) -> None:
    world = make_world()
    put(world, {"a": [1], "b": [2], "c": [3]})
    given = (world,) if change is lazily else (world, tmp_path)
    change(*given, rename={"a": "x", "b": "y"})
    assert list(schema_of(world)) == ["x", "y", "c"]
    assert firnline.scan(world.table).to_arrow().column_names == ["x", "y", "c"]
