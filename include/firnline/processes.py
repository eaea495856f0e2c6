"""Identities of processes on this machine: a number that is used again is another process.

Read from ``/proc``, as Linux has it. Elsewhere no process has an identity, and none is watched.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

SUPERVISORS_VARIABLE = "FIRNLINE_SUPERVISORS"
"""Environment variable with ``Supervisors.to_json``: without them, nobody hears of this process."""
_PROC = Path("/proc")
_ENDED = ("Z", "X")
"""States of a process that has ended and whose parent has not asked how."""


@dataclass(frozen=True, slots=True)
class ProcessId:
    """A process."""

    pid: int
    started: int
    """Start time in clock ticks since the machine was booted."""

    @classmethod
    def of(cls, pid: int) -> Self | None:
        """Return the identity of a process; None if there is none, or none that can be read."""
        stat = _stat(pid)
        return None if stat is None else cls(pid, stat[1])

    def is_alive(self) -> bool:
        """Return False once the process has ended, whoever has its number now."""
        stat = _stat(self.pid)
        if stat is not None:
            return stat[1] == self.started and stat[0] not in _ENDED
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            pass  # it is there; /proc hides processes of other users (hidepid)
        return True


@dataclass(frozen=True, slots=True)
class Supervisors:
    """Processes that supervise another one, as they number processes."""

    namespace: str
    """Name of the PID namespace: elsewhere, as in another container, the numbers mean nothing."""
    processes: tuple[ProcessId, ...]

    @classmethod
    def of(cls, pids: Sequence[int]) -> Self | None:
        """Return the processes with these numbers; None where they have no identity."""
        namespace = _namespace()
        processes = tuple(p for p in map(ProcessId.of, pids) if p is not None)
        return cls(namespace, processes) if namespace and processes else None

    @classmethod
    def told(cls, environ: Mapping[str, str]) -> Self | None:
        """Return those that an environment names; None if it names none that can be seen here."""
        text = environ.get(SUPERVISORS_VARIABLE)
        if not text:
            return None
        fields = json.loads(text)
        if fields["namespace"] != _namespace():
            return None
        return cls(fields["namespace"], tuple(ProcessId(*each) for each in fields["processes"]))

    def to_json(self) -> str:
        """Return the text of ``SUPERVISORS_VARIABLE``."""
        processes = [[p.pid, p.started] for p in self.processes]
        return json.dumps({"namespace": self.namespace, "processes": processes})


def _namespace() -> str:
    try:
        return str((_PROC / "self" / "ns" / "pid").readlink())
    except OSError:
        return ""


def _stat(pid: int) -> tuple[str, int] | None:
    """Return state and start time of a process; None if they cannot be read."""
    try:
        text = (_PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # The second field is the program's name in parentheses, of any characters.
    fields = text.rpartition(")")[2].split()
    return fields[0], int(fields[19])
