"""A command line and a table for it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.cli import LogOnlyTable, Outcome, inside


@pytest.fixture
def firnline(capsys: pytest.CaptureFixture[str]) -> Callable[..., Outcome]:
    """``firnline("parts", root)`` as a command line would run it."""
    return inside(capsys)


@pytest.fixture
def table(tmp_path: Path) -> LogOnlyTable:
    """A table with two partitions, three small parts and a large one."""
    made = LogOnlyTable(tmp_path / "events")
    made.append({"d=1": [1_000, 3_000], "d=2": [2_000]})
    made.append({"d=2": [500 * 2**20]}, schema={"ts": "TIMESTAMP", "w": "VARCHAR"})
    return made
