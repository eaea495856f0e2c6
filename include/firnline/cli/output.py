"""Output of commands: tables for people, JSON for programs, both from the same data.

On a terminal tables fit its width; in a pipe nothing is cut or wrapped.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

from firnline import pages, shown
from firnline.cli.failures import (
    output_written,
    printable,
    runnable,
)
from firnline.errors import NothingToDoError
from firnline.pages import Column, Command, Grid, Line, Page, Pairs
from firnline.units import counted

if TYPE_CHECKING:
    from rich.console import Console, RenderableType


Cell: TypeAlias = str | Sequence[str] | None
"""Text of a table; None for a null; or lines, below each other. A newline within a text is none of
the table."""

_PIPE_WIDTH = 4_000
"""Width of output that is not a terminal: wide enough for any row."""
_PROSE_WIDTH, _LEAST_PROSE = 120, 40
"""Width of a table with sentences in a pipe, and of each column of them at least."""
_GAP = 2
_LEAST = 16
"""Characters of a wrapped column at least: a narrower one cannot be read."""
_ENOUGH = 24
"""Characters of a wrapped column for which no other column has to go."""
_BARS = "▁▂▃▄▅▆▇█"

number, requests_text = pages.number, pages.requests_text
"""Of pages, for the commands that print without one."""


def console() -> Console:
    """Return rich's console for standard output."""
    from rich.console import Console

    class Pipe(Console):
        def on_broken_pipe(self) -> None:
            # Instead of rich's own exit; it calls this while it handles the error.
            raise sys.exception() or BrokenPipeError()

    width = None if sys.stdout.isatty() else _PIPE_WIDTH
    return Pipe(file=sys.stdout, width=width, highlight=False, markup=False, emoji=False)


def show(
    data: dict[str, Any], as_json: bool, render: Callable[[dict[str, Any]], Page | None]
) -> None:
    """Print ``data`` as JSON, or for people the page that ``render`` makes, if not it prints."""
    if as_json:
        write(json.dumps(data, indent=2) + "\n")
    elif (page := render(data)) is not None:
        draw(page)
    sys.stdout.flush()
    output_written()


@contextmanager
def nothing_to_do(table: str, as_json: bool) -> Iterator[None]:
    """Print that a command has nothing to do, which is no failure."""
    try:
        yield
    except NothingToDoError as error:
        sentence = str(error)
        data = {"table": table, "nothing_to_do": True, "message": error.message}
        show(data, as_json, lambda _: line(f"{sentence[:1].upper()}{sentence[1:]}."))


def draw(page: Page) -> None:
    """Print a page."""
    for block in page.blocks:
        match block:
            case Grid(columns, rows, footer):
                table(columns, rows, footer)
            case Pairs(rows):
                pairs(rows)
            case Line(text):
                line(text)
            case Command(text):
                to_run(text)


def reasons(title: str, found: Mapping[str, int]) -> None:
    """Print ``Page.reasons``."""
    page = Page()
    page.reasons(title, found)
    draw(page)


def write(text: str) -> None:
    """Write text to standard output."""
    sys.stdout.write(text)


def line(text: str = "", style: str = "") -> None:
    """Print one line, or a paragraph that wraps at the terminal's edge."""
    from rich.text import Text

    console().print(Text(printable(text), style=style), soft_wrap=not sys.stdout.isatty())


def plain(text: str) -> None:
    """Print one line that is to be copied: it is never wrapped."""
    from rich.text import Text

    console().print(Text(printable(text)), soft_wrap=True)


def to_run(command: str) -> None:
    """Print a command line to be copied, with the table as this command line names it."""
    plain(f"  {runnable(f'`{command}`')[1:-1]}")


def table(
    columns: Sequence[Column],
    rows: Iterable[Sequence[Cell]],
    footer: Sequence[str] | None = None,
    *,
    others: str = "a wider terminal and --json have them",
) -> None:
    """Print a table with a rule under its header, and one above its footer.

    Columns that do not fit into a narrow terminal are named below it. Where the required ones do
    not fit either, each row is printed as lines: a figure is never cut.

    Args:
        columns: the columns.
        rows: cells, in the order of the columns; None for a null.
        footer: a last row.
        others: where the columns are seen that do not fit.
    """
    columns = [replace(column, title=printable(column.title)) for column in columns]
    cells = [*rows, *([footer] if footer else [])]
    lines = [[_cell(cell) for cell in row] for row in cells]
    width = console().width
    kept = fitting(columns, lines, width)
    if _width(_needed(columns, lines, _LEAST), kept) > width:
        _lines_each(columns, lines)
        return
    nulls = {(i, at) for i, row in enumerate(cells) for at, cell in enumerate(row) if cell is None}
    _print(_grid(columns, lines, kept, nulls, footer=footer is not None))
    left = [column.title for at, column in enumerate(columns) if at not in kept]
    if left:
        line(f"{counted(len(left), 'more column')}: {', '.join(left)}; {others}.", style="dim")


