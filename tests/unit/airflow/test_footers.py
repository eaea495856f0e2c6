"""The deep check of a run: when its Spark job is submitted, and what it is asked to read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import DownstreamTasksSkipped

from firnline.airflow.footers import CheckTable, FooterWork
from firnline.airflow.tables import OneTable
from firnline.airflow.works import VerifyWork
from firnline.errors import UsageError
from firnline.operations.options import VerifyOptions
from firnline.table import open_table
from tests.dags.filled import fill
from tests.support.airflow_context import run_context
from tests.support.tables import loaded

WORK = VerifyWork()


def check(folder: Path, monkeypatch: pytest.MonkeyPatch, params: dict[str, Any]) -> dict[str, Any]:
    """Return the figures of the first task of a run, which has opened no part."""
    table = loaded(folder, f"tables: {{t: {{root: 'file://{folder}/t'}}}}").table("t")
    monkeypatch.setenv("FIRNLINE_TABLES", str(folder / "tables.yaml"))
    monkeypatch.setattr("firnline.airflow.witness.of_events", lambda *_: ())
    fill(open_table(table), 2)
    task = CheckTable(task_id="verify", work=WORK, table=OneTable(table))
    return task.execute(run_context(WORK, params))


@pytest.mark.parametrize(
    ("params", "options"),
    [
        ({"deep": True}, VerifyOptions(deep=True)),
        ({"rows": True}, VerifyOptions(rows=True)),
        ({"rows": True, "sample": 7}, VerifyOptions(rows=True, sample=7)),
        ({"deep": True, "rows": True, "sample": None}, VerifyOptions(deep=True, rows=True)),
    ],
)
def test_the_job_reads_what_the_run_asks_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, params: dict[str, Any], options: VerifyOptions
) -> None:
    figures = check(tmp_path, monkeypatch, params)
    assert (figures["deep"], figures["rows"]) == (False, False)
    asked = {**params, "witness": ["firnline-witness 1"]}
    assert FooterWork().options(asked, dry_run=False) == options


@pytest.mark.parametrize("params", [{}, {"deep": False, "rows": None}])
def test_no_job_is_submitted_for_a_run_that_opens_no_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, params: dict[str, Any]
) -> None:
    with pytest.raises(DownstreamTasksSkipped):
        check(tmp_path, monkeypatch, params)


def test_a_sample_of_no_rows_is_refused() -> None:
    with pytest.raises(UsageError, match="give rows too"):
        WORK.options({"deep": True, "sample": 7}, dry_run=False)
