"""Plan the erasure of all requests from all tables: pure, and printable."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from firnline.operations.erasure.folder import Requests
from firnline.operations.erasure.look import DONE, TableLook
from firnline.operations.erasure.record import ErasedTable, Request
from firnline.settings.erasure import ErasureSettings


@dataclass(frozen=True, slots=True)
class Open:
    """A request that is not closed, and how far it is."""

    request: Request
    overdue: bool
    soon: bool
    """It is due within ``erasure.remind``."""
    erased: tuple[str, ...]
    """Tables without a row of it for readers: certified, or waiting for that."""
    complete: tuple[ErasedTable, ...]
    """Certificates that are complete."""
    left: tuple[str, ...]
    """Tables that need something more."""
    why: tuple[str, ...]
    """Hindrances, a sentence for each table."""
    ripe_ms: int | None
    """Time from which the last of its certificates may be complete, unix ms; None: they may be by
    now, or none waits."""

    @property
    def to_close(self) -> bool:
        """Return True if nothing is left to do."""
        return not self.left

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        request = self.request
        return {
            "id": request.id,
            "reference": request.reference,
            "received_ms": request.received_ms,
            "due_ms": request.due_ms,
            "overdue": self.overdue,
            "soon": self.soon,
            "keys": request.keys,
            "erased": list(self.erased),
            "complete": [each.table for each in self.complete],
            "left": list(self.left),
            "why": list(self.why),
            "ripe_ms": self.ripe_ms,
        }


@dataclass(frozen=True, slots=True)
class ErasurePlan:
    """The open requests, and what a run would do."""

    now_ms: int
    requests: tuple[Open, ...]
    """By the time at which they are due."""
    tables: tuple[TableLook, ...]
    unstated: tuple[str, ...]
    """Tables of which nobody has said whether they have rows of people (``person``)."""
    unread: tuple[str, ...]
    """Requests that do not read, each with the reason."""
    closed: int
    """Requests that are closed already."""

    @property
    def batches(self) -> tuple[TableLook, ...]:
        """Return the tables from which something is erased."""
        return tuple(each for each in self.tables if each.batch)

    @property
    def nothing_to_do(self) -> bool:
        """Return True if a run would erase nothing."""
        return not self.batches

    @property
    def urgent(self) -> tuple[Open, ...]:
        """Return the requests that are overdue or soon due."""
        return tuple(each for each in self.requests if each.overdue or each.soon)

    def to_json(self) -> dict[str, Any]:
        """Return plain data, without a key."""
        return {
            "now_ms": self.now_ms,
            "requests": [each.to_json() for each in self.requests],
            "tables": [msgspec.to_builtins(each) for each in self.tables],
            "batches": len(self.batches),
            "unstated": list(self.unstated),
            "unread": list(self.unread),
            "closed": self.closed,
        }


_GONE = (
    "it was taken for this table, which the settings do not have any more as one with rows of "
    "people; bring it back, or withdraw the request"
)


def by_urgency(found: Requests) -> tuple[Request, ...]:
    """Return the open requests, those that are due first before the others."""
    open_still = (each.request for each in found.standing if each.closed is None)
    return tuple(sorted(open_still, key=lambda request: (request.due_ms, request.id)))


def plan_erasure(
    found: Requests,
    looks: Sequence[TableLook],
    unstated: Sequence[str],
    settings: ErasureSettings,
    now_ms: int,
) -> ErasurePlan:
    """Put together how far all requests are.

    Args:
        found: all requests of the folder.
        looks: at the tables with rows of people.
        unstated: names of the tables that do not say.
        settings: the section ``erasure``.
        now_ms: wall clock, unix ms.
    """
    return ErasurePlan(
        now_ms=now_ms,
        requests=tuple(_open(each, looks, settings, now_ms) for each in by_urgency(found)),
        tables=tuple(looks),
        unstated=tuple(sorted(unstated)),
        unread=found.unread,
        closed=sum(each.closed is not None for each in found.standing),
    )


def _open(
    request: Request, looks: Sequence[TableLook], settings: ErasureSettings, now_ms: int
) -> Open:
    erased, complete, left, why, ripe = [], [], [], [], []
    for name in sorted({*request.tables} - {each.table for each in looks}):
        left.append(name)
        why.append(f"{name}: {_GONE}")
    for look in looks:
        if look.table in request.without:
            continue
        step = look.step(request.id)
        if step is None or step.state not in DONE:
            left.append(look.table)
        if step is None or step.why:
            why.append(f"{look.table}: {look.unread if step is None else step.why}")
        if step is not None and step.state in ("waiting", "complete"):
            erased.append(look.table)
        if step is not None and step.erased is not None:
            complete.append(step.erased)
        if step is not None and step.ripe_ms is not None and step.ripe_ms > now_ms:
            ripe.append(step.ripe_ms)
    return Open(
        request=request,
        overdue=now_ms > request.due_ms,
        soon=request.due_ms - settings.remind <= now_ms <= request.due_ms,
        erased=tuple(erased),
        complete=tuple(complete),
        left=tuple(left),
        why=tuple(why),
        ripe_ms=max(ripe, default=None),
    )
