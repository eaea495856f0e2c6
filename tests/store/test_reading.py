"""What a scan costs on a real store, and that it gives every row there."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import firnline
from firnline.appends.append import Appender
from firnline.errors import PartGoneError
from firnline.operations.delete.run import run_delete
from firnline.operations.operation import Work
from firnline.operations.options import DeleteOptions
from tests.support.on_store import RUN, engine, filled, merge, opened
from tests.support.visible import by_every_path
from tools.s3server import StoreRoot


def test_n_small_parts_are_n_gets_and_no_more_than_the_wanted_ones(s3_root: StoreRoot) -> None:
    table = filled(opened(s3_root, partition_by=[]), 20)
    scan = firnline.scan(table)
    before = table.store.counters.as_dict()
    assert sorted(scan.to_arrow()["id"].to_pylist()) == list(range(80))
    after = table.store.counters.as_dict()
    assert after["get"] - before["get"] == 20
    assert [after[k] - before[k] for k in ("list", "head", "put", "retries")] == [0, 0, 0, 0]
    few = firnline.scan(table, where="id in (9, 70)")
    before = table.store.counters.as_dict()
    assert sorted(few.to_arrow()["id"].to_pylist()) == [9, 70]
    assert table.store.counters.get - before["get"] == 2


def test_of_a_large_part_only_footer_columns_and_row_groups_are_fetched(
    s3_root: StoreRoot,
) -> None:
    table = opened(s3_root, partition_by=[], merge={"row_group_rows": 10_000})
    rng = np.random.default_rng(3)
    rows = {"id": np.arange(100_000), **{f"c{n}": rng.random(100_000) for n in range(8)}}
    Appender(table).append(pa.table(rows))
    scan = firnline.scan(table, columns=["c3"], where="id between 41000 and 42000")
    before = table.store.counters.as_dict()
    assert scan.to_arrow().num_rows == 1001
    after = table.store.counters.as_dict()
    assert after["get"] - before["get"] <= 5
    assert after["bytes_in"] - before["bytes_in"] < scan.plan.task.bytes / 10


def test_every_path_reads_with_the_access_of_the_table(store_root: StoreRoot) -> None:
    table = filled(opened(store_root), 2)
    for path, rows in by_every_path(firnline.scan(table)).items():
        assert sorted(row["id"] for row in rows) == list(range(8)), path
    named = firnline.scan(table.settings.root, access=table.access)
    assert named.to_arrow().num_rows == 8


def test_a_part_that_went_while_it_was_read_is_named(store_root: StoreRoot) -> None:
    table = filled(opened(store_root), 2)
    scan = firnline.scan(table)
    gone = scan.plan.task.parts[0].key
    assert [answer.error for answer in table.store.delete_many([gone])] == [None]
    with pytest.raises(PartGoneError, match=gone):
        scan.to_arrow()


def test_lazy_deletes_are_applied_before_and_after_their_merge(
    store_root: StoreRoot, tmp_path: Path
) -> None:
    table = filled(opened(store_root), 4)
    options = DeleteOptions(where="id < 6", mode="lazy")
    run_delete(Work(table, RUN, lambda: engine(table, tmp_path)), options)
    before = sorted(firnline.scan(table).to_arrow()["id"].to_pylist())
    merge(table, tmp_path)
    assert before == sorted(firnline.scan(table).to_arrow()["id"].to_pylist())
    assert before == list(range(6, 16))


def test_bloom_filters_spare_row_groups_whose_bounds_do_not_exclude_a_value(
    s3_root: StoreRoot, tmp_path: Path
) -> None:
    users = np.random.default_rng(3).permutation(80_000) * 2
    read: dict[str, int] = {}
    for name, filters in {"without": False, "with": {"max_distinct": 10_000}}.items():
        policy = {"min_inputs": 2, "row_group_rows": 10_000, "bloom_filters": filters}
        table = opened(s3_root, name, partition_by=[], sort_by=[], merge=policy)
        for some in np.split(users, 2):
            rng = np.random.default_rng(int(some[0]))
            noise = {f"c{n}": rng.integers(0, 2**40, len(some)) for n in range(8)}
            Appender(table).append(pa.table({"user": some, **noise}))
        merge(table, tmp_path)
        for user, rows in ((40_000, 1), (40_001, 0)):
            scan = firnline.scan(table, where=f"user = {user}")
            assert len(scan.plan.task.parts) == 1
            before = table.store.counters.bytes_in
            assert scan.to_arrow().num_rows == rows
            bytes_in = table.store.counters.bytes_in - before
            read[f"{name} {rows}"] = 100 * bytes_in // scan.plan.task.bytes
    # On a busy machine a merge ends with smaller row groups, whose bounds may exclude the value.
    assert read["without 0"] > 60
    assert read["without 1"] > 60
    assert read["with 1"] < 30
    assert read["with 0"] < 10
