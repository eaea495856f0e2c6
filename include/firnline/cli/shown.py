"""The three ways to show progress, and the choice between them.

JSON lines are documented in docs/cli.md, "Progress".
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Protocol, TypeVar

from firnline.cli.failures import printable, reached
from firnline.cli.pace import Pace
from firnline.clock import Clock
from firnline.units import about_duration
from firnline.watching import repeated

_LINE_EVERY_MS = 5_000
"""Milliseconds between two lines without a terminal."""
_JSON_EVERY_MS = 1_000
_BEAT_MS = 15_000
"""A run that tells nothing for so long is shown to be alive."""
_LATE_MS = 2_000
"""A run that ends sooner needs no progress, unless it tells of some."""
_LOOK_SECONDS = 0.5
_NOTHING_YET = "reading the log"

StateT = TypeVar("StateT")


class Mode(StrEnum):
    """The form in which progress is shown."""

    AUTO = "auto"
    JSON = "json"
    NONE = "none"


class _Chosen:
    """The choice of the current command line."""

    mode = Mode.AUTO


@contextmanager
def chosen(mode: Mode) -> Iterator[None]:
    """Show the progress of the command line that runs in this context in this form."""
    _Chosen.mode = mode
    try:
        yield
    finally:
        _Chosen.mode = Mode.AUTO


@dataclass(frozen=True, slots=True)
class Done:
    """Progress of a run, in its own unit."""

    done: int
    total: int | None
    """None: nobody knows."""
    unit: str
    """Singular noun."""
    detail: str
    """All of it in words."""


class _Display(Protocol):
    def state(self, state: Done, pace: Pace, *, last: bool) -> None:
        """Show a state, unless another one was shown just before."""

    def beat(self, state: Done | None, pace: Pace) -> None:
        """Show that the run is alive: it has told nothing for a while."""

    def end(self, state: Done, pace: Pace) -> None:
        """Show the last state of a run that ended well."""

    def warn(self, text: str) -> None:
        """Show a warning of the run."""


@contextmanager
def shown(
    verb: str,
    what: str,
    clock: Clock,
    of: Callable[[StateT], Done],
    *,
    silent: bool,
    ends: Callable[[StateT], bool] | None = None,
    late: bool = False,
) -> Iterator[Callable[[StateT], None]]:
    """Yield the callback for a run.

    Args:
        verb: what it does, such as ``merging``.
        what: the name of the table.
        clock: its monotonic clock counts.
        of: a state of the run in numbers and words.
        silent: show nothing unless ``--progress json`` asks for it.
        ends: detects its last state, which also gets a line.
        late: it is mostly over at once, and gets a bar only after two seconds.
    """
    pace = Pace(clock)
    told: list[Done] = []
    with _display(verb, what, clock, silent=silent, eager=ends is not None, late=late) as display:

        def tell(state: StateT) -> None:
            done = of(state)
            pace.take(done.done, done.total or 0, done.unit)
            told[:] = [done]
            display.state(done, pace, last=ends is not None and ends(state))

        try:
            with _warnings(display.warn), _beating(display, told, pace):
                yield tell
        except KeyboardInterrupt:
            if told:
                reached(told[0].detail)
            raise
        if told:
            display.end(told[0], pace)


@contextmanager
def _display(
    verb: str, what: str, clock: Clock, *, silent: bool, eager: bool, late: bool
) -> Iterator[_Display]:
    mode, title = _Chosen.mode, f"{verb} {what}"
    if mode is Mode.JSON:
        yield _Json(verb, what, clock)
    elif silent or mode is Mode.NONE:
        yield _Nothing()
    elif sys.stderr.isatty():
        bar = _LateBar(title, _LATE_MS if late else 0)
        with bar.drawn():
            yield bar
    else:
        yield _Lines(title, clock, eager=eager)


class _Nothing:
    def state(self, state: Done, pace: Pace, *, last: bool) -> None:
        pass

    def beat(self, state: Done | None, pace: Pace) -> None:
        pass

    def end(self, state: Done, pace: Pace) -> None:
        pass

    def warn(self, text: str) -> None:
        pass


class _Lines:
    """Prints a line every few seconds; none for a run that ends before the first is due."""

    def __init__(self, title: str, clock: Clock, *, eager: bool) -> None:
        self._title, self._clock = title, clock
        self._last = clock.elapsed_ms() - (_LINE_EVERY_MS if eager else 0)
        self._said = eager

    def state(self, state: Done, pace: Pace, *, last: bool) -> None:
        now = self._clock.elapsed_ms()
        if last or now - self._last >= _LINE_EVERY_MS:
            self._last = now
            words = filter(None, (state.detail, "" if last else pace.in_words(state.unit)))
            _line(printable(f"{self._title}: {'; '.join(words)}"))

    def beat(self, state: Done | None, pace: Pace) -> None:
        now = self._clock.elapsed_ms()
        if now - self._last < (_LINE_EVERY_MS if state is None and not self._said else _BEAT_MS):
            return
        self._last, self._said = now, True
        detail = _NOTHING_YET if state is None else state.detail
        _line(printable(f"{self._title}: {detail}, after {about_duration(pace.elapsed_ms)}"))

    def end(self, state: Done, pace: Pace) -> None:
        pass

    def warn(self, text: str) -> None:
        _line(f"firnline: {text}")


class _Json:
    """Prints an object a line: the first state, one a second, and the last."""

    def __init__(self, verb: str, what: str, clock: Clock) -> None:
        self._named = {"action": verb, "table": what}
        self._clock = clock
        self._last = clock.elapsed_ms() - _JSON_EVERY_MS
        self._written: Done | None = None

    def state(self, state: Done, pace: Pace, *, last: bool) -> None:
        now = self._clock.elapsed_ms()
        if last or now - self._last >= _JSON_EVERY_MS:
            self._last = now
            self._write(state, pace)

    def beat(self, state: Done | None, pace: Pace) -> None:
        now = self._clock.elapsed_ms()
        begun = self._written is not None
        if now - self._last < _BEAT_MS and (begun or pace.elapsed_ms < _LATE_MS):
            return
        self._last = now
        self._write(state or Done(0, None, "step", _NOTHING_YET), pace)

    def end(self, state: Done, pace: Pace) -> None:
        if state != self._written:
            self._write(state, pace)

    def _write(self, state: Done, pace: Pace) -> None:
        self._written, rate = state, pace.rate
        figures = {
            "elapsed_ms": pace.elapsed_ms,
            "per_second": None if rate is None else round(rate, 3),
            "remaining_ms": pace.remaining_ms,
        }
        _line(json.dumps({"progress": {**self._named, **asdict(state), **figures}}))

    def warn(self, text: str) -> None:
        _line(json.dumps({"warning": text}))


class _Bar(_Nothing):
    """Draws a bar, and below it what it stands for: both together are too long for a line."""

    def __init__(self, title: str) -> None:
        from rich.console import Console, RenderableType
        from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
        from rich.text import Text

        display = self

        class TwoLines(Progress):
            def get_renderables(self) -> Iterator[RenderableType]:
                yield from super().get_renderables()
                yield Text(display.detail, style="dim", no_wrap=True, overflow="ellipsis")

        self.detail = _NOTHING_YET
        self._console = Console(stderr=True, highlight=False, markup=False)
        columns = (
            TextColumn("{task.description}", markup=False),
            SpinnerColumn(),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[share]}", markup=False),
            TimeElapsedColumn(),
            TextColumn("{task.fields[left]}", markup=False),
        )
        self.progress = TwoLines(*columns, console=self._console, transient=True)
        self._task = self.progress.add_task(printable(title), total=None, share="", left="")

    def state(self, state: Done, pace: Pace, *, last: bool) -> None:  # noqa: ARG002
        words = filter(None, (state.detail, pace.speed(state.unit)))
        self.detail = printable("; ".join(words)) or _NOTHING_YET
        share = f"{100 * state.done // state.total} %" if state.total else ""
        if state.done < (state.total or 0):
            # What was done is followed by more: the bar of the next stage goes on.
            self.progress.tasks[0].finished_time = None
        self.progress.update(
            self._task, total=state.total, completed=state.done, share=share, left=pace.left()
        )

    def warn(self, text: str) -> None:
        self._console.print(f"firnline: {text}")


class _LateBar(_Nothing):
    """Draws a bar from a time on: what is over before leaves the terminal as it was."""

    def __init__(self, title: str, after_ms: int) -> None:
        self._title, self._after_ms = title, after_ms
        self._bar: _Bar | None = None

    @contextmanager
    def drawn(self) -> Iterator[None]:
        """Draw the bar from its time to the end of this context."""
        try:
            if not self._after_ms:
                self._begin()
            yield
        finally:
            if self._bar is not None:
                self._bar.progress.stop()

    def _begin(self) -> _Bar:
        self._bar = _Bar(self._title)
        self._bar.progress.start()
        return self._bar

    def state(self, state: Done, pace: Pace, *, last: bool) -> None:
        if self._bar is not None:
            self._bar.state(state, pace, last=last)

    def beat(self, state: Done | None, pace: Pace) -> None:
        if self._bar is None and pace.elapsed_ms >= self._after_ms:
            bar = self._begin()
            if state is not None:
                bar.state(state, pace, last=False)

    def warn(self, text: str) -> None:
        if self._bar is None:
            _line(f"firnline: {text}")
        else:
            self._bar.warn(text)


def _beating(display: _Display, told: list[Done], pace: Pace) -> AbstractContextManager[None]:
    """Let the display show now and then, from another thread, that the run is alive."""
    return repeated(
        lambda: display.beat(told[0] if told else None, pace), _LOOK_SECONDS, "firnline-progress"
    )


def _line(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def _warnings(write: Callable[[str], None]) -> AbstractContextManager[None]:
    """Write firnline's warnings during a run with ``write``."""

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            write(printable(record.getMessage()))

    @contextmanager
    def handled() -> Iterator[None]:
        logger, handler = logging.getLogger("firnline"), Handler(logging.WARNING)
        spread, logger.propagate = logger.propagate, False
        logger.addHandler(handler)
        try:
            yield
        finally:
            logger.removeHandler(handler)
            logger.propagate = spread

    return handled()
