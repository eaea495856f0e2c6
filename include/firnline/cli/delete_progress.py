"""How far a long deletion is: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from firnline.clock import Clock

if TYPE_CHECKING:
    from firnline.operations.deletion import DeleteProgress

_EVERY_MS = 5_000
"""Between two lines where there is no terminal."""

Tell = Callable[["DeleteProgress"], None]


@contextmanager
def deleting(verb: str, table: str, clock: Clock, *, silent: bool) -> Iterator[Tell]:
    """Gives the callback for a run that deletes; ``verb`` is ``cleaning up`` or the like."""
    if silent:
        yield lambda _: None
    elif sys.stderr.isatty():
        with _bar(f"{verb} {table}") as tell:
            yield tell
    else:
        yield _lines(f"{verb} {table}", clock)


@contextmanager
def _bar(title: str) -> Iterator[Tell]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    console = Console(stderr=True, highlight=False, markup=False)
    columns = (
        TextColumn("{task.description}", markup=False),
        SpinnerColumn(),
        BarColumn(),
        TextColumn("{task.fields[detail]}", markup=False),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True) as shown:
        task = shown.add_task(title, total=None, detail="reading the log")

        def tell(state: DeleteProgress) -> None:
            done = state.deleted + state.failed
            shown.update(task, total=state.objects, completed=done, detail=_detail(state))

        yield tell


def _lines(title: str, clock: Clock) -> Tell:
    last = clock.elapsed_ms()  # what is over within five seconds needs no line

    def tell(state: DeleteProgress) -> None:
        nonlocal last
        now = clock.elapsed_ms()
        if now - last >= _EVERY_MS:
            last = now
            sys.stderr.write(f"{title}: {_detail(state)}\n")
            sys.stderr.flush()

    return tell


def _detail(state: DeleteProgress) -> str:
    failed = f", {state.failed:,} not" if state.failed else ""
    return f"{state.deleted:,} of {state.objects:,} objects deleted{failed}"
