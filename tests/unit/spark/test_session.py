from __future__ import annotations

import os
from pathlib import Path
from types import ModuleType

import pytest

from firnline import extras
from firnline.errors import EnvironmentFaultError
from firnline.spark import session
from firnline.spark.session import _of_driver, check_java
from firnline.spark.versions import SPARK_4_0_PLUS, VERSION


def java(home: Path, release: str | None = None, output: str = "") -> dict[str, str]:
    """A folder that looks like a Java of some version."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho '{output}' >&2\n")
    program.chmod(0o755)
    if release is not None:
        (home / "release").write_text(release)
    return {"JAVA_HOME": str(home)}


def test_the_version_comes_from_the_release_file(tmp_path: Path) -> None:
    assert check_java(java(tmp_path, 'IMPLEMENTOR="X"\nJAVA_VERSION="21.0.2"\n')) == 21


def test_without_a_release_file_java_itself_is_asked(tmp_path: Path) -> None:
    assert check_java(java(tmp_path, None, 'openjdk version "17.0.15" 2025-04-15')) == 17


@pytest.mark.skipif(not SPARK_4_0_PLUS, reason=f"Spark {VERSION} starts on Java 8 (4.0: 17)")
@pytest.mark.parametrize("release", ['JAVA_VERSION="1.8.0_392"', 'JAVA_VERSION="11.0.2"'])
def test_a_java_that_is_too_old_is_named_with_what_to_do(tmp_path: Path, release: str) -> None:
    with pytest.raises(EnvironmentFaultError, match=r"Java 17 or newer.*is Java (8|11).*install"):
        check_java(java(tmp_path, release))


def test_no_java_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFaultError, match="none on the PATH, and JAVA_HOME is not set"):
        check_java({"PATH": str(tmp_path)})
    with pytest.raises(EnvironmentFaultError, match=f"none under JAVA_HOME={tmp_path}; install"):
        check_java({"JAVA_HOME": str(tmp_path), "PATH": "/usr/bin"})


def test_a_java_that_says_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFaultError, match="does not say which Java it is"):
        check_java(java(tmp_path, None, "what?"))


def test_the_python_of_the_executors_is_that_of_the_settings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", "/another")
    _of_driver({"spark.pyspark.python": "./environment/bin/python"}, "spark://host:7077")
    assert os.environ["PYSPARK_PYTHON"] == "./environment/bin/python"
    monkeypatch.setenv("PYSPARK_PYTHON", "/another")
    _of_driver({}, "spark://host:7077")
    assert os.environ["PYSPARK_PYTHON"] == "/another"


@pytest.mark.parametrize(
    ("master", "wanted", "taken"),
    [
        ("local[2]", "4", "2"),
        ("local[2,3]", "4", "2"),
        ("local", "4", "1"),
        ("local[8]", "4", "4"),
        ("spark://host:7077", "4", "4"),
        ("local-cluster[2,1,1024]", "4", "4"),
    ],
)
def test_a_task_takes_no_more_cores_than_a_local_master_has(
    master: str, wanted: str, taken: str
) -> None:
    conf = _of_driver({"spark.task.cpus": wanted}, master)
    assert (conf["spark.task.cpus"], conf["spark.master"]) == (taken, master)


@pytest.mark.parametrize(
    ("used", "client", "refused"),
    [("4.2.0", "4.2.0", True), ("4.3.0", "4.2.0", False), ("4.3.0", "4.3.0", False)],
)
def test_a_pyspark_with_the_files_of_another_is_refused_before_a_task_dies_of_it(
    used: str, client: str, refused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    versions = {"pyspark": "4.3.0", "pyspark-client": client}
    for module in (extras, session):
        monkeypatch.setattr(module, "version", lambda name: versions[name])
    package = ModuleType("pyspark")
    vars(package)["__version__"] = used
    if not refused:
        session._refuse_overwritten(package)
        return
    with pytest.raises(EnvironmentFaultError, match=r"pyspark-client .* has the same files"):
        session._refuse_overwritten(package)
