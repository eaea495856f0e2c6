"""``spark_jobs/replace.py``: staged rows, and what needs no session."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from firnline.appends.append import Appender
from firnline.paths import Root
from firnline.settings.load import load_settings, settings_for_root
from firnline.state.history import history
from firnline.state.snapshot import read_snapshot
from firnline.table import Table, open_table
from tests.support.jobs import Done, Jobs, without_rows
from tests.support.reading import stored_ids
from tools.s3server import StoreRoot


def filled(folder: Path) -> Table:
    """Ids 0 to 3 and 10 to 13 in two parts; without statistics of the column."""
    table = open_table(settings_for_root(f"file://{folder}/table"))
    for first in (0, 10):
        Appender(table).append(pa.table({"id": list(range(first, first + 4))}))
    return table


def run(jobs: Jobs, table: Table, options: dict[str, Any]) -> Done:
    return jobs.run("replace", table.settings.root, f"--options={json.dumps(options)}")


def test_staged_rows_take_the_place_of_an_interval_through_spark(
    jobs: Jobs, tmp_path: Path
) -> None:
    table = filled(tmp_path)
    (tmp_path / "staged").mkdir()
    pq.write_table(pa.table({"id": [7, 8]}), tmp_path / "staged" / "a.parquet")
    options = {"column": "id", "start": 2, "end": 12, "files": [str(tmp_path / "staged")]}
    report = run(jobs, table, options).report
    assert (report["parts_rewritten"], report["rows_new"]) == (2, 2)
    (header,) = history(table)
    assert (header.op, bool(header.run.application_id)) == ("replace", True)
    assert sorted(stored_ids(table)) == [0, 1, 7, 8, 12, 13]


def test_what_rewrites_no_part_opens_no_session(jobs: Jobs, tmp_path: Path) -> None:
    table = filled(tmp_path)
    interval = {"column": "id", "start": 2, "end": 12}
    report = run(jobs, table, {**interval, "nothing": True, "mode": "lazy"}).report
    assert (report["parts_hidden"], report["transaction"]) == (2, 1)
    done = run(jobs, table, interval)
    assert (done.code, done.error["type"]) == (2, "UsageError")
    assert "give files with the new rows" in done.error["next_step"]
    assert not jobs.lent


DAY = datetime.fromisoformat("2026-01-01")


def hours(ids: Sequence[int]) -> pa.Table:
    return pa.table({"id": list(ids), "ts": [DAY + timedelta(hours=n % 72) for n in ids]})


@pytest.fixture
def days(s3_environ: StoreRoot, tmp_path: Path) -> tuple[Table, Path]:
    """Three days of hours on S3, and staged rows of the last two; with the settings file."""
    file = tmp_path / "tables.yaml"
    file.write_text(
        f"tables:\n  days:\n    root: {s3_environ.url}/days\n    partition_by: [day(ts)]\n"
        "    sort_by: [ts]\n    append: {part_bytes: 1MiB}\n"
    )
    table = open_table(load_settings(file).table("days"))
    Appender(table).append(hours(range(72)))
    return table, file


def stage(table: Table, *rows: pa.Table) -> str:
    root = Root.parse(table.settings.root)
    prefix = root.prefix.rpartition("/")[0]
    for number, one in enumerate(rows):
        sink = io.BytesIO()
        pq.write_table(one, sink)
        table.store.put_new(f"{prefix}/staged/{number}.parquet", sink.getvalue())
    return f"{root.scheme}://{root.bucket}/{prefix}/staged/"


def test_executors_read_files_in_the_bucket_and_write_their_rows_into_the_partitions(
    jobs: Jobs, days: tuple[Table, Path]
) -> None:
    table, file = days
    # Random texts: each file is as large as a part, and so a task of its own.
    rng = np.random.default_rng(7)
    texts = [rng.bytes(24).hex() for _ in range(30_000)]
    new = [
        hours([first + n % 12 for n in range(30_000)]).append_column("text", [texts])
        for first in (72 + 28, 72 + 42)
    ]
    options = {
        "start": "2026-01-02T04:00",
        "end": "2026-01-04",
        "files": [stage(table, *new)],
    }
    arguments = ["days", f"--settings={file}", f"--options={json.dumps(options)}"]
    report = jobs.run("replace", *arguments, open_store=without_rows).report
    assert (report["rows_new"], report["requests"]["get"] >= 3) == (60_000, True)
    found = read_snapshot(table.store, table.paths)
    new_parts = {
        name: sum(m.n or 0 for m in markers if m.q == report["transaction"])
        for name, markers in found.partitions.items()
    }
    assert new_parts == {
        "ts_day=2026-01-01": 0,
        "ts_day=2026-01-02": 45_000,
        "ts_day=2026-01-03": 15_000,
    }
    assert {n for n in stored_ids(table) if n < 72} == {*range(28)}


def test_a_row_that_an_executor_refuses_is_the_error_of_the_job_and_nothing_changes(
    jobs: Jobs, days: tuple[Table, Path]
) -> None:
    table, file = days
    before = {meta.key for meta in table.store.list(table.paths.data_dir)}
    options = {
        "start": "2026-01-02",
        "end": "2026-01-03",
        "files": [stage(table, hours([30, 50]))],
    }
    arguments = ["days", f"--settings={file}", f"--options={json.dumps(options)}"]
    error = jobs.run("replace", *arguments, open_store=without_rows).error
    assert error["type"] == "UsageError"
    assert "1 of 2 new rows do not lie in ts from 2026-01-02" in error["message"]
    assert {meta.key for meta in table.store.list(table.paths.data_dir)} == before
    assert history(table) == []
