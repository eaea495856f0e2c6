"""The figures of one table's health: pure, from a snapshot, the history and the plans.

A scan pays at least one request for each live part, so parts that a merge would take away are
requests that every scan pays until then.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from firnline.errors import FirnlineError
from firnline.log.parts_view import figures, totals
from firnline.log.txn_file import TxnHeader
from firnline.operations.cleanup.estimate import CleanupEstimate
from firnline.operations.cleanup.plan import CleanupPlan
from firnline.operations.drop.expired import TtlPlan
from firnline.operations.health.reading import Reading
from firnline.operations.merge.plan import MergePlan
from firnline.operations.merge.tiers import is_small
from firnline.operations.runner import Report
from firnline.properties.in_force import differences

_NO_LIMIT = 2**62


class Last(msgspec.Struct, frozen=True, kw_only=True):
    """The newest transaction of one operation."""

    seq: int
    t: int
    """Unix ms."""
    dag_id: str
    run_id: str


class Figures(Report, frozen=True, kw_only=True):
    """The figures of a table now. Sizes are bytes, times unix milliseconds."""

    seq: int
    """Newest transaction."""
    newest_ms: int
    """Time of the newest log file; 0 for a table without one."""
    partitions: int
    parts: int
    """Live parts: the requests that a scan of the whole table pays at least."""
    rows: int | None
    """None if a part does not state its rows."""
    bytes: int
    small_parts: int
    merge_parts: int
    """Parts that a merge would read and replace now."""
    merge_outputs: int
    merge_bytes: int
    merge_due: int | None
    """Time at which there is more to merge although nothing is written: parts have settled, or a
    partition is finished. None if no part waits for that."""
    dead_parts: int
    dead_bytes: int
    """Bytes of dead parts and folded log files."""
    deletable_bytes: int
    """Those of them that a clean-up may delete now."""
    next_due: int | None
    """Time at which the first of the others may be deleted."""
    last_due: int | None
    """Time at which the last of the others may be deleted."""
    expired_parts: int
    """Parts that a TTL run would drop now."""
    expired_bytes: int
    deletes: int
    """Delete records that merges have not applied to every part yet."""
    log_files: int
    log_bytes: int
    log_files_read: int
    """Log files that each reader reads, not folded into others."""
    last: dict[str, Last]
    """Operation -> its newest transaction, of those that were looked at."""
    differs: tuple[str, ...]
    """Properties that the settings state differently from the table."""
    holds: int
    """Legal holds in force."""
    problems: tuple[str, ...] = ()
    """Plans that cannot be made, as sentences with the next step."""

    @property
    def holds_until(self) -> int | None:
        """Return the time at which a figure changes although nothing is written; None for never."""
        times = [t for t in (self.next_due, self.merge_due) if t is not None]
        return min(times, default=None)

    @property
    def saved(self) -> int:
        """Return the requests that every scan would save after a merge."""
        return self.merge_parts - self.merge_outputs


def figures_of(reading: Reading) -> Figures:
    """Return the figures of a table."""
    snapshot = reading.snapshot
    live = totals(snapshot.live)
    listed = snapshot.listing
    policy = reading.settings.merge
    own = reading.properties
    differing = () if own is None else differences(reading.wanted, own)
    return Figures(
        seq=snapshot.seq,
        newest_ms=snapshot.newest_t,
        partitions=len(snapshot.partitions),
        parts=live.parts,
        rows=live.rows,
        bytes=live.bytes,
        small_parts=sum(
            is_small(b, n, policy)
            for one in figures(snapshot.partitions)
            for b, n in zip(one.sizes, one.rows, strict=True)
        ),
        **_to_merge(reading.merge),
        **_dead(reading.cleanup(_NO_LIMIT)),
        **_expired(reading.ttl),
        deletes=len(snapshot.deletes),
        log_files=len(listed),
        log_bytes=sum(item.size for item in listed.values()),
        log_files_read=len(listed.keys() - snapshot.log_tombstones.keys()),
        last=_last(reading.headers),
        differs=tuple(difference.name for difference in differing),
        holds=0 if own is None else len(own.held),
        problems=_problems(reading),
    )


def _to_merge(plan: MergePlan | FirnlineError) -> dict[str, Any]:
    if isinstance(plan, FirnlineError):
        return {"merge_parts": 0, "merge_outputs": 0, "merge_bytes": 0, "merge_due": None}
    return {
        "merge_parts": plan.parts_in + plan.parts_hidden,
        "merge_outputs": plan.parts_out,
        "merge_bytes": plan.bytes_in,
        "merge_due": plan.next_due,
    }


def _expired(plan: TtlPlan | FirnlineError | None) -> dict[str, int]:
    if plan is None or isinstance(plan, FirnlineError):
        return {"expired_parts": 0, "expired_bytes": 0}
    return {"expired_parts": plan.parts, "expired_bytes": plan.bytes}


def _problems(reading: Reading) -> tuple[str, ...]:
    plans = {"merge": reading.merge, "TTL run": reading.ttl}
    return tuple(
        f"no {name} can be planned: {plan.message}; {plan.next_step}"
        for name, plan in plans.items()
        if isinstance(plan, FirnlineError)
    )


def _dead(plan: CleanupPlan | CleanupEstimate) -> dict[str, Any]:
    waiting = [one for one in plan.waiting if one.first_ms is not None]
    return {
        "dead_parts": plan.part_count + sum(w.count for w in plan.waiting if w.what == "parts"),
        "dead_bytes": plan.bytes + sum(w.bytes for w in plan.waiting),
        "deletable_bytes": plan.bytes,
        "next_due": min((w.first_ms for w in waiting if w.first_ms is not None), default=None),
        "last_due": max((w.last_ms for w in waiting if w.last_ms is not None), default=None),
    }


def _last(headers: Sequence[TxnHeader]) -> dict[str, Last]:
    last_by_op: dict[str, Last] = {}
    for header in headers:
        run = header.run
        last_by_op.setdefault(
            header.op, Last(seq=header.seq, t=header.t, dag_id=run.dag_id, run_id=run.run_id)
        )
    return last_by_op
