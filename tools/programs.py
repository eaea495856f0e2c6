"""The programs outside of Python that tests start, and the step that brings each of them.

Tests start no other: `tests/support/outside_programs.py` refuses one that has no step here.
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from tools.bootstrap import REPO

DEBIAN = "Debian itself (packages that every installation has)"
STATED = "the machine (CONTRIBUTING.md names what has to be there)"
SETUP = "make setup (tools/bootstrap.py)"
LOCK = "make setup (requirements.lock)"
TEST = "the test itself"


def servers(tool: str) -> str:
    """Return the name of a step of ``make servers``."""
    return f"make servers (tools/{tool}.py)"


STEPS: Mapping[str, str] = {
    **dict.fromkeys(
        ("apt-get", "bash", "env", "mount", "prlimit", "sh", "sleep", "true", "umount", "unshare"),
        DEBIAN,
    ),
    **dict.fromkeys(("git", "go", "node", "npm"), STATED),
    # Only asked for: who is root needs none.
    "sudo": STATED,
    **dict.fromkeys(("java", "uv"), SETUP),
    **dict.fromkeys(("actionlint", "versitygw"), servers("gotools")),
    **dict.fromkeys(("initdb", "pg_isready", "postgres"), servers("postgres")),
    **dict.fromkeys(
        ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable"),
        servers("browser"),
    ),
    **dict.fromkeys(("fish", "zsh"), servers("shells")),
}
"""Name of a program -> the step that brings it."""

_VERSION = re.compile(r"-v?\d[\d.]*$")
_PYTHON = re.compile(r"python(3(\.\d+)?)?")


def step_of(program: str | Path) -> str | None:
    """Return the step that brings a program, given by name or path; None if none does."""
    path = Path(program)
    name = _VERSION.sub("", path.name)
    if name in STEPS:
        return STEPS[name]
    if _PYTHON.fullmatch(path.name) or (Path(sys.prefix) / "bin" / path.name).is_file():
        return LOCK
    if path.is_absolute() and _is_made_by_a_test(path):
        return TEST
    return None


def _is_made_by_a_test(path: Path) -> bool:
    temporary = Path(tempfile.gettempdir())
    return path.is_relative_to(temporary) and not path.is_relative_to(REPO)
