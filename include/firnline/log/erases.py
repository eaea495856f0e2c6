"""The chain of a table's erases (docs/format.md, "Chained certificates").

``{"erase":{…}}`` is an extension record of the log: the number of the newest erase, and what its
certificate states. Every erase states the digest of the one before it, which it has read with the
log, so a fold keeps only the newest record.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from firnline.log.record_kind import RecordKind


class EraseLink(msgspec.Struct, frozen=True):
    """The place of an erase among those of its table."""

    number: int
    """From 1 on, in the order of the transactions."""
    id: str
    """Of its certificate."""
    seq: int
    """Its transaction."""
    t: int
    """Time of that transaction, unix ms."""
    plan: str
    """SHA-256 of what the certificate stated before the commit, hexadecimal."""
    before: str = ""
    """Digest of the erase before; empty for the first one that is in the chain."""

    @property
    def digest(self) -> str:
        """SHA-256 of this place, hexadecimal; with ``before`` it covers all erases so far."""
        return hashlib.sha256(msgspec.json.encode(self)).hexdigest()


@dataclass(frozen=True, slots=True)
class PlannedErase:
    """An erase that is going to be committed."""

    id: str
    plan: str
    """See ``EraseLink.plan``."""
    known: EraseLink | None = None
    """The newest erase, where a client of version 1 has folded its record away."""


_KIND = RecordKind("erase", EraseLink)
_read = _KIND.read


def link_after(
    planned: PlannedErase | None, lines: Iterable[bytes], seq: int, t: int
) -> EraseLink | None:
    """Return the place of an erase after those that extension records of any kind name.

    Args:
        planned: the erase; None for a transaction that is none, which has no place.
        lines: extension records of the base.
        seq: its transaction.
        t: time of the transaction, unix ms.
    """
    if planned is None:
        return None
    last = newest_of(newest(lines), planned.known)
    number, before = (0, "") if last is None else (last.number, last.digest)
    return EraseLink(number + 1, planned.id, seq, t, planned.plan, before)


def erase_record(link: EraseLink) -> bytes:
    """Return the record of an erase as a line."""
    return _KIND.line(link)


def newest(lines: Iterable[bytes]) -> EraseLink | None:
    """Return the newest erase that extension records of any kind name."""
    return newest_of(*map(_read, lines))


def newest_of(*links: EraseLink | None) -> EraseLink | None:
    """Return the newest of some erases."""
    given = (link for link in links if link is not None)
    return max(given, key=lambda link: (link.number, link.seq), default=None)


def without_older(lines: Iterable[bytes]) -> list[bytes]:
    """Return the records without those of erases that are older than another one."""
    kept = list(lines)
    last = newest(kept)
    return [line for line in kept if _read(line) in (None, last)]


def without_erases(lines: Iterable[bytes]) -> list[bytes]:
    """Return the records that are of no erase: for a table that has no certificates."""
    return [line for line in lines if _read(line) is None]
