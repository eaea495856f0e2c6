"""Deletes and erases on real stores: what they cost, what goes, what the certificate sees."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from firnline.appends.append import Appender
from firnline.clock import SystemClock
from firnline.ids import SystemIds
from firnline.kernel.local import LocalEngine
from firnline.log.txn_file import RunIdentity
from firnline.operations.delete.run import run_delete
from firnline.operations.erase.certificate import list_certificates
from firnline.operations.erase.completion import complete_certificate
from firnline.operations.erase.run import EraseReport, run_erase
from firnline.operations.merge.run import run_merge
from firnline.operations.operation import Work
from firnline.operations.options import DeleteOptions, EraseOptions, MergeOptions
from firnline.store.probe import forget
from tests.store.test_merge_accounting import opened
from tests.support.commit_costs import FIRST_CHECK
from tests.support.reading import stored_ids, visible_ids
from tests.support.world import SetClock
from tools.s3server import StoreRoot

RUN = RunIdentity(run_id="r")
PARTS = 40
SETTINGS: dict[str, Any] = {"partition_by": ["day"], "sort_by": ["id"]}
DAY = 86_400_000
KINDS = ("get", "put", "list", "delete", "head")


def filled(root: StoreRoot) -> None:
    """20 appends of four ids in two partitions; user ``u{id % 16}``."""
    appender = Appender(opened(root, **SETTINGS))
    for first in range(0, 4 * PARTS // 2, 4):
        ids = list(range(first, first + 4))
        appender.append(
            pa.table({"id": ids, "day": [i % 2 for i in ids], "user": [f"u{i % 16}" for i in ids]})
        )


def engine(root: StoreRoot, scratch: Path) -> LocalEngine:
    return LocalEngine(
        lambda: opened(root, **SETTINGS).store, scratch, SystemIds(), SystemClock(), parallel=2
    )


def spent(requests: dict[str, int]) -> int:
    return sum(requests[kind] for kind in KINDS)


def test_an_eager_delete_reads_what_statistics_leave_and_sends_two_puts_besides_the_outputs(
    store_root: StoreRoot, tmp_path: Path
) -> None:
    filled(store_root)
    forget()
    table = opened(store_root, **SETTINGS)
    options = DeleteOptions(where="id in (0, 5) or id >= 76")
    report = run_delete(Work(table, RUN, lambda: engine(store_root, tmp_path)), options)
    # The bounds 4 to 6 enclose 5 too; the parts of the last append match as a whole.
    assert (report.parts_read, report.parts_rewritten, report.parts_dropped) == (3, 2, 2)
    log_reads = PARTS // 2
    assert report.requests["get"] == 3 + log_reads + 1  # the probe reads its object back
    assert report.requests["put"] == 2 + 2 + 2
    assert spent(report.requests) - log_reads <= 3 + 2 + 8 + FIRST_CHECK
    assert report.requests["retries"] == 0
    less = Counter(set(range(76)) - {0, 5})
    assert visible_ids(opened(store_root)) == stored_ids(opened(store_root)) == less


def test_a_lazy_delete_costs_no_part_and_the_next_merge_removes_the_rows(
    store_root: StoreRoot, tmp_path: Path
) -> None:
    filled(store_root)
    forget()
    table = opened(store_root, **SETTINGS)
    options = DeleteOptions(where="user = 'u3'", mode="lazy")
    report = run_delete(Work(table, RUN, lambda: engine(store_root, tmp_path)), options)
    assert spent(report.requests) - PARTS // 2 == 2 + 4 + 2 + FIRST_CHECK  # listings, probe, commit
    less = Counter(i for i in range(80) if i % 16 != 3)
    assert visible_ids(opened(store_root)) == less
    assert stored_ids(opened(store_root)) == Counter(range(80))
    merged = run_merge(
        Work(opened(store_root, **SETTINGS), RUN, lambda: engine(store_root, tmp_path)),
        MergeOptions(),
    )
    assert merged.counts.rows_deleted == 5
    assert stored_ids(opened(store_root)) == less


def erased(root: StoreRoot, tmp_path: Path) -> EraseReport:
    keys = tmp_path / "keys.parquet"
    pq.write_table(pa.table({"user": ["u3", "u4", "nobody"]}), keys)
    options = EraseOptions(columns=("user",), keys_file=str(keys))
    table = opened(root, **SETTINGS)
    return run_erase(Work(table, RUN, lambda: engine(root, tmp_path / "scratch")), options)


def test_an_erase_joins_its_keys_in_the_kernel_and_leaves_no_file_of_them(
    store_root: StoreRoot, tmp_path: Path
) -> None:
    filled(store_root)
    forget()
    report = erased(store_root, tmp_path)
    assert (report.counts.rows_deleted, report.parts_read, report.keys) == (10, PARTS, 3)
    assert report.parts_rewritten == 10
    log_reads, groups = PARTS // 2, 2
    assert report.requests["get"] == PARTS + groups + log_reads + 1
    # Two outputs, the keys, plan and certificate, transaction and log file, and the probe's two.
    assert report.requests["put"] == 2 + 1 + 2 + 2 + 2
    less = Counter(i for i in range(80) if i % 16 not in {3, 4})
    assert visible_ids(opened(store_root)) == stored_ids(opened(store_root)) == less
    table = opened(store_root)
    names = [meta.key.rpartition(".")[2] for meta in table.store.list(table.paths.erase_dir)]
    assert names == ["json", "json"]


def test_a_certificate_deletes_the_replaced_parts_after_the_grace(
    store_root: StoreRoot, tmp_path: Path
) -> None:
    filled(store_root)
    report = erased(store_root, tmp_path)
    table = opened(store_root, **SETTINGS)
    assert report.certificate is not None
    waiting = complete_certificate(table, report.certificate, RUN)
    assert (waiting.status, len(waiting.parts)) == ("waiting", 10)
    ahead = SetClock(now=table.clock.now_ms() + 2 * DAY)
    later = replace(table, clock=ahead)
    before = table.store.counters.as_dict()
    done = complete_certificate(later, report.certificate, RUN)
    after = table.store.counters.as_dict()
    assert done.status == "complete"
    assert {entry.kind for entry in done.remaining} == {"log text"}
    deletes = after["delete"] - before["delete"]
    assert deletes == (1 if store_root.kind == "s3" else 10)  # the parts; the keys are gone
    there = {meta.key for meta in table.store.list(table.paths.data_dir)}
    assert not {key.rpartition("/")[2] for key in there} & {part.key for part in done.parts}
    assert [c.status for c in list_certificates(table)] == ["complete"]
    less = Counter(i for i in range(80) if i % 16 not in {3, 4})
    assert visible_ids(opened(store_root)) == less


def test_keys_of_a_url_are_read_from_the_tables_bucket(
    store_root: StoreRoot, tmp_path: Path
) -> None:
    filled(store_root)
    path = tmp_path / "keys.csv"
    path.write_text("user\nu3\n")
    table = opened(store_root, **SETTINGS)
    beside = f"{table.paths.prefix}-keys/keys.csv"
    table.store.put_file(beside, path)
    url = f"{store_root.url.rstrip('/')}/t-keys/keys.csv"
    options = EraseOptions(columns=("user",), keys_file=url)
    report = run_erase(Work(table, RUN, lambda: engine(store_root, tmp_path)), options)
    assert report.counts.rows_deleted == 5
