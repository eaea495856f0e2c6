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
    Mutation(
        name="keys of a dictionary that its column does not have become fields",
        file="include/firnline/rows/dictionaries.py",
        old="target = with_more_fields(to_arrow({name: kind}).field(0).type, values, name)\n",
        new="target = to_arrow({name: kind}).field(0).type\n",
        breaks="An append is acknowledged, and values of it are in no part.",
        caught_by=("tests/unit/appends/test_new_fields.py",),
        unit=True,
    ),
    Mutation(
        name="two writers that add different fields both keep theirs",
        file="include/firnline/types/schema.py",
        old="            self._columns[name] = found\n",
        new="            self._columns[name] = kind\n",
        breaks="A field that another writer has added at the same time is read by nobody.",
        caught_by=("tests/unit/appends/test_new_fields.py",),
        unit=True,
    ),
    Mutation(
        name="empty values are not left out where nobody is told",
        file="include/firnline/rows/parts.py",
        old="default_factory=lambda: Waiting(tells=False)",
        new="default_factory=Waiting",
        breaks="A replace makes nulls of empty lists in silence.",
        caught_by=("tests/unit/operations/replace/test_run.py",),
        unit=True,
    ),
)
