"""Parse a point in a table's history, a time or a transaction number, and read its state."""

from __future__ import annotations

import datetime
import re
from dataclasses import dataclass
from numbers import Integral

from firnline.errors import UsageError
from firnline.state.health import no_table
from firnline.state.history import time_of
from firnline.state.snapshot import Snapshot, read_snapshot
from firnline.table import Table
from firnline.units import parse_utc

At = datetime.datetime | str | int
"""An aware datetime, ISO 8601 text (in UTC without a zone), unix milliseconds, or the number of a
transaction."""
_FIRST_MS = 10**9
"""A smaller number is a transaction; a larger one is milliseconds since 1970."""
_NUMBER = re.compile(r"[0-9]{1,15}")
_STEP = "write it as 2026-01-31T12:00:00Z, as unix milliseconds, or a transaction's number"


@dataclass(frozen=True, slots=True)
class Moment:
    """A point in a table's history: exactly one of the fields is set."""

    ms: int | None = None
    """Unix milliseconds."""
    seq: int | None = None
    """State right after this transaction; 0 is the state before the first one."""


def parse_moment(at: At, now_ms: int) -> Moment:
    """Parse a time or a transaction number. Raises UsageError, for a time in the future too."""
    if isinstance(at, str):
        text = at.strip()
        number = int(text) if _NUMBER.fullmatch(text) else None
        moment = _number(number) if number is not None else Moment(ms=_of_text(text))
    elif isinstance(at, datetime.datetime):
        moment = Moment(ms=_of_datetime(at))
    elif isinstance(at, bool) or not isinstance(at, Integral) or at < 0:
        raise UsageError(f"{at!r} is not a time", next_step=_STEP)
    else:
        moment = _number(at)
    if moment.ms is not None and moment.ms > now_ms:
        # The answer would change with every append until then.
        raise UsageError(
            f"the time {str(at)!r} lies in the future",
            next_step="leave it out for the newest state",
        )
    return moment


def reversed_ends(start: object, end: object, *, names: str = "the two") -> UsageError:
    """Return the error for two states of which the second is before the first.

    Args:
        start: the beginning, as it was given.
        end: the end, likewise.
        names: what is to be exchanged.
    """
    return UsageError(
        f"the end {str(end)!r} is before the beginning {str(start)!r}",
        next_step=f"exchange {names}",
    )


def time_ms(table: Table, at: At, snapshot: Snapshot) -> int:
    """Unix milliseconds of a moment by the clock, as ``Snapshot.at`` takes it.

    For a transaction one ranged GET. A transaction may be dated years after the moment at which it
    took effect; the snapshot knows that moment.

    Raises UsageError; SnapshotExpiredError for a transaction whose record or parts are gone.
    """
    moment = parse_moment(at, table.clock.now_ms())
    if moment.ms is not None:
        return moment.ms
    if moment.seq:
        return snapshot.clock_of(time_of(table, moment.seq))
    return snapshot.effective(time_of(table, 0) + 1) - 1  # before the first


def snapshot_at(table: Table, at: At | None = None) -> Snapshot:
    """Return the newest state of a table, or its state at a moment.

    Raises:
        UsageError: there is no such table, time or transaction.
        SnapshotExpiredError: parts of that time are deleted.
        others: as ``read_snapshot``.
    """
    if at is not None:
        parse_moment(at, table.clock.now_ms())  # an invalid moment costs no request
    snapshot = read_snapshot(table.store, table.paths)
    if not snapshot.listing:
        raise no_table(table)
    return snapshot if at is None else snapshot.at(time_ms(table, at, snapshot))


def _number(number: int) -> Moment:
    return Moment(seq=number) if number < _FIRST_MS else Moment(ms=number)


def _of_text(text: str) -> int:
    try:
        return parse_utc(text)
    except ValueError:
        raise UsageError(f"{text!r} is not a time", next_step=_STEP) from None


def _of_datetime(moment: datetime.datetime) -> int:
    if moment.tzinfo is None:  # Python takes it for the time of this machine
        raise UsageError(
            f"the time {str(moment)!r} has no zone", next_step="pass one with tzinfo=datetime.UTC"
        )
    return round(moment.timestamp() * 1000)
