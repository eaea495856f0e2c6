"""How large the sections are: as they are measured, and as tests play them.

A section is the same program in both sizes; its text in docs/benchmarks.md is about FULL.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import msgspec

MIB = 2**20


class Amounts(msgspec.Struct, frozen=True):
    """How many rows the contenders are given, and how many at once."""

    rows: int = 400_000
    """One by one, and in lists."""
    batches: int = 4_000_000
    """In record batches, and by delta-rs."""
    call: int = 1_000
    """Rows of a list."""
    batch: int = 10_000
    flush: int = 1_000_000
    """As many as an Appender puts into one flush."""
    serve_s: float = 4.0
    """Seconds from the first acknowledgement to the kill."""

    def of(self, kind: str) -> int:
        """Rows that a contender is given."""
        return self.rows if kind in ("rows", "lists") else self.batches

    def what(self) -> dict[str, str]:
        """Contender -> how it is given its rows."""
        return {
            "rows": "a dictionary a call",
            "lists": f"{self.call:,} dictionaries a call",
            "batches": f"record batches of {self.batch:,} rows",
            "delta": f"write_deltalake of {self.batch:,} rows each",
            "delta flushes": f"write_deltalake of {self.flush:,} rows each",
        }


class Mirrored(msgspec.Struct, frozen=True):
    """How large the tables are."""

    sizes: tuple[int, ...] = (1_000, 10_000, 100_000)
    """Parts of those whose parts are names in a log."""
    parts: int = 1_000
    """Of the table with real parts."""
    rows: int = 1_000
    """Of each of them; a multiple of a hundred."""
    hidden: tuple[int, ...] = (10, 100, 500)
    """Parts of which deletes hide a row in a hundred; deltalake hangs with some more than 512."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """Numbers of files, rows, parts and bytes of all sections."""

    merge_files: int = 100
    merge_rows: int = 100_000
    """Of each file; also of those of cold, proof and erase."""
    small_rows: int = 3_000
    memory_rows: int = 1_000_000
    """Of each file."""
    memory_group: int = 3 * 2**30
    """Bytes in one kernel, at least; there are no fewer than eight files."""
    kernel_memory: int = 512 * MIB
    proof_files: int = 25
    snapshot_files: tuple[int, ...] = (*[90_000] * 10, *[100] * 1_000)
    """Parts in each log file: ten that merged many, and a thousand appends; 1 M in all."""
    cleaned: int = 100_000
    """Dead parts of a clean-up."""
    merged_parts: int = 970_000
    """Of the table of drop and lazy, besides those of its appends."""
    appends: int = 300
    """Appends of that table, of 100 parts each."""
    appended: Amounts = field(default_factory=Amounts)
    clustered: tuple[int, int] = (100, 20_000)
    """Files, and rows of each."""
    filtered: tuple[int, int] = (20, 100_000)
    """The same of the tables with bloom filters."""
    read: tuple[int, int] = (30, 100_000)
    read_large: tuple[int, int] = (10, 1_000_000)
    """The same of the table that only DuckDB and pyarrow read."""
    mirrored: Mirrored = field(default_factory=Mirrored)
    erased_keys: int = 100_000
    requests: tuple[int, int, int, int] = (20, 10, 20, 25_000)
    """Tables, requests, people of each, and rows of each of the tables' ten parts."""
    planned: tuple[int, int, int, int, int] = (20, 10_000_000, 100, 5, 100_000)
    """Tables, rows and parts of each, and people of each of the two requests."""
    replaced_rows: int = 100_000_000
    replaced_part: int = 1_000_000
    """Rows of each part of the day."""
    policy_days: int = 365
    wide_files: int = 60
    wide_rows: int = 20_000
    """Of each file."""
    many_groups: tuple[int, ...] = (1_000, 10_000)
    """Partitions of three parts, of one table after the other."""


FULL = Sizes()
SMALL = Sizes(
    merge_files=16,
    merge_rows=2_000,
    small_rows=100,
    memory_rows=2_000,
    memory_group=1,
    kernel_memory=128 * MIB,
    proof_files=4,
    snapshot_files=(300, 200, *[100] * 5),
    cleaned=200,
    merged_parts=1_000,
    appends=10,
    appended=Amounts(rows=2_000, batches=4_000, call=100, batch=1_000, flush=2_000, serve_s=0.5),
    clustered=(4, 500),
    filtered=(2, 10_000),
    read=(3, 1_000),
    read_large=(2, 2_000),
    mirrored=Mirrored(sizes=(300,), parts=20, rows=100, hidden=(2, 5)),
    erased_keys=10_000,
    requests=(2, 2, 2_000, 500),
    planned=(2, 30_000, 10, 2, 1_000),
    replaced_rows=48_000,
    replaced_part=2_000,
    policy_days=8,
    wide_files=4,
    wide_rows=300,
    many_groups=(6,),
)

NAMES = tuple(one.name for one in fields(FULL) if isinstance(getattr(FULL, one.name), int | tuple))
"""Those that ``changed`` takes."""


def changed(sizes: Sizes, given: Sequence[str]) -> Sizes:
    """Return the sizes with others in places, each as ``name=number`` or ``name=number,number``.

    Raises ValueError: names one that there is not, or that is no number.
    """
    wanted: dict[str, Any] = {}
    for one in given:
        name, _, text = one.partition("=")
        if name not in NAMES:
            raise ValueError(f"{name} is none of {', '.join(NAMES)}")
        before: int | tuple[int, ...] = getattr(sizes, name)
        numbers = tuple(int(number) for number in text.split(","))
        if isinstance(before, int) and len(numbers) > 1:
            raise ValueError(f"{one}: {name} is one number")
        wanted[name] = numbers if isinstance(before, tuple) else numbers[0]
    return replace(sizes, **wanted)


@dataclass(frozen=True, slots=True)
class Bench:
    """Where a section works, and how much."""

    cache: Path
    """Of files that are the same whatever code is measured."""
    tables: Path
    """Of tables that the measured code has laid out; may be the same."""
    work: Path
    """Exists, and is empty."""
    rounds: int
    sizes: Sizes = FULL
