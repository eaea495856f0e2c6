"""Notifiers in a process of their own: one that hangs, ends its process or fails harms nobody."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import airflow.configuration  # noqa: F401 - it sets logging up anew, without what a test has added
import pytest

from firnline.airflow.telling import Call, Tellers, call_of, tell_apart
from firnline.airflow.within import LIMIT
from tests.support.tables import one

NOTIFIERS = """
import os
import time


def good(context, file):
    with open(file, "a") as out:
        line = f"{context['table']} {context['reason']}: {context['sentence']} {context['link']}"
        print(line, os.environ["_AIRFLOW_PROCESS_CONTEXT"], file=out)


def note(name, file):
    with open(file, "a") as out:
        print(name, file=out)


def hangs(context, file):
    note("hangs", file)
    time.sleep(600)


def retries(context, file):
    note("retries", file)
    while True:
        try:
            time.sleep(600)
        except Exception:
            pass


def ends(context, file):
    note("ends", file)
    os._exit(0)


def exits(context, file):
    note("exits", file)
    raise SystemExit


def second(context, file):
    note("second", file)
    if len(open(file).readlines()) == 1:
        raise OSError
"""
RUN = {"dag_id": "merge", "run_id": "r 1", "conf": {"table": "t"}}


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that notifiers write to, which lie in Airflow's DAGs folder."""
    (tmp_path / "their_notifiers.py").write_text(NOTIFIERS)
    monkeypatch.setenv("AIRFLOW__CORE__DAGS_FOLDER", str(tmp_path))
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://flow.example")
    (tmp_path / "told").touch()
    return tmp_path / "told"


def call(name: str, told: Path, **context: Any) -> Call:
    arguments = {"file": str(told)}
    given = {"dag_run": {**RUN, **context}}
    return Call(f"their_notifiers.{name}", arguments, "table t", given, "pool_wrong", "no pool")


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "limit", "says"),
    [
        ("hangs", 2, "it took more than 2 s"),
        ("retries", 2, "it took more than 2 s"),
        ("ends", LIMIT, "its process ended with 0"),
        ("exits", LIMIT, "its process ended with 1"),
        ("missing", LIMIT, "its process ended with 1"),
    ],
)
def test_one_that_is_lost_is_an_error_in_the_log_and_is_tried_again_once(
    told: Path, caplog: pytest.LogCaptureFixture, name: str, limit: float, says: str
) -> None:
    tell_apart(call(name, told), limit=limit)
    first, second = (record for record in caplog.records if record.levelname == "ERROR")
    subject = f"the notifier their_notifiers.{name} of table t failed: {says}"
    assert first.getMessage() == f"{subject}; it is called once more"
    assert second.getMessage() == f"{subject}; pool_wrong: no pool"
    assert told.read_text() == ("" if name == "missing" else f"{name}\n{name}\n")


@pytest.mark.long
def test_a_second_try_that_is_heard_is_the_last(
    told: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tell_apart(call("second", told))
    assert told.read_text() == "second\nsecond\n"
    assert [record.levelname for record in caplog.records] == ["ERROR"]


@pytest.mark.long
def test_what_is_told_has_its_table_and_link_and_airflow_s_connections(told: Path) -> None:
    tell_apart(call("good", told))
    link = "https://flow.example/dags/merge/runs/r%201"
    assert told.read_text() == f"t pool_wrong: no pool {link} server\n"


def test_a_process_that_does_not_start_in_time_is_ended(
    told: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tell_apart(call("good", told), start=0, limit=0)
    assert caplog.text.count("its process was killed after 0 s") == 2
    assert told.read_text() == ""


def test_whoever_asks_does_not_wait_and_one_call_holds_up_no_other(told: Path) -> None:
    """The thread that looks at pools is one of those who ask."""
    done, go_on = SimpleQueue[str](), threading.Event()

    def tell(each: Call) -> None:
        if each.notifier.endswith("hangs"):
            go_on.wait(30)
        if each.notifier.endswith("fails"):
            raise OSError("no process")
        done.put(each.notifier)

    tellers = Tellers(tell)
    tellers.ask([call("hangs", told), call("fails", told), call("good", told)])
    assert done.get(timeout=30) == "their_notifiers.good"
    tellers.ask([call("good", told)])
    assert done.get(timeout=30) == "their_notifiers.good"
    go_on.set()
    assert done.get(timeout=30) == "their_notifiers.hangs"


def test_not_more_than_a_few_are_called_at_a_time(told: Path) -> None:
    begun, go_on = SimpleQueue[str](), threading.Event()

    def tell(each: Call) -> None:
        begun.put(each.notifier)
        go_on.wait(30)

    tellers = Tellers(tell, most=2)
    for number in range(4):
        tellers.ask([call(str(number), told)])
    assert {begun.get(timeout=30) for _ in range(2)} == {"their_notifiers.0", "their_notifiers.1"}
    time.sleep(0.1)
    assert begun.empty()
    go_on.set()
    assert {begun.get(timeout=30) for _ in range(2)} == {"their_notifiers.2", "their_notifiers.3"}


def test_without_a_notifier_there_is_no_call(tmp_path: Path) -> None:
    quiet = one(tmp_path, "locking: fenced").alerts
    assert call_of(quiet, "table t", RUN, "pool_wrong", "no pool") == []
