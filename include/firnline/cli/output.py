"""Output of commands: tables for people, JSON for programs, both from the same data.

On a terminal tables fit its width; in a pipe nothing is cut or wrapped.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from firnline import shown
from firnline.cli.failures import (
    output_written,
    printable,
    runnable,
    when_stopped,
    with_report,
)
from firnline.errors import FirnlineError, NothingToDoError
from firnline.units import counted

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from firnline.operations.operation import Figures

Cell: TypeAlias = str | Sequence[str]
"""Text of a table; or lines, below each other. A newline within a text is none of the table."""
StateT = TypeVar("StateT")
"""Progress of a run."""

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


def console() -> Console:
    """Return rich's console for standard output."""
    from rich.console import Console

    class Pipe(Console):
        def on_broken_pipe(self) -> None:
            # Instead of rich's own exit; it calls this while it handles the error.
            raise sys.exception() or BrokenPipeError()

    width = None if sys.stdout.isatty() else _PIPE_WIDTH
    return Pipe(file=sys.stdout, width=width, highlight=False, markup=False, emoji=False)


def show(data: dict[str, Any], as_json: bool, render: Callable[[dict[str, Any]], None]) -> None:
    """Print ``data`` as JSON, or let ``render`` print it for people."""
    if as_json:
        write(json.dumps(data, indent=2) + "\n")
    else:
        render(data)
    sys.stdout.flush()
    output_written()


def show_run(
    run: Callable[[Callable[[StateT], None]], Figures],
    progress: AbstractContextManager[Callable[[StateT], None]],
    as_json: bool,
    render: Callable[[dict[str, Any]], None],
    *,
    stopped: tuple[str, str],
    failed: tuple[type[FirnlineError], ...],
    shorten: Callable[[Any], FirnlineError],
    render_failed: Callable[[dict[str, Any]], None] | None = None,
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
        with with_report(error):
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
        rows: cells, in the order of the columns.
        footer: a last row.
        others: where the columns are seen that do not fit.
    """
    columns = [replace(column, title=printable(column.title)) for column in columns]
    lines = [[_cell(cell) for cell in row] for row in [*rows, *([footer] if footer else [])]]
    width = console().width
    kept = fitting(columns, lines, width)
    if _width(_needed(columns, lines, _LEAST), kept) > width:
        _lines_each(columns, lines)
        return
    _print(_grid(columns, lines, kept, footer=footer is not None))
    left = [column.title for at, column in enumerate(columns) if at not in kept]
    if left:
        line(f"{counted(len(left), 'more column')}: {', '.join(left)}; {others}.", style="dim")


def _cell(cell: Cell) -> str:
    return printable(cell) if isinstance(cell, str) else "\n".join(map(printable, cell))


def _lines_each(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> None:
    """Print a line for each value, and an empty one between two rows."""
    for number, row in enumerate(rows):
        if number:
            line()
        _pairs((column.title, value) for column, value in zip(columns, row, strict=True))


def _grid(
    columns: Sequence[Column], lines: Sequence[Sequence[str]], kept: Sequence[int], *, footer: bool
) -> RenderableType:
    """Return the table of some columns, whose texts are printable."""
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
        grid.add_row(*(Text(row[place]) for place in kept), style="bold" if last else None)
    return grid


def reasons(title: str, found: Mapping[str, int]) -> None:
    """Print how many were left as they are, by reason; nothing without any.

    Args:
        title: what is counted, such as ``parts``.
        found: reason -> how many.
    """
    if not found:
        return
    columns = [Column(f"{title} left alone", number=True), Column("reason", wrap=True)]
    table(columns, ([number(count), reason] for reason, count in found.items()))
    line()


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


def pairs(rows: Iterable[tuple[str, str]]) -> None:
    """Print names and values, one pair per line."""
    _pairs((printable(name), printable(value)) for name, value in rows)


def _pairs(rows: Iterable[tuple[str, str]]) -> None:
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in rows:
        grid.add_row(Text(name), Text(value))
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


def number(value: int | None) -> str:
    """Format 1234567 as ``1,234,567``, and None as ``?``."""
    return "?" if value is None else f"{value:,}"


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


def requests_text(requests: dict[str, int]) -> str:
    """Format requests as ``3 GET, 2 PUT, 2 LIST; 1.2 MiB read, 700 B written``."""
    from firnline.units import about_size

    kinds = ("get", "put", "list", "head", "delete")
    sent = [f"{number(requests[kind])} {kind.upper()}" for kind in kinds if requests[kind]]
    again = f", {number(requests['retries'])} of them again" if requests["retries"] else ""
    read, written = about_size(requests["bytes_in"]), about_size(requests["bytes_out"])
    return f"{', '.join(sent)}{again}; {read} read, {written} written"
