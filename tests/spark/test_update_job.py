"""``spark_jobs/update.py``: new values by executors, and a refusal."""

from __future__ import annotations

import json
from pathlib import Path

from firnline.state.history import history
from tests.spark.test_rewrite_job import filled
from tests.support.jobs import Jobs, without_rows
from tests.support.reading import stored_ids


def test_new_values_are_written_by_executors_in_one_transaction(jobs: Jobs, tmp_path: Path) -> None:
    table = filled(tmp_path)
    options = json.dumps({"set": ["a = a + 100"], "where": "b = 'y' and a < 13"})
    arguments = (f"--options={options}", "--run-id=r 1")
    report = jobs.run("update", table.settings.root, *arguments, open_store=without_rows).report
    assert (report["rows_changed"], report["transaction"], report["parts_rewritten"]) == (3, 1, 3)
    assert set(stored_ids(table, "a")) == {0, 1, 2, 3, 13, 110, 111, 112}
    (header,) = history(table)
    assert (header.op, header.run.run_id, bool(header.run.application_id)) == (
        "update",
        "r 1",
        True,
    )


def test_an_expression_that_is_refused_opens_no_session(jobs: Jobs, tmp_path: Path) -> None:
    table = filled(tmp_path)
    options = json.dumps({"set": ["a = (select 1)"], "where": "a = 1"})
    done = jobs.run("update", table.settings.root, f"--options={options}", "--run-id=r 1")
    assert (done.code, done.error["type"]) == (2, "UsageError")
    assert "subquery" in done.error["message"]
    assert not jobs.lent
