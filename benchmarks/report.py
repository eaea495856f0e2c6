"""docs/benchmarks.md, .json and .svg: what was measured last, section by section.

A section is measured in one run, all contenders in turn, and stands there with its own rounds and
load; a run of some sections leaves the others as they are.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks.measure import Figures
from benchmarks.texts import DIGEST_GOAL, TEXTS

_HEAD = """# Benchmarks

Written by `make bench`; nothing here is edited by hand. A section is one run, all contenders in
turn, on one machine: only the ratios within a table mean something. Median, fastest and slowest of
the rounds; CPU and peak memory are of the whole process tree, sampled ten times a second. The load
average is that of the minute before and at the end; above the number of cores before it, others
were at work. A dash stands for what was not measured.

![Seconds of each contender](benchmarks.svg)
"""


class Report:
    """The figures in a folder, and those of this run in their places.

    Args:
        folder: where the three files are, or will be.
    """

    def __init__(self, folder: Path) -> None:
        self._base = folder / "benchmarks"
        known = self._base.with_suffix(".json")
        self._sections: dict[str, dict[str, Any]] = {}
        if known.exists():
            self._sections = json.loads(known.read_text())["sections"]

    def add(self, name: str, found: Sequence[Figures], load: tuple[float, float]) -> None:
        """Take in a section that was just measured, and write the files.

        Args:
            name: of the section.
            found: what each contender needed.
            load: load average before and after.
        """
        self._sections[name] = {
            "machine": _machine(),
            "rounds": max(len(one.rounds) for one in found),
            "load_average": [round(each, 1) for each in load],
            "figures": [one.as_json() for one in found],
        }
        self.write()

    def write(self) -> None:
        """Write the files from what is known, without measuring anything."""
        ordered = {name: self._sections[name] for name in TEXTS if name in self._sections}
        text = json.dumps({"sections": ordered}, indent=1) + "\n"
        self._base.with_suffix(".json").write_text(text)
        self._base.with_suffix(".md").write_text(_markdown(ordered))
        self._base.with_suffix(".svg").write_text(_picture(ordered))


def _markdown(sections: Mapping[str, Mapping[str, Any]]) -> str:
    text = _HEAD
    for name, section in sections.items():
        title, what = TEXTS[name]
        before, after = section["load_average"]
        count = section["rounds"]
        rounds = f"{count} rounds" if count > 1 else "one round"
        text += f"\n## {title}\n{what}\n{_table(name, section['figures'])}"
        text += f"\n{section['machine']}; {rounds}; load average {before} before, {after} after.\n"
    return text


def _machine() -> str:
    packages = ("duckdb", "polars", "deltalake", "pyspark", "pyarrow")
    with_versions = ", ".join(f"{name} {version(name)}" for name in packages)
    return f"{os.cpu_count()} cores, Python {platform.python_version()}, {with_versions}"


_NOTES = {
    "parts": "parts",
    "rows": "rows",
    "rows_per_s": "rows a second",
    "flushes": "flushes",
    "deleted": "objects deleted",
    "requests": "requests",
    "requests_besides_the_deletes": "requests besides the deletes",
    "parts_read": "parts read",
    "parts_rewritten": "parts rewritten",
    "parts_dropped": "parts dropped unread",
    "requests_by_kind": "requests",
    "parts_to_rewrite": "parts it would read, and rewrite at most",
    "bytes_to_read": "MB of them",
    "rows_erased": "rows erased",
    "files_out": "files written",
    "bytes_out": "MB written",
    "ms_a_group": "ms a group",
    "cpu_ms_a_group": "CPU ms a group",
    "of_kernel_memory": "peak / `kernel_memory`",
    "MB": "MB of the part",
    "x plain": "time / plain",
}
"""What a figure may tell besides -> its heading."""
_OF_ALL = ("name", "what", "median_s", "min_s", "max_s", "cpu_s", "peak_mib", "rounds_s")
"""What every figure tells."""
_OWN_NOTES = ("proof", "cluster", "bloom", "read", "mirror", "policy")
"""Sections whose figures have headings of their own."""
_FIRST = {
    "memory": "merge",
    "proof": "kernel",
    "snapshot": "reader",
    "drop": "run",
    "lazy": "delete",
    "cluster": "layout",
    "bloom": "`bloom_filters`",
    "read": "question",
    "mirror": "publication",
    "policy": "rule",
    "requests planned": "request of",
}
"""Section -> heading of the names; else they are those of contenders."""
_ALONE = ("memory", "drop", "appender", "lazy", "many small", "requests planned", *_OWN_NOTES)
"""Sections without peers to compare with."""
_ROUNDING_S = 0.01
"""CPU time that is the time itself in all rows was not measured, but taken over."""
_ABSENT = "-"

Column = tuple[str, list[str]]
"""Heading and cells; a cell without a value is empty."""


def _table(name: str, found: Sequence[Mapping[str, Any]]) -> str:
    """Return the figures of a section; a column in which nothing was measured is left out."""
    columns = [column for column in _columns(name, found) if any(column[1])]
    titles = [title for title, _ in columns]
    names = columns[0][1]
    rows = [[cells[n] for _, cells in columns[1:]] for n in range(len(found))]
    lines = [titles, ["---"] * len(titles)]
    lines += [
        [n, *(c or _ABSENT for c in row)] for n, row in zip(names, rows, strict=True) if any(row)
    ]
    text = "".join("| " + " | ".join(line) + " |\n" for line in lines)
    # A name without a single figure says everything by itself.
    said = "".join(f"* {n}\n" for n, row in zip(names, rows, strict=True) if not any(row))
    return f"{text}\n{said}" if said else text


def _columns(name: str, found: Sequence[Mapping[str, Any]]) -> Iterator[Column]:
    names = [f"**{one['name']}**" + (f": {one['what']}" if one["what"] else "") for one in found]
    yield _FIRST.get(name, "contender"), names
    several = any(len(one["rounds_s"]) > 1 for one in found)
    yield "median" if several else "time", [_time(one["median_s"]) for one in found]
    if several:
        yield "fastest", [_time(one["min_s"]) for one in found]
        yield "slowest", [_time(one["max_s"]) for one in found]
    if any(abs(one["cpu_s"] - one["median_s"]) > _ROUNDING_S for one in found):
        yield "CPU time", [_time(one["cpu_s"]) for one in found]
    peaks = [one["peak_mib"] for one in found]
    yield "peak memory", [f"{peak:,} MiB" if peak else "" for peak in peaks]
    first = found[0]["median_s"]
    if name not in _ALONE:
        yield f"time / {found[0]['name']}", [f"{one['median_s'] / first:.2f}" for one in found]
    for key in _extra(name, found):
        yield _NOTES.get(key, key), [_shown(key, one.get(key)) for one in found]
    if name == "proof":
        yield f"goal of {DIGEST_GOAL} %", [_goal(one) for one in found]


def _extra(name: str, found: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return what the figures of a section tell besides."""
    if name in _OWN_NOTES:
        return [key for key in found[0] if key not in _OF_ALL]
    if name in {"sorted", "sorted parts", "unsorted", "cold"}:
        return ["requests", "files_out", "bytes_out"]
    if name == "memory":
        return ["of_kernel_memory"]
    return [key for key in _NOTES if any(key in one for one in found)]


