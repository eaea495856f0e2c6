"""Plan the erasure of all requests from all tables: pure, and printable."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from firnline.operations.erasure.folder import Requests
from firnline.operations.erasure.look import DONE, State, TableLook
from firnline.operations.erasure.record import ErasedTable, Request
from firnline.settings.erasure import ErasureSettings

Reach = State | Literal["gone", "unread"]
"""As ``State``; gone: the settings do not have the table any more as one with rows of people;
unread: it cannot be read."""
Urgency = Literal["overdue", "soon", ""]
"""soon: it is due within ``erasure.remind``."""


@dataclass(frozen=True, slots=True)
class Reached:
    """How far a request is in one table."""

    table: str
    state: Reach
    why: str = ""
    """Hindrance, with the next step; empty: none."""
    certificate: str | None = None
    ripe_ms: int | None = None
    """As of ``Step``."""
    erased: ErasedTable | None = None
    """As of ``Step``."""


@dataclass(frozen=True, slots=True)
class Open:
    """A request that is not closed, and how far it is."""

    request: Request
    urgency: Urgency
    tables: tuple[Reached, ...]
    """Those that are gone before the others; with those that were left out."""
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
    now, or a table is not erased, whose certificate nobody can date."""

    @property
    def overdue(self) -> bool:
        """Return True once it should have been closed."""
        return self.urgency == "overdue"

    @property
    def soon(self) -> bool:
        """Return True if it is due within ``erasure.remind``."""
        return self.urgency == "soon"

    @property
    def to_close(self) -> bool:
        """Return True if nothing is left to do."""
        return not self.left

    @property
    def waiting(self) -> bool:
        """Return True if no reader finds a row of it, and certificates or its end are missing."""
        return _no_reader_finds(self.tables)

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


def urgency(request: Request, settings: ErasureSettings, now_ms: int) -> Urgency:
    """Return how urgent an open request is."""
    if now_ms > request.due_ms:
        return "overdue"
    return "soon" if request.due_ms - settings.remind <= now_ms else ""


def _open(
    request: Request, looks: Sequence[TableLook], settings: ErasureSettings, now_ms: int
) -> Open:
    tables = tuple(_reached(request, looks))
    ripe = [each.ripe_ms for each in tables if each.ripe_ms is not None and each.ripe_ms > now_ms]
    return Open(
        request=request,
        urgency=urgency(request, settings, now_ms),
        tables=tables,
        erased=tuple(each.table for each in tables if each.state in ("waiting", "complete")),
        complete=tuple(each.erased for each in tables if each.erased is not None),
        left=tuple(each.table for each in tables if each.state not in DONE),
        why=tuple(f"{each.table}: {each.why}" for each in tables if each.why),
        ripe_ms=max(ripe, default=None) if _no_reader_finds(tables) else None,
    )


def _no_reader_finds(tables: Sequence[Reached]) -> bool:
    return all(each.state in DONE or each.state == "waiting" for each in tables)


def _reached(request: Request, looks: Sequence[TableLook]) -> Iterator[Reached]:
    for name in sorted({*request.tables} - {each.table for each in looks}):
        yield Reached(name, "gone", _GONE)
    for look in looks:
        step = look.step(request.id)
        if look.table in request.without:
            yield Reached(look.table, "left out")
        elif step is None:
            yield Reached(look.table, "unread", look.unread)
        else:
            yield Reached(
                look.table, step.state, step.why, step.certificate, step.ripe_ms, step.erased
            )
