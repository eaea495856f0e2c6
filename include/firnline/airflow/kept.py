"""The settings, read again only when a file is another one: 0.1 s for each 1,000 tables."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from firnline.clock import Clock
from firnline.errors import SettingsError
from firnline.settings.files import files_of
from firnline.settings.load import Settings, settings_path

_YOUNG_NS = 2 * 10**9
"""A file changed more recently than this may change again without a new time: file systems count
in steps of up to two seconds."""

Identity = tuple[tuple[Path, int, int, int, int, int], ...]
"""Path, and five values of its stat, of each settings file: equal while nothing changed."""


class SettingsFile:
    """The settings, cached for as long as their files are the same.

    Args:
        clock: tells how old the last change of a file is.
        load: reads the settings.
        where: returns their path.
    """

    def __init__(
        self,
        clock: Clock,
        load: Callable[[Path], Settings],
        where: Callable[[], Path] = settings_path,
    ) -> None:
        self._clock = clock
        self._load = load
        self._where = where
        self._known: tuple[Identity, Settings] | None = None
        self._lock = threading.Lock()

    def __call__(self) -> Settings:
        """Return the settings as they are now.

        Raises:
            SettingsError: they do not read; they are read again by the next call.
        """
        with self._lock:
            path = self._where()
            before = _identity(path)
            if self._known is not None and self._known[0] == before:
                return self._known[1]
            settings = self._load(path)
            self._known = None
            if before is not None and before == _identity(path) and self._settled(before):
                self._known = (before, settings)
            return settings

    def _settled(self, identity: Identity) -> bool:
        changed_ns = max(max(file[3:5]) for file in identity)
        return changed_ns + _YOUNG_NS < self._clock.now_ms() * 1_000_000


def _identity(path: Path) -> Identity | None:
    """Return what tells one state of the files from another; None if it cannot be told."""
    try:
        found = [(file, file.stat()) for file in files_of(path)]
    except (OSError, SettingsError):
        return None  # reading it raises, with the next step
    # The time of the last change too: a copy that keeps its times would look the same.
    return tuple(
        (file, it.st_dev, it.st_ino, it.st_mtime_ns, it.st_ctime_ns, it.st_size)
        for file, it in found
    )
