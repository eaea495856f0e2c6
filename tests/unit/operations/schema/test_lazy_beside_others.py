"""A lazy change of columns beside everything else that goes on in a table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import firnline
from firnline.appends.append import Appender
from firnline.commit.base import take_base
from firnline.errors import SchemaConflictError, UsageError
from firnline.log import codec
from firnline.log.records import LogContent
from firnline.operations.delete.run import run_delete
from firnline.operations.merge.run import run_merge
from firnline.operations.operation import Work
from firnline.operations.options import DeleteOptions, MergeOptions, ReplaceOptions, VerifyOptions
from firnline.operations.replace.plan import span_of
from firnline.operations.replace.rows import NewParts
from firnline.operations.replace.run import run_replace
from firnline.operations.verify.run import run_verify
from firnline.state.snapshot import read_snapshot
from firnline.store.probe import forget
from tests.support.beside import Beside
from tests.support.evolving import (
    AFTER,
    CHANGED,
    RUN,
    columns_in_parts,
    columns_of,
    engine,
    lazily,
    merged,
    put,
    rows_are,
    rows_of,
    schema_of,
    world_of,
)
from tests.support.scenarios import Sequential
from tests.support.world import World

Act = Callable[[World, Path], object]


@pytest.mark.long
def test_an_append_that_began_before_is_covered_whichever_names_it_brings(tmp_path: Path) -> None:
    world = world_of(1)
    put(world, columns_of(1), beside=lambda: lazily(world, **CHANGED))
    late = {"id": pa.array([2], pa.int32()), "remark": ["n2"]}
    assert schema_of(world) == AFTER
    world = world_of(2)
    put(world, late, beside=lambda: lazily(world, **CHANGED))
    assert schema_of(world) == AFTER
    rows_are(world, rows_of(3))
    merged(world, tmp_path)
    rows_are(world, rows_of(3))
    assert schema_of(world) == AFTER
    assert not run_verify(Work(world.table), VerifyOptions(deep=True)).findings


@pytest.mark.long
def test_an_append_that_had_not_seen_the_wider_type_yet_is_no_conflict(tmp_path: Path) -> None:
    # Committed and not published: its sequence is known, what it says of the columns is not.
    world = world_of(1)
    columns = Appender(world.table).columns.read().columns
    lazily(world, widen={"id": "BIGINT"})
    assert Appender(world.table, known_schema=columns).append(pa.table(columns_of(1))).q == 1
    assert schema_of(world) == {"id": "BIGINT", "note": "VARCHAR", "gone": "BIGINT"}
    expected = [{**r, "gone": r["id"]} for r in rows_of(2, "note")]
    rows_are(world, expected)
    merged(world, tmp_path)
    assert ("id", "int64") in columns_in_parts(world)
    rows_are(world, expected)


@pytest.mark.long
def test_a_merge_that_began_before_commits_and_its_output_is_read_by_the_record(
    tmp_path: Path,
) -> None:
    world = world_of(2)
    run_beside(world, tmp_path, merge_on)
    assert ("note", "string") in columns_in_parts(world)
    rows_are(world, rows_of(2))
    merged(world, tmp_path)
    assert ("note", "string") not in columns_in_parts(world)
    rows_are(world, rows_of(2))


def run_beside(world: World, scratch: Path, act: Callable[[World, Path], object]) -> None:
    """An operation, and the change between its reading and the end of its first part."""
    forget()
    store = Beside(world.store, act=lambda: lazily(world, **CHANGED), what="put t/_data")
    act(replace(world, table=replace(world.table, store=store)), scratch)
    assert store.met


def merge_on(world: World, scratch: Path) -> None:
    run_merge(Work(world.table, RUN, lambda: Sequential(world.table, scratch)), MergeOptions())


def delete_on(world: World, scratch: Path) -> None:
    options = DeleteOptions(where="id = 0 or id = 7")
    run_delete(Work(world.table, RUN, lambda: Sequential(world.table, scratch)), options)


OPTIONS = ReplaceOptions(column="id", start=0, end=1)


def replace_on(world: World, scratch: Path) -> None:
    rows = pa.table({"id": pa.array([0], pa.int32()), "remark": ["new"]})
    run_replace(Work(world.table, RUN, engine(world, scratch)), OPTIONS, data=rows)


@pytest.mark.long
@pytest.mark.parametrize(
    ("act", "left"),
    [(delete_on, []), (replace_on, [{"id": 0, "remark": "new"}])],
)
def test_what_speaks_of_columns_and_began_before_is_planned_again(
    act: Act, left: list[dict[str, Any]], tmp_path: Path
) -> None:
    world = world_of(3)
    merged(world, tmp_path)  # one part, which the interval cuts
    run_beside(world, tmp_path, act)
    assert schema_of(world) == AFTER
    rows_are(world, [*left, *rows_of(3)[1:]])
    merged(world, tmp_path)
    rows_are(world, [*left, *rows_of(3)[1:]])


@pytest.mark.long
def test_new_rows_with_a_name_that_goes_while_they_are_written_are_refused(
    tmp_path: Path,
) -> None:
    world = world_of(2)
    rows = pa.table({"id": pa.array([0], pa.int32()), "note": ["new"]})

    def act(world: World, scratch: Path) -> None:
        run_replace(Work(world.table, RUN, engine(world, scratch)), OPTIONS, data=rows)

    with pytest.raises(SchemaConflictError, match="renamed or dropped column 'note'"):
        run_beside(world, tmp_path, act)
    rows_are(world, rows_of(2))


def test_new_rows_that_executors_wrote_before_a_name_went_are_refused(tmp_path: Path) -> None:
    world = world_of(2)
    base, span = take_base(world.table), span_of(OPTIONS, world.settings)
    writer = NewParts(world.table, base, span, world.ids.uuid7(world.clock.now), tmp_path)
    new = writer.write([pa.table({"id": pa.array([0], pa.int32()), "note": ["new"]})])
    lazily(world, **CHANGED)
    with pytest.raises(SchemaConflictError, match="renamed or dropped column 'note'"):
        run_replace(Work(world.table, RUN, engine(world, tmp_path)), OPTIONS, data=new)
    assert not {part.key for part in new.parts} & world.store.objects.keys()
    rows_are(world, rows_of(2))


@pytest.mark.long
def test_a_column_that_a_delete_speaks_of_keeps_its_name_until_the_record_is_gone(
    tmp_path: Path,
) -> None:
    world = world_of(2)
    options = DeleteOptions(where="note = 'n0' and id = 0", mode="lazy")
    run_delete(Work(world.table, RUN, engine(world, tmp_path)), options)
    for asked in ({"drop": ("note",)}, {"rename": {"note": "x"}}):
        with pytest.raises(UsageError, match="may still hide rows"):
            lazily(world, **asked)
    lazily(world, widen={"id": "BIGINT"}, drop=("gone",))
    rows_are(world, rows_of(2, "note")[1:])


def test_a_repair_of_a_conflict_goes_on_top_of_it(tmp_path: Path) -> None:
    world = world_of(2)
    lazily(world, **CHANGED)
    line = LogContent(t=world.clock.now + 1, schema={"remark": "BIGINT"})
    world.store.put_new(world.table.paths.append_log(line.t, "other-x"), codec.encode(line))
    with pytest.raises(SchemaConflictError, match="remark"):
        read_snapshot(world.store, world.table.paths)
    from firnline.operations.options import ColumnFix, SchemaFixOptions
    from firnline.operations.schema.run import run_schema_fix

    options = SchemaFixOptions(fixes=(ColumnFix(column="remark", type="VARCHAR"),))
    run_schema_fix(Work(world.table, RUN, engine(world, tmp_path)), options)
    assert schema_of(world) == AFTER
    rows_are(world, rows_of(2))


def test_a_pyarrow_dataset_of_such_parts_is_refused_and_not_wrong() -> None:
    world = world_of(2)
    lazily(world, rename={"note": "remark"})
    with pytest.raises(UsageError, match="before a schema change"):
        firnline.scan(world.table).arrow_dataset()
    assert firnline.scan(world.table, columns=["id"]).arrow_dataset().count_rows() == 2


def test_an_append_that_reads_newer_columns_than_its_sequence_begins_again() -> None:
    world = world_of(2)

    def rename() -> None:
        lazily(world, rename={"gone": "left"})

    # After the newest transaction was read, and before the columns are.
    table = replace(world.table, store=Beside(world.store, what="list t/_log", act=rename))
    rows = pa.table({"id": pa.array([2], pa.int32()), "gone": pa.array([2], pa.int32())})
    result = Appender(table).append(rows)
    assert result.q == 1
    assert schema_of(world) == {
        "id": "INTEGER",
        "note": "VARCHAR",
        "left": "BIGINT",
        "gone": "INTEGER",
    }


def test_a_name_of_before_keeps_its_type_for_an_append_that_began_before(tmp_path: Path) -> None:
    world = world_of(2)

    def batches() -> Iterator[pa.RecordBatch]:
        lazily(world, rename={"gone": "left"})
        rows = {"id": pa.array([2], pa.int32()), "gone": pa.array([2], pa.int32()), "new": ["x"]}
        yield from pa.table(rows).to_batches()

    Appender(world.table).append(batches())
    assert schema_of(world)["left"] == "BIGINT"
    assert sorted(row["left"] for row in firnline.scan(world.table)) == [0, 1, 2]


@pytest.mark.long
def test_a_name_of_before_is_the_column_of_then_also_where_another_has_got_it_since() -> None:
    world = world_of(2)

    def batches() -> Iterator[pa.RecordBatch]:
        lazily(world, rename={"gone": "left"})
        put(world, {"id": pa.array([3], pa.int32()), "gone": ["another"]})
        rows = {"id": pa.array([2], pa.int32()), "gone": pa.array([2], pa.int32()), "new": ["x"]}
        yield from pa.table(rows).to_batches()

    Appender(world.table).append(batches())
    found = {row["id"]: (row["left"], row["gone"]) for row in firnline.scan(world.table)}
    assert found == {0: (0, None), 1: (1, None), 2: (2, None), 3: (None, "another")}
