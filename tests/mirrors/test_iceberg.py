"""Engines that are not ours read a mirror in an Iceberg catalog: the same rows after everything."""

from __future__ import annotations

from pathlib import Path

import pytest

from firnline.log.txn_file import RunIdentity
from firnline.operations.delete.run import run_delete
from firnline.operations.drop.run import run_drop
from firnline.operations.erase.run import run_erase
from firnline.operations.evolve.run import run_lazily
from firnline.operations.merge.run import run_merge
from firnline.operations.mirror.check import check_iceberg
from firnline.operations.options import (
    DeleteOptions,
    DropOptions,
    EraseOptions,
    Evolution,
    LazyOptions,
    MergeOptions,
    ReplaceOptions,
    RestoreOptions,
    RewriteOptions,
    SchemaFixOptions,
    TtlOptions,
)
from firnline.operations.replace.run import run_replace
from firnline.operations.restore.run import run_restore
from firnline.operations.rewrite.run import run_rewrite
from firnline.operations.schema_fix.run import run_schema_fix
from firnline.operations.ttl.run import run_ttl
from firnline.state.snapshot import read_snapshot
from tests.mirrors.in_catalog import InCatalog, rows
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


@pytest.mark.turn
def test_engines_see_the_rows_of_the_table_after_every_operation(mirrored: InCatalog) -> None:
    mirrored.append(0)
    assert shown(mirrored) == list(range(6))
    mirrored.append(6)
    mirrored.append(12)
    assert shown(mirrored) == list(range(18))
    run_merge(mirrored.table(), mirrored.engine, MergeOptions(full=True), RUN)
    assert shown(mirrored) == list(range(18))
    run_delete(mirrored.table(), mirrored.engine, DeleteOptions(where="k in (1, 7)"), RUN)
    assert 7 not in shown(mirrored)
    run_rewrite(mirrored.table(), mirrored.engine, RewriteOptions(where="k <> 8", force=True), RUN)
    assert 8 not in shown(mirrored)
    interval = ReplaceOptions(column="k", start=2, end=4)
    run_replace(mirrored.table(), mirrored.engine, interval, RUN, data=rows(2, 1))
    assert not {3} & set(shown(mirrored))
    found = read_snapshot(mirrored.table().store, mirrored.table().paths).partitions
    mine = next(name for name in found if name.startswith("ts_day=2024-03-05/p=a%20b"))
    run_drop(mirrored.table(), DropOptions(partitions=(mine,)), RUN)
    assert 0 not in shown(mirrored)
    run_erase(mirrored.table(), mirrored.engine, EraseOptions(columns=("k",), keys=((5,),)), RUN)
    assert 5 not in shown(mirrored)


@pytest.mark.turn
def test_engines_see_a_restore_and_that_a_ttl_has_taken_every_row(mirrored: InCatalog) -> None:
    mirrored.append(0)
    shown(mirrored)
    run_delete(mirrored.table(), mirrored.engine, DeleteOptions(where="k > 1"), RUN)
    assert shown(mirrored) == [0, 1]
    run_restore(mirrored.table(), RestoreOptions(to=0), RUN)
    assert shown(mirrored) == list(range(6))
    run_ttl(mirrored.table(ttl={"keep": "30d"}), TtlOptions(), RUN)
    assert shown(mirrored) == []
    mirrored.append(6)
    assert shown(mirrored) == list(range(6, 12))


@pytest.mark.turn
def test_engines_see_columns_that_come_widen_go_and_get_other_names(mirrored: InCatalog) -> None:
    mirrored.append(0, 3)
    shown(mirrored)
    mirrored.append(3, 3, later=2.5)
    assert shown(mirrored) == list(range(6))
    widen = LazyOptions(evolution=Evolution(widen={"k": "BIGINT", "price": "DECIMAL(20,2)"}))
    run_lazily(mirrored.table(), widen, RUN)
    assert shown(mirrored) == list(range(6))
    rename = Evolution(rename={"raw": "bytes"}, drop=("flag",))
    run_schema_fix(mirrored.table(), mirrored.engine, SchemaFixOptions(evolution=rename), RUN)
    assert shown(mirrored) == list(range(6))
    lazily = LazyOptions(evolution=Evolution(rename={"bytes": "raw"}))
    run_lazily(mirrored.table(), lazily, RUN)
    before = mirrored.read_all()
    assert mirrored.publish().hold is not None
    assert mirrored.read_all() == before
    run_merge(mirrored.table(), mirrored.engine, MergeOptions(full=True), RUN)
    assert shown(mirrored) == list(range(6))


@pytest.mark.turn
def test_older_snapshots_can_be_read_as_long_as_their_parts_are_there(mirrored: InCatalog) -> None:
    expected = []
    for number in range(2):
        mirrored.append(6 * number)
        mirrored.publish()
        expected.append(mirrored.same())
    drop = Evolution(drop=("flag",))
    run_schema_fix(mirrored.table(), mirrored.engine, SchemaFixOptions(evolution=drop), RUN)
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
