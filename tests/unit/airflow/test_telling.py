"""Notifiers in a process of their own: one that hangs, ends its process or fails harms nobody."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from firnline.airflow.telling import Call, call_all, call_of
from tests.support.tables import one

NOTIFIERS = """
import os
import time


def good(context, file):
    with open(file, "a") as out:
        line = f"{context['table']} {context['reason']}: {context['sentence']} {context['link']}"
        print(line, os.environ["_AIRFLOW_PROCESS_CONTEXT"], file=out)


def hangs(context, file):
    time.sleep(600)


def ends(context, file):
    os._exit(3)
"""
RUN = {"dag_id": "merge", "run_id": "r 1", "conf": {"table": "t"}}


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that notifiers write to, which lie in Airflow's DAGs folder."""
    (tmp_path / "their_notifiers.py").write_text(NOTIFIERS)
    monkeypatch.setenv("AIRFLOW__CORE__DAGS_FOLDER", str(tmp_path))
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://flow.example")
    return tmp_path / "told"


def call(name: str, told: Path, **context: Any) -> Call:
    arguments = {"file": str(told)}
    given = {"dag_run": {**RUN, **context}}
    return Call(f"their_notifiers.{name}", arguments, "table t", given, "pool_wrong", "no pool")


def test_one_that_hangs_is_ended_and_the_next_one_is_called(told: Path) -> None:
    call_all([call("hangs", told), call("missing", told), call("good", told)], limit=1)
    link = "https://flow.example/dags/merge/runs/r%201"
    assert told.read_text() == f"t pool_wrong: no pool {link} server\n"


def test_one_that_ends_its_process_is_an_error_in_the_log(
    told: Path, caplog: pytest.LogCaptureFixture
) -> None:
    call_all([call("ends", told)])
    assert "the process that calls notifiers ended with 3" in caplog.text


def test_a_process_that_does_not_start_in_time_is_ended(
    told: Path, caplog: pytest.LogCaptureFixture
) -> None:
    call_all([call("good", told)], start=0, limit=0)
    assert "the process that calls notifiers ended with -9" in caplog.text
    assert not told.exists()


def test_without_a_notifier_there_is_no_call(tmp_path: Path) -> None:
    quiet = one(tmp_path, "locking: fenced").alerts
    assert call_of(quiet, "table t", RUN, "pool_wrong", "no pool") == []
