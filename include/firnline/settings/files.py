"""The files of the settings: one for all tables, or a folder with one of each team."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from firnline.errors import SettingsError

SHARED = "defaults.yaml"
"""File of a folder whose ``defaults`` and ``fleet`` hold for all of its files."""
_ENDINGS = (".yaml", ".yml")
"""Those of the files of a folder, in any case of letters."""
_SHARED_NAMES = tuple(SHARED.partition(".")[0] + ending for ending in _ENDINGS)

TABLES_VARIABLE = "FIRNLINE_TABLES"
"""Environment variable with the path of the settings."""
NAME_IT = f"give the path of tables.yaml by --settings or {TABLES_VARIABLE}"

MAX_BYTES = 8 * 2**20
"""Bytes of a settings file at most; a thousand tables take about 300 KB."""

_TAKE_OUT = "take it out of the folder, or give it another ending"
_KINDS = {
    stat.S_IFDIR: (
        "a folder",
        "put the file in its place, or take it away (Docker makes one of a mount that is missing)",
    ),
    stat.S_IFIFO: ("a named pipe", _TAKE_OUT),
    stat.S_IFSOCK: ("a socket", _TAKE_OUT),
}


@dataclass(frozen=True, slots=True)
class Content:
    """A file as it was when it was read."""

    raw: bytes
    modified_ns: int
    """Unix ns of its last change."""


@dataclass(frozen=True, slots=True)
class UnreadFile:
    """A file of the settings that does not read."""

    path: Path
    error: SettingsError
    """All of its mistakes, or why it cannot be read."""
    since_ms: int | None
    """Unix ms of the last change of what stands in for it; None: its tables are missing."""

    @property
    def sentence(self) -> str:
        """Return which settings are in force, and why."""
        if self.since_ms is None:
            return f"the tables of {self.path} are missing, because {self.error}"
        at = datetime.fromtimestamp(self.since_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
        return f"the settings of {at} are in force, because {self.error}"


def files_of(path: Path) -> tuple[Path, ...]:
    """Return the files of the settings at a path, that with what all share first.

    A path that is no folder is returned itself, whether it is there or not. Of a folder these are
    those of ``listed``, also what is no file: that one does not read has to be told.

    Raises:
        SettingsError: the path cannot be looked at, or the folder cannot be read, has no such file,
            or has two of what all share.
    """
    if not is_folder(path):
        return (path,)
    files = listed(path)
    if not files:
        raise SettingsError(
            f"the folder {path} has no settings: no file in it ends in .yaml",
            next_step=f"write one for each team, and {SHARED} for what all share",
        )
    shared = [each for each in files if is_shared(each, path)]
    if len(shared) > 1:
        names = " and ".join(each.name for each in shared)
        raise SettingsError(
            f"the folder {path} has {names}, and one file says what all share",
            next_step="keep one of them",
        )
    return (*shared, *(each for each in files if each not in shared))


def listed(folder: Path) -> list[Path]:
    """Return what a folder has under names that are read, in their order.

    Raises SettingsError: the folder cannot be read.
    """
    try:
        return sorted(each for each in folder.iterdir() if is_read(each.name))
    except OSError as error:
        raise _unreadable(f"the folder of settings {folder}", error, _remedy(error)) from None


def is_read(name: str) -> bool:
    """Return True for the name of a file that a folder of settings reads.

    It ends in .yaml or .yml and does not begin with a dot, as those of editors do.
    """
    return name.lower().endswith(_ENDINGS) and not name.startswith(".")


def is_shared(file: Path, where: Path) -> bool:
    """Return True if all settings at a path depend on one of its files."""
    return file == where or file.name.lower() in _SHARED_NAMES


def is_folder(path: Path) -> bool:
    """Return True if settings are a folder. Raises SettingsError if they cannot be looked at."""
    try:
        return path.is_dir()
    except OSError as error:
        raise _unreadable(f"the settings {path}", error, _remedy(error)) from None


def may_be(check: Callable[[], bool]) -> bool:
    """Return False if a check of a path says so, such as ``path.exists``.

    What cannot be looked at may be there: reading it says why it does not read.
    """
    try:
        return check()
    except OSError:
        return True


def read_file(path: Path, *, next_step: str | None = None) -> Content:
    """Read a file of the settings, which is opened once.

    Args:
        path: of the file.
        next_step: that of a file that does not open; None: it is one of a folder, which has files
            alone, as a pipe that nobody writes to would be waited for.

    Raises:
        SettingsError: it is missing, unreadable or too large.
    """
    what = f"the settings file {path}"
    try:
        if next_step is None:
            _refuse_other(what, path.stat().st_mode)
        with path.open("rb") as file:
            modified_ns = os.fstat(file.fileno()).st_mtime_ns
            content = Content(file.read(MAX_BYTES + 1), modified_ns)
    except OSError as error:
        raise _unreadable(what, error, next_step or _remedy_of(path, error)) from None
    if len(content.raw) > MAX_BYTES:
        raise SettingsError(f"{what} is larger than 8 MiB", next_step=f"{NAME_IT}, or split it")
    return content


def _refuse_other(what: str, mode: int) -> None:
    """Raise SettingsError for what is no file."""
    if not stat.S_ISREG(mode):
        kind, step = _KINDS.get(stat.S_IFMT(mode), ("a device", _TAKE_OUT))
        raise SettingsError(f"{what} cannot be read: it is {kind}", next_step=step)


def _unreadable(what: str, error: OSError, next_step: str) -> SettingsError:
    return SettingsError(f"{what} cannot be read: {error.strerror or error}", next_step=next_step)


def _remedy(error: OSError) -> str:
    if isinstance(error, PermissionError):
        return "let this user read it, and enter the folders above it"
    return "correct the path, or see whether its disk is mounted"


def _remedy_of(file: Path, error: OSError) -> str:
    """Return the next step for a file of a folder that does not open."""
    if not isinstance(error, FileNotFoundError):
        return _remedy(error)
    if file.is_symlink():
        return "put back what this link leads to, or take the link away"
    if is_shared(file, file.parent):
        return "put it back; if nothing is to be shared any more, leave it with `defaults: {}`"
    return "put it back"
