"""Calls what is not ours, and goes on after a while whatever becomes of it.

In a thread: a process of its own would lack the connection to Airflow that a task has.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextvars import copy_context

LIMIT = 30.0
"""Seconds that one notifier may take."""


def call_within(seconds: float, call: Callable[[], None]) -> None:
    """Call, and wait no longer than that; a thread that is not done then is left behind.

    Raises:
        TimeoutError: the call has not ended.
        RuntimeError: the call raised what ends a process or a thread, as ``sys.exit`` does.
        Exception: what the call raised.
    """
    failed: list[BaseException] = []

    def work() -> None:
        try:
            call()
        except BaseException as error:  # noqa: BLE001 - raised in the thread that waits
            failed.append(error)

    # A daemon: it keeps no process from its end.
    run, name = copy_context().run, "firnline-notifier"
    thread = threading.Thread(target=run, args=(work,), name=name, daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        raise TimeoutError(f"it took more than {seconds:g} s, and is left behind")
    for error in failed:
        if isinstance(error, Exception):
            raise error
        raise RuntimeError(f"it ended with {error!r}") from error
