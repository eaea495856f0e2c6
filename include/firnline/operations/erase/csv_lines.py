"""Find the line of a CSV file of keys that does not read: Arrow does not say which one it is."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path

from firnline.units import counted


def wrong_line(path: Path) -> str | None:
    """Return the first wrong line of a local file with what is wrong, never what it says.

    None: no line is wrong by itself. Lines count from 1, as editors count them, empty ones too.
    """
    columns = 0
    for number, row in _rows(path):
        if row is None:
            return f"line {number} does not read"
        if any(not _is_utf8(value) for value in row):
            return f"line {number} is no UTF-8"
        columns = columns or len(row)
        if len(row) != columns:
            return f"line {number} has {counted(len(row), 'column')}, and its head {columns}"
    return None


def _rows(path: Path) -> Iterator[tuple[int, Sequence[str] | None]]:
    """Yield each row that is not empty with the line at which it begins; None: it does not read."""
    # What is no UTF-8 becomes surrogates, which no UTF-8 has.
    with path.open(encoding="utf-8", errors="surrogateescape", newline="") as file:
        reader, begin = csv.reader(file), 1
        try:
            for row in reader:
                if row:
                    yield begin, row
                begin = reader.line_num + 1
        except csv.Error:
            yield begin, None


def _is_utf8(text: str) -> bool:
    return not any("\udc80" <= character <= "\udcff" for character in text)
