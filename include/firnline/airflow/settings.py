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
from dataclasses import replace
from functools import cache
from pathlib import Path

from firnline.airflow.kept import SettingsFile
from firnline.clock import SystemClock
from firnline.errors import SettingsError
from firnline.settings.files import TABLES_VARIABLE, Content, UnreadFile, is_shared, listed
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

    def stand_in(file: Path) -> Path | None:
        return _kept_of(file, where, copy)

    try:
        found = load_settings(path, stand_in=stand_in)
    except SettingsError as error:
        found = _last_good(copy, where, error)
    for each in found.unread:
        _LOG.error("%s", each.sentence)
    _keep_all(copy, where, found)
    return found


def copy_of(path: Path) -> Path:
    """Return where the copy of settings is kept, below ``[logging] base_log_folder``.

    It is a file or a folder, as the settings are, or were if they cannot be looked at.
    """
    from airflow.configuration import conf

    digest = hashlib.sha256(str(path.absolute()).encode()).hexdigest()[:12]
    folder = Path(conf.get("logging", "base_log_folder"), "firnline", f"settings-{digest}")
    # Those of Path raise where a folder may not be entered, and on a mount that is gone.
    is_folder = os.path.isdir(path if os.path.exists(path) else folder)  # noqa: PTH110, PTH112
    return folder if is_folder else folder.with_suffix(".yaml")


def environment() -> dict[str, str]:
    """Return what a process that a task starts needs to go by the same settings. Raises as above.

    Empty unless the last good ones of a file are in force.
    """
    if all(each.since_ms is None for each in current_settings().unread):
        return {}
    return {TABLES_VARIABLE: str(copy_of(settings_path()))}


def _last_good(copy: Path, where: Path, error: SettingsError) -> Settings:
    """Return the settings of before, where these cannot be read at all; else raise the error."""
    try:
        found = load_settings(copy)
    except SettingsError:
        raise error from None
    if not found.contents:
        raise error
    since_ms = max(each.modified_ns for each in found.contents.values()) // 1_000_000
    files = {
        name: where if file == copy else where / file.name for name, file in found.files.items()
    }
    unread = (UnreadFile(where, error, since_ms),)
    return replace(found, path=where, files=files, unread=unread)


def _kept_of(file: Path, where: Path, copy: Path) -> Path | None:
    """Return the copy of a file of the settings; None without one."""
    if file == where:
        found: Path | None = copy
    elif is_shared(file, where):
        # The file of before may have had another ending.
        folder = os.path.isdir(copy)  # noqa: PTH112 - Path.is_dir raises, and DAGs need no copy
        found = next((e for e in (listed(copy) if folder else ()) if is_shared(e, copy)), None)
    else:
        found = copy / file.name
    there = found is not None and os.path.isfile(found)  # noqa: PTH113 - as above
    return found if there else None


def _keep_all(copy: Path, where: Path, settings: Settings) -> None:
    """Keep copies of the files as they have been read, and none of files that are gone.

    A folder that cannot be written to is only logged.
    """
    unread = {each.path for each in settings.unread}
    if where in unread:
        return
    try:
        for file, content in settings.contents.items():
            _keep(copy if file == where else copy / file.name, content)
        if where in settings.contents:
            return
        needed = {copy / file.name for file in settings.contents}
        needed |= {_kept_of(file, where, copy) or copy / file.name for file in unread}
        for old in set(listed(copy)) - needed:
            old.unlink(missing_ok=True)
    except (OSError, SettingsError) as error:
        _LOG.warning("no copy of %s is kept, to go by if it gets mistakes: %s", where, error)


def _keep(copy: Path, content: Content) -> None:
    """Write what was read of a file, with its time, unless the copy has it.

    The bytes are compared: a file that was copied from elsewhere may have its old size and time.
    """
    same = copy.is_file() and copy.read_bytes() == content.raw
    if same and copy.stat().st_mtime_ns == content.modified_ns:
        return
    new = copy if same else _beside(copy, content.raw)
    os.utime(new, ns=(content.modified_ns, content.modified_ns))
    if not same:
        new.replace(copy)


def _beside(copy: Path, raw: bytes) -> Path:
    """Write a new file beside a copy, to be renamed to it."""
    copy.parent.mkdir(parents=True, exist_ok=True)
    # Not the ending of a file of settings, should it be left behind.
    with tempfile.NamedTemporaryFile(dir=copy.parent, prefix=copy.name, delete=False) as new:
        new.write(raw)
    return Path(new.name)
