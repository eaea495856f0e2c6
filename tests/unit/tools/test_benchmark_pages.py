"""docs/benchmarks.md: made of docs/benchmarks.json, readable without its source."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from benchmarks.report import Report, _table
from benchmarks.texts import TEXTS
from tools.bootstrap import REPO

DOCS = REPO / "docs"
MEASURED: dict[str, Any] = {
    "name": "a", "what": "all of it", "median_s": 2.5, "min_s": 2.0, "max_s": 3.0, "cpu_s": 1.0,
    "peak_mib": 1200, "rounds_s": [2.0, 2.5, 3.0],
}  # fmt: skip


def rows(text: str) -> list[list[str]]:
    return [
        [cell.strip() for cell in line.strip("|\n").split("|")]
        for line in text.splitlines()
        if line.startswith("| ")
    ]


def test_the_pages_are_those_of_the_figures(tmp_path: Path) -> None:
    shutil.copy(DOCS / "benchmarks.json", tmp_path)
    Report(tmp_path).write()
    for name in ("benchmarks.md", "benchmarks.json", "benchmarks.svg"):
        assert (tmp_path / name).read_text() == (DOCS / name).read_text(), f"{name}: make bench"


def test_every_column_has_a_heading_and_a_value_and_no_time_is_nothing() -> None:
    table: list[list[str]] = []
    for line in (DOCS / "benchmarks.md").read_text().splitlines():
        if line.startswith("| "):
            table += rows(line)
        elif table:
            heads, _, *body = table
            assert all(heads)
            assert all(any(cell != "-" for cell in cells) for cells in zip(*body, strict=True))
            assert not {"0.00", "0 ms", "0.00 s"}.intersection(*body, {"0 ms"})
            table = []


def test_what_was_not_measured_is_left_out_or_a_dash() -> None:
    other = MEASURED | {"name": "b", "what": "", "median_s": 0.03, "cpu_s": 0.0, "peak_mib": 0}
    heads, _, first, second = rows(_table("small", [MEASURED, other]))
    assert heads == [
        "contender",
        "median",
        "fastest",
        "slowest",
        "CPU time",
        "peak memory",
        "time / a",
    ]
    assert first == [
        "**a**: all of it",
        "2.50 s",
        "2.00 s",
        "3.00 s",
        "1.00 s",
        "1,200 MiB",
        "1.00",
    ]
    assert (second[1], second[4], second[5]) == ("30 ms", "-", "-")


def test_whether_the_proof_meets_its_goal_is_said_by_its_figures() -> None:
    kernels = {"counts": None, "read back": "14.5 %", "digest": "4.9 %", "other, digest": "5.1 %"}
    found = [
        MEASURED | {"name": f"sorted, {kernel}", "more than the row before": more}
        for kernel, more in kernels.items()
    ]
    heads, _, *body = rows(_table("proof", found))
    assert heads[-2:] == ["more than the row before", "goal of 5 %"]
    assert [cells[-1] for cells in body] == ["-", "-", "met", "missed"]


def test_the_text_of_a_section_states_nothing_that_its_table_measures() -> None:
    """It stays as it is when the figures change."""
    said = " ".join(text for _, text in TEXTS.values())
    assert (
        re.findall(r"\b(?:met|missed|faster|slower|much|whatever the|\d+ to \d+ parts)\b", said)
        == []
    )


@pytest.mark.parametrize("cpu", [0.0, 2.5])
def test_one_round_has_one_time(cpu: float) -> None:
    once = MEASURED | {"rounds_s": [2.5], "peak_mib": 0, "cpu_s": cpu}
    heads, _, first = rows(_table("memory", [once | {"of_kernel_memory": 1.1}]))
    assert heads[:2] == ["merge", "time"]
    assert first[-1] == "1.1"
    assert ("CPU time" in heads) is False
