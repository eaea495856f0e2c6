"""One try to complete a certificate, and what came of it in words for many people.

That goes to notes, pages and alerts: it names no object, because the path of one may hold a key.
"""

from __future__ import annotations

from typing import Any

import msgspec

from firnline.log.txn_file import RunIdentity
from firnline.operations.erase.certificate import Kind, Remaining, Status
from firnline.operations.erase.completion import complete_certificate
from firnline.operations.hidden import without_paths
from firnline.table import Table

_LIVE: frozenset[Kind] = frozenset({"unread part"})
"""What no time and no run of an operation takes away: parts that may show rows of the keys."""
_ROWS: frozenset[Kind] = _LIVE | {"replaced part", "older part", "late part"}
"""What must not be there any more once a certificate is complete."""


class Hindrance(msgspec.Struct, frozen=True, kw_only=True):
    """What is in the way of a certificate, without the names of objects."""

    kind: Kind
    count: int
    why: str
    next_step: str
    until_ms: int | None
    """Time at which it may be gone, unix ms; None when time does not decide."""

    @classmethod
    def of(cls, entry: Remaining) -> Hindrance:
        """Return an entry of a certificate without paths."""
        return cls(
            kind=entry.kind,
            count=entry.count,
            why=without_paths(entry.why),
            next_step=without_paths(entry.next_step),
            until_ms=entry.until_ms,
        )


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one try to complete a certificate."""

    id: str
    status: Status
    t: int
    """Time of the erase, unix ms."""
    keys: int
    """Number of its keys."""
    completed_ms: int | None
    by_this_run: bool
    """This run has completed it, in this try or an earlier one."""
    in_the_way: tuple[Hindrance, ...]

    @property
    def rows_left(self) -> tuple[Hindrance, ...]:
        """Return parts that may hold rows of the keys, and that no time and no run takes away."""
        kinds = _ROWS if self.status == "complete" else _LIVE
        return tuple(each for each in self.in_the_way if each.kind in kinds)

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        plain: dict[str, Any] = msgspec.to_builtins(self)
        return plain


def try_certificate(table: Table, erase: str, run: RunIdentity) -> Attempt:
    """Complete a certificate if that is possible now, and look again after that.

    The second look finds what somebody published between the first one's listings: nobody is told
    of a certificate that is wrong. Requests: those of ``complete_certificate``, twice for one that
    is complete. Raises as that does.

    Args:
        table: the table.
        erase: id of the certificate.
        run: who tries.
    """
    certificate = complete_certificate(table, erase, run)
    if certificate.status == "complete":
        certificate = complete_certificate(table, erase, run)
    by = certificate.completed_by
    return Attempt(
        id=certificate.id,
        status=certificate.status,
        t=certificate.erased_ms,
        keys=certificate.keys,
        completed_ms=certificate.completed_ms,
        by_this_run=by is not None and by.is_run_of(run),
        in_the_way=tuple(Hindrance.of(entry) for entry in certificate.remaining if entry.blocks),
    )
