"""What a rewrite costs on a real store, and that only the rows it is about change."""

from __future__ import annotations

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
from firnline.operations.operation import Work
from firnline.operations.options import RewriteOptions
from firnline.operations.prepared.run import commit_prepared, discard_prepared
from firnline.operations.rewrite.prepare import PrepareReport, run_prepare
from firnline.operations.rewrite.run import RewriteReport, run_rewrite
from firnline.settings.load import TableSettings
from firnline.state.snapshot import read_snapshot
from firnline.store.access import StoreAccess
from firnline.store.probe import forget
from firnline.table import Table, open_table
from tests.support.commit_costs import CHECK, FIRST_CHECK
from tools.s3server import StoreRoot

RUN = RunIdentity(run_id="r")
PARTS = 20
"""Per partition."""
KINDS = ("get", "put", "list", "delete", "head")
SETTINGS: dict[str, Any] = {"partition_by": ["day"], "sort_by": ["id"]}


def opened(root: StoreRoot) -> Table:
    access = StoreAccess.from_env(root.env) if root.kind == "s3" else None
    declared = TableSettings.model_validate({"name": "t", "root": f"{root.url}/t", **SETTINGS})
    return open_table(declared, access)


def filled(root: StoreRoot) -> None:
    """Ids 0 to 39: each part of a partition holds one of them twice, once with ``odd``."""
    appender = Appender(opened(root))
    for n in range(PARTS):
        ids = [2 * n, 2 * n, 2 * n + 1, 2 * n + 1]
        days = ["mo", "mo", "tu", "tu"]
        appender.append(pa.table({"id": ids, "day": days, "odd": [True, False] * 2}))


def rewrite(root: StoreRoot, scratch: Path, **options: Any) -> RewriteReport:
    table = opened(root)
    engine = LocalEngine(
        lambda: opened(root).store, scratch, SystemIds(), SystemClock(), parallel=2
    )
    return run_rewrite(Work(table, RUN, lambda: engine), RewriteOptions(**options))


def ids(root: StoreRoot, tmp_path: Path) -> Counter[int]:
    table = opened(root)
    found: Counter[int] = Counter()
    for number, key in enumerate(read_snapshot(table.store, table.paths).live):
        path = tmp_path / f"read-{number}.parquet"
        table.store.get_file(key, path)
        found.update(pq.read_table(path, partitioning=None).column("id").to_pylist())
    return found


def test_a_rewrite_of_n_parts_is_n_gets_the_outputs_and_at_most_ten_requests(
    store_root: StoreRoot, tmp_path: Path
) -> None:
    filled(store_root)
    forget()  # the probe is part of what a run costs
    report = rewrite(store_root, tmp_path / "scratch", where="odd = true", partitions=("day=mo",))
    assert (report.counts.parts_in, report.counts.parts_out) == (PARTS, 1)
    assert (report.counts.rows_removed, len(report.transactions)) == (PARTS, 1)
    log_reads = PARTS
    assert report.requests["get"] == PARTS + log_reads + 1  # the probe reads its object back
    assert sum(report.requests[kind] for kind in KINDS) - log_reads <= PARTS + 1 + 8 + FIRST_CHECK
    assert report.requests["retries"] == 0
    expected = {n: 1 if n % 2 == 0 else 2 for n in range(2 * PARTS)}
    assert ids(store_root, tmp_path) == Counter(expected)


def test_parts_that_statistics_exclude_are_not_read_and_each_partition_is_two_puts_and_a_list_more(
    store_root: StoreRoot, tmp_path: Path
) -> None:
    filled(store_root)
    forget()
    report = rewrite(store_root, tmp_path / "scratch", where="id > 3 or odd = false")
    assert len(report.transactions) == 2
    assert (report.counts.parts_in, report.counts.rows_removed) == (4, 4)
    kinds = sum(report.requests[kind] for kind in KINDS)
    assert kinds - PARTS <= 4 + 2 + 8 + FIRST_CHECK + 2 + CHECK
    again = rewrite(store_root, tmp_path / "scratch", where="id > 3 or odd = false")
    assert (again.transactions, again.requests["put"] <= 2) == ((), True)


def test_a_query_rewrites_a_partition_from_all_of_its_parts(
    store_root: StoreRoot, tmp_path: Path
) -> None:
    filled(store_root)
    sql = "select id, any_value(day) as day, bool_or(odd) as odd from _rows group by id"
    report = rewrite(store_root, tmp_path / "scratch", sql=sql)
    assert (report.counts.parts_out, report.counts.rows_removed) == (2, 2 * PARTS)
    assert ids(store_root, tmp_path) == Counter(range(2 * PARTS))


def test_a_partition_that_is_dropped_needs_no_get_of_its_parts(
    store_root: StoreRoot, tmp_path: Path
) -> None:
    filled(store_root)
    report = rewrite(store_root, tmp_path / "scratch", where="day = 'tu'", force=True)
    assert (report.counts.parts_in, report.counts.parts_out) == (PARTS, 0)
    assert report.requests["get"] <= PARTS + 1
    table = opened(store_root)
    assert list(read_snapshot(table.store, table.paths).partitions) == ["day=tu"]


def prepare(root: StoreRoot, scratch: Path) -> PrepareReport:
    table = opened(root)
    engine = LocalEngine(
        lambda: opened(root).store, scratch, SystemIds(), SystemClock(), parallel=2
    )
    options = RewriteOptions(where="odd = true", prepare=True)
    return run_prepare(Work(table, RUN, lambda: engine), options)


def spent(requests: dict[str, int]) -> dict[str, int]:
    return {kind: requests[kind] for kind in KINDS if requests[kind]}


def test_a_prepared_rewrite_reads_no_part_for_its_commit_and_five_requests_more_than_any(
    store_root: StoreRoot, tmp_path: Path
) -> None:
    filled(store_root)
    forget()
    made = prepare(store_root, tmp_path / "scratch")
    # Each part is staged once for the rewrite; the comparison opens it, and each new one.
    assert made.requests["get"] <= PARTS + 1 + 4 * (2 * PARTS + 2)
    assert made.requests["put"] == 2 + 2 + 1  # outputs, the probe, the statement
    assert (made.evidence.removed, made.evidence.added) == (2 * PARTS, 0)
    assert made.id is not None
    forget()
    report = commit_prepared(opened(store_root), made.id, RUN)
    # Base: 2 LIST and the log; statement and when it landed, new parts; probe; decision; closing;
    # commit; statement.
    assert spent(report.requests) == {
        "get": PARTS + 1 + 1,
        "put": 2 + 1 + 2,
        "list": 2 + 1 + FIRST_CHECK,
        "head": 1 + 2,
        "delete": 1 + 1,
    }
    assert ids(store_root, tmp_path) == Counter(range(2 * PARTS))


def test_a_discard_is_the_statement_the_decision_a_base_and_two_deletes(
    store_root: StoreRoot, tmp_path: Path
) -> None:
    filled(store_root)
    made = prepare(store_root, tmp_path / "scratch")
    assert made.id is not None
    report = discard_prepared(opened(store_root), made.id, RUN)
    deletes = 2 if store_root.kind == "s3" else report.requests["delete"]
    assert spent(report.requests) == {"get": PARTS + 1, "put": 1, "list": 2, "delete": deletes}
    assert report.parts == 2
