"""Time, CPU and memory of a process tree, sampled ten times a second."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_PERIOD_S = 0.1
_PAGE = os.sysconf("SC_PAGE_SIZE")
_TICKS = os.sysconf("SC_CLK_TCK")
MIB = 2**20


@dataclass
class Usage:
    """What a stretch of work cost."""

    seconds: float = 0.0
    cpu_seconds: float = 0.0
    """Of all processes of the tree; work of a process that lived shorter than 0.1 s is missed."""
    peak_bytes: int = 0
    """Largest sum of resident sets of the tree; pages shared by processes count in each."""


def tree(pid: int) -> list[int]:
    """A process and all its descendants."""
    found = [pid]
    try:
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                found += tree(int(child))
    except OSError:
        pass  # it ended meanwhile
    return found


def _resident(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE


def _cpu(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


@dataclass
class _Sampler:
    pid: int
    usage: Usage = field(default_factory=Usage)
    cpu: dict[int, float] = field(default_factory=dict)
    first: dict[int, float] = field(default_factory=dict)

    def sample(self, *, at_start: bool = False) -> None:
        resident = 0
        for pid in tree(self.pid):
            try:
                resident += _resident(pid)
                self.cpu[pid] = _cpu(pid)
                if at_start:
                    self.first[pid] = self.cpu[pid]
            except OSError:
                continue
        self.usage.peak_bytes = max(self.usage.peak_bytes, resident)


@contextmanager
def watched(pid: int) -> Iterator[Usage]:
    """Measure a process and its descendants while the block runs."""
    sampler, stop = _Sampler(pid), threading.Event()
    sampler.sample(at_start=True)

    def run() -> None:
        while not stop.wait(_PERIOD_S):
            sampler.sample()

    thread = threading.Thread(target=run, daemon=True)
    began = time.perf_counter()
    thread.start()
    try:
        yield sampler.usage
    finally:
        sampler.usage.seconds = time.perf_counter() - began
        stop.set()
        thread.join()
        sampler.sample()
        sampler.usage.cpu_seconds = sum(
            last - sampler.first.get(pid, 0.0) for pid, last in sampler.cpu.items()
        )


def environment(more: Mapping[str, str]) -> dict[str, str]:
    """This process's and more; a process that may keep no bytecode compiles all at its start."""
    kept = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, **more}


def run_json(command: Sequence[str], env: Mapping[str, str]) -> dict[str, Any]:
    """What a process prints as JSON. Raises CalledProcessError, with what the process said."""
    done = subprocess.run(
        command, check=False, capture_output=True, text=True, env=environment(env)
    )
    _refuse_failed(done.returncode, command, done.stderr)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _refuse_failed(code: int, command: Sequence[str], said: str) -> None:
    if code:
        failed = subprocess.CalledProcessError(code, command, stderr=said)
        failed.add_note(said[-2000:].strip())
        raise failed


def run_process(command: Sequence[str], env: dict[str, str] | None = None) -> Usage:
    """A whole process from its start to its end. Raises as ``run_json``."""
    process = subprocess.Popen(
        command, env=environment(env or {}), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    assert process.stderr is not None
    with watched(process.pid) as usage:
        said = process.stderr.read()
        process.wait()
    _refuse_failed(process.returncode, command, said.decode(errors="replace"))
    return usage


@dataclass
class Figures:
    """All rounds of one contender."""

    name: str
    what: str
    rounds: list[Usage] = field(default_factory=list)
    notes: dict[str, object] = field(default_factory=dict)

    @property
    def median(self) -> float:
        return statistics.median(one.seconds for one in self.rounds)

    @property
    def fastest(self) -> float:
        return min(one.seconds for one in self.rounds)

    @property
    def slowest(self) -> float:
        return max(one.seconds for one in self.rounds)

    @property
    def cpu(self) -> float:
        return statistics.median(one.cpu_seconds for one in self.rounds)

    @property
    def peak_mib(self) -> float:
        return max(one.peak_bytes for one in self.rounds) / MIB

    def as_json(self) -> dict[str, object]:
        return {
            "name": self.name,
            "what": self.what,
            "median_s": round(self.median, 3),
            "min_s": round(self.fastest, 3),
            "max_s": round(self.slowest, 3),
            "cpu_s": round(self.cpu, 3),
            "peak_mib": round(self.peak_mib),
            "rounds_s": [round(one.seconds, 3) for one in self.rounds],
            **self.notes,
        }


def load_average() -> float:
    """Of the last minute: above the number of cores, times mean little."""
    return os.getloadavg()[0]
