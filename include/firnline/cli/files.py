"""New files that commands write rows into."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from firnline.cli.failures import done
from firnline.errors import ScratchFullError, UsageError

_URL = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]+):/")
"""Beginning of a URL as a path has it: with one slash, and not that of a drive."""


def local_path(path: Path, option: str) -> Path:
    """Return the path of something to write on this machine, with ``~`` as a shell reads it.

    Raises UsageError: it is a URL, of which a folder of that name would be made here, or there is
    no such home.
    """
    given = str(path)
    if found := _URL.match(given):
        raise UsageError(
            f"{option} is a URL ({found['scheme']}), and what is written stays on this machine",
            next_step="give a path, and copy it from there",
        )
    try:
        return path.expanduser()
    except RuntimeError:
        raise UsageError(
            f"{option} is {given}, and there is no such home", next_step="give the path itself"
        ) from None


def check_new(path: Path, kinds: str, suffixes: tuple[str, ...], next_step: str) -> None:
    """Raise UsageError unless a file of one of these kinds can be created."""
    if path.suffix.lower() not in suffixes:
        raise UsageError(f"{path} is not the name of a {kinds} file", next_step=next_step)
    if path.exists():
        raise UsageError(f"{path} exists", next_step="move it away or choose another name")
    if not path.absolute().parent.is_dir():
        raise UsageError(f"there is no folder {path.absolute().parent}", next_step="make it")
    try:
        # Also where the rights say yes: a file system may be mounted read-only.
        _part(path).touch()
        _part(path).unlink()
    except OSError as error:
        raise UsageError(
            f"{path} cannot be written: {error.strerror}", next_step="choose another folder"
        ) from None


def _part(path: Path) -> Path:
    """Return the name that a file has until it is complete."""
    return path.with_name(f".{path.stem}.part{path.suffix}")


@contextmanager
def written(path: Path) -> Iterator[Path]:
    """Yield a temporary name for a new file, and rename it once it is complete.

    Raises ScratchFullError.
    """
    part = _part(path)
    try:
        yield part
        part.rename(path)
        done(f"{path} is written")
    except OSError as error:
        raise ScratchFullError(
            f"{path} cannot be written: {error.strerror}", next_step="choose another folder"
        ) from None
    finally:
        part.unlink(missing_ok=True)
