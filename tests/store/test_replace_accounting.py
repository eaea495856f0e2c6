"""Replaces on real stores: what they cost, what goes unread, what staged files need."""

from __future__ import annotations

import io
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from firnline.appends.append import Appender
from firnline.clock import SystemClock
from firnline.ids import SystemIds
from firnline.kernel.local import LocalEngine
from firnline.log.txn_file import RunIdentity
from firnline.operations.merge.run import run_merge
from firnline.operations.operation import Work
from firnline.operations.options import MergeOptions, ReplaceOptions
from firnline.operations.replace.run import ReplaceReport, run_replace
from firnline.store.probe import forget
from firnline.table import Table
from tests.store.test_merge_accounting import opened
from tests.support.commit_costs import FIRST_CHECK
from tests.support.reading import stored_ids, visible_ids
from tools.s3server import StoreRoot

RUN = RunIdentity(run_id="r")
APPENDS = 20
SETTINGS: dict[str, Any] = {"sort_by": ["id"], "merge": {"min_inputs": 2}}
KINDS = ("get", "put", "list", "delete", "head")


def filled(root: StoreRoot) -> Table:
    """20 appends of four ids each."""
    appender = Appender(opened(root, **SETTINGS))
    for first in range(0, 4 * APPENDS, 4):
        appender.append(pa.table({"id": list(range(first, first + 4)), "c": [first % 3] * 4}))
    forget()
    return opened(root, **SETTINGS)


def engine(root: StoreRoot, scratch: Path) -> LocalEngine:
    return LocalEngine(
        lambda: opened(root, **SETTINGS).store, scratch, SystemIds(), SystemClock(), parallel=2
    )


def replace(
    root: StoreRoot, scratch: Path, start: int, end: int, data: object = None, **more: Any
) -> ReplaceReport:
    options = ReplaceOptions(column="id", start=start, end=end, **more)
    table = opened(root, **SETTINGS)
    return run_replace(Work(table, RUN, lambda: engine(root, scratch)), options, data=data)


def spent(requests: dict[str, int]) -> int:
    return sum(requests[kind] for kind in KINDS)


def test_parts_inside_cost_nothing_and_cut_ones_a_get_each_and_their_output(
    store_root: StoreRoot, tmp_path: Path
) -> None:
    filled(store_root)
    report = replace(store_root, tmp_path, 10, 70, pa.table({"id": [30, 31], "c": [7, 7]}))
    assert (report.parts_dropped, report.parts_read, report.parts_rewritten) == (14, 2, 2)
    assert report.requests["get"] == 2 + APPENDS + 1  # the probe reads its object back
    # The new part, an output at each end, the commit, the probe's two.
    assert report.requests["put"] == 1 + 2 + 2 + 2
    assert spent(report.requests) - APPENDS <= 2 + 1 + 2 + 8 + FIRST_CHECK
    assert report.requests["retries"] == 0
    expected = Counter([*range(10), 30, 31, *range(70, 80)])
    assert visible_ids(opened(store_root)) == stored_ids(opened(store_root)) == expected


def test_a_lazy_replace_costs_the_new_parts_and_a_commit_and_the_next_merge_does_the_rest(
    store_root: StoreRoot, tmp_path: Path
) -> None:
    filled(store_root)
    report = replace(store_root, tmp_path, 10, 70, pa.table({"id": [30], "c": [7]}), mode="lazy")
    assert (report.parts_dropped, report.parts_hidden, report.parts_read) == (14, 2, 0)
    # Listings, probe, commit, part.
    assert spent(report.requests) - APPENDS == 2 + 4 + 2 + FIRST_CHECK + 1
    expected = Counter([*range(10), 30, *range(70, 80)])
    assert visible_ids(opened(store_root)) == expected
    merged = run_merge(
        Work(opened(store_root, **SETTINGS), RUN, lambda: engine(store_root, tmp_path)),
        MergeOptions(),
    )
    assert merged.counts.rows_deleted == 4
    assert stored_ids(opened(store_root)) == expected


def test_a_staged_prefix_costs_a_list_and_a_get_for_each_file(
    store_root: StoreRoot, tmp_path: Path
) -> None:
    table = filled(store_root)
    for number in range(3):
        sink = io.BytesIO()
        pq.write_table(pa.table({"id": [20 + number], "c": [7]}), sink)
        table.store.put_new(f"{table.paths.prefix}-staged/{number}.parquet", sink.getvalue())
    # A prefix of the bucket; for a table in a folder, a folder.
    url = f"{store_root.url.rstrip('/')}/t-staged"
    before = {"list": 2 + FIRST_CHECK, "get": APPENDS + 1}
    report = replace(store_root, tmp_path, 20, 24, files=(url,))
    assert (report.rows_new, report.parts_new, report.parts_dropped) == (3, 1, 1)
    staged = {"list": 1, "get": 3} if store_root.kind == "s3" else {"list": 0, "get": 0}
    for kind, more in staged.items():
        assert report.requests[kind] == before[kind] + more
    assert visible_ids(opened(store_root)) == Counter({*range(80)} - {23})


def test_files_that_make_several_tasks_cost_the_same_requests(
    s3_root: StoreRoot, tmp_path: Path
) -> None:
    """A GET for each file and a PUT for each part, by whichever process."""
    table = filled(s3_root)
    sink = io.BytesIO()
    numbers = pa.array(range(2**40, 2**40 + 40_000))
    pq.write_table(pa.table({"id": [22] * 40_000, "c": numbers}), sink, use_dictionary=False)
    for number in range(5):
        table.store.put_new(f"{table.paths.prefix}-staged/{number}.parquet", sink.getvalue())
    small = {**SETTINGS, "append": {"part_bytes": "1MiB"}}
    options = ReplaceOptions(column="id", start=20, end=24, files=(f"{s3_root.url}/t-staged",))
    report = run_replace(
        Work(opened(s3_root, **small), RUN, lambda: engine(s3_root, tmp_path)), options
    )
    assert report.requests["retries"] == 0
    assert 2 <= report.parts_new <= 5
    assert report.requests["get"] == APPENDS + 1 + 5
    # The parts, the commit's two, the probe's two.
    assert report.requests["put"] == report.parts_new + 4
    expected = Counter({*range(80)} - {*range(20, 24)}) + Counter({22: 200_000})
    assert visible_ids(opened(s3_root)) == expected


def test_emptying_an_interval_reads_and_writes_no_part(
    store_root: StoreRoot, tmp_path: Path
) -> None:
    filled(store_root)
    report = replace(store_root, tmp_path, 8, 40, nothing=True)
    assert spent(report.requests) - APPENDS == 2 + 4 + 2 + FIRST_CHECK
    assert visible_ids(opened(store_root)) == Counter({*range(80)} - {*range(8, 40)})
