"""A job in a child process of the task."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path

import pytest

import firnline
from firnline.airflow.child import ChildJob
from firnline.airflow.merge import MergeWork
from firnline.airflow.submit import SubmitJob
from firnline.airflow.tables import OneTable
from firnline.airflow.versions import AirflowException, AirflowFailException
from firnline.errors import EnvironmentFaultError
from firnline.state.history import history
from firnline.table import open_table
from tests.support.airflow_context import run_context
from tests.support.tables import loaded
from tools.bootstrap import REPO


def job(script: str, **env: str) -> tuple[ChildJob, list[str]]:
    lines: list[str] = []
    child = ChildJob("a job", ["-c", script], env)
    child.run(lines.append)
    return child, lines


def test_its_lines_are_logged_and_its_report_is_kept() -> None:
    script = """print("on the way"); print('{"seconds": 1.5, "parts": 2}')"""
    child, lines = job(script)
    assert lines[0] == "on the way"
    assert child.output.report == {"seconds": 1.5, "parts": 2}


def test_its_secrets_are_in_its_environment() -> None:
    assert job("import os; print(os.environ['KEY'])", KEY="tell nobody")[1] == ["tell nobody"]


def test_what_it_says_of_its_failure_is_that_of_the_task() -> None:
    error = '{"error": {"message": "no disk", "next_step": "buy one", "retryable": false}}'
    with pytest.raises(AirflowFailException, match="no disk; buy one"):
        job(f"import sys; print('{error}', file=sys.stderr); sys.exit(1)")


def test_one_that_is_killed_is_tried_again() -> None:
    with pytest.raises(AirflowException, match=r"was killed \(exit code -9\)") as raised:
        job("import os; os.kill(os.getpid(), 9)")
    assert not isinstance(raised.value, AirflowFailException)


def test_a_python_that_is_not_there_is_named() -> None:
    child = ChildJob("a job", ["-c", ""], {}, "/nowhere/python")
    with pytest.raises(EnvironmentFaultError, match=r"spark\.python"):
        child.run(print)


def test_a_python_of_its_own_does_not_get_the_packages_of_the_worker(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PYTHONPATH", "/of/the/worker")
    lines: list[str] = []
    script = "import os; print(os.environ.get('PYTHONPATH'))"
    ChildJob("a job", ["-c", script], {}, sys.executable).run(lines.append)
    assert lines == ["None"]


@pytest.mark.parametrize("hears", [True, False])
def test_a_task_that_is_ended_leaves_no_process(
    monkeypatch: pytest.MonkeyPatch, hears: bool
) -> None:
    """One that does not hear of it is ended by force, with what it has started."""
    monkeypatch.setattr("firnline.airflow.child._END_S", 0.5)
    deaf = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN);"
    script = (
        f"{'' if hears else deaf}import os, time; print(os.getpid(), flush=True); time.sleep(60)"
    )
    lines: list[str] = []
    child = ChildJob("a job", ["-c", script], {})

    def run() -> None:
        with pytest.raises(AirflowException):
            child.run(lines.append)

    thread = threading.Thread(target=run)
    thread.start()
    while not lines:
        time.sleep(0.01)
    child.end()
    thread.join(10)
    with pytest.raises(ProcessLookupError):
        os.kill(int(lines[0]), signal.SIG_DFL)


@pytest.mark.long
def test_a_table_without_spark_is_merged_by_its_task(tmp_path: Path) -> None:
    spark = "{launcher: none, conn_id: nobody}"
    text = (
        f"tables: {{t: {{root: 'file://{tmp_path}/t', spark: {spark}, merge: {{min_inputs: 2}}}}}}"
    )
    settings = loaded(tmp_path, text).table("t")
    for number in range(3):
        firnline.append(open_table(settings), [{"x": number}])
    task = SubmitJob(
        task_id="merge", work=MergeWork(), table=OneTable(settings), jobs=REPO / "spark_jobs"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FIRNLINE_TABLES", str(tmp_path / "tables.yaml"))
        task.execute(run_context(MergeWork()))
    (header,) = history(open_table(settings), 5)
    assert (header.op, header.counts.parts_in, header.run.run_id) == ("merge", 3, "manual__1")
    assert task.report is not None
