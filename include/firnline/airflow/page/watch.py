"""Look at all tables at regular times while Airflow sends metrics, in one process of a machine.

In the API server, and not in a task: an alert has to come when the scheduler stands still, a DAG is
paused or pools are taken, and the page has the reader and its cache already. Of several workers
of the API server on one machine one does it, which a lock on a file decides: it is free again when
that process ends. API servers on several machines send the same values, since a gauge is a state.
"""

from __future__ import annotations

import fcntl
import logging
import os
import tempfile
import threading
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import IO

from firnline.errors import FirnlineError

_LOG = logging.getLogger(__name__)


class OneOf:
    """One process of a machine: the first that asks, until it ends.

    Args:
        path: of the file by which the processes agree.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: IO[bytes] | None = None

    @classmethod
    def of(cls, what: str) -> OneOf:
        """Return the one of all processes that are asked for the same thing, by the same user."""
        name = f"firnline-{os.getuid()}-{sha256(what.encode()).hexdigest()[:16]}.lock"
        return cls(Path(tempfile.gettempdir(), name))

    def is_me(self) -> bool:
        """Return True if this process is the one; tries to become it."""
        if self._file is not None:
            return True
        # A link in a folder for everybody may lead anywhere: it is not followed.
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        file = os.fdopen(os.open(self._path, flags, 0o600), "r+b")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            return False
        self._file = file
        return True

    def resign(self) -> None:
        """Leave it to another process."""
        if self._file is not None:
            self._file.close()
            self._file = None


class Watch:
    """A thread that has all tables looked at, again and again.

    Args:
        look: starts a look at all tables, and returns at once.
        one: decides which process does it.
        seconds: time between two looks.
    """

    def __init__(self, look: Callable[[], object], one: OneOf, seconds: float) -> None:
        self._look = look
        self._one = one
        self._seconds = seconds
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._work, name="firnline-watch", daemon=True)

    @property
    def on_duty(self) -> bool:
        """Return True in the process that looks."""
        return self._one.is_me()

    def start(self) -> None:
        """Begin, with a look at once."""
        self._thread.start()

    def stop(self) -> None:
        """End; what is under way goes on."""
        self._end.set()
        self._thread.join()
        self._one.resign()

    def _work(self) -> None:
        while True:
            try:
                if self._one.is_me():
                    self._look()
            except (FirnlineError, OSError) as error:
                # The file of the settings may be wrong for now, or the temporary folder be full.
                _LOG.error("metrics of tables are not sent now: %s", error)
            if self._end.wait(self._seconds):
                return
