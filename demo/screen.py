"""The demo's output: progress on a terminal, plain lines where nobody watches."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console, RenderableType
from rich.markup import escape
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.text import Text

_NAME_WIDTH = 9
_PLAIN_EVERY_SECONDS = 15.0
LINE_WIDTH = 100
"""Columns of a line, and of the tables, on a terminal that is wide enough."""


class Step:
    """One phase while it runs; see ``Screen.step``."""

    def __init__(self, screen: Screen, name: str, what: str) -> None:
        self.done = what
        """Text of the line when the step is over."""
        self.began = time.monotonic()
        self._screen = screen
        self._name = name
        self._shown_at = self.began
        self._progress: Progress | None = None
        if screen.live:
            self._progress = Progress(
                SpinnerColumn(),
                TextColumn(f"[bold]{name:<{_NAME_WIDTH}}[/]"),
                BarColumn(bar_width=20),
                TextColumn("{task.description}"),
                TimeElapsedColumn(),
                console=screen.console,
                transient=True,
            )
            self._progress.start()
            self._task = self._progress.add_task(what, total=None)

    @property
    def seconds(self) -> float:
        """Since it began."""
        return time.monotonic() - self.began

    def update(self, text: str, done: int | None = None, total: int | None = None) -> None:
        """Show the current activity and its progress."""
        if self._progress is not None:
            self._progress.update(
                self._task, description=text, completed=done, total=total if total else None
            )
        elif time.monotonic() - self._shown_at > _PLAIN_EVERY_SECONDS:
            self._shown_at = time.monotonic()
            self._screen.line(self._name, f"... {text}")

    def close(self) -> None:
        """Take the progress off the screen."""
        if self._progress is not None:
            self._progress.stop()


class Screen:
    """The terminal that the demo writes to.

    Args:
        console: None for standard output.
    """

    def __init__(self, console: Console | None = None) -> None:
        plain_width = None if sys.stdout.isatty() else LINE_WIDTH
        self.console = console or Console(highlight=False, width=plain_width)
        # Colours may be asked for where a recorder listens; moving the cursor may not.
        self.live = sys.stdout.isatty() and os.environ.get("TERM") != "dumb"

    @contextmanager
    def step(self, name: str, what: str) -> Iterator[Step]:
        """A phase: progress while it runs, one line with its seconds when it has ended well."""
        step = Step(self, name, what)
        try:
            yield step
        finally:
            step.close()
        self.line(name, step.done, f"{step.seconds:6.1f} s")

    def line(self, name: str, text: str, right: str = "") -> None:
        """One line: a bold name, what is to be said, and something at the right edge."""
        width = min(self.console.width, LINE_WIDTH) - _NAME_WIDTH - len(right) - 2
        if right:
            text = f"{text:<{width}} [dim]{right}[/]"
        self.console.print(f"[bold cyan]{name:<{_NAME_WIDTH}}[/] {text}", soft_wrap=True)

    def fail(self, sentence: str) -> None:
        """Print the reason for a failure to standard error."""
        errors = Console(stderr=True, highlight=False)
        errors.print(f"[bold red]demo:[/] {escape(sentence)}", soft_wrap=True)

    def show(self, what: RenderableType) -> None:
        """Something of several lines, without the blanks that fill it up to the right."""
        with self.console.capture() as captured:
            self.console.print(what, width=min(self.console.width, LINE_WIDTH))
        for line in captured.get().splitlines():
            self.console.print(Text.from_ansi(line.rstrip()), soft_wrap=True)
