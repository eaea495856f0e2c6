"""Sort orders in the notation of ``sort_by``: that of settings, and of markers (``log.records``).

A column is written ``ts``, or ``ts desc``; nulls are last either way. A column that this form
cannot hold is a mapping with ``column`` and ``descending``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

_KEY = re.compile(r"(?P<column>.*\S)\s+(?P<order>asc|desc)", re.IGNORECASE)


class SortColumn(Protocol):
    """A column of a sort order, of the settings or of a kernel task."""

    @property
    def column(self) -> str: ...

    @property
    def descending(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class SortKey:
    """One column of a sort order; nulls last in both directions."""

    column: str
    descending: bool = False

    def __str__(self) -> str:
        return f"{self.column} desc" if self.descending else self.column


Order = tuple[SortKey, ...]
"""The columns that rows are sorted by, the first one first; empty: no order that is known."""


def parse_key(text: str) -> SortKey:
    """Parse ``ts``, ``ts asc`` or ``ts desc``; says nothing of whether there is such a column."""
    match = _KEY.fullmatch(text.strip())
    if match is None:
        return SortKey(text.strip())
    return SortKey(match["column"], match["order"].lower() == "desc")


def plain_key(key: SortColumn) -> str | dict[str, object]:
    """Return the short form of a column, or a mapping where that would be parsed as another one."""
    if parse_key(key.column) == SortKey(key.column):
        return str(SortKey(key.column, key.descending))
    return whole_key(key)


def whole_key(key: SortColumn) -> dict[str, object]:
    """Return the mapping of a column, which holds any name."""
    return {"column": key.column, "descending": key.descending}


def order_of(keys: Sequence[SortColumn]) -> Order:
    """Return columns of settings or a task as an order."""
    return tuple(SortKey(key.column, key.descending) for key in keys)


def order_text(order: Order) -> str:
    """Return an order in words for people: ``event, ts desc``."""
    return ", ".join(map(str, order))


def is_other(order: Order, wanted: Order) -> bool:
    """Return True if an order is known, and rows in it are not in the wanted one.

    Rows that are sorted by more columns are sorted by the first of them.
    """
    return bool(order) and order[: len(wanted)] != wanted
