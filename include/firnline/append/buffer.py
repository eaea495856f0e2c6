"""Rows that an Appender holds: one open buffer, and what becomes of it."""

# ruff: noqa: TID253 - rows are handled here; no DAG file imports it at parse

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from firnline.append.append import AppendResult
from firnline.types.arrow import to_arrow

CHUNK_ROWS = 8_192
"""Rows given as dictionaries become Arrow, which is a tenth of their size, so many at a time."""

Row = Mapping[str, Any]


class Ack(Future[AppendResult]):
    """When, and whether, rows are in the table: a future shared by all rows of one flush.

    It cannot be cancelled: other callers' rows are in the same flush.
    """

    def __init__(self) -> None:
        super().__init__()
        self.set_running_or_notify_cancel()
        self.told = False
        """Whether somebody was given its error."""

    def result(self, timeout: float | None = None) -> AppendResult:
        """What the flush did, once its rows are visible to every reader.

        Args:
            timeout: seconds to wait; None: as long as it takes.

        Raises what kept the rows from being written, as ``append.Appender.append`` does;
        TimeoutError when it is not known yet.
        """
        try:
            return super().result(timeout)
        except BaseException:
            self.told = self.told or self.done()
            raise

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """The error of the flush, None when it succeeded; waits like ``result``."""
        error = super().exception(timeout)
        self.told = self.told or error is not None
        return error


@dataclass(frozen=True, slots=True)
class Bounds:
    """When an open buffer is full."""

    rows: int
    bytes: int
    """Of rows as Arrow holds them."""
    age_ms: int
    frozen: int
    """Buffers that may wait or be under way beside the open one."""


@dataclass(slots=True)
class Buffer:
    """Rows in the order in which they came; open until it is frozen, then never changed."""

    opened_ms: int
    """``Clock.elapsed_ms`` of its first row."""
    ack: Ack = field(default_factory=Ack)
    rows: int = 0
    bytes: int = 0
    columns: dict[str, str] = field(default_factory=dict)
    """Column -> SQL type, of all rows so far."""
    _tables: list[pa.Table] = field(default_factory=list)
    _waiting: list[Row] = field(default_factory=list)
    """Dictionaries that were looked at and are not Arrow yet."""
    _named: set[str] = field(default_factory=set)
    _types: Mapping[str, str] = field(default_factory=dict)

    def add_table(self, rows: pa.Table, columns: Mapping[str, str]) -> None:
        """Take rows in, in the types of the table."""
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
        """Take dictionaries in of which it is known that they fit.

        Args:
            rows: they must not be changed any more.
            size: bytes they will have, about.
            types: column -> SQL type, of all columns that they may name.
            always: columns that are written also where no row names them.
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

    def full(self, bounds: Bounds) -> bool:
        """Whether it has to be written for its size."""
        return self.rows >= bounds.rows or self.bytes >= bounds.bytes

    def due_in(self, bounds: Bounds, elapsed_ms: int) -> int:
        """Milliseconds until it has to be written for its age; at most 0 when it has to be now."""
        return self.opened_ms + bounds.age_ms - elapsed_ms

    def freeze(self) -> list[pa.Table]:
        """Its rows, all as Arrow."""
        self._convert()
        return self._tables

    def _convert(self) -> None:
        if not self._waiting:
            return
        # The order of the table's columns: tables of one schema are joined without a copy.
        columns = {name: kind for name, kind in self._types.items() if name in self._named}
        self._tables.append(pa.Table.from_pylist(self._waiting, schema=to_arrow(columns)))
        self.columns.update(columns)
        self._waiting, self._named = [], set()
