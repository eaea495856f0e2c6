"""Look at the health of tables: one, or all of the settings at the same time. Writes nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from firnline.commit.base import stated
from firnline.errors import FirnlineError
from firnline.operations.cleanup.plan import TXN_KEPT
from firnline.operations.health.figures import Figures, figures_of
from firnline.operations.health.score import Score, score, unreadable
from firnline.settings.load import TableSettings
from firnline.state.health import Watch
from firnline.state.history import history
from firnline.state.snapshot import read_snapshot
from firnline.table import Table

HEADERS = 20
"""Newest transactions that are looked at for the last one of each operation."""
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

    @classmethod
    def unreadable(cls, settings: TableSettings, now_ms: int, error: FirnlineError) -> TableHealth:
        """Return the health of a table that cannot be opened or read."""
        text = f"cannot be read: {error.message}; {error.next_step}"
        return cls(settings.name, settings.root, now_ms, unreadable(text), None)

    def to_json(self) -> dict[str, Any]:
        """Return plain data for the page and ``--json``."""
        return {
            "table": self.table,
            "root": self.root,
            "looked_ms": self.looked_ms,
            "score": self.score.points,
            "reasons": [{"points": r.points, "text": r.text} for r in self.score.reasons],
            "figures": None if self.figures is None else self.figures.to_json(),
        }


def look(table: Table) -> TableHealth:
    """Return the health of a table.

    Requests: 2 LIST and one GET per log file, folded ones included; 1 LIST and up to 20 ranged GET
    for the newest transactions; 1 LIST more once there are more than 100.

    Raises:
        FirnlineError: the log cannot be read.
    """
    watch = Watch(table.store, table.paths)
    snapshot = read_snapshot(table.store, table.paths, everything=True, tolerant=True, watch=watch)
    if snapshot.conflict is not None:
        raise snapshot.conflict
    known = stated(table, snapshot, born=watch.born)
    table = table.under(known)
    old = (
        list(table.store.list(table.paths.txn_dir, table.paths.birth))
        if snapshot.seq >= TXN_KEPT
        else []
    )
    now_ms = table.clock.now_ms()
    wanted = table.wanted or table.settings
    figures = figures_of(
        snapshot, table.settings, wanted, known, history(table, HEADERS), old, now_ms
    )
    return TableHealth(table.settings.name, wanted.root, now_ms, score(figures), figures)


def look_at_all(
    tables: Sequence[Table], looked: Callable[[TableHealth], object] = lambda _: None
) -> list[TableHealth]:
    """Return the health of several tables, in their order; one that cannot be read has no points.

    Args:
        tables: the tables.
        looked: called after each of them.
    """

    def tolerant(table: Table) -> TableHealth:
        try:
            return look(table)
        except FirnlineError as error:
            return TableHealth.unreadable(table.settings, table.clock.now_ms(), error)

    def each() -> Iterator[TableHealth]:
        with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="firnline-health") as pool:
            for found in pool.map(tolerant, tables):
                looked(found)
                yield found

    return list(each())
