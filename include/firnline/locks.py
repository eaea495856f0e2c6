"""Locks of threads of which one may be ended by an interrupt (Ctrl-C)."""

from __future__ import annotations

import threading


def lock_and_condition() -> tuple[threading.RLock, threading.Condition]:
    """Return a lock, and the condition by which threads wait while they hold it.

    Enter the lock and not the condition. An interrupt may come between any two instructions of the
    main thread: a plain lock is released then, but ``Condition.__enter__`` is a function of Python,
    at whose end the lock would stay taken, and all other threads would wait for ever.
    """
    lock = threading.RLock()
    return lock, threading.Condition(lock)
