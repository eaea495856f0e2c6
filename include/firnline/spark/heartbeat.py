"""A line on stderr now and then that says how far a job is, for whoever reads its log."""

from __future__ import annotations

import sys
import threading
from types import TracebackType
from typing import Protocol, Self, runtime_checkable

EVERY_S = 30.0


class Heartbeat:
    """Called with the progress of an operation; a context manager.

    The line comes from a thread of its own: a large group may take longer than that, and whether
    the job still lives is what the reader wants to know.

    Args:
        what: what is done and to which table: ``merge of flights``.
        every_s: seconds between two lines.
    """

    def __init__(self, what: str, every_s: float = EVERY_S) -> None:
        self._what, self._every_s = what, every_s
        self._seconds = 0.0
        self._state = "planning"
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="firnline-heartbeat", daemon=True)

    def __call__(self, progress: object) -> None:
        """Remember how far it is. Sends and prints nothing."""
        self._state = text_of(progress)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over.set()
        self._thread.join()

    def _beat(self) -> None:
        while not self._over.wait(self._every_s):
            self._seconds += self._every_s
            sys.stderr.write(f"{self._what}, {self._seconds:.0f} s: {self._state}\n")
            sys.stderr.flush()


@runtime_checkable
class _InWords(Protocol):
    """The progress of an operation, which says in words how far that is."""

    @property
    def text(self) -> str: ...


def text_of(progress: object) -> str:
    """Return how far an operation is, in words; ``at work`` for a progress without any."""
    return progress.text if isinstance(progress, _InWords) else "at work"
