"""The settings that Airflow's processes go by: those of the files, or else the last good ones.

A mistake in what all tables share, or a file that does not read, would take every DAG away. So a
copy of each file as it was read last without one is kept beside Airflow's logs, for each machine
that has such a folder, and stands in for it.
"""

from __future__ import annotations

import hashlib
import logging
import os
import tempfile
from collections.abc import Collection
from dataclasses import replace
from functools import cache
from pathlib import Path

from firnline.airflow.kept import SettingsFile
from firnline.clock import SystemClock
from firnline.errors import SettingsError
from firnline.settings.files import UnreadFile, files_of
from firnline.settings.load import Settings, load_settings, settings_path

_LOG = logging.getLogger(__name__)


@cache
def kept_settings() -> SettingsFile:
    """Return the settings of this process, which are read again only when the file has changed.

    A process that it forks begins with what it knows.
    """
    return SettingsFile(SystemClock(), read_settings)


def current_settings() -> Settings:
    """Return the settings as they are now, the last good ones of files that are ``unread``.

    Raises: as ``read_settings``.
    """
    return kept_settings()()


def read_settings(path: Path | None = None) -> Settings:
    """Read the settings, the last good ones of files that are ``unread``.

    Args:
        path: of the file or folder; defaults to ``settings_path()``.

    Raises:
        SettingsError: what all tables share does not read, and there is no copy.
    """
    where = settings_path() if path is None else path
    copy = copy_of(where)

    def stand_in(file: Path) -> Path:
        return copy if file == where else copy / file.name

    try:
        found = load_settings(path, stand_in=stand_in)
    except SettingsError as error:
        found = _last_good(copy, where, error)
    for each in found.unread:
        _LOG.error("%s", each.sentence)
    if where.exists():
        _keep_all(copy, where, {each.path for each in found.unread})
    return found


def copy_of(path: Path) -> Path:
    """Return where the copy of settings is kept, below ``[logging] base_log_folder``.

    It is a file or a folder, as the settings are or were.
    """
    from airflow.configuration import conf

    digest = hashlib.sha256(str(path.absolute()).encode()).hexdigest()[:12]
    folder = Path(conf.get("logging", "base_log_folder"), "firnline", f"settings-{digest}")
    was_folder = not path.exists() and folder.is_dir()
    return folder if path.is_dir() or was_folder else folder.with_suffix(".yaml")


def environment() -> dict[str, str]:
    """Return what a process that a task starts needs to go by the same settings. Raises as above.

    Empty unless the last good ones of a file are in force.
    """
    if all(each.since_ms is None for each in current_settings().unread):
        return {}
    return {"FIRNLINE_TABLES": str(copy_of(settings_path()))}


def _last_good(copy: Path, where: Path, error: SettingsError) -> Settings:
    """Return the settings of a folder whose shared file has no copy, or that is gone."""
    try:
        if not copy.is_dir():
            raise error
        found = load_settings(copy)
        since_ms = max(each.stat().st_mtime_ns // 1_000_000 for each in files_of(copy))
    except (OSError, SettingsError):
        raise error from None
    files = {name: where / file.name for name, file in found.files.items()}
    unread = (UnreadFile(where, error, since_ms),)
    return replace(found, path=where, files=files, unread=unread)


def _keep_all(copy: Path, where: Path, unread: Collection[Path]) -> None:
    """Keep copies of the files that have been read, and none of files that are gone.

    A folder that cannot be written to is only logged.
    """
    if where in unread:
        return
    try:
        if not where.is_dir():
            _keep(copy, where)
            return
        files = files_of(where)
        for file in files:
            if file not in unread:
                _keep(copy / file.name, file)
        for old in set(files_of(copy)) - {copy / file.name for file in files}:
            old.unlink(missing_ok=True)
    except (OSError, SettingsError) as error:
        _LOG.warning("no copy of %s is kept, to go by if it gets mistakes: %s", where, error)


def _keep(copy: Path, where: Path) -> None:
    """Copy a file with its time, unless it is as it was: then it is not opened again."""
    known = where.stat()
    if copy.is_file() and _version(copy.stat()) == _version(known):
        return
    copy.parent.mkdir(parents=True, exist_ok=True)
    # Not the ending of a file of settings, should it be left behind.
    with tempfile.NamedTemporaryFile(dir=copy.parent, prefix=copy.name, delete=False) as new:
        new.write(where.read_bytes())
    os.utime(new.name, ns=(known.st_atime_ns, known.st_mtime_ns))
    Path(new.name).replace(copy)


def _version(found: os.stat_result) -> tuple[int, int]:
    return found.st_size, found.st_mtime_ns
