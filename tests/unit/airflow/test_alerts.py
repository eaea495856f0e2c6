from __future__ import annotations

import asyncio
import json
import signal
import sys
import time
from contextvars import ContextVar
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import DAG

from firnline.airflow import versions
from firnline.airflow.alerts import (
    TableAlert,
    Told,
    failure_alert,
    merge_deadline,
    missed_deadline,
    missed_of_run,
    tell_waiting,
)
from firnline.airflow.dags import operation_dag
from firnline.airflow.merge import MergeWork
from firnline.airflow.settings import current_settings
from firnline.airflow.tables import OneTable, any_table, own_table
from firnline.airflow.works import TtlWork
from tests.support.tables import loaded, one

TOLD = "tests.support.notifier.Told"
OF_TASK: ContextVar[list[str]] = ContextVar("OF_TASK")


def exits(_: Any) -> None:
    sys.exit(3)


def interrupts(_: Any) -> None:
    raise KeyboardInterrupt


def fails(_: Any) -> None:
    raise OSError("no network")


def hangs(_: Any) -> None:
    time.sleep(5)


def remembers(context: Any) -> None:
    OF_TASK.get().append(context["sentence"])


def lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


@pytest.mark.parametrize("notifier", [TOLD, "tests.support.notifier.write"])
def test_a_failure_is_told_to_the_table_s_notifier(tmp_path: Path, notifier: str) -> None:
    file = tmp_path / "told"
    arguments = f"{{file: '{file}', word: 'merge of t'}}"
    settings = one(tmp_path, f"alerts: {{notifier: {notifier}, arguments: {arguments}}}")
    alert = failure_alert(settings)
    assert alert is not None
    alert({"dag": DAG("merge__t"), "reason": "task_failure"})
    assert lines(file) == [{"dag": "merge__t", "reason": "task_failure", "word": "merge of t"}]


def test_a_notifier_s_arguments_are_templates(tmp_path: Path) -> None:
    file = tmp_path / "told"
    arguments = f"{{file: '{file}', word: '{{{{ reason }}}}!'}}"
    settings = one(tmp_path, f"alerts: {{notifier: {TOLD}, arguments: {arguments}}}")
    alert = failure_alert(settings)
    assert alert is not None
    alert({"dag": DAG("merge__t"), "reason": "why"})
    assert lines(file)[0]["word"] == "why!"


def test_a_merge_that_does_not_succeed_in_time_is_told_with_the_reason(tmp_path: Path) -> None:
    file = tmp_path / "told"
    context = {"dag_run": {"dag_id": "merge__t"}, "deadline": {"id": "1"}}
    asyncio.run(missed_deadline(TOLD, {"file": str(file)}, context))
    assert lines(file) == [{"dag": "merge__t", "reason": "deadline_missed", "word": ""}]


def test_without_a_notifier_a_missed_deadline_is_a_line_of_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    asyncio.run(missed_deadline("", {}, {"dag_run": {"dag_id": "merge__t"}}))
    assert "a merge has not succeeded in time: {'dag_run': {'dag_id': 'merge__t'}}" in caplog.text


@pytest.mark.skipif(not versions.AIRFLOW_3_1_PLUS, reason="Airflow 3.0 has no deadlines")
def test_the_deadline_counts_from_when_a_run_was_queued(tmp_path: Path) -> None:
    settings = one(tmp_path, "alerts: {merge_deadline: 6h}")
    deadline = merge_deadline(6 * 3_600_000, settings)
    assert deadline.interval == timedelta(hours=6)
    assert deadline.reference == versions.DeadlineReference.DAGRUN_QUEUED_AT
    assert isinstance(deadline.callback, versions.AsyncCallback)
    assert deadline.callback.path == "firnline.airflow.alerts.missed_deadline"


@pytest.mark.skipif(not versions.AIRFLOW_3_1_PLUS, reason="Airflow 3.0 has no deadlines")
def test_only_a_merge_has_a_deadline_and_only_who_asked_is_told(tmp_path: Path) -> None:
    asked = one(tmp_path, f"alerts: {{notifier: {TOLD}, merge_deadline: 6h}}")
    with operation_dag(MergeWork(), OneTable(asked), doc="", title="t") as merge:
        pass
    with operation_dag(TtlWork(), OneTable(asked), doc="", title="t") as ttl:
        pass
    assert (bool(merge.deadline), bool(ttl.deadline)) == (True, False)
    assert merge.on_failure_callback
    assert ttl.on_failure_callback
    with operation_dag(
        MergeWork(), OneTable(one(tmp_path, "locking: fenced")), doc="", title="t"
    ) as quiet:
        pass
    assert not quiet.deadline
    assert not quiet.on_failure_callback


