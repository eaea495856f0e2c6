"""Columns that become wider, get another name or go: readers see the old schema or the new."""

from __future__ import annotations

import datetime
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from firnline.appends.append import Appender
from firnline.clock import SystemClock
from firnline.commit import checkpoint
from firnline.commit.base import take_base
from firnline.errors import SchemaConflictError, UsageError
from firnline.kernel.local import LocalEngine
from firnline.log.txn_file import RunIdentity
from firnline.operations.delete.run import run_delete
from firnline.operations.merge.run import run_merge
from firnline.operations.operation import Work
from firnline.operations.options import (
    DeleteOptions,
    Evolution,
    MergeOptions,
    SchemaFixOptions,
    VerifyOptions,
)
from firnline.operations.schema.run import (
    SchemaFixFailedError,
    SchemaFixReport,
    preview,
    run_schema_fix,
)
from firnline.operations.verify.run import run_verify
from firnline.state.history import history
from firnline.state.snapshot import read_snapshot
from firnline.store.probe import forget
from tests.support.cleanups import GRACE, clean_up
from tests.support.log_tables import snapshot, v1_live
from tests.support.reading import stored_ids, visible_rows
from tests.support.world import Crashed, Fault, FaultyStore, World, make_world

RUN = RunIdentity(run_id="r")


def world_of(**given: Any) -> World:
    """Three appends; the last one has a column more."""
    world = make_world(**{"partition_by": ["day"], "sort_by": ["id"], **given})
    for number in range(3):
        append(world, number, {"late": [f"l{number}"] * 2} if number == 2 else {})
    return world


def append(world: World, number: int, more: dict[str, Any] | None = None, key: Any = None) -> None:
    world.clock.advance(10)
    rows = {
        "id": pa.array([2 * number, 2 * number + 1], key or pa.int32()),
        "day": pa.array([0, 1], pa.int32()),
        "price": pa.array([number / 2, None], pa.float32()),
        "note": [f"n{number}", None],
    }
    Appender(world.table).append(pa.table({**rows, **(more or {})}))


def engine_of(world: World, scratch: Path) -> LocalEngine:
    return LocalEngine(lambda: world.store, scratch, world.ids, SystemClock())


def evolve(world: World, scratch: Path, **asked: Any) -> SchemaFixReport:
    options = SchemaFixOptions(evolution=Evolution(**asked))
    return run_schema_fix(Work(world.table, RUN, lambda: engine_of(world, scratch)), options)


def schema(world: World) -> dict[str, str]:
    found = dict(read_snapshot(world.store, world.table.paths).schema)
    assert dict(snapshot(world).schema) == found
    return found


def rows(world: World, *names: str) -> Counter[Any]:
    return Counter(tuple(row.get(name) for name in names) for row in visible_rows(world.table))


@pytest.mark.long
def test_a_column_becomes_wider_in_every_part_that_holds_it(tmp_path: Path) -> None:
    world = world_of()
    before = rows(world, "id", "price")
    report = evolve(world, tmp_path, widen={"id": "BIGINT", "price": "DOUBLE"})
    assert schema(world)["id"] == "BIGINT"
    assert schema(world)["price"] == "DOUBLE"
    assert rows(world, "id", "price") == before
    assert evolve(world, tmp_path, widen={"id": "BIGINT"}).transaction is None
    assert (report.counts.parts_in, report.counts.parts_out) == (6, 6)
    assert v1_live(world) == set(snapshot(world).live)
    assert [entry.op for entry in history(world.table)] == ["evolve"]
    append(world, 9)  # its narrower values are cast
    assert schema(world)["id"] == "BIGINT"
    with pytest.raises(SchemaConflictError, match="cast the column"):
        append(world, 9, key=pa.uint64())
    assert stored_ids(world.table)[18] == 1
    assert not run_verify(Work(world.table), VerifyOptions(deep=False)).findings


@pytest.mark.long
def test_a_column_gets_another_name(tmp_path: Path) -> None:
    world = world_of()
    before = rows(world, "id", "note")
    evolve(world, tmp_path, rename={"note": "remark"})
    assert list(schema(world)) == ["id", "day", "price", "remark", "late"], "it stays in its place"
    assert rows(world, "id", "remark") == before
    assert not any("note" in row for row in visible_rows(world.table))


@pytest.mark.long
def test_only_parts_that_hold_the_column_are_rewritten(tmp_path: Path) -> None:
    world = world_of()
    before = set(snapshot(world).live)
    report = evolve(world, tmp_path, drop=("late",))
    assert report.counts.parts_in == 2
    assert len(before & set(snapshot(world).live)) == 4
    assert "late" not in schema(world)
    assert not any("late" in row for row in visible_rows(world.table))
    assert stored_ids(world.table) == Counter(range(6))


