"""Interrupts of a run: one that is asked for while a commit is under way waits for its end.

A run may be interrupted anywhere and leaves its table right (``firnline.commit.outputs``). In the
middle of a commit nobody would know whether it took effect until the next run looks.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

from firnline.errors import StoppedError


class Interrupts:
    """The request to stop a run, and the state of its commit.

    Any thread may ask. Only the thread of the run commits and is struck; its signal handler may
    strike between any two of its steps, so there is no lock that it could be holding.
    """

    def __init__(self) -> None:
        self.asked: StoppedError | None = None
        """Reason for which the run is to stop."""
        self.settled = False
        """True once the run needs no interrupt: it was interrupted, or is over."""
        self._commits = 0

    @property
    def committing(self) -> bool:
        """True while a commit is under way. Once False after ``ask``, no commit begins any more."""
        return self._commits > 0

    def ask(self, why: StoppedError) -> None:
        """Ask the run to stop; from now on it begins no commit."""
        self.asked = why

    def strike(self) -> None:
        """Interrupt the run, in whose thread this is called, if it is asked to stop.

        Raises KeyboardInterrupt once at most, and never while a commit is under way.
        """
        if self.asked is not None and not self.committing and not self.settled:
            self._interrupt()

    @contextmanager
    def commit(self) -> Iterator[None]:
        """Hold interrupts off, from before the put that commits until its answer.

        Raises KeyboardInterrupt: the run is asked to stop; nothing was put.
        """
        # Counted before it looks: who asks, and then sees no commit, knows that none begins.
        self._commits += 1
        try:
            if self.asked is not None:
                self._interrupt()
            yield
        finally:
            self._commits -= 1

    def over(self) -> StoppedError | None:
        """Note that the run is over; return why it was asked to stop, if it was."""
        self.settled = True
        return self.asked

    def _interrupt(self) -> NoReturn:
        self.settled = True
        raise KeyboardInterrupt