@pytest.mark.skipif(not versions.AIRFLOW_3_1_PLUS, reason="Airflow 3.0 has no deadlines")
def test_the_dag_for_all_tables_has_a_deadline_of_each_length_and_tells_of_its_own_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "told"
    limits = {"a": "6h", "b": "1h", "c": "1h", "own": "2h"}
    lines_ = [
        f"  {name}: {{root: 's3://b/{name}', alerts: {{notifier: {TOLD}, merge_deadline: {limit}, "
        f"arguments: {{file: '{file}', word: '{{{{ sentence }}}}'}}}}"
        + (", own_dags: [merge]}" if name == "own" else "}")
        for name, limit in limits.items()
    ]
    loaded(tmp_path, "\n".join(["tables:", *lines_]))
    monkeypatch.setenv("FIRNLINE_TABLES", str(tmp_path / "tables.yaml"))
    shared, settings = any_table("merge"), current_settings()
    assert shared is not None
    own = own_table(settings.table("own"), "merge", settings.fleet)
    assert (shared.deadlines, own.deadlines) == ((3_600_000, 21_600_000), (7_200_000,))
    with operation_dag(MergeWork(), shared, doc="", title="t") as merge:
        pass
    deadlines: Any = merge.deadline
    paths = [each.callback.path for each in deadlines]
    assert paths == ["firnline.airflow.alerts.missed_of_run"] * 2
    for limit, table in ((3_600_000, "a"), (3_600_000, "b"), (3_600_000, "gone")):
        run = {"dag_id": "merge", "run_id": "r", "conf": {"table": table}}
        asyncio.run(missed_of_run(limit, {"dag_run": run}))
    assert [line["word"].strip() for line in lines(file)] == [
        "a merge of table b has not succeeded within 1h of its start"
    ]


