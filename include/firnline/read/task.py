"""The input of a read: plain data that is sent to Spark's tasks."""

from __future__ import annotations

import msgspec

Sources = tuple[tuple[str, tuple[str, ...]], ...]
"""Pairs (column of the table, its names in a part) of columns stored under other names. Of several
names the first one with a value counts; none: the part does not have the column."""


class ReadPart(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One part to read."""

    key: str
    bytes: int
    place: int
    """Rank in the order of insertion, over all parts of the read."""
    partition: int
    """Number of its partition: rows of one key in two partitions stay two rows, as in merges."""
    hidden: int = -1
    """Index into ``ReadTask.hidden`` of the deletes that hide its rows; -1: none."""
    sources: int = -1
    """Index into ``ReadTask.sources`` of its column names; -1: all as in the table."""
    rows: int = -1
    """Rows in it, hidden ones included, as the log states; -1: it does not."""

    @property
    def as_stored(self) -> bool:
        """Return True if all of its rows are visible, in columns of the table's names."""
        return self.hidden < 0 > self.sources


class ReadTask(msgspec.Struct, frozen=True, kw_only=True):
    """Parts of one table, and the rows and columns to return."""

    parts: tuple[ReadPart, ...]
    columns: tuple[tuple[str, str], ...]
    """Pairs (name, SQL type) of the columns returned, in this order."""
    cast: bool = False
    """True if ``columns`` has other types than the table."""
    needed: tuple[tuple[str, str], ...]
    """Columns to read: those returned and those of filters, deletes and keys."""
    where: str | None = None
    """DuckDB condition: rows for which it is not true (false or null) are left out."""
    where_early: str | None = None
    """The part of ``where`` that may be evaluated before one row per key is chosen: it uses only
    the columns of the key."""
    hidden: tuple[str, ...] = ()
    """DuckDB conditions that are true for rows hidden by deletes."""
    sources: tuple[Sources, ...] = ()
    primary_key: tuple[str, ...] = ()
    """Columns of the key: one row per value in each partition is returned; empty: all rows."""
    version: str | None = None
    deleted: str | None = None
    """With a primary key: BOOLEAN column, true in key tombstones, which hide their key."""

    @property
    def bytes(self) -> int:
        """Total bytes of all parts: the maximum that is fetched."""
        return sum(part.bytes for part in self.parts)


class ChangeTask(msgspec.Struct, frozen=True, kw_only=True):
    """The changes of one step of the feed, or of one partition in it: rows before and after.

    A row that is before more often than after is deleted that many times; one that is after more
    often is inserted.
    """

    sequence: int | None
    """The transaction; None for appends that none had folded."""
    reason: str
    """Name of the operation: append, delete, erase, …"""
    before: tuple[ReadTask, ...] = ()
    """Empty: all rows after are inserted, and nothing is compared."""
    after: tuple[ReadTask, ...] = ()
    """Empty: all rows before are deleted."""
    primary_key: tuple[str, ...] = ()
    """Columns by which two rows are one that was updated."""
    where: str | None = None
    """DuckDB condition on the changed rows, if the tasks do not apply it."""

    @property
    def reads(self) -> tuple[ReadTask, ...]:
        """All reads."""
        return (*self.before, *self.after)
