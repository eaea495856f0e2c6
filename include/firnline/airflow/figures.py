"""Figures of plans and reports: short enough for XCom and events, readable in a task's log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from firnline.units import about_size

SHOWN = 50
"""Entries of a list that XCom and log name; a first run on a large table has thousands."""
_LISTED = 10


def shortened(figures: Mapping[str, Any]) -> dict[str, Any]:
    """Plain data with every list and mapping cut to ``SHOWN`` entries.

    A cut one ``x`` gets a neighbour ``x_in_all``: how many there are.
    """
    short: dict[str, Any] = {}
    for name, value in figures.items():
        short[name] = _cut(value)
        if isinstance(value, list | tuple | dict) and len(value) > SHOWN:
            short[f"{name}_in_all"] = len(value)
    return short


def _cut(value: Any) -> Any:  # noqa: ANN401 - plain data
    # Lists: Airflow shows a tuple as text.
    if isinstance(value, list | tuple):
        return [_cut(each) for each in value[:SHOWN]]
    if isinstance(value, dict):
        return {str(name): _cut(each) for name, each in list(value.items())[:SHOWN]}
    return value


def figure_lines(figures: Mapping[str, Any]) -> list[str]:
    """One line per figure, one per entry of a list or mapping; nothing for what is empty."""
    lines: list[str] = []
    for name, value in figures.items():
        label = name.replace("_", " ")
        if isinstance(value, Mapping):
            lines += [f"{label}: {key}: {_text(str(key), each)}" for key, each in value.items()]
        elif isinstance(value, list | tuple):
            lines += [f"{label}: {_text(name, each)}" for each in value[:_LISTED]]
            more = figures.get(f"{name}_in_all", len(value)) - _LISTED
            lines += [f"{label}: and {more} more"] if more > 0 else []
        elif value is not None and value != "":
            lines.append(f"{label}: {_text(name, value)}")
    return lines


def _text(name: str, value: Any) -> str:  # noqa: ANN401 - plain data
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_text(str(key), each)}" for key, each in value.items())
    is_size = isinstance(value, int) and (name == "bytes" or name.startswith("bytes_"))
    return about_size(value) if is_size else str(value)
