"""Memory that this process has taken."""

from __future__ import annotations

from pathlib import Path

_NAME = "VmHWM:"


def peak_mib() -> int:
    """Largest resident set of this process so far, in MiB.

    Not ``ru_maxrss``: a program inherits that of the process that started it.
    """
    lines = Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(_NAME)) // 1024
