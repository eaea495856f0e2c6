"""Rows and the partition that they are given for: a level that names a column states its value.

Of a table without ``partition_by`` the caller names the partition of all rows. Readers prune by
what markers and settings say of a column; people, and other engines, also by the path.
"""

# ruff: noqa: TID253 - rows are handled here; no DAG file imports it at parse

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal, InvalidOperation

import pyarrow as pa
import pyarrow.compute as pc

from firnline.errors import UsageError
from firnline.paths import NULL_VALUE, unquote_value
from firnline.types.sql import fold_name

_DATE = re.compile(r"\d{4}(-\d\d(-\d\d)?)?")
"""A year, a month or a day; another form of a time is not compared."""


def refuse_strays(rows: pa.Table, partition: str) -> None:
    """Raise UsageError for rows whose values are not those that the path states for them.

    A level whose name is no column of the rows states nothing of them, nor does one whose column
    has a type that is not compared: floating-point numbers, lists, structs and others without
    one text.

    Args:
        rows: in the types of their parts.
        partition: path of all of them, such as ``customer=a/d=2026-01-31``.
    """
    for name, text in _levels(partition):
        column = next((c for c in rows.column_names if fold_name(c) == fold_name(name)), None)
        if column is None or not rows.num_rows:
            continue
        for value in _strays(rows.column(column), text):
            has = "no value" if value is None else repr(str(value))
            raise UsageError(
                f"a row has {has} in column {column!r}, and its partition is to be {partition!r}",
                next_step=f"give the rows of each {column} a partition of their own, or state "
                f"partition_by: [{column}] in the table's settings; nothing was written",
            )


def _levels(partition: str) -> Iterator[tuple[str, str | None]]:
    for segment in partition.split("/"):
        name, mark, value = segment.partition("=")
        if name and mark:
            yield unquote_value(name), None if value == NULL_VALUE else unquote_value(value)


def _strays(column: pa.ChunkedArray, text: str | None) -> Iterator[object]:
    """Yield values that differ from that of the path; the first says enough."""
    if text is None:
        yield from column.drop_null().slice(0, 1).to_pylist()
        return
    if column.null_count:
        yield None
    kind = column.type
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        if _DATE.fullmatch(text):
            days = pc.unique(column.cast(pa.date32(), safe=False)).drop_null().to_pylist()
            yield from (day for day in days if not day.isoformat().startswith(text))
        return
    stated, comparable = _of_type(kind, text)
    if comparable:
        yield from (v for v in pc.unique(column).drop_null().to_pylist() if v != stated)


def _of_type(kind: pa.DataType, text: str) -> tuple[object, bool]:
    """Return the value that the text of a path stands for, and False if it is not compared."""
    try:
        if pa.types.is_integer(kind):
            return int(text), True
        if pa.types.is_decimal(kind):
            return Decimal(text), True
    except (ValueError, InvalidOperation):
        return None, True
    if pa.types.is_boolean(kind):
        return {"true": True, "false": False}.get(text.lower()), True
    return text, pa.types.is_string(kind) or pa.types.is_large_string(kind)
