"""docs/benchmarks.md, .json and .svg: what was measured last, section by section.

A section is measured in one run, all contenders in turn, and stands there with its own rounds and
load; a run of some sections leaves the others as they are.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping, Sequence
from html import escape
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks.measure import Figures
from benchmarks.texts import TEXTS

_HEAD = """# Benchmarks

Written by `make bench`; nothing here is edited by hand. A section is one run, all contenders in
turn, on one machine: only the ratios within a table mean something. Median, fastest and slowest of
the rounds; CPU and peak memory are of the whole process tree, sampled ten times a second. The load
average is that of the minute before and at the end; above the number of cores before it, others
were at work.

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
        self._write()

    def _write(self) -> None:
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
    "rows_per_s": "rows/s",
    "flushes": "flushes",
    "deleted": "deleted",
    "requests": "requests",
    "requests_besides_the_deletes": "besides the deletes",
    "parts_read": "parts read",
    "parts_rewritten": "rewritten",
    "parts_dropped": "dropped unread",
    "rows_erased": "rows erased",
    "files_out": "files",
    "bytes_out": "MB out",
    "of_kernel_memory": "x kernel_memory",
}
"""What a figure may tell besides -> its heading."""
_OF_ALL = ("name", "what", "median_s", "min_s", "max_s", "cpu_s", "peak_mib", "rounds_s")
"""What every figure tells."""
_OWN_NOTES = ("cluster", "bloom", "read", "policy")
"""Sections whose figures have headings of their own."""
_UNTIMED = ("policy",)
"""Sections without a time."""


def _table(name: str, found: Sequence[Mapping[str, Any]]) -> str:
    first = found[0]["median_s"]
    head = ["", "median s", "fastest", "slowest", "CPU s", "peak MiB", f"x {found[0]['name']}"]
    extra = ["requests", "files_out", "bytes_out"] if name in ("sorted", "unsorted", "cold") else []
    extra += ["of_kernel_memory"] if name == "memory" else []
    if name in ("cleanup", "drop", "appender", "lazy", "replace") or name.startswith("erase"):
        extra += [key for key in _NOTES if any(key in one for one in found)]
    shown = {key: _NOTES.get(key, key) for key in extra}
    extra += [k for k in found[0] if k not in _OF_ALL] if name in _OWN_NOTES else []
    alone = name in ("memory", "drop", "appender", "lazy", *_OWN_NOTES)  # no peers to compare with
    if alone:
        head = head[:1] if name in _UNTIMED else head[:-1]
    rows = []
    for one in found:
        row = [f"**{one['name']}**" + (f": {one['what']}" if one["what"] else "")]
        if name not in _UNTIMED:
            row += [f"{one[key]:.2f}" for key in ("median_s", "min_s", "max_s")]
            row += [f"{one['cpu_s']:.1f}", f"{one['peak_mib']}"]
        row += [] if alone else [f"{one['median_s'] / first:.2f}"]
        row += [_shown(key, one.get(key)) for key in extra]
        rows.append(row)
    lines = [[*head, *(shown.get(key, key) for key in extra)], ["---"] * (len(head) + len(extra))]
    return "".join("| " + " | ".join(row) + " |\n" for row in [*lines, *rows])


def _shown(key: str, value: object) -> str:
    if value is None:
        return ""
    if key == "requests" and isinstance(value, dict):
        return str(sum(value.values()))
    return f"{int(str(value)) / 1e6:.0f}" if key == "bytes_out" else str(value)


def _picture(sections: Mapping[str, Mapping[str, Any]]) -> str:
    """Bars of medians, whiskers from the fastest to the slowest round."""
    bars = [
        (name, one)
        for name in ("sorted", "unsorted", "small")
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
