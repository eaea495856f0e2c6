"""For a Spark application that a test holds in its work; PYTHONPATH names this folder.

FIRNLINE_TEST_HELD: a folder, in which a file tells what has happened.
FIRNLINE_TEST_HOLD: what is held, ``kernel`` or ``commit``.

kernel: every kernel but the first one never ends; ``held`` is made once one of them has begun and
the driver knows what the first one made. commit: the first put of a transaction takes until the run
is asked to stop; ``held`` is made when it begins. The product knows nothing of this.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any


def _hold_kernels(folder: Path) -> None:
    """In a worker."""
    from firnline.spark.worker import KernelFunction

    run, began = KernelFunction.run, []

    def first_one(self: Any, task: Any) -> Any:
        began.append(task.group)
        if len(began) == 1:
            return run(self, task)
        while not (folder / "added").exists():
            time.sleep(0.01)
        (folder / "held").touch()
        while True:
            signal.pause()

    KernelFunction.run = first_one  # type: ignore[method-assign] # for the test


def _tell_of_groups(folder: Path) -> None:
    """In the driver."""
    from firnline.operations.committer import Committer

    add = Committer.add

    def told(self: Any, done: Any) -> None:
        add(self, done)
        (folder / "added").touch()

    Committer.add = told  # type: ignore[method-assign] # for the test


def _hold_commits(folder: Path) -> None:
    """In the driver."""
    from firnline.interrupts import Interrupts
    from firnline.store.client import ObjectClient

    ask, put_new, asked = Interrupts.ask, ObjectClient.put_new, threading.Event()

    def told(self: Any, why: Any) -> None:
        ask(self, why)
        asked.set()

    def held(self: Any, key: str, data: bytes) -> None:
        if "/_txn/" in key:
            (folder / "held").touch()
            asked.wait()
            # What was sent before the commit began may arrive in the middle of it.
            signal.raise_signal(signal.SIGINT)
        put_new(self, key, data)

    Interrupts.ask = told  # type: ignore[method-assign] # for the test
    ObjectClient.put_new = held  # type: ignore[method-assign] # for the test


def _hook(folder: Path, hold: str) -> None:
    if "firnline.spark.daemon" in sys.orig_argv and hold == "kernel":
        _hold_kernels(folder)
    elif any("spark_jobs/" in a or a.endswith("/run.py") for a in sys.orig_argv[:2]):
        (_tell_of_groups if hold == "kernel" else _hold_commits)(folder)


if "FIRNLINE_TEST_HELD" in os.environ:
    _hook(Path(os.environ["FIRNLINE_TEST_HELD"]), os.environ["FIRNLINE_TEST_HOLD"])
