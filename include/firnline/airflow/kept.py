"""The settings file, read again only when it is another file: 0.1 s for each 1,000 tables."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from firnline.clock import Clock
from firnline.settings.load import Settings, settings_path

_YOUNG_NS = 2 * 10**9
"""A file changed more recently than this may change again without a new time: file systems count
in steps of up to two seconds."""

Identity = tuple[Path, int, int, int, int, int]


class SettingsFile:
    """The settings, cached for as long as the file is the same.

    Args:
        clock: tells how old the file's last change is.
        load: reads the file.
        where: returns the path of the file.
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
        """Return the settings as they are in the file now.

        Raises:
            SettingsError: the file does not read; it is read again by the next call.
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
        changed_ns = max(identity[3:5])
        return changed_ns + _YOUNG_NS < self._clock.now_ms() * 1_000_000


def _identity(path: Path) -> Identity | None:
    """Return what tells one state of a file from another; None if it cannot be told."""
    try:
        found = path.stat()
    except OSError:
        return None  # reading it raises, with the next step
    # The time of the last change too: a copy that keeps its times would look the same.
    times = (found.st_mtime_ns, found.st_ctime_ns)
    return (path, found.st_dev, found.st_ino, *times, found.st_size)