@pytest.mark.long
def test_all_of_it_in_one_transaction(tmp_path: Path) -> None:
    world = world_of()
    report = evolve(
        world, tmp_path, widen={"id": "BIGINT"}, rename={"note": "remark"}, drop=("price", "late")
    )
    assert report.transaction == 1
    assert schema(world) == {"day": "INTEGER", "id": "BIGINT", "remark": "VARCHAR"}
    assert rows(world, "id", "remark")[0, "n0"] == 1
    run_merge(Work(world.table, RUN, lambda: engine_of(world, tmp_path)), MergeOptions())
    assert schema(world) == {"day": "INTEGER", "id": "BIGINT", "remark": "VARCHAR"}


@pytest.mark.long
def test_merges_and_clean_ups_after_it_do_not_bring_a_column_back(tmp_path: Path) -> None:
    world = world_of()
    evolve(world, tmp_path, drop=("note",))
    for number in range(10, 14):
        world.clock.advance(10)
        Appender(world.table).append(
            pa.table({"id": pa.array([number], pa.int32()), "day": pa.array([0], pa.int32())})
        )
    run_merge(Work(world.table, RUN, lambda: engine_of(world, tmp_path)), MergeOptions())
    world.clock.advance(2 * GRACE)
    clean_up(world)
    assert "note" not in schema(world)
    assert stored_ids(world.table) == Counter([*range(6), *range(10, 14)])


@pytest.mark.long
def test_a_column_that_a_delete_speaks_of_stays_until_its_record_is_gone(tmp_path: Path) -> None:
    world = world_of()
    run_delete(
        Work(world.table, RUN, lambda: engine_of(world, tmp_path)),
        DeleteOptions(where="price = 99", mode="lazy", partitions=("day=0",)),
    )
    with pytest.raises(UsageError, match="may still hide rows"):
        evolve(world, tmp_path, drop=("price",))
    with pytest.raises(UsageError, match="may still hide rows"):
        evolve(world, tmp_path, rename={"price": "cost"})
    evolve(world, tmp_path, widen={"price": "DOUBLE"})  # the record is understood as before
    assert schema(world)["price"] == "DOUBLE"


@pytest.mark.long
def test_a_lazy_delete_on_another_column_still_hides_its_rows(tmp_path: Path) -> None:
    world = world_of()
    options = DeleteOptions(where="id < 3", mode="lazy")
    run_delete(Work(world.table, RUN, lambda: engine_of(world, tmp_path)), options)
    evolve(world, tmp_path, widen={"id": "BIGINT"}, rename={"note": "remark"})
    assert Counter(row["id"] for row in visible_rows(world.table)) == Counter([3, 4, 5])
    assert stored_ids(world.table) == Counter(range(6))


@pytest.mark.long
def test_an_append_that_brings_an_old_name_back_is_renamed_by_another_run(tmp_path: Path) -> None:
    world = world_of()
    evolve(world, tmp_path, rename={"note": "remark"})
    append(world, 7)
    assert {"note", "remark"} <= set(schema(world))
    evolve(world, tmp_path, rename={"note": "remark"})
    assert "note" not in schema(world)
    assert rows(world, "id", "remark")[14, "n7"] == 1


def test_a_dry_run_counts_and_writes_nothing() -> None:
    world = world_of()
    before = dict(world.store.objects)
    options = SchemaFixOptions(evolution=Evolution(drop=("late",)))
    plan = preview(world.table, options)
    assert (len(plan.rewrites), len(plan.sources)) == (2, 1)
    assert plan.to_json()["columns"] == [
        {"column": "late", "type": None, "rename": None, "drop": True}
    ]
    assert world.store.objects == before


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({}, "no column is named"),
        ({"drop": ("nobody",)}, "has no column 'nobody'"),
        ({"rename": {"nobody": "x"}}, "has no column 'nobody'"),
        ({"rename": {"note": "id"}}, "has a column 'id'"),
        ({"rename": {"note": "NOTE"}}, "no other name"),
        ({"rename": {"note": "x"}, "drop": ("Note",)}, "named twice"),
        ({"rename": {"note": "x", "price": "x"}}, "x"),
        ({"drop": ("day",)}, "stands in partition_by"),
        ({"drop": ("id",)}, "stands in sort_by"),
        ({"rename": {"id": "key"}}, "take it out of sort_by"),
        ({"widen": {"id": "SMALLINT"}}, "SMALLINT is not wider than INTEGER"),
        ({"widen": {"note": "BIGINT"}}, "is not wider"),
        ({"widen": {"price": "nonsense"}}, "is not a SQL type"),
    ],
)
def test_what_cannot_be_is_refused_and_nothing_changes(
    asked: dict[str, Any], said: str, tmp_path: Path
) -> None:
    world = world_of()
    before = dict(world.store.objects)
    with pytest.raises(UsageError) as raised:
        evolve(world, tmp_path, **asked)
    assert said in str(raised.value)
    assert world.store.objects == before


