"""Virtual environments beside the clone's own, for programs that do not run in it."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from firnline.errors import EnvironmentFaultError
from tools.bootstrap import CACHE, ensure_uv


def home_of(name: str) -> Path:
    """Return the folder of an environment, and of what is kept with it."""
    return CACHE / name


def ensure(
    name: str,
    packages: Sequence[str],
    complete: Callable[[Path], None] | None = None,
    *,
    interpreter: str | Path = sys.executable,
    options: Sequence[str] = (),
) -> Path:
    """Return the Python of an environment, made on first use.

    Args:
        name: of its folder; has the versions in it.
        packages: what to install, each with its version, as ``duckdb==1.5.5``.
        complete: called with its Python after that, for what else is needed.
        interpreter: the Python that it is made of.
        options: further ones of ``uv pip install``.

    Raises:
        EnvironmentFaultError: it cannot be made here.
    """
    home = home_of(name)
    python, done = home / "venv" / "bin" / "python", home / "complete"
    home.mkdir(parents=True, exist_ok=True)
    with (home / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # tests that run at once want it at once
        if not done.exists():
            _make(name, python, interpreter, [*options, *packages])
            if complete is not None:
                complete(python)
            done.touch()
    return python


def _make(name: str, python: Path, interpreter: str | Path, packages: Sequence[str]) -> None:
    uv, venv = str(ensure_uv()), str(python.parents[1])
    # uv clears no folder that is half an environment, such as a full disk leaves.
    shutil.rmtree(venv, ignore_errors=True)
    for command in (
        [uv, "venv", "-q", "--python", str(interpreter), venv],
        [uv, "pip", "install", "-q", "--python", str(python), *packages],
    ):
        made = subprocess.run(command, check=False, capture_output=True, text=True)
        if made.returncode != 0:
            raise EnvironmentFaultError(
                f"the environment {name} could not be made: {made.stderr.strip()[-500:]}",
                next_step="check that the package index can be reached, run the command again",
            )
