"""Check the rows given to an Appender while its caller waits: the caller gets the error.

An Appender looks at rows (``RowValidator.look``) under the lock that all its callers share, so
nothing of that sends a request. What does, ``RowValidator.read``, is called without the lock.
"""

# ruff: noqa: TID253 - rows are handled here; no DAG file imports it at parse

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import pyarrow as pa

from firnline.appends.append import Appender
from firnline.appends.buffer import Buffer, Row
from firnline.rows.conform import check_columns, conform_rows, new_in
from firnline.rows.dictionaries import all_rows, are_dictionaries, as_table
from firnline.rows.source import tables_of
from firnline.settings.load import TableSettings
from firnline.types.schema import SchemaUnion, as_known
from firnline.types.untyped import Waiting

Given: TypeAlias = Any
"""One row as a dictionary, a list of them, or anything that ``rows.source.Rows`` allows."""

_INTEGERS = {"TINYINT": 7, "SMALLINT": 15, "INTEGER": 31, "BIGINT": 63}
"""Value bits by SQL type."""
_WHOLE = "BIGINT"
"""Type that whole numbers of a new column get."""
_PLAIN: dict[str, type] = {
    "BOOLEAN": bool,
    "DATE": datetime.date,
    "DOUBLE": float,
    "TIMESTAMP": datetime.datetime,
    "VARCHAR": str,
}
_VALUE_BYTES = 8


@dataclass(slots=True)
class Call:
    """The rows of one call of ``append``, and what was done to check them."""

    dictionaries: Sequence[Row] | None
    """Rows that are not Arrow yet."""
    tables: list[pa.Table]
    """Rows as Arrow, where there are no ``dictionaries``."""
    names_unknown: bool = False
    """A name of theirs is no column, or no field of a column, that is known."""
    wider: dict[str, str] = field(default_factory=dict)
    """Columns that only waiting rows have -> the type that holds these rows, too."""
    read_again: bool = False
    """The table's columns were read because of that: it is a new column."""


def is_stream(given: Given) -> bool:
    """Return True for rows that can be read only once, as far as is known."""
    plain = isinstance(given, Mapping | pa.Table | pa.RecordBatch)
    return not plain and not are_dictionaries(given)


def take_rows(given: Given) -> Call:
    """Read the rows of a call; of a stream all of them, for as long as it takes to give them.

    Raises UsageError: they are no rows; and what a stream raises.
    """
    if isinstance(given, Mapping):
        return Call([given], [])
    if are_dictionaries(given):
        return Call(all_rows(given), [])
    return Call(None, list(tables_of(given)))


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

    Not thread-safe, but that ``read`` may be called beside ``look`` and ``forget``.

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
        self._of_table: Mapping[str, str] = {}
        """Those of ``_known`` that the table has, and not only rows that wait."""
        self._fast = FastCheck({})
        self._settings: TableSettings | None = None
        """Those in force; None before the first reading."""
        self._placed_by = frozenset[str]()

    def forget(self) -> None:
        """Read the table's columns again: rows that named new columns were not written."""
        self._version = -1

    def look(self, call: Call, open_one: Buffer | None = None) -> Callable[[Buffer], None] | None:
        """Check rows, without a request; return a function that adds them to a buffer.

        That function cannot fail. None: the columns must be read first (``read``).

        Args:
            call: the rows.
            open_one: the buffer that they will be added to; None: a new one.

        Raises UsageError, PartSchemaError, SchemaConflictError: as ``rows.conform.conform_rows``.
        """
        settings = self._settings
        if settings is None or self._version != self._columns.version:
            return None
        if call.dictionaries is not None:
            put = self._fast_put(call.dictionaries)
            if put is not None:
                return put
            # A row without a partition column has a null there, whatever rows come with it.
            always = self._placed_by if any(call.dictionaries) else ()
            call.wider = self._with_fractions(call.dictionaries, open_one)
            kinds = {**self._known.columns, **call.wider}
            call.tables = [as_table(call.dictionaries, kinds, always)]
            call.dictionaries = None
        columns = self._known.columns
        call.names_unknown = any(new_in(table.schema, columns) for table in call.tables)
        if call.names_unknown and not call.read_again:
            return None
        return self._put_tables(call, settings)

    def read(self, call: Call) -> Callable[[], None]:
        """Read the columns that ``look`` asks for; return a function that takes note of them.

        Requests: the first time those of ``KnownColumns`` and of ``Appender.in_force``; those of
        ``KnownColumns.look_again`` for rows of an unknown column, which another writer may have
        added with its type; else none.

        Raises as ``KnownColumns.read`` and ``Appender.in_force``; the function SchemaConflictError,
        where rows that wait contradict what was read.
        """
        if call.names_unknown:
            self._columns.look_again()
            call.read_again = True
        version = self._columns.version
        union, settings = self._columns.read(), self._writer.in_force()
        of_table = union.columns

        def take() -> None:
            for columns in self._waiting():
                # They are cast when they are written, if the table's type has been widened since.
                union.add("rows that wait to be written", as_known(columns, union.columns))
            self._of_table = of_table
            self._take(union)
            self._settings, self._version = settings, version
            self._placed_by = frozenset(field.column for field in settings.partition_by)

        return take

    def _take(self, union: SchemaUnion) -> None:
        self._known = union
        self._fast = FastCheck(union.columns)

    def _fast_put(self, rows: Sequence[Row]) -> Callable[[Buffer], None] | None:
        """Return how rows that certainly fit are added; None if they need the full check."""
        fast, placed_by, sizes = self._fast, self._placed_by, 0
        for row in rows:
            size = fast.size(row)
            if size is None:
                return None
            sizes += size
        kept = [dict(row) for row in rows]  # the caller's own may change
        return lambda buffer: buffer.add_dicts(kept, sizes, fast.types, placed_by)

    def _with_fractions(self, rows: Sequence[Row], open_one: Buffer | None) -> dict[str, str]:
        """Return the columns of whole numbers that become DOUBLE: those of the first rows only."""
        if open_one is None:
            return {}
        kinds, double = self._known.columns, "DOUBLE"
        fresh = [name for name in open_one.fresh - self._of_table.keys() if kinds[name] == _WHOLE]
        return {
            name: double
            for name in fresh
            if any(isinstance(row.get(name), float) for row in rows) and open_one.fits(name, double)
        }

    def _put_tables(self, call: Call, settings: TableSettings) -> Callable[[Buffer], None]:
        union, waiting = _retyped(self._known, call.wider), Waiting()
        conformed = [conform_rows(table, union, waiting) for table in call.tables]
        if conformed:
            check_columns(settings.name, settings.statistics_columns, union.columns)
        fresh = union.columns.keys() - self._known.columns.keys()
        if union.columns != self._known.columns:
            self._take(union)

        def put(buffer: Buffer) -> None:
            buffer.retype(call.wider)
            buffer.fresh |= fresh
            buffer.waiting.add(waiting.left_out)
            for one in conformed:
                buffer.add_table(one.rows, one.columns)

        return put


def _retyped(union: SchemaUnion, wider: Mapping[str, str]) -> SchemaUnion:
    """Return a copy of the columns, with other types for some."""
    if not wider:
        return union.copy()
    retyped = SchemaUnion()
    retyped.add("the table and rows that wait to be written", {**union.columns, **wider})
    return retyped
