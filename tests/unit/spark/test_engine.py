from __future__ import annotations

import logging
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from firnline.settings.spark_conf import OPT_OUT
from firnline.spark import versions
from firnline.spark.engine import distribute, use_this_python, warn_of_cores
from firnline.spark.reasons import reason
from tests.kernel.test_batches import tasks


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (
            'Job aborted\nCaused by: java.io.IOException: Cannot run program "py"\n\tat x.y(z)\n',
            'Cannot run program "py"',
        ),
        # Spark's message begins with an empty line when the Python worker cannot start.
        (
            (
                "Job aborted due to stage failure:\nCaused by: org.apache.spark.SparkException: \n"
                "Bad data in pyspark.daemon's standard output. Invalid port number:\n  1298229349\n"
            ),
            "Job aborted due to stage failure",
        ),
        ("x\nReason: \nReason: Executor heartbeat timed out.\n", "Executor heartbeat timed out"),
        ("\n  \nsomething else\n", "something else"),
        ("", "Spark does not say why"),
    ],
)
def test_of_sparks_many_lines_one_that_says_something_is_told(said: str, told: str) -> None:
    assert reason(said) == told


class Context:
    """As much of a SparkContext as knows the Python of its workers."""

    pythonExec = "python3"  # noqa: N815 -- Spark's

    def __init__(self, **conf: str) -> None:
        self.sparkContext, self.getConf = self, lambda: {k.replace("_", "."): conf[k] for k in conf}


def test_the_workers_of_a_local_master_are_this_very_python(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    use_this_python(plain := Context())  # type: ignore[arg-type] # all that is looked at
    assert plain.pythonExec == sys.executable


def test_a_python_that_somebody_chose_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    use_this_python(stated := Context(spark_pyspark_python="./env/python"))  # type: ignore[arg-type]
    monkeypatch.setenv("PYSPARK_PYTHON", "./env/python")
    use_this_python(by_environment := Context())  # type: ignore[arg-type]
    assert {stated.pythonExec, by_environment.pythonExec} == {"python3"}


class Session:
    """As much of a session as knows the Python of its workers and takes what is sent to them."""

    def __init__(self, **conf: str) -> None:
        self.conf = {k.replace("_", "."): conf[k] for k in conf}
        self.sparkContext, self.sent = Context(**conf), list[str]()

    def send(self, package: Path) -> None:
        self.sent.append(package.name)


@pytest.mark.long
@pytest.mark.parametrize(
    ("master", "python", "sent"),
    [
        ("spark://host:7077", "", ["firnline.zip"]),
        ("spark://host:7077", sys.executable, ["firnline.zip"]),
        ("local[2]", "", []),
        ("local[2]", "/another/bin/python", ["firnline.zip"]),
    ],
)
def test_firnline_is_sent_unless_tasks_run_in_this_very_python(
    monkeypatch: pytest.MonkeyPatch, master: str, python: str, sent: list[str]
) -> None:
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    monkeypatch.setattr(versions, "send_package", Session.send)
    for choice in ("true", "false"):
        session = Session(spark_master=master, **{OPT_OUT.replace(".", "_"): choice})
        if python:
            monkeypatch.setenv("PYSPARK_PYTHON", python)
            session.sparkContext.pythonExec = python
        for _ in range(2):
            distribute(session)  # type: ignore[arg-type] # a fake
        assert session.sent == (sent if choice == "true" else [])


class Remote(Session):
    """A session on a Connect server."""

    __module__ = "pyspark.sql.connect.session"


@pytest.mark.parametrize(
    ("kind", "conf", "threads", "warns"),
    [
        (Remote, {}, 2, True),
        (Remote, {"spark_task_cpus": "2"}, 2, False),
        (Remote, {}, 1, False),
        (Session, {}, 2, False),
    ],
)
def test_a_connect_server_that_gives_a_task_fewer_cores_than_threads_is_warned_of_once(
    caplog: pytest.LogCaptureFixture,
    kind: type[Session],
    conf: dict[str, str],
    threads: int,
    *,
    warns: bool,
) -> None:
    session, group = kind(**conf), replace(tasks(10)[0], threads=threads)
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            warn_of_cores(session, [group])  # type: ignore[arg-type] # a fake
    assert len(caplog.messages) == warns
    if warns:
        assert "merge.kernel_threads is 2" in caplog.messages[0]
        assert "--conf spark.task.cpus=2" in caplog.messages[0]