@pytest.mark.parametrize(
    ("context", "reason"),
    [
        ({"dag": DAG("merge__t"), "run_id": "r 1", "reason": "task_failure"}, "task_failure"),
        ({"dag_run": {"dag_id": "merge__t", "run_id": "r 1"}}, "deadline_missed"),
        ({"dag_run": {"dag_id": "merge__t", "dag_run_id": "r 1"}}, "deadline_missed"),
        ({"dag_run": SimpleNamespace(dag_id="erase", run_id="r 1", conf={"table": "t"})}, "x"),
    ],
)
def test_every_reason_is_told_with_the_same_names(
    context: dict[str, Any], reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://flow.example/a/")
    told = Told.of(context, reason)
    dag_id = told.dag_id
    assert (told.run_id, told.table, told.reason) == ("r 1", "t", reason)
    operation = dag_id.removesuffix("__t")
    note = "the note of the run says why"
    assert told.sentence == f"{operation} of table t failed ({reason}); {note}"
    assert told.link == f"https://flow.example/a/dags/{dag_id}/runs/r%201"


def test_a_failure_of_no_table_names_the_dag() -> None:
    told = Told.of({"dag": DAG("fleet__merge"), "run_id": "r"}, "task_failure")
    assert told.sentence == (
        "the planner fleet__merge failed (task_failure); the note of the run says why"
    )
    assert Told.of({"dag": DAG("merge")}, "timed_out").sentence.startswith("merge failed (timed_")


def test_what_is_about_no_run_leads_to_its_dag(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://flow.example")
    told = Told.of({"dag_run": {"dag_id": "fleet__merge", "run_id": ""}}, "silent", "no run")
    assert (told.run_id, told.link) == ("", "https://flow.example/dags/fleet__merge")


@pytest.mark.long
def test_one_template_fits_failures_missed_deadlines_and_questions(tmp_path: Path) -> None:
    file = tmp_path / "told"
    word = "{{ dag_id }} {{ run_id }} {{ table }} {{ reason }}: {{ sentence }} {{ link }}"
    arguments = {"file": str(file), "word": word}
    settings = one(tmp_path, f"alerts: {{notifier: {TOLD}, arguments: {json.dumps(arguments)}}}")
    run = {"dag_id": "merge__t", "run_id": "r"}
    alert, deadline = failure_alert(settings), "not in time"
    assert alert is not None
    alert({"dag": DAG("merge__t"), "run_id": "r", "reason": "task_failure"})
    asyncio.run(missed_deadline(TOLD, arguments, {"dag_run": run}, deadline))
    tell_waiting(settings, {"dag": DAG("merge__t"), "run_id": "r"}, "Merge?")
    failed = "merge of table t failed (task_failure); the note of the run says why"
    assert [line["word"].strip() for line in lines(file)] == [
        f"merge__t r t task_failure: {failed}",
        "merge__t r t deadline_missed: not in time",
        "merge__t r t answer_wanted: Merge?",
    ]


@pytest.mark.parametrize(
    ("notifier", "says"),
    [
        ("tests.unit.airflow.test_alerts.exits", "SystemExit(3)"),
        ("tests.unit.airflow.test_alerts.interrupts", "KeyboardInterrupt()"),
        ("tests.unit.airflow.test_alerts.fails", "OSError: no network"),
        ("tests.unit.airflow.test_alerts.hangs", "took more than 0.2 s"),
    ],
)
def test_a_task_goes_on_whatever_its_notifier_does(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    notifier: str,
    says: str,
) -> None:
    monkeypatch.setattr("firnline.airflow.alerts.LIMIT", 0.2)
    settings = one(tmp_path, f"alerts: {{notifier: {notifier}}}")
    tell_waiting(settings, {"dag": DAG("merge__t"), "run_id": "r"}, "Merge?")
    assert f"the notifier {notifier} of table t failed" in caplog.text
    assert says in caplog.text


def test_a_task_that_is_killed_while_its_notifier_works_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By Airflow, whose handler of the signal raises in the thread of the task."""

    class Killed(BaseException):
        pass

    def killed(*_: object) -> None:
        raise Killed

    before = signal.signal(signal.SIGALRM, killed)
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    settings = one(tmp_path, "alerts: {notifier: tests.unit.airflow.test_alerts.hangs}")
    try:
        with pytest.raises(Killed):
            tell_waiting(settings, {"dag": DAG("merge__t"), "run_id": "r"}, "Merge?")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_a_notifier_finds_the_context_variables_of_its_task(tmp_path: Path) -> None:
    settings = one(tmp_path, "alerts: {notifier: tests.unit.airflow.test_alerts.remembers}")
    OF_TASK.set(["asked by the task"])
    tell_waiting(settings, {"dag": DAG("merge__t"), "run_id": "r"}, "Merge?")
    assert OF_TASK.get() == ["asked by the task", "Merge?"]


def test_a_notifier_that_ends_its_process_does_not_end_the_triggerer() -> None:
    context = {"dag_run": {"dag_id": "merge__t"}}
    with pytest.raises(RuntimeError, match=r"SystemExit\(3\)"):
        asyncio.run(missed_deadline("tests.unit.airflow.test_alerts.exits", {}, context))


def test_the_table_of_a_run_is_found_where_airflow_tells_no_more_than_its_id(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in the callback of a run that failed before Airflow knew a task of it."""
    file = tmp_path / "told"
    alerts = f"{{notifier: {TOLD}, arguments: {{file: '{file}', word: '{{{{ run_id }}}}'}}}}"
    rows = [f"  {name}: {{root: 's3://b/{name}', alerts: {alerts}}}" for name in ("b", "a__b")]
    loaded(tmp_path, "\n".join(["tables:", *rows, "  c: {root: 's3://b/c'}"]))
    monkeypatch.setenv("FIRNLINE_TABLES", str(tmp_path / "tables.yaml"))
    for run_id in ("fleet__1__a__b", "fleet__1__c", "manual__1"):
        TableAlert()({"dag": DAG("merge"), "run_id": run_id, "reason": "x"})
    run = SimpleNamespace(dag_id="merge", run_id="manual__2", conf={"table": "b"})
    TableAlert()({"dag": DAG("merge"), "dag_run": run, "run_id": run.run_id, "reason": "x"})
    assert [line["word"].strip() for line in lines(file)] == ["fleet__1__a__b", "manual__2"]


def test_in_3_0_the_doc_of_a_dag_says_that_its_deadline_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(versions, "AIRFLOW_3_1_PLUS", False)
    settings = loaded(
        tmp_path, "tables: {t: {root: 's3://b/t', alerts: {merge_deadline: 6h}}}"
    ).table("t")
    with operation_dag(MergeWork(), OneTable(settings), doc="What it is.", title="t") as dag:
        pass
    text = dag.doc_md or ""
    assert text.startswith("What it is.\n")
    assert "**No deadline:** a deadline of merges (`alerts.merge_deadline`) needs" in text
    assert not getattr(dag, "deadline", None)
