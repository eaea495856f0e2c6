"""The shells whose completion is tested, from the system's packages."""

from __future__ import annotations

import pytest

from tests.cli.test_completion import SHELLS as TESTED
from tools import shells, system_packages
from tools.shells import SHELLS


def test_every_shell_whose_completion_is_tested_is_installed() -> None:
    assert {*SHELLS, "bash"} == {*TESTED}


def test_what_is_missing_is_installed_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    there = {"zsh"}
    monkeypatch.setattr("shutil.which", lambda name: name if name in there else None)
    monkeypatch.setattr(shells, "install_package", lambda name, _: there.add(name))
    assert shells.missing() == ["fish"]
    assert shells.main(["install"]) == 0
    assert shells.missing() == []


def test_who_may_install_nothing_is_told_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("shutil.which", lambda _: None)
    monkeypatch.setattr(system_packages, "apt_get_words", lambda: None)
    assert shells.main(["install"]) == 1
    error = capsys.readouterr().err
    assert error.startswith("shells: tests of completion need zsh and this machine has none")
    assert "install it (Debian's package zsh)" in error


def test_a_package_that_brings_no_program_is_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("shutil.which", lambda _: None)
    monkeypatch.setattr(shells, "install_package", lambda *_: None)
    assert shells.main(["install"]) == 1
    assert "the package zsh brought no program zsh" in capsys.readouterr().err
    assert shells.main([]) == 2
