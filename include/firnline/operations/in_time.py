"""A run that stood still knows nothing any more of what it has looked at.

What a reader has listed stays for the grace. A run that compares two listings, or acts on what it
has read, does so within half of it, like every publisher; one that was suspended for longer looks
again, or stops.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from firnline.clock import Clock
from firnline.errors import FirnlineError, SnapshotUnstableError, StoreError
from firnline.properties.in_force import put_within
from firnline.settings.load import TableSettings
from firnline.table import Table
from firnline.units import about_duration

T = TypeVar("T")
ATTEMPTS = 3
"""Looks at a table, before a run says that it cannot."""


@dataclass(slots=True)
class InTime:
    """Tells whether what was read at a moment still counts."""

    clock: Clock
    since_ms: int
    """``Clock.elapsed_ms`` from before it was read."""
    within_ms: int

    @classmethod
    def since(cls, table: Table, began_ms: int, grace: int | None = None) -> InTime:
        """Count from a moment.

        Args:
            table: under its own properties.
            began_ms: ``Clock.elapsed_ms``.
            grace: of the table, ms; None: that of its settings.
        """
        return cls(table.clock, began_ms, put_within(table.settings, grace))

    def under(self, settings: TableSettings, grace: int | None = None) -> None:
        """Go by the grace of the table itself, which is known by now; see ``since``."""
        self.within_ms = put_within(settings, grace)

    @property
    def is_over(self) -> bool:
        """True once half the grace has passed since."""
        return self.clock.elapsed_ms() - self.since_ms > self.within_ms

    def refuse(self, act: str) -> None:
        """Raise SnapshotUnstableError if it is too late.

        Args:
            act: what the run was about to do, as in "before it could ...".
        """
        if self.is_over:
            raise SnapshotUnstableError(
                f"this run stood still for longer than half the grace {act}",
                next_step="run it again",
            )


def looked(table: Table, look: Callable[[InTime], T]) -> T:
    """Return what a look at a table has found; repeat one that took longer than half the grace.

    One that failed after that time is repeated too: what it complains of may be the time itself.

    Args:
        table: under the settings at hand.
        look: reads and compares; calls ``InTime.under`` when it knows the table's own properties.

    Raises:
        SnapshotUnstableError: each of three attempts took too long.
        FirnlineError: whatever a look in time raises. StoreError at once.
    """
    time = InTime.since(table, table.clock.elapsed_ms())
    for _ in range(ATTEMPTS):
        time.since_ms = table.clock.elapsed_ms()
        try:
            result = look(time)
        except StoreError:
            raise
        except FirnlineError:
            if not time.is_over:
                raise
        else:
            if not time.is_over:
                return result
    raise SnapshotUnstableError(
        f"reading table {table.settings.name} took longer than half its grace "
        f"({about_duration(time.within_ms)}) each of {ATTEMPTS} times, so objects that were "
        "listed first may have been deleted before the others were listed",
        next_step="run it where nothing suspends it, or with a longer cleanup.grace",
    )
