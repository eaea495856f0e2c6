"""Look at the health of tables: one, or all of the settings at the same time. Writes nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from firnline.errors import FirnlineError, NoTableError
from firnline.operations.at_once import at_once
from firnline.operations.health.detail import HISTORY, detail_of
from firnline.operations.health.figures import Figures, figures_of
from firnline.operations.health.reading import Reading, read
from firnline.operations.health.score import Score, score, unreadable
from firnline.settings.load import BrokenTable, TableSettings
from firnline.table import Table

AT_ONCE = 16
"""Tables that are looked at concurrently: each mostly waits for its store."""


@dataclass(frozen=True, slots=True)
class TableHealth:
    """The health of one table."""

    table: str
    root: str
    looked_ms: int
    """Wall clock of the look."""
    score: Score
    figures: Figures | None
    """None if the table could not be read."""
    detail: Mapping[str, Any] | None = None
    """The table in detail (``detail_of``), where it was asked for."""
    missing: NoTableError | None = None
    """The error of commands, where there is no table at the root."""

    @classmethod
    def unreadable(
        cls, settings: TableSettings | BrokenTable, now_ms: int, error: FirnlineError
    ) -> TableHealth:
        """Return the health of a table that cannot be opened or read."""
        text = f"{error.message}; {error.next_step}"
        if isinstance(error, NoTableError):
            score = unreadable(text)
            return cls(settings.name, settings.root, now_ms, score, None, missing=error)
        return cls(
            settings.name, settings.root, now_ms, unreadable(f"cannot be read: {text}"), None
        )

    def to_json(self) -> dict[str, Any]:
        """Return plain data for the page and ``--json``."""
        plain = {
            "table": self.table,
            "root": self.root,
            "looked_ms": self.looked_ms,
            "score": self.score.points,
            "reasons": [{"points": r.points, "text": r.text} for r in self.score.reasons],
            "figures": None if self.figures is None else self.figures.to_json(),
        }
        return plain if self.detail is None else {**plain, "detail": self.detail}


def look(table: Table) -> TableHealth:
    """Return the health of a table; requests and errors of ``read``."""
    return health_of(read(table))


def glance(table: Table) -> TableHealth:
    """Return the health of a table without its history; ``read`` with no header."""
    return health_of(read(table, 0))


def look_closely(table: Table) -> TableHealth:
    """Return the health of a table with its details; ``read`` with ``HISTORY`` headers."""
    reading = read(table, HISTORY, erases={})
    return health_of(reading, detail_of(reading))


def health_of(reading: Reading, detail: Mapping[str, Any] | None = None) -> TableHealth:
    """Return the health of a table that has been read."""
    figures, wanted = figures_of(reading), reading.wanted
    return TableHealth(wanted.name, wanted.root, reading.now_ms, score(figures), figures, detail)


def look_at_all(
    tables: Sequence[Table],
    looked: Callable[[TableHealth], object] = lambda _: None,
    *,
    closely: bool = False,
) -> list[TableHealth]:
    """Return the health of several tables, in their order; one that cannot be read has no points.

    Args:
        tables: the tables.
        looked: called after each of them, in the order in which stores answer.
        closely: with details.
    """
    return at_once(tables, partial(_tolerant, look_closely if closely else look), AT_ONCE, looked)


def _tolerant(act: Callable[[Table], TableHealth], table: Table) -> TableHealth:
    try:
        return act(table)
    except FirnlineError as error:
        return TableHealth.unreadable(table.settings, table.clock.now_ms(), error)
