from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tools import bootstrap
from tools.bootstrap import SetupError, ask_java, ensure_java, parse_java

SETTINGS = """Property settings:
    java.home = /opt/java 17
    java.specification.version = {version}
    java.version = 17.0.15
"""


@pytest.mark.parametrize(("version", "major"), [("17", 17), ("1.8", 8), ("21", 21)])
def test_the_version_of_java_is_read_old_form_and_new(version: str, major: int) -> None:
    assert parse_java(SETTINGS.format(version=version)) == (major, "/opt/java 17")


def test_what_is_not_java_has_no_version(tmp_path: Path) -> None:
    program = tmp_path / "java"
    program.write_text("#!/bin/sh\necho hello\n")
    program.chmod(0o755)
    assert ask_java(program) == (0, "")
    assert ask_java(tmp_path / "missing") == (0, "")


def fake_java(folder: Path, version: str) -> Path:
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(
        f"#!/bin/sh\necho ' java.home = {folder}' >&2\n"
        f"echo ' java.specification.version = {version}' >&2\n"
    )
    program.chmod(0o755)
    return program


def test_a_java_that_is_too_old_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = fake_java(tmp_path / "old", "1.8"), fake_java(tmp_path / "new", "21")
    monkeypatch.setattr(bootstrap, "java_candidates", lambda: iter([old, new]))
    assert ensure_java() == str(tmp_path / "new")


def test_without_java_and_root_one_sentence_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = fake_java(tmp_path / "old", "1.8")
    monkeypatch.setattr(bootstrap, "java_candidates", lambda: iter([old]))
    monkeypatch.setattr(bootstrap, "apt_get_words", lambda: None)
    with pytest.raises(SetupError, match=r"needs Java 17 or newer.*version 8.*packages\.txt"):
        ensure_java()


APT_GET = ["env", "DEBIAN_FRONTEND=noninteractive", "apt-get"]


@pytest.mark.parametrize(
    ("user", "there", "code", "words"),
    [
        (0, {"apt-get"}, 1, APT_GET),
        (1000, {"apt-get", "sudo"}, 0, ["sudo", "-n", *APT_GET]),
        (1000, {"apt-get", "sudo"}, 1, None),
        (1000, {"apt-get"}, 0, None),
        (0, {"sudo"}, 0, None),
    ],
)
def test_packages_are_installed_by_root_or_by_a_sudo_that_asks_nothing(
    monkeypatch: pytest.MonkeyPatch,
    user: int,
    there: set[str],
    code: int,
    words: list[str] | None,
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: user)
    monkeypatch.setattr("shutil.which", lambda name: name if name in there else None)
    done: subprocess.CompletedProcess[str] = subprocess.CompletedProcess([], code)
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: done)
    assert bootstrap.apt_get_words() == words


PYPROJECT = """
[build-system]
requires = ["hatchling"]
[project]
name = "firnline"
[tool.ruff]
line-length = 100
"""


@pytest.mark.parametrize(
    ("file", "old", "new", "anew"),
    [
        ("requirements.lock", "one", "two", True),
        ("pyproject.toml", "firnline", "other", True),
        ("pyproject.toml", "hatchling", "setuptools", True),
        ("pyproject.toml", "100", "120", False),
    ],
)
def test_the_environment_is_made_anew_when_what_it_is_made_from_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str, old: str, new: str, anew: bool
) -> None:
    monkeypatch.setattr(bootstrap, "REPO", tmp_path)
    (tmp_path / "pyproject.toml").write_text(PYPROJECT)
    (tmp_path / "requirements.lock").write_text("one")
    before = bootstrap.wanted_stamp()
    path = tmp_path / file
    path.write_text(path.read_text().replace(old, new))
    assert (bootstrap.wanted_stamp() != before) == anew


def test_a_cache_that_cannot_be_cleared_is_said_and_is_no_reason_to_stop(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[tuple[object, ...]] = []

    def refused(*command: object, quiet: bool) -> None:
        asked.append(command)
        raise SetupError("`uv cache prune -q` ended with 2")

    monkeypatch.setattr(bootstrap, "ensure_uv", lambda: Path("/opt/uv"))
    monkeypatch.setattr(bootstrap, "run", refused)
    bootstrap.forget_leftovers()
    assert asked == [(Path("/opt/uv"), "cache", "prune", "-q")]
    assert "keeps what nothing needs" in capsys.readouterr().out
