"""Programs that tests start and wait for."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

HUNG_SECONDS = 600
"""When a program counts as hung: no measure of speed, the machine may be busy."""


def run_program(
    command: Sequence[str | Path], env: Mapping[str, str | None] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run to the end, whatever its exit code. A variable of ``env`` that is None is unset.

    Bytecode may be written: without it every start compiles the whole program anew.
    """
    wanted = {**os.environ, "PYTHONDONTWRITEBYTECODE": None, **(env or {})}
    return subprocess.run(
        [str(part) for part in command],
        check=False,
        capture_output=True,
        text=True,
        timeout=HUNG_SECONDS,
        env={name: value for name, value in wanted.items() if value is not None},
    )
