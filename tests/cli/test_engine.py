"""What runs kernels, and where Spark's own words go."""

from __future__ import annotations

import socket
import subprocess
import tempfile
from pathlib import Path

import pytest

from firnline.cli.engine import EngineKind, check_reachable, engine_for, jvm_log
from firnline.cli.failures import Manner, tell
from firnline.errors import EnvironmentFaultError
from firnline.settings.load import settings_for_root
from firnline.settings.spark_conf import conf_of
from firnline.spark import session
from firnline.table import open_table


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def say(words: str) -> None:
    """As a JVM does: another process, which writes to its descriptor 2."""
    subprocess.run(["sh", "-c", f"echo {words} >&2"], check=True)


def test_what_spark_says_goes_to_a_file_that_goes_when_all_is_well(
    temporary: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with jvm_log() as aside:
        with aside:
            say("WARN")
        say("ours")
        (log,) = temporary.iterdir()
        assert log.read_text() == "WARN\n"
    assert capfd.readouterr().err == "ours\n"
    assert list(temporary.iterdir()) == []


def test_after_an_error_the_file_stays_and_is_named(
    temporary: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def no_session() -> None:
        with jvm_log() as aside, aside:
            say("no master")
            raise EnvironmentFaultError("no Spark session", next_step="check the master")

    with pytest.raises(EnvironmentFaultError) as raised:
        no_session()
    (log,) = temporary.iterdir()
    assert log.read_text() == "no master\n"
    assert tell(raised.value, Manner()) == 2
    assert capsys.readouterr().err == (
        f"firnline: no Spark session; check the master\n  Spark's log: {log}\n"
    )


def test_a_log_without_a_word_is_not_worth_naming(temporary: Path) -> None:
    with pytest.raises(EnvironmentFaultError) as raised, jvm_log():
        raise EnvironmentFaultError("there is no Java", next_step="install one")
    assert not hasattr(raised.value, "__notes__")
    assert list(temporary.iterdir()) == []


def test_a_master_where_nobody_answers_is_named_at_once() -> None:
    for master in ("sc://127.0.0.1:9/;user_id=x", "spark://127.0.0.1:9", "sc://127.0.0.1:x"):
        with pytest.raises(EnvironmentFaultError, match=f"nobody answers at {master}: "):
            check_reachable(master)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        check_reachable(f"sc://127.0.0.1:{port}/;token=x")
        # One of several masters of a cluster is enough.
        check_reachable(f"spark://127.0.0.1:9,127.0.0.1:{port}")


def test_spark_gets_the_memory_and_cores_that_a_job_of_airflow_gets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[dict[str, str]] = []

    def no_java(name: str, conf: dict[str, str], **_: object) -> None:
        assert name == "firnline delete t"
        asked.append(conf)
        raise EnvironmentFaultError("there is no Java", next_step="install one")

    monkeypatch.setattr(session, "open_session", no_java)
    settings = settings_for_root(f"file://{tmp_path}/t")
    with (
        pytest.raises(EnvironmentFaultError),
        engine_for("delete", open_table(settings), EngineKind.SPARK, "yarn", None) as engine,
    ):
        engine()
    assert asked == [conf_of(settings)]
    assert "spark.executor.memoryOverhead" in asked[0]
