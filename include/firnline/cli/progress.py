"""How far a run is: a bar on a terminal, a line now and then elsewhere, nothing with --json.

On stderr, so that what a command prints can be piped; warnings of the run appear above the bar.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from firnline.cli.failures import printable
from firnline.clock import Clock

if TYPE_CHECKING:
    from firnline.operations.merge.run import Progress

_EVERY_MS = 5_000
"""Between two lines where there is no terminal."""

Tell = Callable[["Progress"], None]


@contextmanager
def merging(table: str, clock: Clock, *, silent: bool) -> Iterator[Tell]:
    """Gives the callback for ``run_merge``."""
    if silent:
        with _warnings(lambda _: None):
            yield lambda _: None
    elif sys.stderr.isatty():
        with _bar(table) as tell:
            yield tell
    else:
        with _warnings(lambda text: _line(f"firnline: {text}")):
            yield _lines(table, clock)


@contextmanager
def _bar(table: str) -> Iterator[Tell]:
    from rich.console import Console
    from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    console = Console(stderr=True, highlight=False, markup=False)
    columns = (
        TextColumn("merging {task.description}", markup=False),
        SpinnerColumn(),
        BarColumn(),
        TextColumn("{task.fields[detail]}", markup=False),
        TimeElapsedColumn(),
    )
    with Bar(*columns, console=console, transient=True) as shown:
        task = shown.add_task(table, total=None, detail="reading the log")

        def tell(state: Progress) -> None:
            shown.update(task, total=state.parts_in, completed=state.parts_merged)
            shown.update(task, detail=_detail(state))

        with _warnings(lambda text: console.print(f"firnline: {text}")):
            yield tell


def _lines(table: str, clock: Clock) -> Tell:
    last = -_EVERY_MS

    def tell(state: Progress) -> None:
        nonlocal last
        now = clock.elapsed_ms()
        if now - last >= _EVERY_MS or state.groups_done == state.groups:
            last = now
            _line(f"merging {table}: {_detail(state)}")

    return tell


def _detail(state: Progress) -> str:
    done = f"{state.parts_merged:,} of {state.parts_in:,} parts"
    return f"{done}, {state.groups_done:,} of {state.groups:,} groups committed"


def _line(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


@contextmanager
def _warnings(write: Callable[[str], None]) -> Iterator[None]:
    """Send what the product warns of while it runs through ``write``."""

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            write(printable(record.getMessage()))

    logger, handler = logging.getLogger("firnline"), Handler(logging.WARNING)
    spread, logger.propagate = logger.propagate, False
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.propagate = spread


@contextmanager
def counting(what: str, clock: Clock, *, silent: bool) -> Iterator[Callable[[int, int], None]]:
    """Gives a callback that takes how many of how many objects are done: a line now and then."""
    last = clock.elapsed_ms()

    def tell(done: int, total: int) -> None:
        nonlocal last
        now = clock.elapsed_ms()
        if not silent and now - last >= _EVERY_MS:
            last = now
            _line(f"{what}: {done:,} of {total:,} objects")

    with _warnings((lambda _: None) if silent else (lambda text: _line(f"firnline: {text}"))):
        yield tell