@pytest.mark.parametrize(
    ("kind", "wider", "narrower"),
    [
        (pa.int8(), "BIGINT", "UTINYINT"),
        (pa.uint16(), "INTEGER", "SMALLINT"),
        (pa.decimal128(10, 2), "DECIMAL(14,4)", "DECIMAL(12,5)"),
        (pa.date32(), "TIMESTAMP", "VARCHAR"),
    ],
)
def test_wider_is_what_holds_every_value(
    kind: pa.DataType, wider: str, narrower: str, tmp_path: Path
) -> None:
    world = make_world()
    value = Decimal(1) if pa.types.is_decimal(kind) else 1
    numbers = pa.array([value, None], kind if isinstance(value, Decimal) else pa.int32())
    Appender(world.table).append(pa.table({"v": numbers.cast(kind)}))
    with pytest.raises(UsageError, match="not wider"):
        evolve(world, tmp_path, widen={"v": narrower})
    evolve(world, tmp_path, widen={"v": wider})
    assert schema(world) == {"v": wider}


def test_columns_on_which_rows_are_laid_out_or_told_apart_keep_their_meaning(
    tmp_path: Path,
) -> None:
    world = make_world(partition_by=["d"], primary_key=["k"], deleted="gone")
    rows = {"d": [datetime.date(2026, 1, 1)], "k": [1], "gone": [False]}
    Appender(world.table).append(pa.table(rows))
    for asked in ({"drop": ("gone",)}, {"rename": {"k": "key"}}, {"drop": ("d",)}):
        with pytest.raises(UsageError, match="keep it"):
            evolve(world, tmp_path, **asked)
    with pytest.raises(UsageError, match="spelled, or hashed, otherwise"):
        evolve(world, tmp_path, widen={"d": "TIMESTAMP"})


def test_a_part_that_cannot_be_read_changes_nothing(tmp_path: Path) -> None:
    world = world_of()
    key = next(iter(snapshot(world).live))
    world.store.objects[key] = (b"no parquet", world.clock.now)
    before = dict(world.store.objects)
    with pytest.raises(SchemaFixFailedError):
        evolve(world, tmp_path, drop=("note",))
    assert world.store.objects == before


def test_requests_are_a_look_at_every_part_and_a_get_and_a_put_for_each_that_holds_it(
    tmp_path: Path,
) -> None:
    options = SchemaFixOptions(evolution=Evolution(drop=("late",)))
    store = FaultyStore(world_of().store)
    run_through(store, world_of(), options, tmp_path, None)
    calls = Counter(call.split("/")[0] for call in store.calls if "/_data/" in call)
    assert calls == {"get t": 6 + 2, "put t": 2}
    assert sum(call.startswith("put") for call in store.calls) == 2 + 2 + 2  # and the probe's


@pytest.mark.long
def test_a_crash_leaves_the_old_schema_or_the_new(tmp_path: Path) -> None:
    options = SchemaFixOptions(evolution=Evolution(rename={"late": "later"}))
    asked, seen = FaultyStore(world_of().store), []
    run_through(asked, world_of(), options, tmp_path, None)
    for at in [n for n, call in enumerate(asked.calls) if call.startswith("put")]:
        world = world_of()
        run_through(FaultyStore(world.store), world, options, tmp_path, Fault(at, "after"))
        (name,) = schema(world).keys() & {"late", "later"}
        assert any(name in row for row in visible_rows(world.table))
        seen.append(name)
        take_base(world.table)  # publishes what was committed
        seen.append(*(schema(world).keys() & {"late", "later"}))
    assert seen[:2] == ["late", "late"]
    assert seen[-4:] == ["later", "later", "later", "later"]


def run_through(
    store: FaultyStore, world: World, options: SchemaFixOptions, scratch: Path, fault: Fault | None
) -> None:
    store.inner, store.fault = world.store, fault
    engine = LocalEngine(lambda: store, scratch, world.ids, SystemClock())
    forget()
    with suppress(Crashed):
        run_schema_fix(Work(replace(world.table, store=store), RUN, lambda: engine), options)


@pytest.mark.long
def test_a_checkpoint_from_before_does_not_bring_a_column_back(tmp_path: Path) -> None:
    world = world_of()
    base = take_base(world.table)
    assert checkpoint.write(world.table, base.snapshot)
    append(world, 5, {"late": ["l5", "l5"]})
    evolve(world, tmp_path, rename={"note": "remark"}, drop=("late",))
    assert schema(world).keys() == {"id", "day", "price", "remark"}
    append(world, 6)
    evolve(world, tmp_path, rename={"note": "remark"})
    state = take_base(world.table).snapshot
    assert checkpoint.write(world.table, state)
    assert schema(world).keys() == {"id", "day", "price", "remark"}
    assert rows(world, "id", "remark")[10, "n5"] == rows(world, "id", "remark")[12, "n6"] == 1
