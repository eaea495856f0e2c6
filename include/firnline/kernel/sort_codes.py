"""Give text columns of a sort order codes of fixed width, which DuckDB compares much faster.

DuckDB compares two sort keys by their first 16 bytes, and looks up the rest in another place where
these are equal: texts with a common beginning, or one text in many rows, are compared there every
time. Without a text in it a key has a fixed width and is compared as a number. A column with few
different values gets an ENUM of them in their order, so that its codes sort as its values do.
docs/rfcs/0009 has the measurements.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import duckdb

from firnline.kernel.task import KernelTask
from firnline.types.schema import normalise
from firnline.types.sql import fold_name, quote_name

# ruff: noqa: S608 -- every name is quoted; DuckDB is confined to this task's folder

MOST_VALUES = 4_096
"""Different values up to which a column gets codes. The code of a value is found by hashing it:
with ten thousand of them that costs what the sort gains."""
_MEMORY_SHARE = 64
"""All values of a column may take this fraction of ``kernel_memory``."""
_TEXT = "VARCHAR"
_FIXED = re.compile(
    r"BOOLEAN|U?(TINY|SMALL|BIG|HUGE)INT|U?INTEGER|FLOAT|DOUBLE|DECIMAL.*|DATE|TIME.*|UUID"
)
"""Types whose values have one width in a sort key."""


def sort_codes(
    task: KernelTask,
    connection: duckdb.DuckDBPyConnection,
    types: Mapping[str, str],
    rows: str,
) -> dict[str, str]:
    """Create a type for each text column of the sort order that has few values.

    Args:
        task: the group.
        connection: its database.
        types: DuckDB's type by column.
        rows: query with all values that are sorted; it may have others.

    Returns the name of the type by column; a cast to it keeps the order, nulls stay null.
    """
    texts = {fold_name(name) for name, kind in types.items() if kind == _TEXT}
    names = [key.column for key in task.sort_by if fold_name(key.column) in texts]
    if not names:
        return {}
    counts = ", ".join(
        f"approx_count_distinct({column}), max(strlen({column}))"
        for column in map(quote_name, names)
    )
    figures = connection.execute(f"SELECT {counts} FROM ({rows})").fetchall()[0]
    codes: dict[str, str] = {}
    for name, count, longest in zip(names, figures[::2], figures[1::2], strict=True):
        if 0 < count <= MOST_VALUES and count * longest <= task.memory // _MEMORY_SHARE:
            codes[name] = f"firnline_code_{len(codes)}"
            column = quote_name(name)
            connection.execute(
                f"CREATE TEMP TYPE {codes[name]} AS ENUM (SELECT DISTINCT {column} FROM ({rows})"
                f" WHERE {column} IS NOT NULL ORDER BY {column})"
            )
    return codes


def has_fixed_width(task: KernelTask, codes: Mapping[str, str]) -> bool:
    """Return True if every key of the sort order has the same width in all rows.

    Args:
        task: the group.
        codes: see ``sort_codes``.
    """
    kinds = {fold_name(name): normalise(kind) for name, kind in task.columns}
    return all(
        key.column in codes or _FIXED.fullmatch(kinds[fold_name(key.column)])
        for key in task.sort_by
    )
