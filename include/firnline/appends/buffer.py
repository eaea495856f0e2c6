"""Rows that an Appender holds, and the future that acknowledges them."""

# ruff: noqa: TID253 - rows are handled here; no DAG file imports it at parse

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from firnline.appends.append import AppendResult
from firnline.types.arrow import conform, to_arrow
from firnline.types.untyped import Waiting

CHUNK_ROWS = 8_192
"""Number of dictionaries that are converted to Arrow, a tenth of their size, at once."""

Row = Mapping[str, Any]


class Ack(Future[AppendResult]):
    """Acknowledgement of rows: a future shared by all rows of one flush.

    It cannot be cancelled: other callers' rows are in the same flush.
    """

    def __init__(self) -> None:
        super().__init__()
        self.set_running_or_notify_cancel()
        self.reported = False
        """True if a caller has received its error."""

    def result(self, timeout: float | None = None) -> AppendResult:
        """Return the result of the flush, once its rows are visible to every reader.

        Args:
            timeout: seconds to wait; None: no limit.

            Raises the error that kept the rows from being written, as ``append.Appender.append``
            does; TimeoutError if the result is not known in time.
        """
        try:
            return super().result(timeout)
        except BaseException:
            self.reported = self.reported or self.done()
            raise

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Return the error of the flush, or None if it succeeded; waits like ``result``."""
        error = super().exception(timeout)
        self.reported = self.reported or error is not None
        return error


@dataclass(frozen=True, slots=True)
class Bounds:
    """Limits at which an open buffer is full."""

    rows: int
    bytes: int
    """Bytes of rows, in Arrow's size."""
    age_ms: int
    frozen: int
    """Number of buffers that may wait or be written beside the open one."""


@dataclass(slots=True)
class Buffer:
    """Rows in order of arrival; open until it is frozen, then immutable."""

    opened_ms: int
    """``Clock.elapsed_ms`` of its first row."""
    ack: Ack = field(default_factory=Ack)
    rows: int = 0
    bytes: int = 0
    columns: dict[str, str] = field(default_factory=dict)
    """SQL type by column, of all rows so far."""
    fresh: set[str] = field(default_factory=set)
    """Columns that nobody had before it: they are in no part, and may still get another type."""
    waiting: Waiting = field(default_factory=Waiting)
    """What was left out of its rows because it has no type."""
    _tables: list[pa.Table] = field(default_factory=list)
    _waiting: list[Row] = field(default_factory=list)
    """Dictionaries that are checked and not converted to Arrow yet."""
    _named: set[str] = field(default_factory=set)
    _types: Mapping[str, str] = field(default_factory=dict)

    def add_table(self, rows: pa.Table, columns: Mapping[str, str]) -> None:
        """Add rows whose types are those of the table."""
        self._convert()
        self._tables.append(rows)
        self.columns.update(columns)
        self.rows += rows.num_rows
        self.bytes += rows.nbytes

    def add_dicts(
        self,
        rows: Sequence[Row],
        size: int,
        types: Mapping[str, str],
        always: frozenset[str] = frozenset(),
    ) -> None:
        """Add dictionaries that were checked.

        Args:
            rows: they must not be changed afterwards.
            size: approximate size in bytes.
            types: SQL type by column, of all columns that they may name.
            always: columns that are written even if no row names them.
        """
        if types is not self._types:
            self._convert()
            self._types = types
        self._waiting += rows
        self._named.update(always, *rows)
        self.rows += len(rows)
        self.bytes += size
        if len(self._waiting) >= CHUNK_ROWS:
            self._convert()

    def fits(self, column: str, kind: str) -> bool:
        """Return True if another type holds the values of a column so far exactly."""
        self._convert()
        target = to_arrow({column: kind}).field(0).type
        try:
            for table in self._tables:
                if column in table.column_names:
                    conform(table.column(column), target)
        except pa.ArrowInvalid:
            return False
        return True

    def retype(self, kinds: Mapping[str, str]) -> None:
        """Give fresh columns types that hold their values so far (``fits``)."""
        self._convert()
        for name, target in zip(kinds, to_arrow(kinds).types, strict=True):
            self.columns[name] = kinds[name]
            for place, table in enumerate(self._tables):
                at = table.schema.get_field_index(name)
                if at >= 0:
                    column = conform(table.column(at), target)
                    self._tables[place] = table.set_column(at, pa.field(name, target), column)

    def full(self, bounds: Bounds) -> bool:
        """Return True if the buffer must be written because of its size."""
        return self.rows >= bounds.rows or self.bytes >= bounds.bytes

    def due_in(self, bounds: Bounds, elapsed_ms: int) -> int:
        """Return the milliseconds until it must be written for its age; at most 0 if due now."""
        return self.opened_ms + bounds.age_ms - elapsed_ms

    def freeze(self) -> list[pa.Table]:
        """Return its rows, all as Arrow."""
        self._convert()
        return self._tables

    def _convert(self) -> None:
        if not self._waiting:
            return
        # In the order of the table's columns: tables of one schema are joined without a copy.
        columns = {name: kind for name, kind in self._types.items() if name in self._named}
        self._tables.append(pa.Table.from_pylist(self._waiting, schema=to_arrow(columns)))
        self.columns.update(columns)
        self._waiting, self._named = [], set()
