"""Money that maintenance has spent and that merges have saved readers, by the history alone. Pure.

Nothing records how many scans there were: what is saved is told for 1,000 of the whole table.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from typing import Any

from firnline.log.txn_file import TxnHeader
from firnline.operations.inspect.cost import Requests
from firnline.operations.inspect.merging import DAYS
from firnline.operations.inspect.prices import Prices
from firnline.operations.what_if.transactions import (
    COUNTED,
    REMOVALS,
    Transactions,
    in_order,
    lines_of,
)
from firnline.units import DAY_MS

SCANS = 1_000
"""Scans for which savings are told."""
_READS = 2
"""Readings of the log by a run: for its plan, and for its work."""
_ENDS = REMOVALS | {"replace"}
"""Operations that take away what a merge has made, and with it what that saves."""
_ASSUMED = (
    "a transaction has sent what its operation promises, since no request is recorded",
    "each run has read the log twice, as in Airflow: for its plan, and for its work",
    "scans read the whole table, a GET for each part, and come evenly over this time",
    "a merge saves until a TTL run, a drop or a replace takes parts of one of its partitions",
)
_LEFT_OUT = (
    "storage, traffic and CPU",
    "looks that have found nothing to do",
    "verify and orphan sweep",
    "rewrites, updates, deletes and erases",
    "what merges of before this time still save",
)


@dataclass(frozen=True, slots=True)
class Money:
    """What maintenance has spent in a time, and what it has saved readers."""

    since: int
    """Unix ms."""
    until: int
    """Unix ms."""
    transactions: int
    """Merges, clean-ups, TTL runs and drops."""
    requests: Requests
    """That these have sent."""
    bytes_in: int
    """That merges have read."""
    bytes_out: int
    """That merges have written."""
    fewer: float
    """Parts that a scan of the whole table had not to open because of the merges, as a mean."""
    prices: Prices

    @property
    def spent(self) -> float:
        """US dollars of the requests."""
        return self.prices.of(self.requests)

    @property
    def saved(self) -> float:
        """US dollars that ``SCANS`` scans of the whole table have saved."""
        return self.prices.of(Requests(get=SCANS * self.fewer))

    @property
    def even(self) -> int | None:
        """Scans that save what was spent; None if a scan saves nothing."""
        return math.ceil(SCANS * self.spent / self.saved) if self.saved > 0 else None

    def to_json(self) -> dict[str, Any]:
        """Return plain data; times in milliseconds, sizes in bytes, money in US dollars."""
        return {
            "since": self.since,
            "until": self.until,
            "transactions": self.transactions,
            "requests": self.requests.to_json(),
            "bytes_in": self.bytes_in,
            "bytes_out": self.bytes_out,
            "usd_spent": round(self.spent, 6),
            "requests_saved_by_a_scan": round(self.fewer, 2),
            "usd_saved_by_1000_scans": round(self.saved, 6),
            "scans_to_be_even": self.even,
            "prices": {"put_of_1000": self.prices.put, "get_of_1000": self.prices.get},
            "assumed": list(_ASSUMED),
            "left_out": list(_LEFT_OUT),
        }


def money(
    headers: Sequence[TxnHeader], undone: Set[int], now_ms: int, grace_ms: int, prices: Prices
) -> Money | None:
    """Return the money of the last 30 days, or of the time that the transactions reach back.

    None without any transaction.

    Args:
        headers: newest transactions, newest first.
        undone: numbers of transactions of which nothing is left.
        now_ms: unix ms.
        grace_ms: ``cleanup.grace``.
        prices: of requests.
    """
    if not headers:
        return None
    ordered = sorted(headers, key=in_order)
    since = max(now_ms - DAYS * DAY_MS, ordered[0].t)
    before = [header for header in ordered if header.t < since]
    within = ordered[len(before) :]
    merges = [header for header in within if header.op == "merge"]
    return Money(
        since=since,
        until=now_ms,
        transactions=sum(header.op in COUNTED for header in within),
        requests=_requests(ordered, grace_ms) - _requests(before, grace_ms),
        bytes_in=sum(header.counts.bytes_in for header in merges),
        bytes_out=sum(header.counts.bytes_out for header in merges),
        fewer=_fewer(within, undone, since, now_ms),
        prices=prices,
    )


def _requests(ordered: Sequence[TxnHeader], grace_ms: int) -> Requests:
    """Return the requests of transactions, which are in their order."""
    history = Transactions(
        reads_of_merge=_READS, reads_of_cleanup=_READS, reads_of_removal=_READS, grace_ms=grace_ms
    )
    for header in ordered:
        history.ledger.append_folded(header.counts.logs_folded, lines_of(header))
        history.take(header)
    return history.ledger.requests


def _fewer(within: Sequence[TxnHeader], undone: Set[int], since: int, until: int) -> float:
    """Return the parts that merges have spared a scan, each for as long as it has saved."""
    spared = sum(
        (merge.counts.parts_in - merge.counts.parts_out) * max(0, end - merge.t)
        for merge, end in _with_ends(within, until)
        if merge.seq not in undone
    )
    return spared / max(1, until - since)


def _with_ends(within: Sequence[TxnHeader], until: int) -> Iterator[tuple[TxnHeader, int]]:
    """Yield the merges, each with the time until which it has saved, unix ms."""
    ends: dict[str, int] = {}
    for header in reversed(within):
        if header.op == "merge":
            yield header, min((ends.get(name, until) for name in header.partitions), default=until)
        elif header.op in _ENDS:
            ends |= dict.fromkeys(header.partitions, header.t)
