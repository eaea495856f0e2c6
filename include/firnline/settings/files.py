"""The files of the settings: one for all tables, or a folder with one of each team."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from firnline.errors import SettingsError

SHARED = "defaults.yaml"
"""File of a folder whose ``defaults`` and ``fleet`` hold for all of its files."""
_ENDINGS = (".yaml", ".yml")


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
    the files whose names end in .yaml or .yml and do not begin with a dot, as those of editors do.

    Raises:
        SettingsError: the folder cannot be read, or has no such file.
    """
    if not path.is_dir():
        return (path,)
    try:
        found = [each for each in path.iterdir() if each.suffix in _ENDINGS]
    except OSError as error:
        raise SettingsError(
            f"the folder of settings {path} cannot be read: {error.strerror}",
            next_step="let this user read it",
        ) from None
    files = sorted(each for each in found if not each.name.startswith(".") and not each.is_dir())
    if not files:
        raise SettingsError(
            f"the folder {path} has no settings: no file in it ends in .yaml",
            next_step=f"write one for each team, and {SHARED} for what all share",
        )
    return tuple(sorted(files, key=lambda each: each.name != SHARED))


def is_shared(file: Path, where: Path) -> bool:
    """Return True if all settings at a path depend on one of its files."""
    return file == where or file.name == SHARED
