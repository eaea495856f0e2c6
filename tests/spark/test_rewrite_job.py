"""``spark_jobs/rewrite.py`` as a program: a filter, a query, and a refusal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa

from firnline.append import Appender
from firnline.history import history
from firnline.settings import settings_for_root
from firnline.snapshot import read_snapshot
from firnline.spark.job import OPTIONS_VARIABLE
from firnline.table import Table, open_table
from tests.support.jobs import Done, run_job


def filled(folder: Path) -> Table:
    table = open_table(settings_for_root(f"file://{folder}/table"))
    for number in range(4):
        Appender(table).append(pa.table({"a": [number, 10 + number], "b": ["x", "y"]}))
    return table


def run(table: Table, options: dict[str, Any], *more: str, by_environment: bool = False) -> Done:
    text = json.dumps(options)
    arguments = [table.settings.root, "--master=local[2]", "--run-id=r 1", *more]
    if by_environment:
        return run_job("rewrite", *arguments, env={OPTIONS_VARIABLE: text})
    return run_job("rewrite", *arguments, f"--options={text}")


def test_a_filter_by_environment_rewrites_the_table_through_spark(tmp_path: Path) -> None:
    table = filled(tmp_path)
    options = {"where": "a < 13"}
    report = run(table, options, "--dag-id=d", by_environment=True).report
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


def test_what_would_remove_too_much_prints_its_report_and_one_error(tmp_path: Path) -> None:
    table = filled(tmp_path)
    done = run(table, {"sql": "from _rows where a = 1"})
    assert (done.code, done.error["type"]) == (2, "RewriteRefusedError")
    assert done.printed["failures"][0]["error"] == "TooMuchRemovedError"
    assert not history(table)


def test_a_query_that_is_refused_starts_no_jvm(tmp_path: Path, monkeypatch: Any) -> None:
    table = filled(tmp_path)
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    done = run(table, {"sql": "from read_csv('/etc/passwd')"})
    assert (done.code, done.error["type"]) == (2, "UsageError")
    assert "read_csv" in done.error["message"]
    assert run(table, {"where": "a = 1"}, "--dry-run").report["parts_to_read"] > 0
