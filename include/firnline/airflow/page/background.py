"""Work in the background of the API server: a request starts it and never waits for it."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable

_LOG = logging.getLogger(__name__)
FAILED = "the look at it failed; see the log of the API server"
"""Message for an unexpected error."""


class Background:
    """Threads that work on named things, each thing by one thread at a time.

    They do not keep the process from ending, unlike those of ``ThreadPoolExecutor``: one may wait
    for a store that does not answer.

    Args:
        name: of the threads.
        at_once: threads at most.
    """

    def __init__(self, name: str, at_once: int) -> None:
        self._name = name
        self._at_once = at_once
        self._threads = 0
        self._todo: queue.SimpleQueue[tuple[str, Callable[[], None]]] = queue.SimpleQueue()
        self._under_way: set[str] = set()
        self._changed = threading.Condition()

    @property
    def busy(self) -> bool:
        """Return True while there is work to do."""
        return bool(self._under_way)

    def start(self, what: str, act: Callable[[], None]) -> bool:
        """Have something done; returns False if it is under way or waits for its turn."""
        with self._changed:
            if what in self._under_way:
                return False
            self._under_way.add(what)
            self._todo.put((what, act))
            if self._threads < min(self._at_once, len(self._under_way)):
                self._threads += 1
                threading.Thread(target=self._work, name=self._name, daemon=True).start()
        return True

    def wait(self, *but: str) -> None:
        """Wait until nothing is left to do, except for these things."""
        with self._changed:
            self._changed.wait_for(lambda: self._under_way <= set(but))

    def _work(self) -> None:
        while True:
            what, act = self._todo.get()
            try:
                act()
            except Exception:  # noqa: BLE001 - a thread has nobody to raise to
                # The page shows the age of what it has.
                _LOG.exception("%s: %s could not be read", self._name, what)
            with self._changed:
                self._under_way.discard(what)
                self._changed.notify_all()
