"""Merge many small groups in processes beside this one.

What a small group costs is Python, of which a process runs one thread at a time: in threads, all
cores together take as long as one. A process takes half a second to start and 0.2 GB, so there are
some only for many groups. Each gets a batch of groups at a time, merges as many of them at once as
share the memory of a kernel, and sends their results.

Credentials go through its standard input: they are in no argument list.
"""

from __future__ import annotations

import logging
import os
import subprocess
from collections.abc import Sequence
from contextlib import suppress

import msgspec

from firnline.child_process import own_path, own_python
from firnline.kernel.task import KernelResult, KernelTask
from firnline.parquet.footers import receive, send

_LOG = logging.getLogger(__name__)
_MODULE = "firnline.kernel.beside.worker"
END_S = 10.0
"""Seconds for a process to end what it does once nobody asks it any more."""
FROM_GROUPS = 200
"""Small groups in a run from which processes pay: below, their start takes as long."""


class Beside(msgspec.Struct, frozen=True, kw_only=True):
    """What a process needs besides its groups."""

    root: str
    """Root URL of the table."""
    access: str | None
    """``StoreAccess.to_json``; None: the default chain."""
    scratch: str
    """Local folder."""

    def __repr__(self) -> str:
        return f"Beside({self.root!r})"  # without secrets


class Process:
    """A process that merges groups of one table, started with the first of them.

    Used by one thread at a time, but for ``kill``.
    """

    def __init__(self, beside: Beside) -> None:
        self._beside = beside
        self._running: subprocess.Popen[bytes] | None = None
        self._fails = False
        """It did not start, or ended before it had merged anything: the next one would, too."""

    def merge(self, tasks: Sequence[KernelTask]) -> list[KernelResult] | None:
        """Merge some small groups; return their results, in their order.

        None if the process has ended, or none starts: what it uploaded is not part of the table,
        and the groups can be merged again.
        """
        is_new = self._running is None
        running = self._running or self._start()
        if running is None:
            return None
        assert running.stdin is not None
        assert running.stdout is not None
        try:
            send(running.stdin, msgspec.json.encode(tasks))
            answer = receive(running.stdout)
        except BrokenPipeError:
            answer = None
        if answer is None:
            code = self.close()
            self._fails = is_new
            _LOG.warning("a process that merged %d small groups ended with %s", len(tasks), code)
            return None
        return msgspec.json.decode(answer, type=list[KernelResult])

    def close(self) -> int | None:
        """End the process; return how it ended, None if there is none."""
        running, self._running = self._running, None
        if running is None:
            return None
        for pipe in (running.stdin, running.stdout):
            assert pipe is not None
            with suppress(BrokenPipeError):  # it has not read what it was sent
                pipe.close()
        try:
            return running.wait(END_S)
        except subprocess.TimeoutExpired:
            running.kill()
            return running.wait()

    def kill(self) -> None:
        """End the process at once, whatever it does; a thread that waits for it gets None."""
        running = self._running
        if running is not None:
            running.kill()

    def _start(self) -> subprocess.Popen[bytes] | None:
        if self._fails:
            return None
        try:
            self._running = subprocess.Popen(
                own_python(_MODULE),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={**os.environ, "PYTHONPATH": own_path()},
            )
        except OSError as error:
            self._fails = True
            _LOG.warning("no process starts to merge small groups: %s", error)
            return None
        assert self._running.stdin is not None
        with suppress(BrokenPipeError):  # the first groups find that it has ended
            send(self._running.stdin, msgspec.json.encode(self._beside))
        return self._running
