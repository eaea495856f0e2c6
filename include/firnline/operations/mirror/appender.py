"""The Appender of the Python interface: that of services, which may publish mirrors besides."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Unpack

from firnline.appends import service
from firnline.appends.append import AppendResult
from firnline.appends.mirrored import MirrorOutcome
from firnline.appends.service import Limits
from firnline.arguments import typed
from firnline.errors import UsageError
from firnline.operations.local import identity_here
from firnline.operations.mirror.after import refuse_unmirrored
from firnline.operations.mirror.publisher import Publisher
from firnline.table import Table

_BY = "python"


class Appender(service.Appender):
    """Takes rows from any number of threads and writes them in the background.

    All of it is said of ``firnline.appends.service.Appender``. With ``mirror`` it publishes the
    table's mirrors too, from a thread of its own: an acknowledged row is in the table, and in the
    mirrors ``mirror_every_ms`` and the time of a publication later. ``close`` publishes what is
    left. A publication that fails is a warning in the log and no failure of an append; the next
    one, of this or another process, shows what it did not.

    Requests per publication: those of ``operations.mirror.run.run_mirror``.

    Args:
        target: name of a table in the settings, its root URL, or an open table.
        mirror: publish the mirrors that the settings of the table name.
        mirror_every_ms: milliseconds that a flush waits for its publication at most, so that a
            service does not publish after each flush; 0: no longer than the publication before it
            takes; None: ``every`` of the Delta mirror in the settings.
        limits: as of ``firnline.appends.service.Appender``: ``max_rows``, ``max_bytes``,
            ``max_age_ms``, ``max_frozen``, ``max_wait_ms``, ``writer``, ``partition``.

    Raises UsageError, SettingsError, StoreAccessError for an invalid table, and where ``mirror`` is
    asked for and the settings name none.
    """

    @typed
    def __init__(
        self,
        target: Table | str,
        *,
        mirror: bool = False,
        mirror_every_ms: int | None = None,
        **limits: Unpack[Limits],
    ) -> None:
        table = service.opened(target)
        every = _every(table, mirror_every_ms, mirror=mirror)
        self._publisher: Publisher | None = None
        super().__init__(table, **limits)
        if every is not None:
            self._publisher = Publisher(table, every, identity_here(table, _BY))

    @property
    def mirrored(self) -> MirrorOutcome | None:
        """The outcome of the newest publication; None before the first."""
        return None if self._publisher is None else self._publisher.last

    def close(self) -> None:
        """Write the remaining rows, publish them, and close; a second call does nothing.

        Raises as ``flush``; what was written is published all the same.
        """
        try:
            super().close()
        finally:
            if self._publisher is not None:
                self._publisher.close()

    def _written(self, result: AppendResult) -> None:
        if self._publisher is not None and result.log_key is not None:
            self._publisher.appended()

    def _facts(self) -> Mapping[str, str]:
        found, last = super()._facts(), self.mirrored
        return found if last is None else {**found, "mirror": last.said}


def _every(table: Table, given: int | None, *, mirror: bool) -> int | None:
    """Return how long an append waits for a publication, ms; None for no publications."""
    if not mirror:
        if given is not None:
            raise UsageError(
                f"mirror_every_ms is {given}, and nothing is published without mirror=True",
                next_step="give mirror=True, or leave mirror_every_ms out",
            )
        return None
    settings = table.settings
    refuse_unmirrored(settings, "mirror=True")
    every = settings.mirror_every if given is None else given
    if every is None:
        raise UsageError(
            f"the settings of {settings.name} do not say how often its mirrors are published",
            next_step="give mirror_every_ms",
        )
    if every < 0:
        raise UsageError(f"mirror_every_ms is {every}", next_step="give at least 0")
    return every
