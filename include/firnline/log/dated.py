"""When something took effect that is dated ahead (docs/format.md, "Dates that are far ahead").

A log file can be dated years ahead, by the clock of its writer, and every later transaction has to
be dated after it. Nothing waits for such dates: what counts is when the log file became visible,
by the store's clock. As long as it is listed, its last-modified time says that; whoever folds it,
and every transaction that is dated so itself, writes it down in an extension record

    {"dated":{"t":time in the name,"at":when it took effect,"txn":true for a transaction}}

This module is the one place that judges such times; all of them are unix milliseconds.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from firnline.log.reader import LogObject

FAR_MS = 5 * 60_000
"""A date that is ahead of the store's clock by more than this says nothing about time. Clocks that
are kept by NTP differ by less, and a date that is ahead by less is over that soon."""


class _Dated(msgspec.Struct, frozen=True, omit_defaults=True):
    t: int
    at: int
    txn: bool = False


class _Record(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    dated: _Dated


_DECODE = msgspec.json.Decoder(_Record).decode


def since(t: int, seen: int, now: int) -> int:
    """Return since when something counts that is dated ``t`` and was visible at ``seen``.

    The later of both, for the store's clock may be behind. But nothing has happened in the future.
    """
    return seen if t > now + FAR_MS else max(t, seen)


def named_since(named: int | None, modified: int, now: int) -> int:
    """Return since when an object exists, by the time in its name and its last-modified time.

    The later of both: a copy may keep an old last-modified time. But nobody can have named an
    object in the future.
    """
    return modified if named is None or named > now + FAR_MS else max(named, modified)


def record(t: int, at: int, *, txn: bool = False) -> bytes:
    """Return the line that says since when something counts that is dated ``t``."""
    return msgspec.json.encode(_Record(_Dated(t, at, txn)))


def recorded(lines: Iterable[bytes]) -> dict[int, int]:
    """Return date -> when it took effect, from extension records of any kind."""
    found: dict[int, int] = {}
    for line in lines:
        one = _read(line)
        if one is not None:
            found[one.t] = min(one.at, found.get(one.t, one.at))
    return found


def listed(listing: Mapping[str, LogObject]) -> dict[int, int]:
    """Return date -> last-modified time of the log files that are dated far ahead of it."""
    found: dict[int, int] = {}
    for item in listing.values():
        t, modified = item.name.t, item.modified_ms
        if t > modified + FAR_MS:
            found[t] = min(modified, found.get(t, modified))
    return found


def of_transactions(listing: Mapping[str, LogObject], lines: Iterable[bytes]) -> frozenset[int]:
    """Return the dates, of those that are listed or recorded, that are of transactions."""
    records = (_read(line) for line in lines)
    recorded_ones = (one.t for one in records if one is not None and one.txn)
    return frozenset((*recorded_ones, *(i.name.t for i in listing.values() if i.name.seq)))


def known(listing: Mapping[str, LogObject], lines: Collection[bytes]) -> dict[int, int]:
    """Return date -> when it took effect, by what is listed and what is recorded.

    The earlier of both: the clock of who wrote the record may have been ahead. But a transaction's
    record that is later by no more than what is tolerated may say what it had to come after.
    """
    found, ahead = recorded(lines), listed(listing)
    if not found and not ahead:
        return {}  # as of nearly every table: nothing to put in order
    transactions = of_transactions(listing, lines)
    for t, seen in ahead.items():
        told = found.get(t, seen)
        late = t in transactions and seen < told <= seen + FAR_MS
        found[t] = told if late else min(seen, told)
    _put_in_order(found, sorted(transactions))
    return found


def _put_in_order(found: dict[int, int], transactions: Sequence[int]) -> None:
    """Transactions take effect one after the other, and never at once.

    A later one corrects what a clock that was ahead has recorded of one before it. One that is
    dated ahead by less counts from its date, and what is dated far ahead after it counts later.

    Args:
        found: date -> when it took effect, of dates that are far ahead; it is changed.
        transactions: dates of transactions, those that are not far ahead too, sorted.
    """
    far = [t for t in transactions if t in found]
    for t, later in zip(reversed(far[:-1]), reversed(far[1:]), strict=True):
        found[t] = min(found[t], found[later] - 1)
    latest = 0
    for t in transactions:
        if t in found:
            found[t] = max(found[t], latest + 1)
        latest = found.get(t, t)


def is_over(line: bytes, purged: int, used: Container[int]) -> bool:
    """Return True for a record that nobody needs.

    No state before the horizon is ever read. The horizon's own record stays, because it says which
    times are before the horizon.

    Args:
        line: an extension record of any kind.
        purged: the purge horizon.
        used: dates of parts and deletes that states behind the horizon have.
    """
    one = _read(line)
    return one is not None and one.t < purged and one.t not in used


def is_corrected(line: bytes, best: Mapping[int, int]) -> bool:
    """Return True for a record for which an earlier time is known (``recorded``)."""
    one = _read(line)
    return one is not None and best.get(one.t, one.at) < one.at


def _read(line: bytes) -> _Dated | None:
    """None for a record of another kind, or one that a later version writes otherwise."""
    if not line.startswith(b'{"dated"'):
        return None
    try:
        return _DECODE(line).dated
    except msgspec.MsgspecError:
        return None
