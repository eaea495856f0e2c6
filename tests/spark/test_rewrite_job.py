"""``spark_jobs/rewrite.py``: a filter, a query, and a refusal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa

from firnline.appends.append import Appender
from firnline.operations.job_variables import OPTIONS_VARIABLE
from firnline.settings.load import settings_for_root
from firnline.state.history import history
from firnline.state.snapshot import read_snapshot
from firnline.table import Table, open_table
from tests.support.jobs import Done, Jobs, without_rows
from tests.support.reading import stored_ids


def filled(folder: Path) -> Table:
    table = open_table(settings_for_root(f"file://{folder}/table"))
    for number in range(4):
        Appender(table).append(pa.table({"a": [number, 10 + number], "b": ["x", "y"]}))
    return table


def run(jobs: Jobs, table: Table, options: dict[str, Any], *more: str) -> Done:
    arguments = [f"--options={json.dumps(options)}", "--run-id=r 1", *more]
    return jobs.run("rewrite", table.settings.root, *arguments)


def test_a_filter_by_environment_rewrites_the_table_through_spark(
    jobs: Jobs, tmp_path: Path
) -> None:
    table = filled(tmp_path)
    env = {OPTIONS_VARIABLE: '{"where": "a < 13"}'}
    report = jobs.run("rewrite", table.settings.root, "--run-id=r 1", env=env).report
    assert (report["counts"]["parts_in"], report["counts"]["rows_removed"]) == (1, 1)
    (header,) = history(table)
    assert (header.op, header.run.run_id, bool(header.run.application_id)) == (
        "rewrite",
        "r 1",
        True,
    )
    assert sorted(m.n or 0 for m in read_snapshot(table.store, table.paths).live.values()) == [
        *(1, 2, 2, 2)
    ]


def test_the_rows_of_a_query_are_written_by_executors(jobs: Jobs, tmp_path: Path) -> None:
    table = filled(tmp_path)
    options = json.dumps({"sql": "select a + 1 as a, b from _rows"})
    report = jobs.run(
        "rewrite", table.settings.root, f"--options={options}", open_store=without_rows
    ).report
    assert report["counts"]["rows_out"] == 8
    assert set(stored_ids(table, "a")) == {1, 2, 3, 4, 11, 12, 13, 14}


def test_what_would_remove_too_much_prints_its_report_and_one_error(
    jobs: Jobs, tmp_path: Path
) -> None:
    table = filled(tmp_path)
    done = run(jobs, table, {"sql": "from _rows where a = 1"})
    assert (done.code, done.error["type"]) == (2, "RewriteRefusedError")
    assert done.printed["failures"][0]["error"] == "TooMuchRemovedError"
    assert not history(table)


def test_a_query_that_is_refused_opens_no_session(jobs: Jobs, tmp_path: Path) -> None:
    table = filled(tmp_path)
    done = run(jobs, table, {"sql": "from read_csv('/etc/passwd')"})
    assert (done.code, done.error["type"]) == (2, "UsageError")
    assert "read_csv" in done.error["message"]
    assert run(jobs, table, {"where": "a = 1"}, "--dry-run").report["parts_to_read"] > 0
    assert not jobs.lent