def _cell(cell: Cell) -> str:
    if cell is None:
        return _null(cell)
    return printable(cell) if isinstance(cell, str) else "\n".join(map(printable, cell))


def _null(text: str | None) -> str:
    return "null" if text is None else text


def _lines_each(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> None:
    """Print a line for each value, and an empty one between two rows."""
    for number, row in enumerate(rows):
        if number:
            line()
        _pairs((column.title, value) for column, value in zip(columns, row, strict=True))


def _grid(
    columns: Sequence[Column],
    lines: Sequence[Sequence[str]],
    kept: Sequence[int],
    nulls: Collection[tuple[int, int]],
    *,
    footer: bool,
) -> RenderableType:
    """Return the table of some columns, whose texts are printable; ``nulls`` by row and column."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    needed, least = _needed(columns, lines), _needed(columns, lines, _LEAST)
    prose = _prose_width(columns, needed)
    grid = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1, 0, 0))
    for index in kept:
        column = columns[index]
        grid.add_column(
            column.title,
            min_width=least[index] if column.wrap else None,
            max_width=prose if column.prose else None,
            justify="right" if column.number else "left",
            no_wrap=not column.wrap,
            overflow="fold" if column.wrap else "ellipsis",
            style=column.style,
            header_style="bold",
        )
    for index, row in enumerate(lines):
        last = footer and index == len(lines) - 1
        if last:
            grid.add_section()
        texts = (Text(row[at], style="dim" * ((index, at) in nulls)) for at in kept)
        grid.add_row(*texts, style="bold" if last else None)
    return grid


def _prose_width(columns: Sequence[Column], needed: Sequence[int]) -> int | None:
    """Return the maximum width of a column of sentences in a pipe; None on a terminal."""
    count = sum(column.prose for column in columns)
    if sys.stdout.isatty() or not count:
        return None
    others = [cells for column, cells in zip(columns, needed, strict=True) if not column.prose]
    spare = _PROSE_WIDTH - sum(others) - _GAP * (len(columns) - 1)
    return max(_LEAST_PROSE, spare // count)


def fitting(columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int) -> list[int]:
    """Return the columns to show: the required ones, and as many others as fit ``width``."""
    needed = _needed(columns, rows, _ENOUGH)
    kept = list(range(len(columns)))
    for index in sorted(kept, key=lambda index: -columns[index].dispensable):
        if not columns[index].dispensable or _width(needed, kept) <= width:
            break
        kept.remove(index)
    return kept


def _needed(
    columns: Sequence[Column], rows: Sequence[Sequence[str]], wrapped: int | None = None
) -> list[int]:
    """Return the widths of columns of which nothing is cut.

    ``wrapped``: maximum width of a column that is wrapped; None: none is.
    """
    from rich.cells import cell_len

    def needed(index: int, column: Column) -> int:
        texts = (column.title, *(text for row in rows for text in row[index].split("\n")))
        cells = max(map(cell_len, texts))
        return min(cells, wrapped) if column.wrap and wrapped is not None else cells

    return [needed(index, column) for index, column in enumerate(columns)]


def _width(needed: Sequence[int], kept: Sequence[int]) -> int:
    return sum(needed[index] for index in kept) + _GAP * (len(kept) - 1)


def pairs(rows: Iterable[tuple[str, str | None]]) -> None:
    """Print names and values, one pair per line; None for a null."""
    _pairs((printable(name), None if value is None else printable(value)) for name, value in rows)


def _pairs(rows: Iterable[tuple[str, str | None]]) -> None:
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in rows:
        grid.add_row(Text(name), Text(_null(value), style="dim" * (value is None)))
    _print(grid)


def _print(grid: RenderableType) -> None:
    screen = console()
    if sys.stdout.isatty():
        screen.print(grid)
        return
    with screen.capture() as capture:
        screen.print(grid)
    # Cells are padded with spaces, which are of no use in a file.
    write("".join(f"{text.rstrip()}\n" for text in capture.get().splitlines()))


def percent(part: int, whole: int) -> str:
    """Format a share of a whole; ``-`` if the whole is 0."""
    return f"{100 * part // whole} %" if whole else "-"


when = shown.when
"""Formats a time of the table."""


def spark(counts: Sequence[int]) -> str:
    """Draw counts as one character each: a full block for the largest, a dot for 0."""
    most = max(counts, default=0)
    encoding = sys.stdout.encoding or "ascii"
    bars = _BARS if encoding.lower().startswith("utf") else ".:-=+*%#"
    return "".join(
        bars[max(1, -(-count * len(bars) // most)) - 1] if count else "·" if bars == _BARS else " "
        for count in counts
    )
