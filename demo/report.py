"""Final report of the demo: before, after, and the check that no row changed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from rich import box
from rich.table import Table as Grid

from demo.queries import QUESTIONS, Answer, Content, ask, content
from firnline.errors import FirnlineError
from firnline.state.snapshot import read_snapshot
from firnline.table import Table
from firnline.units import about_size


class RowsChangedError(FirnlineError):
    """The table does not hold the rows that it must."""


@dataclass(frozen=True)
class State:
    """A table at one moment."""

    parts: int
    """Live ones."""
    bytes: int
    """Of the live parts."""
    log_files: int
    """Number of log files that a reader has to fetch."""
    answers: tuple[Answer, ...]
    """To ``QUESTIONS``."""
    content: Content


def measure(open_table: Callable[[], Table]) -> State:
    """Look at a table, ask it all questions, read all its rows.

    Args:
        open_table: gives the table with fresh counters.

    Raises:
        FirnlineError: as ``queries.ask``.
    """
    table = open_table()
    snapshot = read_snapshot(table.store, table.paths)
    return State(
        parts=len(snapshot.live),
        bytes=sum(marker.b for marker in snapshot.live.values()),
        log_files=len(snapshot.contents),
        answers=tuple(ask(open_table(), question) for question in QUESTIONS),
        content=content(open_table()),
    )


def check_same(source: Content, before: State, after: State) -> None:
    """See that source, table before and table after hold the same rows and say the same.

    Raises:
        RowsChangedError: they do not; names the figures.
    """
    found = {"source": source, "before": before.content, "after": after.content}
    if len(set(found.values())) != 1:
        figures = ", ".join(f"{name} {c.rows} {c.checksum:x}" for name, c in found.items())
        raise RowsChangedError(
            f"rows and checksums differ: {figures}", next_step="keep the folder and report this"
        )
    for question, old, new in zip(QUESTIONS, before.answers, after.answers, strict=True):
        if old.rows != new.rows:
            raise RowsChangedError(
                f"the answer to {question.title!r} is not the same after the merge",
                next_step="keep the folder and report this",
            )


def wide_grid() -> Grid:
    """An empty table from the left edge of the lines above it to their right edge."""
    return Grid(
        box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="bold", expand=True
    )


def comparison(before: State, after: State) -> Grid:
    """The figures of both, side by side."""
    grid = wide_grid()
    grid.add_column("", ratio=1)
    for name in ("before", "after", ""):
        grid.add_column(name, justify="right", min_width=12)
    _add(grid, "live parts", before.parts, after.parts, _number)
    _add(grid, "their size", before.bytes, after.bytes, about_size)
    _add(grid, "log files that a reader fetches", before.log_files, after.log_files, _number)
    answers = zip(QUESTIONS, before.answers, after.answers, strict=True)
    for question, old, new in answers:
        grid.add_section()
        grid.add_row(f"[bold]query: {question.title}[/]")
        _add(grid, "  requests", old.requests, new.requests, _number)
        _add(grid, "  read from the store", old.bytes, new.bytes, about_size)
        _add(grid, "  time", old.seconds, new.seconds, _seconds)
    return grid


Number = TypeVar("Number", int, float)


def _add(grid: Grid, label: str, old: Number, new: Number, show: Callable[[Number], str]) -> None:
    factor = old / new if new else 0.0
    # Only what is clearly better is said to be.
    less = f"{factor:,.0f} x" if factor >= 10 else f"{factor:.1f} x"
    grid.add_row(label, show(old), show(new), f"[green]{less}[/]" if factor > 1 else "")


def _number(value: int) -> str:
    return f"{value:,}"


def _seconds(value: float) -> str:
    return f"{value:.2f} s"
