"""Rows that are given as dictionaries, as one Arrow table."""

# ruff: noqa: TID253 - rows are handled here; no DAG file imports it at parse

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias, TypeGuard

import pyarrow as pa

from firnline.errors import PartSchemaError, UsageError
from firnline.types.arrow import conform, to_arrow

Row: TypeAlias = Mapping[str, Any]


def are_dictionaries(data: object) -> TypeGuard[list[Row]]:
    """Return True for a list that begins with a dictionary; ``as_table`` looks at the others."""
    return isinstance(data, list) and bool(data) and isinstance(data[0], Mapping)


def as_table(rows: Sequence[Row], known: Mapping[str, str], always: Iterable[str] = ()) -> pa.Table:
    """Return dictionaries as one table with every column that any of them names.

    Args:
        rows: dictionaries; what one of them does not name is null there.
        known: SQL type by column of the table, which values are cast to.
        always: columns that are there even if no row names them.

    Raises:
        UsageError: an element is not a dictionary.
        PartSchemaError: a value does not fit its column, or the others of a new one; a name is
            no text.
    """
    names = dict.fromkeys([*(name for row in all_rows(rows) for name in row), *always])
    # Each column on its own: the error names it, and a new one takes the type of its values.
    return pa.table(
        {name: _column(name, [row.get(name) for row in rows], known.get(name)) for name in names}
    )


def all_rows(given: Sequence[Any]) -> Sequence[Row]:
    """Return rows of which each is a dictionary.

    Raises UsageError: one is not.
    """
    for row in given:
        if not isinstance(row, Mapping):
            raise UsageError(
                f"a row is of type {type(row).__name__}",
                next_step="pass a list of dictionaries, column to value",
            )
    return given


def _column(name: object, values: list[Any], kind: str | None) -> pa.ChunkedArray:
    if not isinstance(name, str):
        raise PartSchemaError(
            f"{name!r} is not a column name", next_step="use text for the keys of a row"
        )
    try:
        if kind is None:
            return pa.chunked_array([pa.array(values)])
        wanted = to_arrow({name: kind}).field(0).type
        plain = wanted.storage_type if isinstance(wanted, pa.BaseExtensionType) else wanted
        if any(_would_lose(value, plain) for value in values):
            raise ValueError("part of it would be lost")
        return conform(pa.chunked_array([pa.array(values, plain)], plain), wanted)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        said = str(error).split("\n", 1)[0]
        raise PartSchemaError(
            f"column {name!r} holds a value that does not fit {kind or 'one type'}: {said}",
            next_step="correct the rows; none of this call was taken",
        ) from None


def _would_lose(value: object, kind: pa.DataType) -> bool:
    """Return True for values that pyarrow truncates silently when it converts Python values."""
    if isinstance(value, float):
        return bool(pa.types.is_integer(kind)) and not value.is_integer()
    if isinstance(value, datetime.datetime):
        naive = pa.types.is_timestamp(kind) and kind.tz is None
        return bool(pa.types.is_date(kind)) or bool(naive and value.tzinfo is not None)
    return False
