"""No test starts or looks for a program that no step brings (``tools.programs``).

Such a program is on one machine by luck, and the test fails, or is skipped, on the next one.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

from tools.bootstrap import REPO
from tools.programs import step_of

_INSTALLED = (f"{REPO}/.venv/", f"{REPO}/.cache/")
_PRODUCT = f"{REPO}/include/"


class UnknownProgramError(AssertionError):
    """A program that no step brings."""


def refuse_unknown() -> None:
    """From now on refuse the programs that no step brings, wherever our code asks for them.

    What libraries start by themselves is theirs. The product may look for any program: its users
    name some.
    """
    start, which = subprocess.Popen.__init__, shutil.which

    def checked_start(self: Any, args: Any, *more: Any, **named: Any) -> None:
        if _caller().startswith(f"{REPO}/"):
            _check(named.get("executable") or _first(args))
        start(self, args, *more, **named)

    def checked_which(cmd: Any, *more: Any, **named: Any) -> Any:
        caller = _caller()
        if caller.startswith(f"{REPO}/") and not caller.startswith(_PRODUCT):
            _check(cmd)
        return which(cmd, *more, **named)

    subprocess.Popen.__init__ = checked_start  # type: ignore[method-assign]
    shutil.which = checked_which


def _first(args: Any) -> Any:
    return args if isinstance(args, str | bytes | os.PathLike) else _head(args)


def _head(args: Sequence[Any]) -> Any:
    return next(iter(args), "")


def _check(program: Any) -> None:
    name = os.fsdecode(program)
    if step_of(name) is None:
        raise UnknownProgramError(
            f"no step brings the program {name}: add it to tools/programs.py with the step that "
            "does, so that the test runs on a fresh machine"
        )


def _caller() -> str:
    """Return the file that called, outside of ``subprocess`` and this module; "" if installed."""
    for frame in _frames(sys._getframe(1)):
        file = frame.f_code.co_filename
        if file not in (__file__, subprocess.__file__):
            return "" if file.startswith(_INSTALLED) else str(Path(file))
    return ""


def _frames(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back
