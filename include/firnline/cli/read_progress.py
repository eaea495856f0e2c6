"""How far a delete or an erase is: a bar on a terminal, a line now and then elsewhere."""

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
def reading(verb: str, table: str, clock: Clock, *, silent: bool) -> Iterator[Tell]:
    """Gives the callback for a run that reads parts; ``verb`` is ``erasing from`` or the like."""
    title = f"{verb} {table}"
    if silent:
        with _warnings(lambda _: None):
            yield lambda _: None
    elif sys.stderr.isatty():
        with _bar(title) as tell:
            yield tell
    else:
        with _warnings(lambda text: _line(f"firnline: {text}")):
            yield _lines(title, clock)


@contextmanager
def _bar(title: str) -> Iterator[Tell]:
    from rich.console import Console
    from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    console = Console(stderr=True, highlight=False, markup=False)
    columns = (
        TextColumn("{task.description}", markup=False),
        SpinnerColumn(),
        BarColumn(),
        TextColumn("{task.fields[detail]}", markup=False),
        TimeElapsedColumn(),
    )
    with Bar(*columns, console=console, transient=True) as shown:
        task = shown.add_task(title, total=None, detail="reading the log")

        def tell(state: Progress) -> None:
            shown.update(task, total=state.parts_in, completed=state.parts_merged)
            shown.update(task, detail=_detail(state))

        with _warnings(lambda text: console.print(f"firnline: {text}")):
            yield tell


def _lines(title: str, clock: Clock) -> Tell:
    last = clock.elapsed_ms()  # what is over within five seconds needs no line

    def tell(state: Progress) -> None:
        nonlocal last
        now = clock.elapsed_ms()
        if now - last >= _EVERY_MS:
            last = now
            _line(f"{title}: {_detail(state)}")

    return tell


def _detail(state: Progress) -> str:
    return f"{state.parts_merged:,} of {state.parts_in:,} parts read"


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
