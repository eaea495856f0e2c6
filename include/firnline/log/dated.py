"""Effective times of log files dated in the future (docs/format.md, "Dates that are far ahead").

A log file can be dated years ahead, by the clock of its writer, and every later transaction has to
be dated after it. Nothing waits for such dates: the effective time is when the log file became
visible, by the store's clock. As long as it is listed, its last-modified time gives it. A
transaction that folds it, or has such a date itself, writes it to an extension record

    {"dated":{"t":time in the name,"at":when it took effect,"txn":true for a transaction}}

Only this module evaluates such times; all of them are unix milliseconds.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from firnline.ids import uuid7_time_ms
from firnline.log.record_kind import RecordKind

if TYPE_CHECKING:
    from firnline.log.reader import LogObject

FAR_MS = 5 * 60_000
"""Milliseconds ahead of the store's clock beyond which a date is not trusted. Clocks that are
synchronised by NTP differ by less, and a date that is ahead by less is soon in the past."""

STEPS_MS = 60_000
"""Milliseconds that transactions may be ahead beyond that: each is dated a millisecond after
everything before it, so that a date which is trusted is followed by transactions that have to be
trusted, too."""


class _Dated(msgspec.Struct, frozen=True, omit_defaults=True):
    t: int
    at: int
    txn: bool = False


_KIND = RecordKind("dated", _Dated)
_read = _KIND.read


def is_far(t: int, now: int, *, transaction: bool) -> bool:
    """Return True if the date of a transaction, or of anything else, is not trusted at ``now``."""
    return t > now + FAR_MS + (STEPS_MS if transaction else 0)


def since(t: int, seen: int, now: int) -> int:
    """Return the effective time of something that is dated ``t`` and was visible at ``seen``.

    It is the later of both, since the store's clock may be behind; but never in the future.
    """
    return seen if is_far(t, now, transaction=False) else max(t, seen)


def named_since(named: int | None, modified: int, now: int) -> int:
    """Return the creation time of an object, from the time in its name and its last-modified time.

    It is the later of both, since a copy may keep an old last-modified time; but never in the
    future.
    """
    trusted = _trusted(named, now)
    return modified if trusted is None else max(trusted, modified)


def named_at(key: str) -> int | None:
    """Return the time in the name of a part (a UUIDv7), unix ms; None if it has none."""
    try:
        return uuid7_time_ms(key.rpartition("/")[2].removesuffix(".parquet"))
    except ValueError:
        return None


def written_since(key: str, modified: int, now: int) -> int:
    """Return since when a part is certain to be complete: its age counts from then.

    For whoever waits until nobody can be about to name it (``named_since``).
    """
    return named_since(named_at(key), modified, now)


def begun_by(key: str, modified: int, now: int) -> int:
    """Return when a part was certainly begun, by its name or, where that is earlier, by the store.

    For whoever judges by it what must have seen the part: after a copy of a bucket only the name
    is as old as the part.
    """
    trusted = _trusted(named_at(key), now)
    return modified if trusted is None else min(trusted, modified)


def _trusted(named: int | None, now: int) -> int | None:
    return None if named is None or is_far(named, now, transaction=False) else named


def record(t: int, at: int, *, txn: bool = False) -> bytes:
    """Return the record line of the effective time ``at`` of something that is dated ``t``."""
    return _KIND.line(_Dated(t, at, txn))


def recorded(lines: Iterable[bytes]) -> dict[int, int]:
    """Return date -> effective time, from extension records of any kind."""
    dates: dict[int, int] = {}
    for line in lines:
        one = _read(line)
        if one is not None:
            dates[one.t] = min(one.at, dates.get(one.t, one.at))
    return dates


def listed(listing: Mapping[str, LogObject]) -> dict[int, int]:
    """Return date -> last-modified time, of the log files that are dated far ahead of it."""
    dates: dict[int, int] = {}
    for item in listing.values():
        t, modified = item.name.t, item.modified_ms
        if _is_far(item):
            dates[t] = min(modified, dates.get(t, modified))
    return dates


def of_transactions(listing: Mapping[str, LogObject], lines: Iterable[bytes]) -> frozenset[int]:
    """Return the dates of transactions, among those that are listed or recorded."""
    records = (_read(line) for line in lines)
    recorded_ones = (one.t for one in records if one is not None and one.txn)
    return frozenset((*recorded_ones, *(i.name.t for i in listing.values() if i.name.seq)))


def known(listing: Mapping[str, LogObject], lines: Collection[bytes]) -> dict[int, int]:
    """Return date -> effective time, from the listing and the records.

    It is the earlier of both, since the clock of the record's writer may have been ahead. But the
    record of a transaction that is later by no more than ``FAR_MS`` wins: it may reflect what the
    transaction had to come after.
    """
    dates, ahead = recorded(lines), listed(listing)
    if not dates and not ahead:
        return {}  # as for nearly every table
    transactions = of_transactions(listing, lines)
    for t in ahead.keys() - transactions:
        dates[t] = min(ahead[t], dates.get(t, ahead[t]))
    dates |= _of_listed({t: ahead[t] for t in sorted(ahead.keys() & transactions)}, dates, listing)
    _put_in_order(dates, sorted(transactions))
    return dates


def _of_listed(
    ahead: Mapping[int, int], stated: Mapping[int, int], listing: Mapping[str, LogObject]
) -> dict[int, int]:
    """Return date -> effective time of the transactions that are listed and dated far ahead.

    A transaction takes effect after all that it read, which may be dated ahead by less. It records
    its time only if its date is far ahead of that; for others the listing tells what they read.

    Args:
        ahead: date -> last-modified time, sorted by date.
        stated: date -> recorded time.
        listing: all log files.
    """
    near = [i for i in listing.values() if i.name.t > i.modified_ms and not _is_far(i)]
    dates: dict[int, int] = {}
    latest = 0
    for t, seen in ahead.items():
        read = (item.name.t for item in near if item.modified_ms <= seen)
        at = stated.get(t)
        if at is None:
            at = max(seen, latest + 1, *(date + 1 for date in read))
        elif not seen < at <= seen + FAR_MS:
            at = min(seen, at)
        dates[t] = at
        latest = at if at > seen else 0
    return dates


def _is_far(item: LogObject) -> bool:
    return is_far(item.name.t, item.modified_ms, transaction=bool(item.name.seq))


def _put_in_order(dates: dict[int, int], transactions: Sequence[int]) -> None:
    """Make the effective times of transactions strictly increasing, in place.

    The time of a later transaction corrects the record of an earlier one by a clock that was ahead.
    A transaction that is not dated far ahead takes effect at its date, and one that is dated far
    ahead after it takes effect later.

    Args:
        dates: date -> effective time, of dates that are far ahead; it is changed.
        transactions: dates of all transactions, sorted.
    """
    far = [t for t in transactions if t in dates]
    for t, later in zip(reversed(far[:-1]), reversed(far[1:]), strict=True):
        dates[t] = min(dates[t], dates[later] - 1)
    latest = 0
    for t in transactions:
        if t in dates:
            dates[t] = max(dates[t], latest + 1)
        latest = dates.get(t, t)


def is_over(line: bytes, purged: int, used: Container[int]) -> bool:
    """Return True for a record that is no longer needed.

    No state before the horizon is ever read. The horizon's own record stays, because it determines
    which times are before the horizon.

    Args:
        line: an extension record of any kind.
        purged: the purge horizon.
        used: dates of parts and deletes of the states after the horizon.
    """
    one = _read(line)
    return one is not None and one.t < purged and one.t not in used


def is_corrected(line: bytes, best: Mapping[int, int]) -> bool:
    """Return True for a record if ``best`` has an earlier time (``recorded``)."""
    one = _read(line)
    return one is not None and best.get(one.t, one.at) < one.at
