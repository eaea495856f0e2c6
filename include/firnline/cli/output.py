"""Output of commands: tables for people, JSON for programs, both from the same data.

On a terminal tables fit its width; in a pipe nothing is cut or wrapped.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from firnline import pages, shown
from firnline.cli.failures import printable, runnable, when_stopped
from firnline.errors import FirnlineError, NothingToDoError
from firnline.pages import Block, Column, Command, Grid, Line, Page, Pairs
from firnline.units import counted

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from firnline.operations.operation import Figures

StateT = TypeVar("StateT")
"""Progress of a run."""

_PIPE_WIDTH = 4_000
"""Width of output that is not a terminal: wide enough for any row."""
_PROSE_WIDTH, _LEAST_PROSE = 120, 40
"""Width of a table with sentences in a pipe, and of each column of them at least."""
_GAP = 2
_PIECE = 16 * 1024
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
            raise BrokenPipeError  # app.run ends with the exit code for it

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
    # Flushed here, not at the interpreter's exit: a closed pipe must set the exit code.
    sys.stdout.flush()


def show_run(
    run: Callable[[Callable[[StateT], None]], Figures],
    progress: AbstractContextManager[Callable[[StateT], None]],
    as_json: bool,
    render: Callable[[dict[str, Any]], Page | None],
    *,
    stopped: tuple[str, str],
    failed: tuple[type[FirnlineError], ...],
    shorten: Callable[[Any], FirnlineError],
    render_failed: Callable[[dict[str, Any]], Page | None] | None = None,
) -> None:
    """Carry out a run, show its progress, and print its report, also that of a run that failed.

    Args:
        run: takes the callback for its progress, and returns the report.
        progress: yields that callback; see ``firnline.cli.progress``.
        as_json: print JSON; a failure is then raised as it is.
        render: prints the report for people.
        stopped: message and next step if Ctrl-C or SIGTERM ends the run.
        failed: errors that have a ``report``.
        shorten: takes the report; the error for people, who have the report before them.
        render_failed: prints the report of a run that failed; None for ``render``.

    Raises:
        FirnlineError: the run failed.
    """
    message, next_step = stopped
    try:
        with when_stopped(message, next_step=next_step), progress as tell:
            report = run(tell)
    except failed as error:
        partly: Figures = error.report  # type: ignore[attr-defined] # all of ``failed`` have one
        show(partly.to_json(), as_json, render_failed or render)
        if as_json:
            raise
        raise shorten(partly) from error
    show(report.to_json(), as_json, render)


@contextmanager
def nothing_to_do(table: str, as_json: bool) -> Iterator[None]:
    """Print that a command has nothing to do, which is no failure."""
    try:
        yield
    except NothingToDoError as error:
        said = str(error)
        data = {"table": table, "nothing_to_do": True, "message": error.message}
        show(data, as_json, lambda _: line(f"{said[:1].upper()}{said[1:]}."))


def draw(page: Page) -> None:
    """Print a page."""
    for block in page.blocks:
        _draw(block)


def _draw(block: Block) -> None:
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
    """Write text to standard output.

    In pieces: with PYTHONUNBUFFERED, Python takes a large piece for written even if a closing
    pipe has cut it short.
    """
    for start in range(0, len(text), _PIECE):
        sys.stdout.write(text[start : start + _PIECE])


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
    rows: Iterable[Sequence[str | None]],
    footer: Sequence[str] | None = None,
    *,
    others: str = "a wider terminal and --json have them",
) -> None:
    """Print a table with a rule under its header, and one above its footer.

    Columns that do not fit into a narrow terminal are named below it.

    Args:
        columns: the columns.
        rows: cells, in the order of the columns; None for a null.
        footer: a last row.
        others: where the columns are seen that do not fit.
    """
    from rich import box
    from rich.table import Table
    from rich.text import Text

    cells = [*rows, *([footer] if footer else [])]
    lines = [[_cell(cell) for cell in row] for row in cells]
    kept = fitting(columns, lines, console().width)
    needed = _needed(columns, lines)
    prose = _prose_width(columns, needed)
    grid = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1, 0, 0))
    for index in kept:
        column = columns[index]
        grid.add_column(
            column.title,
            min_width=min(needed[index], _LEAST) if column.wrap else None,
            max_width=prose if column.prose else None,
            justify="right" if column.number else "left",
            no_wrap=not column.wrap,
            overflow="fold" if column.wrap else "ellipsis",
            style=column.style,
            header_style="bold",
        )
    for index, row in enumerate(lines):
        last = footer is not None and index == len(lines) - 1
        if last:
            grid.add_section()
        texts = (Text(row[at], style="dim" * (cells[index][at] is None)) for at in kept)
        grid.add_row(*texts, style="bold" if last else None)
    _print(grid)
    left = [column.title for at, column in enumerate(columns) if at not in kept]
    if left:
        line(f"{counted(len(left), 'more column')}: {', '.join(left)}; {others}.", style="dim")


def _cell(value: str | None) -> str:
    return "null" if value is None else printable(value)


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
    needed = [
        min(cells, _ENOUGH) if column.wrap else cells
        for column, cells in zip(columns, _needed(columns, rows), strict=True)
    ]
    kept = list(range(len(columns)))
    for index in sorted(kept, key=lambda index: -columns[index].dispensable):
        if not columns[index].dispensable or _width(needed, kept) <= width:
            break
        kept.remove(index)
    return kept


def _needed(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> list[int]:
    """Return the widths of columns of which nothing is wrapped or cut."""
    from rich.cells import cell_len

    return [
        max(cell_len(text) for text in (column.title, *(row[index] for row in rows)))
        for index, column in enumerate(columns)
    ]


def _width(needed: Sequence[int], kept: Sequence[int]) -> int:
    return sum(needed[index] for index in kept) + _GAP * (len(kept) - 1)


def pairs(rows: Iterable[tuple[str, str | None]]) -> None:
    """Print names and values, one pair per line; None for a null."""
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in rows:
        grid.add_row(Text(printable(name)), Text(_cell(value), style="dim" * (value is None)))
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
