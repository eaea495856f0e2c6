"""Processes of users' queries that begin as copies of one that has imported everything.

Python, DuckDB and the product's modules take longer to load than a test's query takes to run. So a
server loads them once and forks a process for each query: as ``query_process`` starts it, with its
own limits, exit code and signals; tests/kernel/test_query_process.py holds both ways to the same
tests. ``python -m tests.support.query_server FD`` is the server.

A folder's tests use it once its conftest imports ``forked_queries`` and ``query_server``.
"""

from __future__ import annotations

import gc
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import IO, NoReturn

import pytest

from firnline.child_process import child_environment
from tools.bootstrap import REPO

_NUMBER = struct.Struct("i")
_NEVER_S = 600
"""Nothing but a hung server takes as long to fork."""


class QueryServer:
    """The server as its client sees it; started with the first query."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self.queries = 0
        """Processes that it has started."""

    def fork(self, files: list[int]) -> None:
        """Start a process with these as stdin, stdout, stderr and the place to report to."""
        with self._lock:
            if self._socket is None:
                self._socket = self._begin()
            self.queries += 1
            socket.send_fds(self._socket, [str(Path.cwd()).encode()], files)

    def _begin(self) -> socket.socket:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        command = [sys.executable, "-m", __spec__.name, str(theirs.fileno())]
        clean = child_environment()
        env = {**clean, "PYTHONPATH": os.pathsep.join([str(REPO), clean["PYTHONPATH"]])}
        with theirs:
            self._process = subprocess.Popen(
                command, pass_fds=[theirs.fileno()], env=env, cwd=REPO, stdin=subprocess.DEVNULL
            )
        return ours

    def close(self) -> None:
        """End the server: it ends once nobody can ask it."""
        if self._socket is not None and self._process is not None:
            self._socket.close()
            assert self._process.wait(_NEVER_S) == 0


class ForkedQuery:
    """What ``query_process`` uses of ``subprocess.Popen``."""

    def __init__(self, server: QueryServer, given: IO[bytes], told: IO[bytes]) -> None:
        self.returncode: int | None = None
        self._server, self._given, self._told = server, given, told
        self._out = tempfile.TemporaryFile()  # noqa: SIM115 - closed in __exit__
        self._state: socket.socket | None = None
        self._pid = 0

    def __enter__(self) -> ForkedQuery:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.wait()
        self._out.close()

    def communicate(self, timeout: float | None = None) -> tuple[bytes, None]:
        """Fork the process at first; wait for its end and return what it wrote."""
        if self._state is None:
            self._begin()
        if not self._ended(timeout):
            raise subprocess.TimeoutExpired("query_child", timeout or 0)
        self._out.seek(0)
        return self._out.read(), None

    def kill(self) -> None:
        if self._state is not None and not self._ended(0):
            os.kill(self._pid, signal.SIGKILL)

    def wait(self) -> None:
        assert self._ended(None)

    def _begin(self) -> None:
        self._state, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            streams = [each.fileno() for each in (self._given, self._out, self._told)]
            self._server.fork([*streams, theirs.fileno()])
        self._state.settimeout(_NEVER_S)
        self._pid = self._number()

    def _ended(self, timeout: float | None) -> bool:
        """Whether it has ended, after waiting for it."""
        if self._state is None or self.returncode is not None:
            return True
        if not select.select([self._state], [], [], timeout)[0]:
            return False
        self.returncode = self._number()
        self._state.close()
        return True

    def _number(self) -> int:
        assert self._state is not None
        number: int
        (number,) = _NUMBER.unpack(self._state.recv(_NUMBER.size))
        return number


def serve(clients: socket.socket) -> None:
    """Fork a process for each message, until nobody can send one."""
    # Imported before the first fork, and no thread may have begun: a fork copies only one.
    from firnline.kernel.query import worker as query_child

    assert threading.active_count() == len(list(Path("/proc/self/task").iterdir())) == 1
    gc.freeze()  # else the collector of each child would copy what they share
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the watchers
    while True:
        folder, files, _, _ = socket.recv_fds(clients, 4096, 4)
        if not files:
            return
        if os.fork() == 0:
            clients.close()
            _watch(folder, files, query_child.main)
        for number in files:
            os.close(number)


def _watch(folder: bytes, files: list[int], run: Callable[[], None]) -> NoReturn:
    """Fork the query's process; tell its id, and its exit code once it has ended."""
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        *streams, state = files
        pid = os.fork()
        if pid == 0:
            os.close(state)
            _become(folder, streams, run)
        os.write(state, _NUMBER.pack(pid))
        _, status = os.waitpid(pid, 0)
        os.write(state, _NUMBER.pack(os.waitstatus_to_exitcode(status)))
    finally:
        os._exit(0)


def _become(folder: bytes, streams: list[int], run: Callable[[], None]) -> NoReturn:
    """Do what the interpreter would do around ``run``."""
    code = 1
    try:
        os.chdir(folder)
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)
        run()
        sys.stdout.flush()
        code = 0
    except BaseException:  # noqa: BLE001 - what the interpreter does with it
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


@pytest.fixture(scope="session")
def query_server() -> Iterator[QueryServer]:
    """The server of this test process."""
    server = QueryServer()
    yield server
    server.close()


@pytest.fixture(autouse=True)
def forked_queries(query_server: QueryServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every query of a test gets a forked process."""
    fork_queries(query_server, monkeypatch)


def fork_queries(server: QueryServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on ``query_process`` forks instead of starting a program."""
    from firnline.kernel.query import process as query_process

    if sys.platform == "linux":
        monkeypatch.setattr(query_process, "_start", partial(ForkedQuery, server))


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as asked:
        serve(asked)
