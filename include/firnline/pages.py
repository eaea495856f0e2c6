"""A page: a plan or a report in words and tables, as data that every door draws in its own way.

An operation makes it once. The command line draws it, a task logs its lines, a note has its
sentence. ``page.table(...)`` and the like add to it in the order in which it is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from firnline.units import about_size, counted

MOST_ROWS = 50
"""Rows of a table that ``Page.lines`` has."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table."""

    title: str
    number: bool = False
    """Right-aligned, never wrapped."""
    wrap: bool = False
    """Wrapped if the terminal is narrow."""
    prose: bool = False
    """Sentences, which are wrapped in a pipe too; nobody looks for them by a line."""
    style: str = ""
    dispensable: int = 0
    """Above 0: left out if the terminal is too narrow, the largest value first."""


@dataclass(frozen=True, slots=True)
class Grid:
    """A table: cells in the order of the columns, and perhaps a last row of totals."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    footer: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Pairs:
    """Names and values, a line each."""

    rows: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Line:
    """A sentence or paragraph; empty: a gap."""

    text: str


@dataclass(frozen=True, slots=True)
class Command:
    """A command line to be copied."""

    text: str


Block = Grid | Pairs | Line | Command


@dataclass(slots=True)
class Page:
    """What a reader sees, from top to bottom."""

    blocks: list[Block] = field(default_factory=list)
    _sentence: str = ""

    def line(self, text: str = "") -> None:
        """Add a sentence, or a gap."""
        self.blocks.append(Line(text))

    def conclusion(self, text: str) -> None:
        """Add the sentence that says all of it in one, for notes."""
        self.line(text)
        self._sentence = text

    def in_short(self, text: str) -> None:
        """Set the sentence of a page that has it nowhere, such as one of names and values."""
        self._sentence = text

    def command(self, text: str) -> None:
        """Add a command line to be copied."""
        self.blocks.append(Command(text))

    def pairs(self, rows: Iterable[tuple[str, str]]) -> None:
        """Add names and values; a name that is empty goes on with the one before."""
        self.blocks.append(Pairs(tuple(rows)))

    def table(
        self,
        columns: Iterable[Column],
        rows: Iterable[Sequence[str]],
        footer: Sequence[str] | None = None,
    ) -> None:
        """Add a table."""
        cells = tuple(tuple(row) for row in rows)
        last = None if footer is None else tuple(footer)
        self.blocks.append(Grid(tuple(columns), cells, last))

    def reasons(self, title: str, found: Mapping[str, int]) -> None:
        """Add how many of what (``parts``) were left as they are, by reason; nothing if none."""
        if found:
            columns = [Column(f"{title} left alone", number=True), Column("reason", wrap=True)]
            self.table(columns, ([number(count), reason] for reason, count in found.items()))
            self.line()

    def add(self, other: Page) -> None:
        """Add all of another page; its conclusion is the conclusion."""
        self.blocks += other.blocks
        self._sentence = other._sentence or self._sentence

    @property
    def sentence(self) -> str:
        """The conclusion or what ``in_short`` has set, or else the first line; no full stop."""
        return (self._sentence or next(self.lines(), "nothing")).removesuffix(".")

    def lines(self) -> Iterator[str]:
        """Yield it as plain lines: a row of a table is one, with the titles of its columns."""
        for block in self.blocks:
            match block:
                case Grid():
                    yield from _row_lines(block)
                case Pairs():
                    yield from _pair_lines(block)
                case Line(text) if text:
                    yield text
                case Command(text):
                    yield f"  {text}"


def _row_lines(grid: Grid) -> Iterator[str]:
    first, *others = (column.title for column in grid.columns)
    for cells in grid.rows[:MOST_ROWS]:
        yield _row_line(f"{first} {cells[0]}", others, cells[1:])
    if len(grid.rows) > MOST_ROWS:
        yield f"and {counted(len(grid.rows) - MOST_ROWS, 'row')} more"
    if grid.footer is not None:
        yield _row_line(grid.footer[0], others, grid.footer[1:])


def _row_line(name: str, titles: Sequence[str], cells: Sequence[str]) -> str:
    more = ", ".join(f"{title} {cell}" for title, cell in zip(titles, cells, strict=True) if cell)
    return f"{name}: {more}" if more else name


def _pair_lines(pairs: Pairs) -> Iterator[str]:
    name = ""
    for title, value in pairs.rows:
        name = title or name
        yield f"{name}: {value}"


def number(value: int | None) -> str:
    """Format 1234567 as ``1,234,567``, and None as ``?``."""
    return "?" if value is None else f"{value:,}"


def requests_text(requests: Mapping[str, int]) -> str:
    """Format requests as ``3 GET, 2 PUT, 2 LIST; 1.2 MiB read, 700 B written``."""
    kinds = ("get", "put", "list", "head", "delete")
    sent = [f"{number(requests[kind])} {kind.upper()}" for kind in kinds if requests[kind]]
    again = f", {number(requests['retries'])} of them again" if requests["retries"] else ""
    read, written = about_size(requests["bytes_in"]), about_size(requests["bytes_out"])
    return f"{', '.join(sent)}{again}; {read} read, {written} written"
