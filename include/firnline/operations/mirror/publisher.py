"""Publish after the appends of a service, from a thread of its own, and not after each of them."""

from __future__ import annotations

import os
import threading
from dataclasses import replace

from firnline.appends.mirrored import MirrorOutcome
from firnline.locks import lock_and_condition
from firnline.log.txn_file import RunIdentity
from firnline.operations.mirror.after import publish_after, warn
from firnline.store.client import open_store
from firnline.table import Table


class Publisher:
    """Publishes the mirrors of a table once an append is old enough.

    An append never waits for it, and its failure is no failure of an append. Appends that land
    meanwhile are shown by the next publication, so there is at most one at a time. It has a client
    of its own for the store, so that the requests of an append are those of the append.

    A failed publication is a warning in the log; the one that follows the next append makes up for
    it, or that of ``close``.

    Args:
        table: the table.
        every_ms: milliseconds that an append waits for a publication; 0 publishes without a wait.
        run: who appends, for the history, if the table gets its property now.
    """

    def __init__(self, table: Table, every_ms: int, run: RunIdentity) -> None:
        store = open_store(table.settings.root, table.access, clock=table.clock)
        self._table = replace(table, store=store)
        self._every_ms = every_ms
        self._run = run
        self._lock, self._changed = lock_and_condition()
        self._since: int | None = None
        """``Clock.elapsed_ms`` of the oldest append that no publication has begun to show."""
        self._closed = False
        self._process = os.getpid()
        self.last: MirrorOutcome | None = None
        """The outcome of the newest publication."""
        self._thread = threading.Thread(target=self._work, name="firnline-mirror", daemon=True)
        self._thread.start()

    def appended(self) -> None:
        """Note that an append has landed."""
        with self._lock:
            if self._since is None:
                self._since = self._table.clock.elapsed_ms()
                self._changed.notify_all()

    def close(self) -> None:
        """Publish what waits, or has failed, and wait for it. A second call does nothing."""
        if self._process != os.getpid():
            return  # the thread is in the parent
        with self._lock:
            if not self._closed:
                self._closed = True
                if self._since is None and self.last is not None and self.last.error is not None:
                    self._since = self._table.clock.elapsed_ms()
                self._changed.notify_all()
        self._thread.join()

    def _work(self) -> None:
        while self._wait():
            outcome = publish_after(self._table, self._run)
            warn(outcome)
            with self._lock:
                self.last = outcome

    def _wait(self) -> bool:
        """Wait until a publication is due and return True; False once there is none to come."""
        with self._lock:
            while True:
                left = self._left_ms()
                if left is not None and (left <= 0 or self._closed):
                    self._since = None
                    return True
                if self._closed:
                    return False
                self._changed.wait(None if left is None else left / 1000)

    def _left_ms(self) -> int | None:
        """Return the milliseconds until a publication is due; None if nothing waits for one."""
        if self._since is None:
            return None
        return self._since + self._every_ms - self._table.clock.elapsed_ms()
