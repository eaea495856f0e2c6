"""The deep check of a run: when its Spark job is submitted, and what it is asked to read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.execution_time.context import set_current_context

from firnline.airflow.footers import CheckTable, FooterWork, SubmitCheck
from firnline.airflow.said import SAID
from firnline.airflow.tables import OneTable
from firnline.airflow.versions import AirflowFailException, DownstreamTasksSkipped
from firnline.airflow.works import VerifyWork
from firnline.errors import UsageError
from firnline.operations.operation import Work
from firnline.operations.options import VerifyOptions
from firnline.operations.verify.run import run_verify
from firnline.settings.load import TableSettings
from firnline.table import open_table
from tests.dags.filled import PARTITIONS, fill
from tests.support.airflow_context import run_context
from tests.support.tables import loaded
from tests.unit.airflow.test_submit import connect, submit_does

WORK = VerifyWork()


def filled(folder: Path, monkeypatch: pytest.MonkeyPatch) -> TableSettings:
    """Return a table with two appends."""
    about = f"tables: {{t: {{root: 'file://{folder}/t', spark: {{conn_id: cluster}}}}}}"
    table = loaded(folder, about).table("t")
    monkeypatch.setenv("FIRNLINE_TABLES", str(folder / "tables.yaml"))
    monkeypatch.setattr("firnline.airflow.witness.of_events", lambda *_: ())
    fill(open_table(table), 2)
    return table


def check(
    folder: Path, monkeypatch: pytest.MonkeyPatch, params: dict[str, Any], context: Any = None
) -> dict[str, Any]:
    """Return the figures of the first task of a run, which has opened no part."""
    table = filled(folder, monkeypatch)
    task = CheckTable(task_id="verify", work=WORK, table=OneTable(table))
    return task.execute(context or run_context(WORK, params))


@pytest.mark.long
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


def deep(folder: Path, monkeypatch: pytest.MonkeyPatch, *, ends: str = "") -> Any:
    """Return the context of the deep check, whose job prints a real report, and the task."""
    table = filled(folder, monkeypatch)
    report = run_verify(Work(open_table(table)), VerifyOptions(deep=True, rows=True))
    (folder / "report").write_text(json.dumps(report.to_json()) + "\n")
    (folder / "bin").mkdir()
    (folder / "bin" / "java").touch()
    monkeypatch.setenv("JAVA_HOME", str(folder))
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    connect(monkeypatch, "local[2]")
    submit_does(folder, f"cat {folder}/report{ends}")
    work = FooterWork()
    context = run_context(work, {"deep": True, "rows": True})
    task = SubmitCheck(task_id="verify_deep", work=work, table=OneTable(table), jobs=folder)
    return task, context


def test_the_note_of_a_deep_check_says_what_was_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task, context = deep(tmp_path, monkeypatch)
    task.execute(context)
    said = context["ti"].pushed[SAID]
    assert said == (
        "checked: 2 log files, 0 transactions, 4 live and 0 dead parts, 4 objects (3.7 KiB), "
        "4 footers that state 200 rows, all 200 rows of 4 parts, 4 parts without a digest to "
        "compare them with; found: nothing"
    )
    assert context["ti"].pushed["return_value"]["checked"]["unstated_parts"] == 4


def test_the_note_of_a_deep_check_is_not_that_of_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = run_context(WORK, {"deep": True})
    check(tmp_path, monkeypatch, {}, context)
    assert SAID not in context["ti"].pushed


@pytest.mark.long
def test_a_deep_check_that_finds_something_has_its_figures_and_the_failure_in_the_note(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = {"message": "table t has 1 error", "next_step": "wait", "retryable": False}
    ends = f"; echo '{json.dumps({'error': error})}' >&2; exit 1"
    task, context = deep(tmp_path, monkeypatch, ends=ends)
    with set_current_context(context), pytest.raises(AirflowFailException):
        task.execute(context)
    assert context["ti"].pushed[SAID] == "table t has 1 error; wait"
    assert context["ti"].pushed["return_value"]["checked"]["footers"] == len(PARTITIONS) * 2


@pytest.mark.long
def test_a_deep_check_whose_driver_is_elsewhere_says_where_its_figures_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task, context = deep(tmp_path, monkeypatch)
    (tmp_path / "report").write_text("other output\n")
    task.execute(context)
    assert context["ti"].pushed[SAID].endswith("what it has read is in the log of its driver")


def test_a_sample_of_no_rows_is_refused() -> None:
    with pytest.raises(UsageError, match="give rows too"):
        WORK.options({"deep": True, "sample": 7}, dry_run=False)
