"""docs/benchmarks.md, .json and .svg from what was measured in this very run."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from importlib.metadata import version
from pathlib import Path

from benchmarks.measure import Figures

_HEAD = """# Benchmarks

Written by `make bench`; nothing here is edited by hand. One run, all contenders in turn, on one
machine: only the ratios within a table mean something. Median, fastest and slowest of the rounds;
CPU and peak memory are of the whole process tree, sampled ten times a second.

![Seconds of each contender](benchmarks.svg)
"""
_MERGE = """
100 snappy files, 10 M rows, 364 MB, in four groups of 25; each group becomes one part, {sorted}zstd
level 3, row groups of 1,048,576 rows. Inputs are fetched from and outputs uploaded to a local S3
server (versitygw) where a row says S3; both count. A process of its own each, warm: one round
before those that count. firnline does all that a merge is: probe of the store, plan, merge, commit,
publication.
"""
_TEXTS = {
    "sorted": ("Sorted merge", _MERGE.format(sorted="sorted by (event, ts), ")),
    "unsorted": ("Unsorted merge", _MERGE.format(sorted="")),
    "small": (
        "Small merge, cold",
        "\n3 files, 9,000 rows, a table on local disk; from the start of the process to its end.\n",
    ),
    "memory": (
        "Memory of a kernel",
        """
One group several times as large as `kernel_memory`; peak is the growth of the process since before
the task.
""",
    ),
    "cleanup": (
        "Tombstone clean-up",
        """
100,000 dead parts of 1,000 bytes; firnline reads the log, probes the store, deletes and commits,
its rate unbounded; delta-rs vacuums as many files. From the start of the call.
""",
    ),
    "drop": (
        "Removal and TTL",
        """
A table of a million parts in a hundred partitions: a log file of 970,000 parts, 300 appends since.
firnline ttl is the whole process, from start to end; no JVM starts.
""",
    ),
    "lazy": (
        "Lazy delete of one user",
        """
The table of "Removal and TTL": 1 M parts, each of which may hold the user's rows. A delete is a
record in one transaction; the first folds 300 appends besides. From the start of the call.
""",
    ),
    "cluster": (
        "What filters read of clustered tables",
        """
2 M rows without partitions, appended in 100 parts and merged once, about 36 parts per table; for
each filter the parts whose statistics do not exclude it, and their MB. Seconds are those of the
merge, once, in this process.
""",
    ),
    "bloom": (
        "What filters read with bloom filters",
        """
2 M rows without partitions, merged once into one part, sorted by (event, ts), row groups of 262,144
rows; a million users, so that every row group's bounds hold every user. MB of the part, and MB
(requests) that a scan of all columns by each filter reads of it. Seconds are those of the merge,
once, in this process.
""",
    ),
    "appender": (
        "Appends from a service",
        """
Rows of four columns, given row by row, in lists, and in record batches, until the last is
acknowledged; delta-rs commits what it is given at once. SIGKILL: a service that appends row by row,
as fast as it can, is killed after some seconds.
""",
    ),
    "read": (
        "Reads of a table",
        """
3 M rows in 30 parts on local disk; the same question to firnline and, plain, to the same files by
their paths (DuckDB's read_parquet, pyarrow's dataset, spark.read.parquet). One process, one Spark
session on two cores, warm.
""",
    ),
    "erase": (
        "Erase of 100,000 keys that are everywhere",
        """
10 M rows in 100 parts on local disk, 100,000 of a million users: every part holds some. Whole cold
processes, two threads each; DuckDB neither commits nor certifies.
""",
    ),
    "erase few": (
        "Erase of 100,000 keys in a tenth of the parts",
        """
The same with keys that stand in ten of the parts, and no statistics that say where.
""",
    ),
    "replace": (
        "Replace of one hour of a day",
        """
A day of 100 M rows in 100 parts on local disk, up to two minutes late; one hour is replaced by as
many new rows. Whole cold processes, two threads each; DuckDB does not commit, and a rewrite with an
append is two commits.
""",
    ),
    "snapshot": (
        "Snapshot of a million live parts",
        """
