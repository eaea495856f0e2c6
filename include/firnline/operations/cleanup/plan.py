"""The plan of a clean-up: pure, printable, with the time until which the rest waits.

A record counts as visible since the oldest last-modified time among the existing log files that
carry it. A tombstone's own time is not enough: its committer may have died before publishing it,
and every reader has to have had the whole grace (docs/format.md, "Clean-up").
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import takewhile
from typing import Any

import msgspec

from firnline.errors import InvariantError
from firnline.log import dated
from firnline.log.records import LogContent
from firnline.log.schema_lines import folded_by_ours
from firnline.mirror.retention import Readers
from firnline.operations.cleanup.buried import (
    GRACE,
    LATE,
    LIMIT,
    Buried,
    Waiting,
    in_order,
)
from firnline.operations.cleanup.logs import deletable
from firnline.operations.cleanup.retention import first_kept, kept_ms
from firnline.paths import TablePaths
from firnline.properties.in_force import Waits, waits
from firnline.settings.load import TableSettings
from firnline.shown import ShownFigures
from firnline.state import v1_view
from firnline.state.dead import unpurged
from firnline.state.holds import dead_under_hold
from firnline.state.snapshot import Snapshot
from firnline.store.base import ObjectMeta
from firnline.types.schema import normalise
from firnline.types.sql import fold_name
from firnline.units import DAY_MS

_REVIVED = (
    "clients of version 1 take them for live, since another of them wrote down what it had read "
    "before they were dropped: the next transaction repairs it"
)
_MIRRORED = "the {format} mirror shows them, or did so within the grace"
_UNDER_HOLD = (
    "were dropped before a legal hold that may cover rows of them, which keeps those that still "
    "exist (`firnline hold TABLE`)"
)
_HELD = "hold something that no other log file carries"


class Doomed(msgspec.Struct, frozen=True, gc=False):
    """An object to delete; there may be a million of them."""

    key: str
    bytes: int


@dataclass(frozen=True, slots=True, repr=False)
class CleanupPlan(ShownFigures):
    """The objects to delete, in this order."""

    seq: int
    """Transaction of the snapshot it was made from."""
    purged: int
    """Purge horizon of that snapshot, unix ms."""
    parts: tuple[Doomed, ...]
    """Oldest tombstone first, so that whatever is done moves the horizon."""
    logs: tuple[Doomed, ...]
    transactions: tuple[Doomed, ...]
    """Transactions past their retention, oldest first."""
    waiting: tuple[Waiting, ...]
    forced: tuple[int, ...] = ()
    """Parts that may be deleted although a mirror shows them, which has not been published for so
    long; for each mirror."""
    gone: tuple[str, ...] = ()
    """Parts that may be deleted and have no object any more, as a listing showed."""
    cut: bool = False
    """``max_deletes`` cuts through the parts that one transaction replaced, before any other: the
    say how far this run came, and the next would delete the same parts again."""
    claims: tuple[Doomed, ...] = ()
    """Claims of keys of appends, and lists of imported files, that nobody needs any more."""

    @property
    def nothing_to_do(self) -> bool:
        """Return True if no object may be deleted, and no missing one waits to be forgotten."""
        return not (self.all or self.gone)

    @property
    def all(self) -> tuple[Doomed, ...]:
        """Objects to delete, of all kinds."""
        return (*self.parts, *self.logs, *self.transactions, *self.claims)

    @property
    def part_count(self) -> int:
        """Parts to delete."""
        return len(self.parts)

    @property
    def count(self) -> int:
        """Objects to delete."""
        return len(self.all)

    @property
    def bytes(self) -> int:
        """Bytes that become free."""
        return sum(d.bytes for d in self.all)

    def to_json(self) -> dict[str, Any]:
        """Plain data: totals for each kind of object, and what waits until when."""
        return {
            "seq": self.seq,
            "purged": self.purged,
            "parts": len(self.parts),
            "part_bytes": sum(d.bytes for d in self.parts),
            "log_files": len(self.logs),
            "txn_files": len(self.transactions),
            "claims": len(self.claims),
            "bytes": self.bytes,
            "waiting": [asdict(w) for w in self.waiting],
        }


def plan_cleanup(
    snapshot: Snapshot,
    transactions: Iterable[ObjectMeta],
    settings: TableSettings,
    now_ms: int,
    max_deletes: int | None = None,
    gone: Container[str] = (),
    *,
    old_types: bool = False,
    mirrors: Sequence[Readers] = (),
) -> CleanupPlan:
    """Decide what to delete.

    Args:
        snapshot: read with ``everything=True``: which log file carries what decides.
        transactions: listing of ``_txn/`` from its beginning; only its oldest part is consumed.
        settings: of the table.
        now_ms: wall clock.
        max_deletes: objects at most; None for the table's ``max_deletes_per_run``.
        gone: dead parts without an object, where that is known.
        old_types: folded log files that state another type than the table's do not wait.
        mirrors: what readers of the table's mirrors may use.

    Raises:
        InvariantError: the snapshot left folded log files out.
        LogCorruptError: something under ``_txn/`` is no transaction.
    """
    _refuse_partial(snapshot)
    others = waits(snapshot.properties, settings, now_ms)
    parts = _dead_parts(snapshot, others.grace, now_ms)
    revived = v1_view.live_parts(snapshot.contents)
    shown = [
        frozenset(b.key for b in parts if mirror.uses(b.tmb, b.due, now_ms)) - revived
        for mirror in mirrors
    ]
    due = [b for b in parts if b.due <= now_ms]
    under_hold = dead_under_hold(snapshot, (b.key for b in due))
    held = revived.union(under_hold, *shown)
    all_ripe = [b for b in due if b.key not in held]
    ripe_parts = [b for b in all_ripe if b.key not in gone]
    going_logs, waiting_logs = _logs(snapshot, others, now_ms, old_types=old_types)
    staying = [b for b in parts if b.due > now_ms or b.key in held]
    last = snapshot.seq + bool(all_ripe)  # with the one that this run commits
    old = transactions_past(snapshot, transactions, last, staying, others.grace, now_ms)
    limit = settings.cleanup.max_deletes_per_run if max_deletes is None else max_deletes
    taken_logs = going_logs[:limit]  # first: every reader pays for each
    taken_parts = ripe_parts[: limit - len(taken_logs)]
    left_parts = ripe_parts[len(taken_parts) :]
    waiting = [
        Waiting.of("parts", [b for b in parts if b.due > now_ms], GRACE, timed=True),
        Waiting.of("parts", left_parts, LIMIT),
        Waiting.of("log files", going_logs[len(taken_logs) :], LIMIT),
        Waiting.of("parts", [b for b in due if b.key in revived], _REVIVED),
        Waiting.of("parts", [b for b in due if b.key in under_hold], _UNDER_HOLD),
        *_mirrored(due, mirrors, shown),
        *waiting_logs,
    ]
    return CleanupPlan(
        seq=snapshot.seq,
        purged=snapshot.horizon,
        forced=tuple(sum(b.tmb > mirror.until for b in ripe_parts) for mirror in mirrors),
        parts=tuple(Doomed(b.key, b.bytes) for b in taken_parts),
        logs=tuple(Doomed(b.key, b.bytes) for b in taken_logs),
        transactions=doomed(old[: limit - len(taken_logs) - len(taken_parts)]),
        waiting=tuple(w for w in waiting if w.count),
        gone=tuple(b.key for b in all_ripe if b.key in gone),
        cut=bool(taken_parts and left_parts) and taken_parts[0].tmb == left_parts[0].tmb,
    )


def doomed(objects: Iterable[ObjectMeta]) -> tuple[Doomed, ...]:
    """Return objects as a plan names them."""
    return tuple(Doomed(meta.key, meta.size) for meta in objects)


def _refuse_partial(snapshot: Snapshot) -> None:
    if snapshot.skipped:
        raise InvariantError(
            "clean-up was given a snapshot that did not read every log file",
            next_step="nothing was deleted; report this with the log of the run",
        )


def _mirrored(
    due: Sequence[Buried], mirrors: Sequence[Readers], shown: Sequence[frozenset[str]]
) -> Iterator[Waiting]:
    """Yield what waits for each mirror; a part counts for the first one."""
    counted: set[str] = set()
    for mirror, keys in zip(mirrors, shown, strict=True):
        reason = _MIRRORED.format(format=mirror.format)
        yield Waiting.of("parts", [b for b in due if b.key in keys - counted], reason)
        counted |= keys


def _dead_parts(snapshot: Snapshot, grace: int, now_ms: int) -> list[Buried]:
    """Return parts that are dead and not confirmed deleted, oldest tombstone first."""
    seen = _seen(snapshot, lambda log: (m.p for m in log.markers if m.tmb is not None))
    dead_parts: list[Buried] = []
    for p, m in unpurged(snapshot).items():
        if m.tmb is not None:
            since = dated.since(m.tmb, seen[p], now_ms)
            dead_parts.append(Buried(p, m.b, m.tmb, since, since + grace))
    return in_order(dead_parts)


def _seen(snapshot: Snapshot, buried: Callable[[LogContent], Iterable[str]]) -> dict[str, int]:
    """Return since when readers can see each tombstone, unix ms by key.

    That is the time of the oldest log file that carries it. ``buried``: the keys that the
    tombstones of a log file name.
    """
    times = {key: snapshot.listing[key].modified_ms for key in snapshot.contents}
    seen: dict[str, int] = {}
    for log in sorted(times, key=times.__getitem__):
        for key in buried(snapshot.contents[log]):
            seen.setdefault(key, times[log])
    return seen


def _logs(
    snapshot: Snapshot, others: Waits, now_ms: int, *, old_types: bool
) -> tuple[list[Buried], list[Waiting]]:
    """Return the log files that may go, in this order, and those that wait."""
    folded = _folded_logs(snapshot, others.grace, now_ms, old_types=old_types)
    late = behind_fence(snapshot, others.grace)
    ripe = [b for b in folded if b.due <= now_ms]
    times = (now_ms - others.late_append, now_ms - others.forgotten)
    free = deletable(snapshot, {b.key for b in ripe}, *times)
    going = [*(b for b in late if b.due <= now_ms), *(b for b in ripe if b.key in free)]
    return going, [
        Waiting.of("log files", [b for b in folded if b.due > now_ms], GRACE, timed=True),
        Waiting.of("log files", [b for b in ripe if b.key not in free], _HELD),
        Waiting.of("log files", [b for b in late if b.due > now_ms], LATE, timed=True),
    ]


def _folded_logs(snapshot: Snapshot, grace: int, now_ms: int, *, old_types: bool) -> list[Buried]:
    """Return log files that others carry, oldest tombstone first."""
    early = stating_old_types(snapshot) if old_types else frozenset[str]()
    seen = _seen(snapshot, lambda log: (tombstone.p for tombstone in log.tombstones))
    folded_logs: list[Buried] = []
    for key, t in snapshot.log_tombstones.items():
        if key in snapshot.listing:
            since = dated.since(t, seen[key], now_ms)
            # Its writer repeats the put for half the grace: it must not come back.
            due = snapshot.listing[key].modified_ms + grace if key in early else since + grace
            folded_logs.append(Buried(key, snapshot.listing[key].size, t, since, due))
    return in_order(folded_logs)


def behind_fence(snapshot: Snapshot, grace: int) -> list[Buried]:
    """Return the log files that count for nobody (``log.fence``), oldest first.

    Whoever read the table before the fence passed one may use its parts for the grace from then on.
    """
    since = snapshot.behind_since
    return in_order(
        Buried(key, item.size, item.name.t, since[key], since[key] + grace)
        for key, item in snapshot.behind.items()
    )


def stating_old_types(snapshot: Snapshot) -> frozenset[str]:
    """Return log files that transactions of ours have folded and that contradict the schema.

    Clients of version 1 unite the schema lines of folded log files too, and refuse the table while
    one of these is there. No reader of ours needs them: what it has listed and does not find any
    more, it lists again, and finds who carries it.
    """
    table = {fold_name(name): (name, normalise(kind)) for name, kind in snapshot.schema.items()}
    folded = folded_by_ours(snapshot.log)
    return frozenset(
        key
        for key in folded & snapshot.contents.keys()
        for name, kind in snapshot.contents[key].schema.items()
        if table.get(fold_name(name), (name, normalise(kind))) != (name, normalise(kind))
    )


def transactions_past(
    snapshot: Snapshot,
    listing: Iterable[ObjectMeta],
    newest: int,
    staying: Iterable[Buried],
    grace: int,
    now_ms: int,
) -> list[ObjectMeta]:
    """Return transactions that may be deleted; ``staying``: dead parts that wait."""
    # A committer that published late, or dated it years ahead, wrote the transaction before both.
    oldest_staying = min((min(b.tmb, b.since) for b in staying), default=now_ms)
    cutoff = min(now_ms - kept_ms(grace), oldest_staying - DAY_MS)
    old = old_transactions(listing, snapshot.paths, newest, cutoff)
    # A number is free again only behind the fence: whoever slept over it is refused by that.
    old = [meta for meta in old if snapshot.paths.parse_txn(meta.key) <= snapshot.fence.seq]
    # What stands in an unfolded log file stands nowhere else: a rebuild of a lost log needs it.
    logs = snapshot.listing.items()
    named = {item.name.seq for key, item in logs if key not in snapshot.log_tombstones}
    return [meta for meta in old if snapshot.paths.parse_txn(meta.key) not in named]


def old_transactions(
    listing: Iterable[ObjectMeta], paths: TablePaths, newest: int, cutoff_ms: int
) -> list[ObjectMeta]:
    """Return transactions past their retention, oldest first.

    Args:
        listing: of ``_txn/``, in order.
        paths: of the table.
        newest: sequence number of the newest transaction.
        cutoff_ms: what was written at or after this time stays, unix ms.
    """
    first = first_kept(newest)
    older = takewhile(lambda meta: paths.parse_txn(meta.key) < first, listing)
    return [meta for meta in older if meta.modified_ms < cutoff_ms]


def purge_horizon(snapshot: Snapshot, confirmed: Container[str]) -> int:
    """Return the time up to which every tombstoned part is confirmed deleted, unix ms.

    The newest tombstone below the oldest one whose part is not confirmed. No later, although that
    would do as well: the states behind it can still be read in full.

    Args:
        snapshot: the base that is committed on. It may know tombstones that the plan did not.
        confirmed: parts whose deletion this very run saw confirmed.
    """
    dead = unpurged(snapshot)
    times = {m.tmb for m in dead.values() if m.tmb is not None}
    pending = min((m.tmb for p, m in dead.items() if m.tmb and p not in confirmed), default=None)
    done = (t for t in times if pending is None or t < pending)
    return max(done, default=snapshot.purged)
