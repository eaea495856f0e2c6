"""``firnline merge --engine spark``: a real Spark application, and machines that have none."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.e2e.conftest import PARTS, Place
from tests.support.cli import program


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


def fake_java(folder: Path, version: str) -> Path:
    """A JAVA_HOME whose java only says its version."""
    java = folder / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n", encoding="utf-8")
    java.chmod(0o755)
    return folder


@pytest.mark.parametrize(("version", "said"), [("1.8.0_392", "Java 8"), ("11.0.21", "Java 11")])
def test_a_java_that_is_too_old_is_named_with_its_version(
    place: Place, tmp_path: Path, version: str, said: str
) -> None:
    home = fake_java(tmp_path / "jdk", version)
    before = place.content()
    shown = program("merge", place.root, "--engine", "spark", env={"JAVA_HOME": str(home)})
    assert shown.code == 2
    assert shown.out == ""
    assert f"needs Java 17 or newer and {home}/bin/java is {said}; install" in shown.sentence
    assert place.content() == before


def test_a_machine_without_java_is_told_what_to_install(place: Place, tmp_path: Path) -> None:
    before = place.content()
    for env in (
        {"JAVA_HOME": str(tmp_path / "none")},
        {"JAVA_HOME": None, "PATH": str(tmp_path)},
    ):
        shown = program("merge", place.root, "--engine", "spark", "--json", env=env)
        assert (shown.code, shown.out) == (2, "")
        assert shown.error["type"] == "EnvironmentFaultError"
        assert "Spark needs Java and there is none" in shown.error["message"]
        assert "Java 17" in shown.error["next_step"]
    assert place.content() == before


def test_java_is_not_asked_for_by_a_local_merge(place: Place, tmp_path: Path) -> None:
    env = {"JAVA_HOME": None, "PATH": str(tmp_path)}
    assert program("merge", place.root, env=env).code == 0


@pytest.mark.parametrize("master", ["spark://127.0.0.1:9", "sc://127.0.0.1:9"])
def test_a_cluster_that_is_not_there_is_named(place: Place, master: str) -> None:
    before = place.content()
    shown = program("merge", place.root, "--engine", "spark", "--master", master)
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
    place: Place, options: list[str], said: str
) -> None:
    shown = program("merge", place.root, *options, env={**os.environ})
    assert shown.code == 2
    assert said in shown.sentence
