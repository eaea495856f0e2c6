"""Engines that are not ours read a table with pending deletes, by deletion vectors."""

from __future__ import annotations

import pytest

import firnline
from firnline.appends.append import Appender
from firnline.log.txn_file import RunIdentity
from firnline.mirror.delta import checkpoint
from firnline.mirror.delta.head import list_versions
from firnline.mirror.delta.publish import publish
from firnline.mirror.delta.replay import replay
from firnline.operations.mirror.run import run_mirror
from firnline.operations.operation import Work
from firnline.operations.options import (
    Evolution,
    LazyOptions,
    MirrorOptions,
)
from firnline.operations.schema.lazy import run_lazily
from tests.mirrors import in_duckdb
from tests.mirrors.conftest import (
    Mirrored,
    by_deltalake,
    rows,
)
from tests.mirrors.lazily import READERS, Lazily, delete_of_many
from tests.mirrors.steps import NOT_TESTED, REFUSED, ROWS, VECTORS, claimed

RUN = RunIdentity(run_id="r")


@pytest.mark.parametrize("operation", VECTORS)
def test_the_page_says_of_vectors_what_is_played_here(operation: str) -> None:
    said = {reader: cell for reader, cell in claimed()[operation].items() if cell != NOT_TESTED}
    assert said == {
        "deltalake": REFUSED,
        **dict.fromkeys(READERS, ROWS),
        "Spark, Delta": ROWS,  # by ``test_spark``
    }


@pytest.fixture
def lazily(mirrored: Mirrored) -> Lazily:
    return Lazily(mirrored.root, mirrored.scratch)


def test_engines_see_no_row_that_a_pending_delete_hides(lazily: Lazily) -> None:
    lazily.append(0)
    assert lazily.shown() == list(range(6))
    lazily.delete("k in (1, 4)")
    assert lazily.shown() == [0, 2, 3, 5]
    lazily.append(6)
    lazily.delete("k = 2 or k = 7")
    assert lazily.shown() == [0, 3, 5, 6, 8, 9, 10, 11]
    lazily.delete("s is null or flag = true")
    assert lazily.shown() == [3, 5, 9, 11]
    lazily.merge()
    assert lazily.shown() == [3, 5, 9, 11]
    assert lazily.publish().vectors == 0
    in_duckdb.skip_if_absent()


def test_engines_see_no_row_that_a_pending_replace_hides(lazily: Lazily) -> None:
    lazily.append(0)
    lazily.replace(1, 4, 2)
    assert lazily.shown() == [0, 2, 4, 5]
    lazily.append(6)
    lazily.replace(2, 8, 3, 6)
    assert lazily.shown() == [0, 3, 6, 8, 9, 10, 11]
    assert lazily.publish().vectors
    lazily.merge()
    assert lazily.shown() == [0, 3, 6, 8, 9, 10, 11]
    in_duckdb.skip_if_absent()


def test_a_reader_that_does_not_know_vectors_is_refused(lazily: Lazily) -> None:
    lazily.append(0)
    assert lazily.shown() == list(range(6))
    assert len(by_deltalake(lazily.url, lazily.options)) == 6
    lazily.delete("k = 1")
    lazily.shown()
    with pytest.raises(Exception, match="deletionVectors"):
        by_deltalake(lazily.url, lazily.options)


def test_parts_by_whose_paths_polars_finds_no_vector_hold_the_mirror(lazily: Lazily) -> None:
    table = lazily.table(partition_by=["p"])
    Appender(table).append(rows(0, 6))
    assert publish(table).written
    lazily.delete("p = 'x=%20'")
    held = publish(table)
    assert held.hold is not None
    assert "by which Polars does not find deletion vectors" in held.hold.reason
    lazily.delete("k = 2")  # its part has a plain path
    lazily.merge()
    assert lazily.shown() == [0, 3, 5]


def test_vectors_of_large_parts_hide_the_rows_that_reads_hide(lazily: Lazily) -> None:
    delete_of_many(lazily)
    assert lazily.publish().vectors == 1
    ours = sorted(firnline.scan(lazily.table()).to_arrow()["k"].to_pylist())
    for reader, seen in lazily.seen(READERS).items():
        assert [row["k"] for row in seen] == ours, reader


def test_deletes_by_columns_that_parts_hold_otherwise_or_not_at_all(lazily: Lazily) -> None:
    lazily.append(0, 3)
    run_lazily(Work(lazily.table(), RUN), LazyOptions(evolution=Evolution(widen={"k": "BIGINT"})))
    lazily.delete("k = 1")
    lazily.append(3, 3, later=2.5)
    lazily.delete("later is null and k = 0")
    assert lazily.shown() == [2, 3, 4, 5]


def test_checkpoints_keep_vectors(lazily: Lazily, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint, "EVERY", 3)
    lazily.append(0)
    seen = []
    for number in range(7):
        report = run_mirror(Work(lazily.table(), RUN), MirrorOptions())
        assert report.warnings == ()
        seen.append(report.checkpoint)
        if number < 6:
            lazily.delete(f"k = {number}") if number % 2 else lazily.append(10 + number, 1)
    assert 3 in seen
    assert 6 in seen
    table = lazily.table()
    shown = replay(table.store, table.paths, 6)
    assert set(shown.vectors) <= shown.files
    assert sum(vector.rows for vector in shown.vectors.values()) == 3
    listing = list_versions(table.store, table.paths, whole=True)
    assert checkpoint.expire(table.store, listing, 6)[1] == 0
    lazily.append(30, 1)
    assert lazily.shown() == [0, 2, 4, 10, 12, 14, 30]


def test_a_vacuum_of_another_engine_leaves_vectors(lazily: Lazily) -> None:
    from deltalake import DeltaTable

    lazily.append(0)
    lazily.publish()
    lazily.delete("k = 1")
    lazily.publish()
    store, paths = lazily.table().store, lazily.table().paths
    before = [meta.key for meta in store.list(paths.vectors_dir)]
    assert len(before) == 2
    table = DeltaTable(lazily.url, storage_options=lazily.options)
    table.vacuum(0, dry_run=False, enforce_retention_duration=False, full=True)
    assert [meta.key for meta in store.list(paths.vectors_dir)] == before
