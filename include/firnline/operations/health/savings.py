"""Requests and bytes that maintenance has saved, over time: from the history alone. Pure.

A merge of n parts into m saves every later scan of them n - m requests; a clean-up that deletes
dead parts saves their bytes. A merge that a restore has undone saves nothing.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Any

import msgspec

from firnline.log.txn_file import TxnHeader

STEPS_MS = tuple(hours * 3_600_000 for hours in (1, 6, 24, 7 * 24))
"""Lengths of a bucket: the first by which the history fits into ``BUCKETS``, else the last."""
BUCKETS = 60


class Saved(msgspec.Struct, frozen=True, kw_only=True):
    """Requests and bytes saved by the transactions of one bucket."""

    t: int
    """Begin of the bucket, unix ms."""
    requests: int
    """Requests fewer for a scan of the whole table."""
    bytes: int
    """Bytes deleted by clean-ups."""


class Savings(msgspec.Struct, frozen=True, kw_only=True):
    """Savings over time."""

    since: int | None
    """Time of the oldest transaction that was looked at, unix ms; None without any."""
    step_ms: int
    """Length of a bucket."""
    requests: int
    bytes: int
    buckets: tuple[Saved, ...]
    """From the oldest to the newest, those between without savings included."""

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        plain: dict[str, Any] = msgspec.to_builtins(self)
        return plain


def savings(headers: Sequence[TxnHeader], undone: Set[int] = frozenset()) -> Savings:
    """Return what the transactions have saved.

    Args:
        headers: newest transactions, newest first.
        undone: numbers of transactions of which nothing is left.
    """
    kept = [header for header in headers if header.seq not in undone]
    times = [header.t for header in headers]
    first, last = min(times, default=0), max(times, default=0)
    fits = (step for step in STEPS_MS if last // step - first // step < BUCKETS)
    step = next(fits, STEPS_MS[-1])
    by_step = {t: (0, 0) for t in range(first - first % step, last + 1, step) if headers}
    for header in kept:
        begin = header.t - header.t % step
        requests, size = by_step[begin]
        by_step[begin] = (requests + _requests(header), size + _bytes(header))
    return Savings(
        since=first if headers else None,
        step_ms=step,
        requests=sum(map(_requests, kept)),
        bytes=sum(map(_bytes, kept)),
        buckets=tuple(Saved(t=t, requests=r, bytes=b) for t, (r, b) in by_step.items()),
    )


def _requests(header: TxnHeader) -> int:
    return header.counts.parts_in - header.counts.parts_out if header.op == "merge" else 0


def _bytes(header: TxnHeader) -> int:
    return header.counts.bytes_in if header.op == "cleanup" else 0
