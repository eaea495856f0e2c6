"""Runs tests in forks of a process that has imported everything."""

from __future__ import annotations

import gc
import importlib
import os
import pickle
import pkgutil
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Container, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import firnline
from simulation.run import Finding, play_seeds

_LIMIT_SECONDS = 20
"""Of one test; one that takes longer, as of a loop without end, has noticed."""
_BEST = 10
_QUICK = 0.1
"""Seconds of a test that comes first because it has caught much."""
_OUTSIDE = ("firnline.airflow", "firnline.spark", "firnline.cli")


@dataclass
class Tests:
    """What a run of all tests without any change has shown, by node id."""

    seconds: dict[str, float] = field(default_factory=dict)
    lines: dict[str, set[tuple[str, int]]] = field(default_factory=dict)
    """Path and line of what each of them ran of the modules."""
    failed: list[str] = field(default_factory=list)
    _catches: Counter[str] = field(default_factory=Counter)

    def of(
        self, path: str, lines: range, around: range, own: Container[str], limit: float
    ) -> list[str]:
        """Return those that run one of the lines of a condition, the most promising first.

        A few that have caught most, and those of the files that are the module's own; then in turn
        those that run what few run of the function around it, the quickest of each other file, and
        the quickest of all. As many as take ``limit`` seconds.
        """
        wanted = {(path, line) for line in lines}
        found = [nodeid for nodeid, ran in self.lines.items() if not wanted.isdisjoint(ran)]
        found.sort(key=lambda nodeid: self.seconds[nodeid])
        quick = [each for each, _ in self._catches.most_common() if self.seconds[each] < _QUICK]
        best = [nodeid for nodeid in quick[:_BEST] if nodeid in found]
        ran = Counter(spot for nodeid in found for spot in self.lines[nodeid])
        inside = {(path, line) for line in around}

        def rare(nodeid: str) -> int:
            return min(ran[spot] for spot in self.lines[nodeid] & inside)

        files: Counter[str] = Counter()
        place: dict[str, int] = {}
        for nodeid in found:
            name = nodeid.partition("::")[0]
            place[nodeid] = files[name]
            files[name] += 1
        first = [nodeid for nodeid in found if self.seconds[nodeid] < _QUICK]
        turns = zip(
            sorted(first, key=rare), sorted(first, key=place.__getitem__), first, strict=True
        )
        mine = [nodeid for nodeid in found if nodeid.partition("::")[0] in own]
        others = (nodeid for turn in turns for nodeid in turn)
        ordered = dict.fromkeys([*best, *mine, *others, *found])
        took = accumulate(self.seconds[nodeid] for nodeid in ordered)
        return [nodeid for nodeid, total in zip(ordered, took, strict=True) if total < limit]

    def caught(self, nodeid: str) -> None:
        """It has caught one more."""
        if nodeid in self.seconds:  # not a dead process, nor the simulation
            self._catches[nodeid] += 1


def loaded() -> None:
    """Import the package, which no fork has to do again, and make failures quick."""
    for found in pkgutil.walk_packages(firnline.__path__, "firnline."):
        if not found.name.startswith(_OUTSIDE):
            importlib.import_module(found.name)
    gc.collect()
    gc.freeze()


class Runs:
    """Runs tests in forks, one at a time."""

    def __init__(self, items: Sequence[pytest.Item]) -> None:
        self._items = {item.nodeid: item for item in items}

    def traced(self, paths: Collection[str], kept: Path | None) -> Tests:
        """Run all tests once and note which lines of the files each of them runs.

        Args:
            paths: of the files.
            kept: what an earlier run has noted, of the same tests and files; made by the first.
        """
        if kept is not None and kept.exists():
            found: Tests = pickle.loads(kept.read_bytes())
            return found
        found = _in_a_fork(lambda: self._traced(paths))
        if kept is not None:
            kept.write_bytes(pickle.dumps(found))
        return found

    def _traced(self, paths: Collection[str]) -> Tests:
        tests = Tests()
        for item, rest in _with_next(list(self._items.values())):
            began = time.monotonic()
            with _noting(paths) as ran:
                good = _passes(item, rest)
            if not good:
                tests.failed.append(item.nodeid)
                continue
            tests.seconds[item.nodeid] = time.monotonic() - began
            if ran:
                tests.lines[item.nodeid] = ran
        return tests

    def caught(self, nodeids: Sequence[str], change: Callable[[], None], seeds: int) -> str:
        """Return which test fails after a change, or "the simulation"; empty: none does.

        A fork that dies, or a test that takes too long, has caught it too.
        """
        items = [self._items[nodeid] for nodeid in nodeids]
        return str(_in_a_fork(lambda: _first_failure(items, change, seeds), "a dead process"))


def _first_failure(items: Sequence[pytest.Item], change: Callable[[], None], seeds: int) -> str:
    change()
    for item, rest in _with_next(items):
        if not _passes(item, rest):
            return item.nodeid
    # Nothing to see: a condition that no test runs may still be one of the simulation's.
    signal.alarm(_LIMIT_SECONDS * 10)
    try:
        found = play_seeds(0, seeds) if seeds else None
    except Exception:  # noqa: BLE001 - whatever it is, it was noticed
        return "the simulation"
    return "the simulation" if isinstance(found, Finding) else ""


def _with_next(items: Sequence[pytest.Item]) -> Iterator[tuple[pytest.Item, pytest.Item | None]]:
    for number, item in enumerate(items):
        yield item, items[number + 1] if number + 1 < len(items) else None


def _passes(item: pytest.Item, following: pytest.Item | None) -> bool:
    reports: list[pytest.TestReport] = []

    class _Collector:
        def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
            reports.append(report)

    collector = _Collector()
    item.config.pluginmanager.register(collector)
    signal.alarm(_LIMIT_SECONDS)
    try:
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
    finally:
        signal.alarm(0)
        item.config.pluginmanager.unregister(collector)
    return not any(report.failed for report in reports)


@contextmanager
def _noting(paths: Collection[str]) -> Iterator[set[tuple[str, int]]]:
    ran: set[tuple[str, int]] = set()

    def call(frame: FrameType, event: str, arg: object) -> Any:
        del event, arg
        if frame.f_code.co_filename not in paths:
            return None
        ran.add((frame.f_code.co_filename, frame.f_lineno))
        return line

    def line(frame: FrameType, event: str, arg: object) -> Any:
        del event, arg
        ran.add((frame.f_code.co_filename, frame.f_lineno))
        return line

    threading.settrace(call)
    sys.settrace(call)
    try:
        yield ran
    finally:
        sys.settrace(None)
        threading.settrace(None)


def _in_a_fork(work: Callable[[], Any], dead: Any = None) -> Any:
    """Return what work returns in a fork; ``dead`` when that one ended before."""
    read, write = os.pipe()
    pid = os.fork()
    if not pid:
        _child(work, write)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        told = pipe.read()
    os.waitpid(pid, 0)
    if not told and dead is None:
        raise RuntimeError("the tests end the process that runs them")
    return pickle.loads(told) if told else dead


def _child(work: Callable[[], Any], write: int) -> None:
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nothing, number)
    told = pickle.dumps(work())
    with os.fdopen(write, "wb") as pipe:
        pipe.write(told)
    os._exit(0)
