"""``firnline merge --engine spark``: a real Spark application, and machines that have none.

The application and the first machine without Java are for the installed program; the rest runs in
this process.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.conftest import PARTS, Place
from tests.support.cli import Outcome, program

Firnline = Callable[..., Outcome]


def spark_logs(folder: Path) -> list[Path]:
    return list(folder.glob("firnline-spark-*.log"))


def test_a_merge_by_spark_prints_what_a_local_one_does_and_nothing_of_spark(
    place: Place, tmp_path: Path
) -> None:
    (tmp_path / "tmp").mkdir()
    env = {"TMPDIR": str(tmp_path / "tmp")}
    master = ("--engine", "spark", "--master", "local[1]")
    shown = program("merge", place.root, *master, env=env)
    assert shown.code == 0, shown.err
    table = dict(line.split(maxsplit=1) for line in shown.out.splitlines())
    assert (table["merged"], table["rows"]) == (f"{2 * PARTS} parts → 2", str(2 * PARTS * 3))
    lines = shown.err.splitlines()
    assert lines
    assert all(line.startswith("merging events: ") for line in lines), shown.err
    assert spark_logs(tmp_path / "tmp") == []
    again = program("merge", place.root, *master, env={**env, "JAVA_HOME": "/nowhere"})
    assert (again.code, again.err) == (0, ""), "nothing to do starts no JVM"


OTHER_VERSION = """
import collections, sys
Version = collections.namedtuple("Version", "major minor micro releaselevel serial")
sys.version_info = Version(3, 99, 0, "final", 0)
"""


def other_python(folder: Path) -> Path:
    """This Python, but for the version that it states."""
    (folder / "sitecustomize.py").write_text(OTHER_VERSION)
    found = folder / "python3"
    found.write_text(f'#!/bin/sh\nPYTHONPATH="{folder}:$PYTHONPATH" exec {sys.executable} "$@"\n')
    found.chmod(0o755)
    return found


@pytest.mark.turn
@pytest.mark.parametrize(
    ("has", "said"),
    [
        (False, "executors cannot be started: {python}: No such file or directory; let spark"),
        (True, f"executors run Python 3.99 and this driver Python 3.{sys.version_info.minor}, "),
    ],
)
def test_a_python_of_the_executors_that_is_of_no_use_is_named(
    place: Place, tmp_path: Path, *, has: bool, said: str
) -> None:
    python = other_python(tmp_path) if has else tmp_path / "nowhere" / "python3"
    place.configure(f"spark: {{conf: {{spark.pyspark.python: {python}, spark.log.level: 'OFF'}}}}")
    before = place.content()
    options = ("--engine", "spark", "--master", "local[1]", "--full", "--json")
    shown = program("merge", "events", *options, "--settings", place.settings)
    assert (shown.code, shown.out) == (2, "")
    error = json.loads(shown.err.splitlines()[-1])["error"]
    assert error["type"] == "EnvironmentFaultError"
    assert said.format(python=python) in f"{error['message']}; {error['next_step']}"
    assert place.content() == before


def fake_java(folder: Path, version: str) -> Path:
    """A JAVA_HOME whose java only says its version."""
    java = folder / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n", encoding="utf-8")
    java.chmod(0o755)
    return folder


@pytest.mark.parametrize(("version", "said"), [("1.8.0_392", "Java 8"), ("11.0.21", "Java 11")])
def test_a_java_that_is_too_old_is_named_with_its_version(
    firnline: Firnline,
    monkeypatch: pytest.MonkeyPatch,
    place: Place,
    tmp_path: Path,
    version: str,
    said: str,
) -> None:
    home = fake_java(tmp_path / "jdk", version)
    monkeypatch.setenv("JAVA_HOME", str(home))
    before = place.content()
    shown = firnline("merge", place.root, "--engine", "spark")
    assert shown.code == 2
    assert shown.out == ""
    assert f"needs Java 17 or newer and {home}/bin/java is {said}; install" in shown.sentence
    assert place.content() == before


def without_java(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """None is named, and an empty folder is all of the PATH."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(folder))


def test_a_machine_without_java_is_told_what_to_install(
    firnline: Firnline, monkeypatch: pytest.MonkeyPatch, place: Place, tmp_path: Path
) -> None:
    before = place.content()
    command = ("merge", place.root, "--engine", "spark", "--json")
    named = program(*command, env={"JAVA_HOME": str(tmp_path / "none")})
    without_java(monkeypatch, tmp_path)
    for shown in (named, firnline(*command)):
        assert (shown.code, shown.out) == (2, "")
        assert shown.error["type"] == "EnvironmentFaultError"
        assert "Spark needs Java and there is none" in shown.error["message"]
        assert "Java 17" in shown.error["next_step"]
    assert place.content() == before


def test_java_is_not_asked_for_by_a_local_merge(
    firnline: Firnline, monkeypatch: pytest.MonkeyPatch, place: Place, tmp_path: Path
) -> None:
    without_java(monkeypatch, tmp_path)
    assert firnline("merge", place.root).code == 0


@pytest.mark.parametrize("master", ["spark://127.0.0.1:9", "sc://127.0.0.1:9"])
def test_a_cluster_that_is_not_there_is_named(
    firnline: Firnline, place: Place, master: str
) -> None:
    before = place.content()
    shown = firnline("merge", place.root, "--engine", "spark", "--master", master)
    assert shown.code == 2
    assert f"nobody answers at {master}: Connection refused; start Spark there" in shown.sentence
    assert place.content() == before


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--engine", "spark", "--master", "flink://host"], "'flink://host' is not a Spark master"),
        (["--engine", "spark", "--master", "spark://"], "'spark://' is not a Spark master"),
        (["--master", "local[2]"], "the engine is local; add --engine spark"),
    ],
)
def test_a_master_that_cannot_be_is_wrong_usage(
    firnline: Firnline, place: Place, options: list[str], said: str
) -> None:
    shown = firnline("merge", place.root, *options)
    assert shown.code == 2
    assert said in shown.sentence
