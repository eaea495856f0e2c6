"""Ending a query that runs on another thread's connection."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import duckdb

_POLL_S = 0.2
"""How often a running query looks whether it shall stop."""


def never() -> bool:
    """For callers who never ask a kernel to stop."""
    return False


@contextmanager
def interrupted_when(
    stopped: Callable[[], bool], connection: duckdb.DuckDBPyConnection
) -> Iterator[None]:
    """Interrupt what runs on the connection as soon as ``stopped`` says so."""
    if stopped is never:
        yield
        return
    done = threading.Event()

    def watch() -> None:
        while not done.wait(_POLL_S):
            if stopped():
                connection.interrupt()

    watcher = threading.Thread(target=watch, name="firnline-stop", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()
