"""Check the rows given to an Appender while its caller waits: the caller gets the error."""

# ruff: noqa: TID253 - rows are handled here; no DAG file imports it at parse

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import pyarrow as pa

from firnline.append.append import Appender
from firnline.append.buffer import Buffer, Row
from firnline.rows.conform import check_columns, conform_rows
from firnline.rows.dictionaries import all_rows, are_dictionaries, as_table
from firnline.rows.source import tables_of
from firnline.types.schema import SchemaUnion, as_known

Given: TypeAlias = Any
"""One row as a dictionary, a list of them, or anything that ``rows.source.Rows`` allows."""

_INTEGERS = {"TINYINT": 7, "SMALLINT": 15, "INTEGER": 31, "BIGINT": 63}
"""Value bits by SQL type."""
_PLAIN: dict[str, type] = {
    "BOOLEAN": bool,
    "DATE": datetime.date,
    "DOUBLE": float,
    "TIMESTAMP": datetime.datetime,
    "VARCHAR": str,
}
_VALUE_BYTES = 8


class FastCheck:
    """Accepts dictionaries that certainly fit the table; others need the full check.

    Args:
        types: SQL type by column.
    """

    def __init__(self, types: Mapping[str, str]) -> None:
        self.types = types
        self._plain = {name: _PLAIN[kind] for name, kind in types.items() if kind in _PLAIN}
        self._whole = {
            name: 1 << _INTEGERS[kind] for name, kind in types.items() if kind in _INTEGERS
        }

    def size(self, row: Row) -> int | None:
        """Return the approximate bytes of a row in Arrow; None if it needs the full check."""
        if not row:
            return None
        size = 0
        plain, whole = self._plain, self._whole
        for name, value in row.items():
            kind = type(value)
            if kind is int:
                limit = whole.get(name)
                if limit is None or not -limit <= value < limit:
                    return None
            elif value is None:
                if name not in self.types:
                    return None
            elif plain.get(name) is not kind or not _holds(kind, value):
                return None
            elif kind is str:
                size += len(value)
        return size + _VALUE_BYTES * len(row)


def _holds(kind: type, value: Any) -> bool:  # noqa: ANN401 - any value of a row
    """Return True if a value of the right class can certainly be written."""
    if kind is str:
        return bool(value.isascii())  # others may contain a lone surrogate
    return kind is not datetime.datetime or value.tzinfo is None


class RowValidator:
    """Checks rows against the table's columns and those of waiting rows.

    Not thread-safe.

    Args:
        writer: the appender that writes the rows; knows the table's columns and properties.
        waiting: returns the columns of the buffers that are not written yet.
    """

    def __init__(
        self,
        writer: Appender,
        waiting: Callable[[], Iterable[Mapping[str, str]]],
    ) -> None:
        self._writer = writer
        self._columns = writer.columns
        self._waiting = waiting
        self._version = -1
        self._known = SchemaUnion()
        self._fast = FastCheck({})
        self._placed_by = frozenset[str]()

    def forget(self) -> None:
        """Read the table's columns again: rows that named new columns were not written."""
        self._version = -1

    def look(self, given: Given) -> Callable[[Buffer], None]:
        """Check rows; return a function that adds them to a buffer and cannot fail.

        Raises UsageError, PartSchemaError, SchemaConflictError: as ``append_rows.conform_rows``;
        and the errors of reading the columns of the table.
        """
        self._read()
        rows = _dicts(given)
        if rows is None:
            return self._check_tables(list(tables_of(given)))
        fast, sizes = self._fast, 0
        for row in rows:
            size = fast.size(row)
            if size is None:
                return self._check_slow(rows)
            sizes += size
        kept = [dict(row) for row in rows]  # the caller's own may change
        return lambda buffer: buffer.add_dicts(kept, sizes, fast.types, self._placed_by)

    def _read(self) -> None:
        """Read the columns; no request unless it is the first time."""
        if self._version == self._columns.version and self._version >= 0:
            return
        version = self._columns.version
        known = self._columns.read()
        self._placed_by = frozenset(f.column for f in self._writer.in_force().partition_by)
        for columns in self._waiting():
            # They are cast when they are written, if the table's type has been widened since.
            known.add("rows that wait to be written", as_known(columns, known.columns))
        self._take(known)
        self._version = version

    def _take(self, known: SchemaUnion) -> None:
        self._known = known
        self._fast = FastCheck(known.columns)

    def _check_slow(self, rows: Sequence[Row]) -> Callable[[Buffer], None]:
        """Check rows that name a new column or hold a value that must be cast."""
        # A row without a partition column has a null there, whatever rows come with it.
        always = self._placed_by if any(rows) else ()
        return self._check_tables([as_table(rows, self._known.columns, always)])

    def _check_tables(self, tables: list[pa.Table]) -> Callable[[Buffer], None]:
        names = {name for table in tables for name in table.column_names}
        if not names <= self._known.columns.keys():
            # Another writer may have added the column with its type.
            self._columns.look_again()
            self._version = -1
            self._read()
        known = self._known.copy()
        found = [conform_rows(table, known) for table in tables]
        if found:
            settings = self._writer.in_force()
            check_columns(settings.name, settings.statistics_columns, known.columns)
        if known.columns != self._known.columns:
            self._take(known)

        def put(buffer: Buffer) -> None:
            for one in found:
                buffer.add_table(one.rows, one.columns)

        return put


def _dicts(given: Given) -> Sequence[Row] | None:
    """Return rows as dictionaries; None if they are given as Arrow or in another form."""
    if isinstance(given, Mapping):
        return [given]
    if are_dictionaries(given):
        return all_rows(given)
    return None
