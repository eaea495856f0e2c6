"""Environments beside the clone's own are made once, and one that cannot be made is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from firnline.errors import EnvironmentFaultError
from tools import environments


@pytest.fixture
def uv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A uv that writes down what it is asked for, and fails for a package that nobody has."""
    program = tmp_path / "uv"
    program.write_text(
        f'#!/bin/sh\necho "$@" >> {tmp_path}/asked\n'
        'case "$*" in *nowhere*) echo "no such package" >&2; exit 1;; esac\n'
    )
    program.chmod(0o755)
    monkeypatch.setattr(environments, "CACHE", tmp_path)
    monkeypatch.setattr(environments, "ensure_uv", lambda: program)
    return tmp_path / "asked"


def test_it_is_made_once_and_completed_once(uv: Path) -> None:
    completed: list[Path] = []
    pythons = [environments.ensure("reader-1", ["some==1"], completed.append) for _ in range(2)]
    assert completed == pythons[:1]
    assert [line.split()[0] for line in uv.read_text().splitlines()] == ["venv", "pip"]


def test_one_that_cannot_be_made_is_an_error_with_what_the_index_said(uv: Path) -> None:
    for _ in range(2):
        with pytest.raises(EnvironmentFaultError, match="reader-1 could not be made: no such pack"):
            environments.ensure("reader-1", ["nowhere==1"])
    assert len(uv.read_text().splitlines()) == 4
