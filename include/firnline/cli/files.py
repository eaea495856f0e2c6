"""New files that commands write rows into."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from firnline.cli.failures import done
from firnline.errors import ScratchFullError, UsageError


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