From 1,010 JSONL log files on local disk (ten that merged many, a thousand appends), each reading in
a process of its own, one thread.
""",
    ),
}


@dataclass
class Report:
    """All figures of one run."""

    rounds: int
    loads: list[float] = field(default_factory=list)
    sections: dict[str, list[Figures]] = field(default_factory=dict)

    def write(self, folder: Path) -> None:
        """Write the three files; the picture shows the first section."""
        name = folder / "benchmarks"
        name.with_suffix(".md").write_text(self._markdown())
        name.with_suffix(".json").write_text(json.dumps(self._json(), indent=1) + "\n")
        name.with_suffix(".svg").write_text(_picture(self.sections))

    def _json(self) -> dict[str, object]:
        return {
            "machine": _machine(),
            "rounds": self.rounds,
            "load_average": self.loads,
            **{name: [one.as_json() for one in found] for name, found in self.sections.items()},
        }

    def _markdown(self) -> str:
        load = f"{min(self.loads):.1f} to {max(self.loads):.1f}" if self.loads else "unknown"
        text = _HEAD + f"\n{_machine()}; load average {load}; {self.rounds} rounds.\n"
        for name, found in self.sections.items():
            title, what = _TEXTS[name]
            text += f"\n## {title}\n{what}\n{_table(name, found)}"
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


def _table(name: str, found: Sequence[Figures]) -> str:
    first = found[0].median
    head = ["", "median s", "fastest", "slowest", "CPU s", "peak MiB", f"x {found[0].name}"]
    extra = ["requests", "files_out", "bytes_out"] if name in ("sorted", "unsorted") else []
    extra += ["of_kernel_memory"] if name == "memory" else []
    if name in ("cleanup", "drop", "appender") or name.startswith("erase"):
        extra += [key for key in _NOTES if any(key in one.notes for one in found)]
    shown = {key: _NOTES.get(key, key) for key in extra}
    extra += list(found[0].notes) if name in ("cluster", "bloom", "read") else []
    alone = name in (
        "memory",
        "drop",
        "cluster",
        "bloom",
        "appender",
        "read",
    )  # no peers to compare with
    if alone:
        head = head[:-1]
    rows = []
    for one in found:
        row = [f"**{one.name}**: {one.what}", f"{one.median:.2f}", f"{one.fastest:.2f}"]
        row += [f"{one.slowest:.2f}", f"{one.cpu:.1f}", f"{one.peak_mib:.0f}"]
        row += [] if alone else [f"{one.median / first:.2f}"]
        row += [_shown(key, one.notes.get(key)) for key in extra]
        rows.append(row)
    lines = [[*head, *(shown.get(key, key) for key in extra)], ["---"] * (len(head) + len(extra))]
    return "".join("| " + " | ".join(row) + " |\n" for row in [*lines, *rows])


def _shown(key: str, value: object) -> str:
    if value is None:
        return ""
    if key == "requests" and isinstance(value, dict):
        return str(sum(value.values()))
    return f"{int(str(value)) / 1e6:.0f}" if key == "bytes_out" else str(value)


def _picture(sections: dict[str, list[Figures]]) -> str:
    """Bars of medians, whiskers from the fastest to the slowest round."""
    bars = [
        (name, one) for name in ("sorted", "unsorted", "small") for one in sections.get(name, [])
    ]
    longest = max((one.slowest for _, one in bars), default=1.0)
    scale, y, body = 460 / longest, 8, ""
    last = ""
    for name, one in bars:
        if name != last:
            y += 22
            body += f'<text x="8" y="{y}" class="h">{escape(_TEXTS[name][0])}, seconds</text>\n'
            y += 10
            last = name
        ours = "ours" if one.name.startswith("firnline") else "other"
        width = one.median * scale
        low, high = 190 + one.fastest * scale, 190 + one.slowest * scale
        body += (
            f'<text x="182" y="{y + 12}" class="n">{escape(one.name)}</text>'
            f'<rect x="190" y="{y}" width="{width:.1f}" height="16" class="{ours}"/>'
            f'<path d="M{low:.1f} {y + 8}H{high:.1f}" class="w"/>'
            f'<text x="{high + 6:.1f}" y="{y + 12}">{one.median:.1f}</text>\n'
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
