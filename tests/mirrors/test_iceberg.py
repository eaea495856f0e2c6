"""Engines that are not ours read a mirror in an Iceberg catalog: the same rows after everything."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from firnline.errors import UsageError
from firnline.log.txn_file import RunIdentity
from firnline.operations.drop.ttl import run_ttl
from firnline.operations.merge.run import run_merge
from firnline.operations.mirror.check import check_iceberg
from firnline.operations.operation import Work
from firnline.operations.options import (
    Evolution,
    LazyOptions,
    MergeOptions,
    SchemaFixOptions,
    TtlOptions,
)
from firnline.operations.schema.lazy import run_lazily
from firnline.operations.schema.run import run_schema_fix
from tests.mirrors.conftest import in_order
from tests.mirrors.in_catalog import InCatalog
from tests.mirrors.steps import HISTORIES, ICEBERG, Step, check_every_cell
from tools.s3server import StoreRoot

RUN = RunIdentity(run_id="r")


@pytest.fixture
def mirrored(store_root: StoreRoot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> InCatalog:
    monkeypatch.setenv("POLARS_ICEBERG_PLANNER", "pyiceberg")  # it has another for large tables
    return InCatalog(store_root, tmp_path)


def shown(mirrored: InCatalog) -> list[int]:
    """The mirror shows what the table holds, after one publication. Returns the keys."""
    done = mirrored.publish()
    assert done.written
    assert not done.replayed
    assert check_iceberg(mirrored.table()).same
    return [row["k"] for row in mirrored.same()]


@pytest.mark.parametrize("steps", HISTORIES, ids=["rows", "places"])
@pytest.mark.turn
def test_engines_see_the_rows_of_the_table_after_every_operation(
    mirrored: InCatalog, steps: Sequence[Step]
) -> None:
    """As docs/testing.md says: a cell of its table is true because it is played here."""
    check_every_cell(mirrored, steps, ICEBERG)


@pytest.mark.turn
def test_files_name_the_order_in_which_their_rows_are(mirrored: InCatalog) -> None:
    mirrored.append(6)
    mirrored.append(0)
    run_merge(Work(mirrored.table(), RUN, mirrored.engine), MergeOptions(full=True))
    assert shown(mirrored) == list(range(12))
    table = mirrored.shown()
    (field,) = table.sort_order().fields
    assert table.schema().find_column_name(field.source_id) == "k"
    files = [task.file for task in table.scan().plan_files()]
    assert {file.sort_order_id for file in files} == {table.sort_order().order_id} == {1}


@pytest.mark.turn
def test_engines_see_that_a_ttl_has_taken_every_row(mirrored: InCatalog) -> None:
    mirrored.append(0)
    shown(mirrored)
    run_ttl(Work(mirrored.table(ttl={"keep": "30d"}), RUN), TtlOptions(force=True))
    assert shown(mirrored) == []
    mirrored.append(6)
    assert shown(mirrored) == list(range(6, 12))


@pytest.mark.turn
def test_engines_see_columns_that_come_widen_go_and_get_other_names(mirrored: InCatalog) -> None:
    mirrored.append(0, 3)
    shown(mirrored)
    mirrored.append(3, 3, later=2.5)
    assert shown(mirrored) == list(range(6))
    run_lazily(Work(mirrored.table(), RUN), LazyOptions(evolution=Evolution(widen={"k": "BIGINT"})))
    assert shown(mirrored) == list(range(6))
    at_once = Evolution(widen={"price": "DECIMAL(20,2)"}, rename={"raw": "bytes"}, drop=("flag",))
    run_schema_fix(
        Work(mirrored.table(), RUN, mirrored.engine), SchemaFixOptions(evolution=at_once)
    )
    assert shown(mirrored) == list(range(6))
    for change in (Evolution(rename={"bytes": "raw"}), Evolution(widen={"price": "DECIMAL(22,2)"})):
        lazily = LazyOptions(evolution=change)
        with pytest.raises(UsageError, match="would stand still"):
            run_lazily(Work(mirrored.table(), RUN), lazily)


@pytest.mark.turn
def test_engines_see_fields_that_come_inside_a_column(mirrored: InCatalog) -> None:
    """Parts of before are not rewritten: their rows have nulls in the fields that came later."""
    mirrored.append(0, 3, who={"id": 1}, items=[{"a": 1}], deep={"in": {"x": 1}})
    shown(mirrored)
    first, before = mirrored.shown().current_snapshot(), mirrored.ours()
    assert first is not None
    mirrored.append(3, 3, who={"c": "new"}, items=[{"c": 2.5}, None], deep={"in": {"y": [1]}})
    assert shown(mirrored) == list(range(6))
    then = mirrored.shown().scan(snapshot_id=first.snapshot_id).to_arrow().to_pylist()
    assert in_order(then) == before
    mirrored.append(6, 3, who=None, items=[], deep={"in": None})
    assert shown(mirrored) == list(range(9))
    run_merge(Work(mirrored.table(), RUN, mirrored.engine), MergeOptions(full=True))
    assert shown(mirrored) == list(range(9))
    assert [row["who"] for row in mirrored.ours()[::3]] == [
        {"id": 1, "c": None},
        {"id": None, "c": "new"},
        None,
    ]


@pytest.mark.turn
def test_older_snapshots_can_be_read_as_long_as_their_parts_are_there(mirrored: InCatalog) -> None:
    expected = []
    for number in range(2):
        mirrored.append(6 * number)
        mirrored.publish()
        expected.append(mirrored.same())
    drop = Evolution(drop=("flag",))
    run_schema_fix(Work(mirrored.table(), RUN, mirrored.engine), SchemaFixOptions(evolution=drop))
    mirrored.publish()
    expected.append(mirrored.same())
    table = mirrored.shown()
    snapshots = sorted(table.metadata.snapshots, key=lambda s: s.sequence_number or 0)
    for snapshot, seen in zip(snapshots, expected, strict=True):
        found = table.scan(snapshot_id=snapshot.snapshot_id).to_arrow().to_pylist()
        assert sorted(found, key=lambda row: row["k"]) == seen


def test_bounds_exclude_files_and_no_row(mirrored: InCatalog) -> None:
    for number in range(4):
        mirrored.append(10 * number)
    mirrored.publish()
    table = mirrored.shown()
    for condition, wanted in {
        "k >= 30": {30, 31, 32, 33, 34, 35},
        "price < 0.60": {0, 1, 2},
        "s = 'text 21'": {21},
        "ts >= '2024-03-13T00:00:00'": {k for k in range(40) if k % 10 < 6 and k >= 38},
        "k is null": set(),
    }.items():
        scan = table.scan(row_filter=condition)
        assert {row["k"] for row in scan.to_arrow().to_pylist()} == wanted, condition
        assert len(list(scan.plan_files())) < len(list(table.scan().plan_files()))
