"""Engines that are not ours read a mirrored table: the same rows after every operation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from firnline.errors import UsageError
from firnline.log.txn_file import RunIdentity
from firnline.mirror.delta.replay import replay
from firnline.operations.delete.run import run_delete
from firnline.operations.drop.ttl import run_ttl
from firnline.operations.merge.run import run_merge
from firnline.operations.operation import Work
from firnline.operations.options import (
    DeleteOptions,
    Evolution,
    LazyOptions,
    MergeOptions,
    SchemaFixOptions,
    TtlOptions,
)
from firnline.operations.schema.lazy import run_lazily
from firnline.operations.schema.run import run_schema_fix
from tests.mirrors.conftest import (
    Mirrored,
    by_datafusion,
    by_deltalake,
    in_order,
    rows,
)
from tests.mirrors.steps import (
    DELTA,
    HISTORIES,
    ICEBERG,
    NOT_TESTED,
    ROWS,
    SPARK,
    VECTORS,
    Step,
    check_every_cell,
    claimed,
)

RUN = RunIdentity(run_id="r")


def shown(mirrored: Mirrored) -> list[int]:
    """The mirror shows what the table holds, after one publication. Returns the keys."""
    done = mirrored.publish()
    assert done.written
    assert not done.replayed
    return [row["k"] for row in mirrored.same()]


def test_the_page_names_the_operations_and_readers_that_tests_play() -> None:
    table = claimed()
    played = {step.name for steps in HISTORIES for step in steps}
    assert table.keys() == played.union(VECTORS)
    for operation in played:
        assert table[operation].keys() == {*DELTA, *ICEBERG, *SPARK}
        assert set(table[operation].values()) <= {ROWS, NOT_TESTED}, operation


@pytest.mark.parametrize("steps", HISTORIES, ids=["rows", "places"])
@pytest.mark.turn
def test_engines_see_the_rows_of_the_table_after_every_operation(
    mirrored: Mirrored, steps: Sequence[Step]
) -> None:
    """As docs/testing.md says: a cell of its table is true because it is played here."""
    check_every_cell(mirrored, steps, DELTA)


def test_engines_see_that_a_ttl_has_taken_every_row(mirrored: Mirrored) -> None:
    mirrored.append(0)
    shown(mirrored)
    run_ttl(Work(mirrored.table(ttl={"keep": "30d"}), RUN), TtlOptions(force=True))
    assert shown(mirrored) == []
    mirrored.append(6)
    assert shown(mirrored) == list(range(6, 12))


@pytest.mark.turn
def test_engines_see_columns_that_come_widen_go_and_get_other_names(mirrored: Mirrored) -> None:
    mirrored.append(0, 3)
    shown(mirrored)
    mirrored.append(3, 3, later=2.5)
    assert shown(mirrored) == list(range(6))
    widen = LazyOptions(evolution=Evolution(widen={"k": "BIGINT"}))
    run_lazily(Work(mirrored.table(), RUN), widen)
    assert shown(mirrored) == list(range(6))
    rename = Evolution(rename={"raw": "bytes"}, drop=("flag",))
    run_schema_fix(Work(mirrored.table(), RUN, mirrored.engine), SchemaFixOptions(evolution=rename))
    assert shown(mirrored) == list(range(6))
    for held in (
        Evolution(rename={"bytes": "raw"}),
        Evolution(drop=("bytes",)),
        Evolution(widen={"price": "DECIMAL(18,2)"}),
    ):
        with pytest.raises(UsageError, match=r"has a mirror \(delta\), which would stand still"):
            run_lazily(Work(mirrored.table(), RUN), LazyOptions(evolution=held))
    assert not mirrored.publish().written


@pytest.mark.turn
def test_engines_see_fields_that_come_inside_a_column(mirrored: Mirrored) -> None:
    """Parts of before are not rewritten: their rows have nulls in the fields that came later."""
    mirrored.append(0, 3, who={"id": 1}, items=[{"a": 1}], deep={"in": {"x": 1}})
    shown(mirrored)
    mirrored.append(3, 3, who={"c": "new"}, items=[{"c": 2.5}, None], deep={"in": {"y": [1]}})
    assert shown(mirrored) == list(range(6))
    mirrored.append(6, 3, who=None, items=[], deep={"in": None})
    assert shown(mirrored) == list(range(9))
    run_merge(Work(mirrored.table(), RUN, mirrored.engine), MergeOptions(full=True))
    assert shown(mirrored) == list(range(9))
    assert [row["who"] for row in mirrored.ours()[::3]] == [
        {"id": 1, "c": None},
        {"id": None, "c": "new"},
        None,
    ]


def test_every_older_version_can_be_read_as_long_as_its_parts_are_there(
    mirrored: Mirrored,
) -> None:
    from deltalake import DeltaTable

    mirrored.append(0)
    mirrored.publish()
    run_delete(Work(mirrored.table(), RUN, mirrored.engine), DeleteOptions(where="k > 1"))
    mirrored.publish()
    old = DeltaTable(mirrored.url, version=0, storage_options=mirrored.options)
    assert sorted(row["k"] for row in old.to_pyarrow_table().to_pylist()) == list(range(6))
    table = mirrored.table()
    assert len(replay(table.store, table.paths, 0).files) == len(old.file_uris())


def written(url: str, options: dict[str, str]) -> None:
    from deltalake import write_deltalake

    write_deltalake(url, rows(90, 3), mode="append", storage_options=options)


def deleted(url: str, options: dict[str, str]) -> None:
    from deltalake import DeltaTable

    DeltaTable(url, storage_options=options).delete("k = 1")


def optimized(url: str, options: dict[str, str]) -> None:
    from deltalake import DeltaTable

    DeltaTable(url, storage_options=options).optimize.compact()


def restored(url: str, options: dict[str, str]) -> None:
    from deltalake import DeltaTable

    DeltaTable(url, storage_options=options).restore(0)


def written_by_polars(url: str, options: dict[str, str]) -> None:
    import polars

    frame = polars.from_arrow(rows(90, 3))
    assert isinstance(frame, polars.DataFrame)
    frame.write_delta(url, mode="append", storage_options=options)


@pytest.mark.parametrize("write", [written, deleted, optimized, restored, written_by_polars])
def test_nobody_else_writes_to_the_mirror(mirrored: Mirrored, write: Any) -> None:
    from deltalake.exceptions import DeltaError

    for first in (0, 6, 12):
        mirrored.append(first)
        mirrored.publish()
    with pytest.raises(DeltaError, match="firnline"):
        write(mirrored.url, mirrored.options)
    assert len(mirrored.same()) == 18
    assert not mirrored.publish().written


@pytest.mark.parametrize("full", [False, True])
def test_a_vacuum_of_another_engine_deletes_nothing(mirrored: Mirrored, full: bool) -> None:
    from deltalake import DeltaTable

    mirrored.append(0)
    mirrored.publish()
    run_delete(Work(mirrored.table(), RUN, mirrored.engine), DeleteOptions(where="k > 1"))
    mirrored.publish()
    store, paths = mirrored.table().store, mirrored.table().paths
    before = [meta.key for meta in store.list(paths.data_dir)]
    table = DeltaTable(mirrored.url, storage_options=mirrored.options)
    table.vacuum(0, dry_run=False, enforce_retention_duration=False, full=full)
    assert [meta.key for meta in store.list(paths.data_dir)] == before


def test_conditions_read_only_the_files_that_may_hold_such_rows(mirrored: Mirrored) -> None:
    import polars
    from deltalake import DeltaTable

    for first in range(0, 24, 6):
        mirrored.append(first)
    run_merge(Work(mirrored.table(), RUN, mirrored.engine), MergeOptions(full=True))
    mirrored.publish()
    actions = DeltaTable(mirrored.url, storage_options=mirrored.options).get_add_actions(
        flatten=True
    )
    names = actions.schema.names
    assert {"min.k", "max.price", "min.ts", "max.at", "null_count.s"} <= set(names)
    frame = polars.scan_delta(mirrored.url, storage_options=mirrored.options)
    for condition in (
        polars.col("k") == 17,
        polars.col("price") > polars.lit("5.25").cast(polars.Decimal(12, 2)),
        polars.col("ts") >= polars.datetime(2024, 3, 8),
        polars.col("at") < polars.datetime(2024, 3, 7, time_zone="UTC"),
        polars.col("s") == "text 3",
    ):
        found = frame.filter(condition).sort("k").collect()
        everything = frame.collect().filter(condition).sort("k")
        assert found.equals(everything)
        assert len(found) > 0


def test_a_table_at_a_place_with_odd_characters_is_read_by_deltalake(
    tmp_path: Path, store_root: Any
) -> None:
    # Polars encodes the blank of such a root twice, with every Delta table.
    mirrored = Mirrored(replace(store_root, url=f"{store_root.url}/a b+c"), tmp_path)
    mirrored.append(0)
    mirrored.publish()
    for read in (by_deltalake, by_datafusion):
        found = in_order(read(mirrored.url, mirrored.options))
        assert [row["k"] for row in found] == list(range(6))
