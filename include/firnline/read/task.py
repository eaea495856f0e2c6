"""What a read takes: plain data that travels to Spark's tasks."""

from __future__ import annotations

import msgspec

Sources = tuple[tuple[str, tuple[str, ...]], ...]
"""(column of the table, its names in a part), of those that are not found under their own name. Of
several names the first that has a value counts; none: the part does not show the column."""


class ReadPart(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One part to read."""

    key: str
    bytes: int
    place: int
    """Its rank in the order of insertion, over all parts of the read."""
    partition: int
    """Number of its partition: rows of one key in two partitions are two rows, as for merges."""
    hidden: int = -1
    """Which of ``ReadTask.hidden`` hides rows of it; -1: none."""
    sources: int = -1
    """Which of ``ReadTask.sources`` says what its columns are called; -1: all as in the table."""


class ReadTask(msgspec.Struct, frozen=True, kw_only=True):
    """Parts of one table, and which of their rows and columns are wanted."""

    parts: tuple[ReadPart, ...]
    columns: tuple[tuple[str, str], ...]
    """(name, SQL type) of what is returned, in this order."""
    cast: bool = False
    """Whether ``columns`` names other types than the table has."""
    needed: tuple[tuple[str, str], ...]
    """Columns that are read: those and what filters, deletes and keys speak of."""
    where: str | None = None
    """DuckDB condition: rows for which it is not true (false or null) are left out."""
    where_early: str | None = None
    """A part of ``where`` that may be asked before one row per key is chosen: it speaks of the
    columns of the key only."""
    hidden: tuple[str, ...] = ()
    """DuckDB conditions, true for rows that deletes hide."""
    sources: tuple[Sources, ...] = ()
    primary_key: tuple[str, ...] = ()
    """One row per value of these, in each partition; empty: all rows."""
    version: str | None = None
    deleted: str | None = None
    """With a primary key: BOOLEAN column, true in key tombstones, which hide their key."""

    @property
    def bytes(self) -> int:
        """Of all parts: the most that is fetched."""
        return sum(part.bytes for part in self.parts)
