"""Objects that a tombstone names, when each may be deleted, and what waits for which reason."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import msgspec

GRACE = "readers may still use them: the grace is not over"
LIMIT = "more than one run may delete (max_deletes): the next run goes on"
LATE = "landed too late and count for nobody: older versions may still read them"


class Buried(msgspec.Struct, frozen=True, gc=False):
    """A tombstoned object; there may be a million of them."""

    key: str
    bytes: int
    tmb: int
    since: int
    """Time since which readers can see the tombstone, unix ms (``log.dated.since``)."""
    due: int
    """Time at which ``since`` is as long ago as the grace, unix ms."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """Objects that stay in this run, and why."""

    what: str
    """``parts`` or ``log files``."""
    count: int
    bytes: int
    reason: str
    first_ms: int | None = None
    """Earliest time at which one may be deleted, unix ms; None when time does not decide."""
    last_ms: int | None = None
    """Latest time at which one of them may be deleted, unix ms."""

    @classmethod
    def of(
        cls, what: str, objects: Sequence[Buried], reason: str, *, timed: bool = False
    ) -> Waiting:
        """Return the objects in sum; ``timed``: the time alone decides when they may go."""
        return cls(
            what=what,
            count=len(objects),
            bytes=sum(b.bytes for b in objects),
            reason=reason,
            first_ms=min((b.due for b in objects), default=None) if timed else None,
            last_ms=max((b.due for b in objects), default=None) if timed else None,
        )


def in_order(objects: Iterable[Buried]) -> list[Buried]:
    """Return objects, oldest tombstone first."""
    return sorted(objects, key=lambda b: (b.tmb, b.key))
