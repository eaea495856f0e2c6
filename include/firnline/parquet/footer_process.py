"""Footers that come from elsewhere are parsed in a process that may die of them.

Arrow checks Parquet footers, but not against every damage: some make it abort the process that
parses them. One process serves all threads of this one and is started anew after such an end.
"""

from __future__ import annotations

import atexit
import os
import signal
import subprocess
import sys
import threading
from typing import IO

import msgspec

from firnline.child_process import child_environment
from firnline.errors import PartUnreadableError
from firnline.parquet.footers import FooterFacts, FooterTask, FooterWanted, failed

LENGTH_BYTES = 4
"""Before every message: how many bytes it has, big-endian."""


# Made before there are threads: several that meet a type for the first time at once end the process
# (msgspec looks at its fields without a lock).
_ANSWER = msgspec.json.Decoder(FooterFacts).decode


class FooterRequest(msgspec.Struct, frozen=True):
    """One message to the process, as MessagePack; the answer is a FooterFacts as JSON."""

    task: FooterTask
    wanted: FooterWanted
    tail: bytes
    """The end of the object, the footer in it."""


def parse_elsewhere(task: FooterTask, wanted: FooterWanted, tail: bytes) -> FooterFacts:
    """As ``footers.parse_here``; a footer that ends the process is told as one that is damaged."""
    message = msgspec.msgpack.encode(FooterRequest(task, wanted, tail))
    answer, code = _PROCESS.ask(message)
    if answer is not None:
        return _ANSWER(answer)
    ended = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
    error = PartUnreadableError(
        f"{task.key} has a damaged footer: the process that parsed it ended with {ended}",
        next_step="get the file anew and try again, or leave it out",
    )
    return failed(task, error)


class _Process:
    """The process, started when first asked, and again after a footer has ended it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: subprocess.Popen[bytes] | None = None
        self._owner = 0

    def ask(self, message: bytes) -> tuple[bytes | None, int]:
        """The answer, or None and the return code of the process that died of the message."""
        with self._lock:
            running = self._start()
            assert running.stdin is not None
            assert running.stdout is not None
            try:
                send(running.stdin, message)
                answer = receive(running.stdout)
            except BrokenPipeError:
                answer = None
            if answer is not None:
                return answer, 0
            self._running = None
            running.stdin.close()
            running.stdout.close()
            return None, running.wait()

    def close(self) -> None:
        """End it; nothing is lost."""
        with self._lock:
            if self._running is not None and self._owner == os.getpid():
                self._running.kill()
                self._running.communicate()
            self._running = None

    def _start(self) -> subprocess.Popen[bytes]:
        # After a fork the other one still talks to it.
        if self._running is None or self._owner != os.getpid():
            command = [sys.executable, "-m", "firnline.parquet.footer_worker"]
            self._running = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=child_environment(),
            )
            self._owner = os.getpid()
        return self._running


_PROCESS = _Process()
atexit.register(_PROCESS.close)


def send(pipe: IO[bytes], message: bytes) -> None:
    """Write one message."""
    pipe.write(len(message).to_bytes(LENGTH_BYTES, "big") + message)
    pipe.flush()


def receive(pipe: IO[bytes]) -> bytes | None:
    """Read one message; None when the other side has ended."""
    length = pipe.read(LENGTH_BYTES)
    if len(length) < LENGTH_BYTES:
        return None
    message = pipe.read(size := int.from_bytes(length, "big"))
    return message if len(message) == size else None
