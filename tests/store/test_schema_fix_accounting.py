"""What a repair of the schema costs on a real store: what is wrong, and nothing else."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from firnline.appends.append import Appender
from firnline.clock import SystemClock
from firnline.errors import SchemaConflictError
from firnline.ids import SystemIds
from firnline.kernel.local import LocalEngine
from firnline.log.txn_file import RunIdentity
from firnline.operations.merge.run import run_merge
from firnline.operations.operation import Work
from firnline.operations.options import ColumnFix, MergeOptions, SchemaFixOptions
from firnline.operations.schema.run import (
    SchemaFixFailedError,
    SchemaFixReport,
    preview,
    run_schema_fix,
)
from firnline.settings.load import TableSettings
from firnline.state.snapshot import read_snapshot
from firnline.store.access import StoreAccess
from firnline.store.probe import forget
from firnline.table import Table, open_table
from firnline.types.arrow import from_arrow
from tests.support.commit_costs import FIRST_CHECK
from tests.support.conflicts import values
from tests.support.histories import parquet_bytes
from tools.s3server import StoreRoot

RUN = RunIdentity(run_id="r")
KINDS = ("get", "put", "list", "delete", "head")
OURS, THEIRS = 12, 5
TO_NUMBERS = ColumnFix(column="v", type="BIGINT")


def opened(root: StoreRoot) -> Table:
    access = StoreAccess.from_env(root.env) if root.kind == "s3" else None
    declared = {"name": "t", "root": f"{root.url}/t", "partition_by": ["day"], "sort_by": ["id"]}
    return open_table(TableSettings.model_validate(declared), access)


def contested(root: StoreRoot, *texts: str) -> None:
    """Twelve parts of ours in twelve log files; five parts of somebody else in one."""
    table = opened(root)
    appender = Appender(table)
    for n in range(OURS):
        appender.append(pa.table({"id": [n], "day": ["mo"], "v": [n]}))
    foreign_append(table, *(texts or map(str, range(OURS, OURS + THEIRS - 1))), right=OURS + 4)


def foreign_append(table: Table, *texts: str, right: int) -> None:
    """A part with each of the texts and one with a number, whose log file says text of all."""
    t = int(time.time() * 1000)
    markers: list[dict[str, Any]] = []
    columns: dict[str, str] = {}
    for n, value in enumerate([*texts, right], OURS):
        rows = pa.table({"id": [n], "day": ["mo"], "v": [value]})
        data = parquet_bytes(rows)
        key = table.paths.data_part("day=mo", SystemIds().uuid7(t))
        table.store.put_new(key, data)
        markers.append({"p": key, "b": len(data), "t": t})
        columns = columns or from_arrow(rows.schema)
    lines = [{"v": "1", "t": t, "sch": 1, "f": 2}, columns, *markers]
    log_file = "\n".join(map(json.dumps, lines)).encode()
    table.store.put_new(f"{table.paths.log_dir}{t}_old-job.jsonl", log_file)


def repair(root: StoreRoot, scratch: Path, fix: ColumnFix = TO_NUMBERS) -> SchemaFixReport:
    table = opened(root)
    engine = LocalEngine(
        lambda: opened(root).store, scratch, SystemIds(), SystemClock(), parallel=2
    )
    return run_schema_fix(Work(table, RUN, lambda: engine), SchemaFixOptions(fixes=(fix,)))


def test_it_is_a_ranged_get_per_suspect_a_get_and_a_put_per_wrong_part_and_one_commit(
    store_root: StoreRoot, tmp_path: Path
) -> None:
    contested(store_root)
    forget()  # the probe is part of what a run costs
    report = repair(store_root, tmp_path / "scratch")
    log_reads, wrong = OURS + 1, THEIRS - 1
    assert report.plan["parts_checked"] == THEIRS
    assert (report.counts.parts_in, report.counts.logs_folded) == (wrong, 1)
    requests = report.requests
    assert requests["get"] == log_reads + THEIRS + wrong + 1  # the probe reads its object back
    assert requests["put"] == wrong + 2 + 2  # outputs, the commit, the probe
    assert (requests["list"], requests["retries"]) == (2 + FIRST_CHECK, 0)
    planned = report.plan["requests"]
    assert isinstance(planned, int)
    assert sum(requests[kind] for kind in KINDS) - log_reads <= planned
    assert values(opened(store_root)) == list(range(OURS + THEIRS))


def test_a_second_run_reads_no_footer_and_writes_nothing(
    store_root: StoreRoot, tmp_path: Path
) -> None:
    contested(store_root)
    repair(store_root, tmp_path / "scratch")
    again = repair(store_root, tmp_path / "scratch").requests
    assert (again["put"], again["delete"], again["head"]) == (0, 0, 0)
    assert (again["get"], again["list"]) == (OURS + 1, 2)
    table = opened(store_root)
    options = SchemaFixOptions(fixes=(TO_NUMBERS,), all_parts=True)
    assert preview(table, options).nothing_to_do
    assert table.store.counters.get == OURS + 1 + OURS + THEIRS


def test_a_value_that_does_not_fit_leaves_no_object_behind(
    store_root: StoreRoot, tmp_path: Path
) -> None:
    contested(store_root, "12", "n/a")
    table = opened(store_root)
    before = {meta.key for meta in table.store.list(table.paths.prefix)}
    with pytest.raises(SchemaFixFailedError, match="'n/a'") as caught:
        repair(store_root, tmp_path / "scratch")
    assert len(caught.value.report.failures) == 1
    assert {meta.key for meta in table.store.list(table.paths.prefix)} == before


def test_after_two_names_a_merge_of_both_columns_keeps_every_value(
    store_root: StoreRoot, tmp_path: Path
) -> None:
    contested(store_root, "12", "n/a")
    with pytest.raises(SchemaConflictError):
        read_snapshot(opened(store_root).store, opened(store_root).paths)
    repair(store_root, tmp_path / "scratch", ColumnFix(column="v", rename="v_text"))
    engine = LocalEngine(
        lambda: opened(store_root).store, tmp_path / "scratch", SystemIds(), SystemClock()
    )
    run_merge(Work(opened(store_root), RUN, lambda: engine), MergeOptions())
    table = opened(store_root)
    assert len(read_snapshot(table.store, table.paths).live) == 1
    assert values(table) == [*range(OURS), None, None, OURS + 4]
    assert values(table, "v_text") == [*[None] * OURS, "12", "n/a", None]