def _goal(one: Mapping[str, Any]) -> str:
    """Return whether a digest meets its goal; empty for what is no digest, and has none."""
    if not one["name"].endswith("digest"):
        return ""
    more = float(one["more than the row before"].removesuffix("%"))
    return "met" if more <= DIGEST_GOAL else "missed"


def _time(seconds: float) -> str:
    """Return a time with its unit; empty for one that was not measured, which stands as 0."""
    if not seconds:
        return ""
    return f"{seconds:.2f} s" if seconds >= 1 else f"{1000 * seconds:.0f} ms"


def _shown(key: str, value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, dict):
        value = sum(value.values())
    if key in ("bytes_out", "bytes_to_read"):
        return _megabytes(int(str(value)))
    return f"{value:,}" if isinstance(value, int) else str(value)


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.0f}" if size >= 10_000_000 else f"{size / 1e6:.1f}"


def _picture(sections: Mapping[str, Mapping[str, Any]]) -> str:
    """Bars of medians, whiskers from the fastest to the slowest round."""
    bars = [
        (name, one)
        for name in ("sorted", "sorted parts", "unsorted", "small")
        if name in sections
        for one in sections[name]["figures"]
    ]
    longest = max((one["max_s"] for _, one in bars), default=1.0)
    scale, y, body = 460 / longest, 8, ""
    last = ""
    for name, one in bars:
        if name != last:
            y += 22
            body += f'<text x="8" y="{y}" class="h">{escape(TEXTS[name][0])}, seconds</text>\n'
            y += 10
            last = name
        ours = "ours" if one["name"].startswith("firnline") else "other"
        width = one["median_s"] * scale
        low, high = 190 + one["min_s"] * scale, 190 + one["max_s"] * scale
        body += (
            f'<text x="182" y="{y + 12}" class="n">{escape(one["name"])}</text>'
            f'<rect x="190" y="{y}" width="{width:.1f}" height="16" class="{ours}"/>'
            f'<path d="M{low:.1f} {y + 8}H{high:.1f}" class="w"/>'
            f'<text x="{high + 6:.1f}" y="{y + 12}">{one["median_s"]:.1f}</text>\n'
        )
        y += 22
    style = (
        "text{font:12px sans-serif;fill:#24292f}.n{text-anchor:end}.h{font-weight:bold}"
        ".ours{fill:#0b6e99}.other{fill:#b8c4cc}.w{stroke:#24292f;stroke-width:1.5}"
        "svg{background:#fff}"
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="720" height="{y + 12}">'
        f'<style>{style}</style><rect width="100%" height="100%" fill="#fff"/>\n{body}</svg>\n'
    )
