"""Figures of plans and reports, cut for XCom and asset events and formatted for task logs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from firnline.units import about_size, counted

SHOWN = 50
"""Maximum entries of a list in XCom and log; a first run on a large table has thousands."""
_LISTED = 10
_YEAR_2000 = 946_684_800_000
"""Unix milliseconds: figures below are durations, others are times."""


def shortened(figures: Mapping[str, Any]) -> dict[str, Any]:
    """Return plain data with every list and mapping cut to ``SHOWN`` entries.

    A cut entry ``x`` gets a neighbour ``x_in_all`` with the full count, unless ``x_count`` has it.
    """
    short: dict[str, Any] = {}
    for name, value in figures.items():
        short[name] = _cut(value)
        is_cut = isinstance(value, list | tuple | dict) and len(value) > SHOWN
        if is_cut and f"{name}_count" not in figures:
            short[f"{name}_in_all"] = len(value)
    return short


def _cut(value: Any) -> Any:  # noqa: ANN401 - plain data
    # Lists: Airflow shows a tuple as text.
    if isinstance(value, list | tuple):
        return [_cut(each) for each in value[:SHOWN]]
    if isinstance(value, dict):
        return {str(name): _cut(each) for name, each in list(value.items())[:SHOWN]}
    return value


def job_lines(line: str) -> list[str]:
    """Return a line of a job's output as a person reads it: its report as one line per figure."""
    report = report_in(line)
    return [line] if report is None else figure_lines(shortened(report)) or [line]


def report_in(line: str) -> dict[str, Any] | None:
    """Return the report that a line of a job's output is; None for any other line."""
    try:
        report = json.loads(line) if line.startswith('{"') else None
    except (ValueError, RecursionError):
        report = None
    if not isinstance(report, dict) or "error" in report or "seconds" not in report:
        return None
    return report


def figure_lines(figures: Mapping[str, Any]) -> list[str]:
    """Return one line per figure and per entry of a list or mapping; none for empty values."""
    lines: list[str] = []
    for name, value in figures.items():
        label = name.replace("_", " ")
        if isinstance(value, Mapping):
            lines += [f"{label}: {key}: {_text(str(key), each)}" for key, each in value.items()]
        elif isinstance(value, list | tuple):
            lines += [f"{label}: {_text(name, each)}" for each in value[:_LISTED]]
            count = figures.get(f"{name}_count", figures.get(f"{name}_in_all", len(value)))
            lines += [f"{label}: and {count - _LISTED} more"] if count > _LISTED else []
        elif value is not None and value != "" and not name.endswith("_in_all"):
            lines.append(f"{label}: {_text(name, value)}")
    return lines


def _text(name: str, value: Any) -> str:  # noqa: ANN401 - plain data
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_text(str(key), each)}" for key, each in value.items())
    is_size = name == "bytes" or name.startswith("bytes_") or name.endswith("_bytes")
    if isinstance(value, int) and not isinstance(value, bool):
        if is_size:
            return about_size(value)
        if name.endswith("_ms") and value > _YEAR_2000:
            return f"{time_text(value)} UTC"
    return str(value)


def parts_text(count: int) -> str:
    """Return ``1 part``, ``2,000 parts``."""
    return counted(count, "part")


def time_text(unix_ms: int) -> str:
    """Format a time in UTC as ``2026-11-21 11:09:03``."""
    return datetime.fromtimestamp(unix_ms // 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
