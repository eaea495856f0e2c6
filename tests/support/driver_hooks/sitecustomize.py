"""For Spark drivers of a test's Airflow, whose PYTHONPATH names this folder; nobody else heeds it.

A driver whose task is dead has nobody to tell how it ended: what it says is kept in the folder that
FIRNLINE_TEST_DRIVERS names, as ``<pid>.said``. While ``<table>.held`` is there, a driver of that
table waits before it does anything. And once ``<pid>.slept`` is there, its clocks stand as after
hours of suspension: CLOCK_MONOTONIC has stood still, CLOCK_BOOTTIME and the wall clock have not.
While ``<table>.unwatched`` is there, a driver of that table is not told who supervises it, as one
on another machine: it does not notice when they are gone. And while ``<table>.endless`` is there,
none of its workers comes to the end of its work.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any, TextIO

_SLEPT_NS = 40 * 3_600 * 1_000_000_000
"""Longer than any commit_ttl."""


class _Kept:
    """A stream that is written to a file as well."""

    def __init__(self, stream: TextIO, file: Path) -> None:
        self._stream = stream
        self._file = file

    def write(self, text: str) -> int:
        with self._file.open("a", encoding="utf-8") as kept:
            kept.write(text)
        return self._stream.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _hook(folder: Path) -> None:
    slept, said = folder / f"{os.getpid()}.slept", folder / f"{os.getpid()}.said"
    boot_ns, wall_ns = time.clock_gettime_ns, time.time_ns

    def slept_ns() -> int:
        return _SLEPT_NS if slept.exists() else 0

    def clock_gettime_ns(clock: int) -> int:
        return boot_ns(clock) + (slept_ns() if clock == time.CLOCK_BOOTTIME else 0)

    time.clock_gettime_ns = clock_gettime_ns
    time.time_ns = lambda: wall_ns() + slept_ns()
    sys.stdout = _Kept(sys.stdout, said)
    sys.stderr = _Kept(sys.stderr, said)
    words = [word for word in sys.orig_argv if "/" not in word]
    if any((folder / f"{word}.unwatched").exists() for word in words):
        os.environ.pop("FIRNLINE_SUPERVISORS", None)
    while any((folder / f"{word}.held").exists() for word in words):
        time.sleep(0.05)


def _hook_worker(folder: Path) -> None:
    from firnline.spark.worker import KernelFunction

    run = KernelFunction.run

    def held(self: Any, task: Any) -> Any:
        while (folder / f"{self.root.rpartition('/')[2]}.endless").exists():
            time.sleep(0.05)
        return run(self, task)

    KernelFunction.run = held  # type: ignore[method-assign] # for the test


if "FIRNLINE_TEST_DRIVERS" in os.environ and any("spark_jobs/" in a for a in sys.orig_argv[:2]):
    _hook(Path(os.environ["FIRNLINE_TEST_DRIVERS"]))
elif "FIRNLINE_TEST_DRIVERS" in os.environ and "firnline.spark.daemon" in sys.orig_argv:
    _hook_worker(Path(os.environ["FIRNLINE_TEST_DRIVERS"]))
