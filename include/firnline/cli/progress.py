"""Progress of a run: a bar on a terminal, occasional lines elsewhere, nothing with --json.

On stderr, so that what a command prints can be piped; warnings of the run appear above the bar.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from firnline.cli.failures import printable
from firnline.clock import Clock

if TYPE_CHECKING:
    from firnline.operations.deletion import DeleteProgress
    from firnline.operations.import_files.run import ImportProgress
    from firnline.operations.runner import Progress

_EVERY_MS = 5_000
"""Milliseconds between two lines without a terminal."""

StateT = TypeVar("StateT")


@dataclass(frozen=True, slots=True)
class _Done:
    """Progress of a run, in its own unit."""

    done: int
    total: int
    detail: str


def merging(
    table: str, clock: Clock, *, silent: bool
) -> AbstractContextManager[Callable[[Progress], None]]:
    """Return the callback of a merge, which always shows the first and the last state."""

    def of(state: Progress) -> _Done:
        parts = f"{state.parts_merged:,} of {state.parts_in:,} parts"
        groups = f"{state.groups_done:,} of {state.groups:,} groups committed"
        if state.tasks > state.groups:
            groups += f", {state.tasks_done:,} of {state.tasks:,} tasks done"
        return _Done(state.parts_merged, state.parts_in, f"{parts}, {groups}")

    def ends(state: Progress) -> bool:
        return state.groups_done == state.groups

    return _shown(f"merging {table}", clock, of, silent=silent, ends=ends)


def reading(
    verb: str, table: str, clock: Clock, *, silent: bool
) -> AbstractContextManager[Callable[[Progress], None]]:
    """Return the callback of a run that reads parts; ``verb`` is such as ``erasing from``."""

    def of(state: Progress) -> _Done:
        detail = f"{state.parts_merged:,} of {state.parts_in:,} parts read"
        return _Done(state.parts_merged, state.parts_in, detail)

    return _shown(f"{verb} {table}", clock, of, silent=silent)


def deleting(
    verb: str, table: str, clock: Clock, *, silent: bool
) -> AbstractContextManager[Callable[[DeleteProgress], None]]:
    """Return the callback of a run that deletes; ``verb`` is such as ``cleaning up``."""

    def of(state: DeleteProgress) -> _Done:
        failed = f", {state.failed:,} not" if state.failed else ""
        detail = f"{state.deleted:,} of {state.objects:,} objects deleted{failed}"
        return _Done(state.deleted + state.failed, state.objects, detail)

    return _shown(f"{verb} {table}", clock, of, silent=silent)


def importing(
    table: str, clock: Clock, *, silent: bool
) -> AbstractContextManager[Callable[[ImportProgress], None]]:
    """Return the callback of an import."""

    def of(state: ImportProgress) -> _Done:
        tasks = f"{state.tasks_done:,} of {state.tasks:,} tasks done, " if state.tasks else ""
        detail = f"{tasks}{state.files_done:,} of {state.files:,} files copied"
        return _Done(state.files_done + state.tasks_done, state.files + state.tasks, detail)

    return _shown(f"importing into {table}", clock, of, silent=silent)


@contextmanager
def counting(what: str, clock: Clock, *, silent: bool) -> Iterator[Callable[[int, int], None]]:
    """Yield a callback that takes the number of objects done and their total."""

    def of(state: tuple[int, int]) -> _Done:
        return _Done(*state, f"{state[0]:,} of {state[1]:,} objects")

    with _shown(what, clock, of, silent=silent) as tell:
        yield lambda done, total: tell((done, total))


@contextmanager
def _shown(
    title: str,
    clock: Clock,
    of: Callable[[StateT], _Done],
    *,
    silent: bool,
    ends: Callable[[StateT], bool] | None = None,
) -> Iterator[Callable[[StateT], None]]:
    """Yield the callback for a run; ``ends`` detects its last state, which also gets a line."""
    if silent:
        with _warnings(lambda _: None):
            yield lambda _: None
    elif sys.stderr.isatty():
        with _bar(title) as show:
            yield lambda state: show(of(state))
    else:
        lines = _Lines(title, clock, of, ends)
        with _warnings(lambda text: _line(f"firnline: {text}")):
            yield lines.tell


@contextmanager
def _bar(title: str) -> Iterator[Callable[[_Done], None]]:
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

        def show(state: _Done) -> None:
            shown.update(task, total=state.total, completed=state.done, detail=state.detail)

        with _warnings(lambda text: console.print(f"firnline: {text}")):
            yield show


class _Lines(Generic[StateT]):
    """Prints a line every few seconds; none for a run that ends before the first is due."""

    def __init__(
        self,
        title: str,
        clock: Clock,
        of: Callable[[StateT], _Done],
        ends: Callable[[StateT], bool] | None,
    ) -> None:
        self._title, self._clock, self._of, self._ends = title, clock, of, ends
        self._last = clock.elapsed_ms() if ends is None else -_EVERY_MS

    def tell(self, state: StateT) -> None:
        now = self._clock.elapsed_ms()
        if now - self._last >= _EVERY_MS or (self._ends is not None and self._ends(state)):
            self._last = now
            _line(f"{self._title}: {self._of(state).detail}")


def _line(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


@contextmanager
def _warnings(write: Callable[[str], None]) -> Iterator[None]:
    """Write firnline's warnings during a run with ``write``."""

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
