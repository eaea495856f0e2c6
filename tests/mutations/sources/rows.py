"""Rows that come from files and streams, in bounded memory."""

from __future__ import annotations

from tests.mutations.model import Mutation

ROWS = (
    Mutation(
        name="what a dictionary repeats counts once",
        file="include/firnline/parquet/at_once.py",
        old="    if _repeats(chunk):\n",
        new="    if not chunk:\n",
        breaks="A file of some hundred bytes takes gigabytes when it is appended.",
        caught_by=("tests/unit/parquet/test_at_once.py",),
        unit=True,
    ),
    Mutation(
        name="rows are gathered by the size of their dictionaries",
        file="include/firnline/rows/sizes.py",
        old="        return _sum(_lengths(array.dictionary).take(array.indices))",
        new="        return int(array.nbytes)",
        breaks="A file with a dictionary of Arrow takes gigabytes when it is appended.",
        caught_by=("tests/unit/rows/test_source.py",),
        unit=True,
    ),
)
