"""The settings that Airflow's processes go by: those of the file, or else the last good ones.

A mistake in what all tables share, or a file that does not read, would take every DAG away. So a
copy of the file as it was read last without one is kept beside Airflow's logs, for each machine
that has such a folder, and stands in for it.
"""

from __future__ import annotations

import hashlib
import logging
import os
import tempfile
from dataclasses import replace
from functools import cache
from pathlib import Path

from firnline.airflow.kept import SettingsFile
from firnline.clock import SystemClock
from firnline.errors import SettingsError
from firnline.settings.load import Settings, Stale, load_settings, settings_path

_LOG = logging.getLogger(__name__)


@cache
def kept_settings() -> SettingsFile:
    """Return the settings of this process, which are read again only when the file has changed.

    A process that it forks begins with what it knows.
    """
    return SettingsFile(SystemClock(), read_settings)


def current_settings() -> Settings:
    """Return the settings as they are now, or with ``stale`` the last good ones.

    Raises: as ``read_settings``.
    """
    return kept_settings()()


def read_settings(path: Path | None = None) -> Settings:
    """Read the settings of the file, or with ``stale`` the last good ones.

    Args:
        path: of the file; defaults to ``settings_path()``.

    Raises:
        SettingsError: the file has a mistake that concerns all tables, and there is no copy.
    """
    where = settings_path() if path is None else path
    copy = copy_of(where)
    try:
        found = load_settings(path)
    except SettingsError as error:
        return _last_good(copy, where, error)
    _keep(copy, where)
    return found


def copy_of(path: Path) -> Path:
    """Return where the copy of a settings file is kept, below ``[logging] base_log_folder``."""
    from airflow.configuration import conf

    digest = hashlib.sha256(str(path.absolute()).encode()).hexdigest()[:12]
    folder = conf.get("logging", "base_log_folder")
    return Path(folder) / "firnline" / f"settings-{digest}.yaml"


def environment() -> dict[str, str]:
    """Return what a process that a task starts needs to go by the same settings. Raises as above.

    Empty unless the last good ones are in force.
    """
    if current_settings().stale is None:
        return {}
    return {"FIRNLINE_TABLES": str(copy_of(settings_path()))}


def _last_good(copy: Path, where: Path, error: SettingsError) -> Settings:
    try:
        since_ms = copy.stat().st_mtime_ns // 1_000_000
        found = load_settings(copy)
    except (OSError, SettingsError):
        raise error from None
    stale = Stale(error, since_ms)
    _LOG.error("%s", stale.sentence)
    return replace(found, path=where, stale=stale)


def _keep(copy: Path, where: Path) -> None:
    """Copy a file that has been read; a folder that cannot be written to is only logged.

    The copy has the time of the file, so a file that is as it was is not opened again.
    """
    try:
        known = where.stat()
        if copy.is_file() and _version(copy.stat()) == _version(known):
            return
        copy.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=copy.parent, prefix=copy.name, delete=False) as new:
            new.write(where.read_bytes())
        os.utime(new.name, ns=(known.st_atime_ns, known.st_mtime_ns))
        Path(new.name).replace(copy)
    except OSError as error:
        _LOG.warning("no copy of %s is kept, to go by if it gets mistakes: %s", where, error)


def _version(found: os.stat_result) -> tuple[int, int]:
    return found.st_size, found.st_mtime_ns
