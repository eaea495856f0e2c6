"""Estimate what a clean-up of a large table would delete, by the numbers of a checkpoint.

A checkpoint has the time at which each part died, and not which log files say so. So this is an
estimate for whoever looks: a tombstone counts as seen since the log file of its transaction was
written, as far as that is still there, and each folded log file as carried by others. A clean-up
itself reads every log file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import msgspec

from firnline.log import dated
from firnline.log.parts_view import deaths
from firnline.operations.cleanup.buried import GRACE, LATE, LIMIT, Buried, Waiting, in_order
from firnline.operations.cleanup.plan import behind_fence, transactions_past
from firnline.properties.in_force import waits
from firnline.settings.load import TableSettings
from firnline.shown import ShownFigures
from firnline.state.snapshot import Snapshot
from firnline.store.base import ObjectMeta


@dataclass(frozen=True, slots=True, repr=False)
class CleanupEstimate(ShownFigures):
    """Numbers and sizes of the objects to delete."""

    seq: int
    """Transaction of the snapshot it was made from."""
    purged: int
    """Purge horizon of that snapshot, unix ms."""
    part_count: int
    part_bytes: int
    logs: int
    log_bytes: int
    transactions: int
    transaction_bytes: int
    waiting: tuple[Waiting, ...]

    @property
    def nothing_to_do(self) -> bool:
        """Return True if no object may be deleted."""
        return not (self.part_count or self.logs or self.transactions)

    @property
    def bytes(self) -> int:
        """Bytes that become free."""
        return self.part_bytes + self.log_bytes + self.transaction_bytes

    def to_json(self) -> dict[str, Any]:
        """Plain data as of a ``CleanupPlan``."""
        return {
            "seq": self.seq,
            "purged": self.purged,
            "parts": self.part_count,
            "part_bytes": self.part_bytes,
            "log_files": self.logs,
            "txn_files": self.transactions,
            "claims": 0,
            "bytes": self.bytes,
            "waiting": [asdict(w) for w in self.waiting],
            "estimated": True,
        }


@dataclass(frozen=True, slots=True)
class _Parts:
    """The parts that one transaction buried."""

    count: int
    all: Buried
    """Time of their death, and the sum of their bytes."""


def estimate_cleanup(
    snapshot: Snapshot,
    transactions: Iterable[ObjectMeta],
    settings: TableSettings,
    now_ms: int,
    max_deletes: int | None = None,
) -> CleanupEstimate:
    """Return what a clean-up would delete now; creates no marker of the checkpoint's parts.

    Args:
        snapshot: with or without a checkpoint; of a table without a legal hold.
        transactions, settings, now_ms, max_deletes: as of ``plan_cleanup``.

    Raises LogCorruptError: something under ``_txn/`` is no transaction.
    """
    others = waits(snapshot.properties, settings, now_ms)
    seen = _seen(snapshot, now_ms)
    parts = _parts(snapshot, others.grace, seen)
    folded = _folded(snapshot, others.grace, seen)
    late = behind_fence(snapshot, others.grace)
    ripe = [each for each in parts if each.all.due <= now_ms]
    logs = [each for each in (*late, *folded) if each.due <= now_ms]
    staying = [each for each in parts if each.all.due > now_ms]
    last = snapshot.seq + bool(ripe)
    stay = (each.all for each in staying)
    old = transactions_past(snapshot, transactions, last, stay, others.grace, now_ms)
    limit = settings.cleanup.max_deletes_per_run if max_deletes is None else max_deletes
    taken_logs, left_logs = logs[:limit], logs[limit:]
    count, size, left = _taken(ripe, limit - len(taken_logs))
    taken_old = old[: limit - len(taken_logs) - count]
    waiting = (
        _summed(staying, GRACE, timed=True),
        _summed(left, LIMIT),
        Waiting.of("log files", left_logs, LIMIT),
        Waiting.of("log files", [b for b in folded if b.due > now_ms], GRACE, timed=True),
        Waiting.of("log files", [b for b in late if b.due > now_ms], LATE, timed=True),
    )
    return CleanupEstimate(
        seq=snapshot.seq,
        purged=snapshot.horizon,
        part_count=count,
        part_bytes=size,
        logs=len(taken_logs),
        log_bytes=sum(b.bytes for b in taken_logs),
        transactions=len(taken_old),
        transaction_bytes=sum(meta.size for meta in taken_old),
        waiting=tuple(w for w in waiting if w.count),
    )


def _parts(snapshot: Snapshot, grace: int, seen: Callable[[int], int]) -> list[_Parts]:
    """Return the dead parts that are not confirmed deleted, oldest tombstone first."""
    return [
        _Parts(dead.parts, Buried("", dead.bytes, t, seen(t), seen(t) + grace))
        for t, dead in sorted(deaths(snapshot.parts).items())
        if t > snapshot.purged
    ]


def _folded(snapshot: Snapshot, grace: int, seen: Callable[[int], int]) -> list[Buried]:
    """Return log files that others carry, oldest tombstone first."""
    return in_order(
        Buried(key, snapshot.listing[key].size, t, seen(t), seen(t) + grace)
        for key, t in snapshot.log_tombstones.items()
        if key in snapshot.listing
    )


def _seen(snapshot: Snapshot, now_ms: int) -> Callable[[int], int]:
    """Return a function: time of a tombstone -> since when readers can see it; both unix ms."""
    items = snapshot.listing.values()
    written = {item.name.t: item.modified_ms for item in items if item.name.seq}
    return lambda t: dated.since(t, written.get(t, t), now_ms)


def _taken(ripe: Sequence[_Parts], limit: int) -> tuple[int, int, list[_Parts]]:
    """Return how many parts one run takes, oldest first, their bytes, and what is left.

    Where the limit cuts through the parts of one transaction, each counts with their mean size.
    """
    count = size = 0
    left: list[_Parts] = []
    for each in ripe:
        taken = min(each.count, limit - count)
        share = each.all.bytes * taken // each.count
        count, size = count + taken, size + share
        if taken < each.count:
            rest = msgspec.structs.replace(each.all, bytes=each.all.bytes - share)
            left.append(_Parts(each.count - taken, rest))
    return count, size, left


def _summed(parts: Sequence[_Parts], reason: str, *, timed: bool = False) -> Waiting:
    found = Waiting.of("parts", [each.all for each in parts], reason, timed=timed)
    return replace(found, count=sum(each.count for each in parts))
