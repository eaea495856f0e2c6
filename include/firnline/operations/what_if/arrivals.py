"""The parts that have arrived in a table, as its own records state them. Pure.

The markers in the log, those of dead parts among them, are exact since the purge horizon: of what
came later nothing is forgotten. Of earlier appends there are the parts that merges have made of
them, with the times of their first and last rows, and the counts in the headers of the history: by
these they are reconstructed, evenly over that time and in parts of the mean size.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from firnline.errors import UsageError
from firnline.ids import format_uuid7
from firnline.log.records import NO_STATS, Marker
from firnline.log.txn_file import TxnHeader
from firnline.operations.what_if.transactions import REMOVALS
from firnline.state.effect import first_of_run
from firnline.state.snapshot import Snapshot

_SILENT = frozenset({"cleanup", "analyze", "properties", "sweep", "evolve"})
"""Operations that change no part, or whose counts are no parts of the table's state."""
_PLAYED = _SILENT | REMOVALS | {"merge"}
_LARGEST_SHARE = 2.0
"""Of ``Recorded.ratio``: merges that write more than that have done something else besides."""
_SOME_PARTS = 20
"""Parts of appends whose mean size says something of others."""


class Arrival(NamedTuple):
    """A part that an append has brought."""

    t: int
    """Unix ms."""
    partition: str
    marker: Marker
    share: float
    """Of the append's log file: 1 / number of the append's parts."""


class Dropped(NamedTuple):
    """Partitions that a person has dropped."""

    t: int
    """Unix ms."""
    partitions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Recorded:
    """What a table has recorded of its arrivals, between two times."""

    start: int
    """Unix ms; what was there by then is in ``initial``."""
    end: int
    """Unix ms."""
    since: int
    """Time from which on every arrival is exact, unix ms."""
    initial: tuple[Marker, ...]
    """Live parts at the start."""
    arrivals: tuple[Arrival, ...]
    """By time."""
    drops: tuple[Dropped, ...] = ()
    """By time."""
    reconstructed: int = 0
    """Arrivals that are known only by what merges have made of them."""
    mean_bytes: int = 0
    """Of a reconstructed part; 0 without any."""
    ratio: float = 1.0
    """Bytes that a merge writes for each byte of a part that was never merged; measured."""
    cut: bool = False
    """True if there were more arrivals than may be played, so that the start is later."""
    not_played: Mapping[str, int] = field(default_factory=dict)
    """Operation -> transactions of the time that changed parts and are left out."""

    @property
    def bytes(self) -> int:
        """Bytes of all arrivals."""
        return sum(each.marker.b for each in self.arrivals)


def recorded(
    snapshot: Snapshot, headers: Sequence[TxnHeader], start_ms: int, now_ms: int, most: int
) -> Recorded:
    """Return the arrivals since a time, as well as the table's records state them.

    Memory: about 1 KB for each arrival.

    Args:
        snapshot: the newest state, dead parts included.
        headers: transactions since ``start_ms``, in any order.
        start_ms: unix ms; a younger table is taken from its first part on, one whose clean-up has
            deleted the first transactions of this time from the oldest that is left on.
        now_ms: unix ms.
        most: arrivals at most; of more the newest are taken.

    Raises UsageError: there is neither an append that is known nor a merge that could tell of any.
    """
    log = _Log.of(snapshot, headers, now_ms)
    if not log.arrived and not log.spans:
        raise UsageError(
            f"the log under {snapshot.paths.log_dir} has no part of an append, and no merge of "
            "which appends could be reconstructed",
            next_step="append to the table, and ask again after some merges",
        )
    start = max(start_ms, log.first, log.history_from)
    # Of more the newest: the start is as late as it has to be.
    late = _latest(log, start, now_ms, most)
    arrivals = sorted(log.after(late), key=lambda each: (each.t, each.marker.p))
    rebuilt = sum(log.parts_after(span, late) for span in log.spans)
    since = max(late, log.horizon)
    times = (header for header in headers if late < header.t <= now_ms)
    return Recorded(
        start=late,
        end=now_ms,
        since=since if rebuilt else late,
        initial=tuple(log.at(late)),
        arrivals=tuple(arrivals),
        drops=tuple(
            sorted(Dropped(h.t, h.partitions) for h in headers if h.op == "drop" and h.t > late)
        ),
        reconstructed=rebuilt,
        mean_bytes=round(log.mean) if rebuilt else 0,
        ratio=log.ratio,
        cut=late > start,
        not_played=dict(Counter(h.op for h in times if h.op not in _PLAYED)),
    )


def _history_from(headers: Sequence[TxnHeader]) -> int:
    """Return the time from which all transactions are known, unix ms; 0: from the table's first.

    Whether older ones lie before the time asked for or were deleted makes no difference that
    matters: then the first is from soon after it. Of those that a clean-up deletes single ones
    stay, which an unfolded log file names.
    """
    times = {header.seq: header.t for header in headers}
    if not times:
        return 0
    first = first_of_run(times)
    return 0 if first == 1 else times[first] - 1


def came_with(marker: Marker) -> bool:
    """Return True for a part as an append has written it: its rows are as old as its log file."""
    return marker.order() == (marker.t, marker.t)


class _Span(NamedTuple):
    """Rows of a partition that came between two times, in parts that nobody knows any more."""

    partition: str
    first: int
    """Unix ms."""
    last: int
    """Unix ms."""
    bytes: int
    """Of the parts that came, not of what merges have made of them."""
    rows: int | None
    stats: msgspec.Raw
    merged: Marker | None
    """The part that holds the rows; None for those that are dropped."""


@dataclass(frozen=True, slots=True)
class _Log:
    """What the log and the history say, put in order."""

    snapshot: Snapshot
    horizon: int
    """Everything that came after it is known, unix ms."""
    history_from: int
    """As of ``_history_from``."""
    arrived: tuple[Marker, ...]
    """Parts as appends have written them."""
    known: tuple[Marker, ...]
    """All parts that were live at some time after the horizon."""
    spans: tuple[_Span, ...]
    mean: float
    """Bytes of a part that nobody knows."""
    ratio: float
    shares: Mapping[int, float]
    """Time of an append -> 1 / its parts."""
    share: float
    """The mean of ``shares``."""

    @classmethod
    def of(cls, snapshot: Snapshot, headers: Sequence[TxnHeader], now_ms: int) -> _Log:
        horizon, history_from = snapshot.purged, _history_from(headers)
        parts = snapshot.parts.values()
        known = [m for m in parts if m.t <= now_ms and (m.tmb is None or m.tmb > horizon)]
        arrived = [m for m in known if came_with(m)]
        ratio = _ratio(arrived, headers)
        made = [m for m in known if m.t <= horizon and not came_with(m)]
        before = [header for header in headers if header.t <= horizon]
        gone = list(_gone(snapshot, before, arrived))
        spans = [*(_span(snapshot, m, ratio) for m in made), *gone]
        counted = Counter(m.t for m in arrived)
        return cls(
            snapshot=snapshot,
            horizon=horizon,
            arrived=tuple(arrived),
            known=tuple(known),
            spans=tuple(spans),
            history_from=history_from,
            mean=_mean(before, spans, arrived, whole=not history_from),
            ratio=ratio,
            shares={t: 1 / count for t, count in counted.items()},
            share=len(counted) / len(arrived) if arrived else 1.0,
        )

    @property
    def first(self) -> int:
        """Time before the first part that is known, unix ms."""
        firsts = (span.first for span in self.spans)
        return min((*firsts, *(m.t for m in self.arrived))) - 1

    def parts_after(self, span: _Span, t: int) -> int:
        """Return how many of a span's parts came after a time."""
        count, length = self._count(span), span.last - span.first
        if t < span.first or t >= span.last or count == 1:
            return 0 if t >= span.last else count
        # Part p came at first + length * p // (count - 1).
        return count - 1 - ((t - span.first + 1) * (count - 1) - 1) // length

    def after(self, t: int) -> Iterator[Arrival]:
        """Yield what came after a time."""
        paths = self.snapshot.paths
        for marker in self.arrived:
            if marker.t > t:
                alive = marker if marker.tmb is None else msgspec.structs.replace(marker, tmb=None)
                yield Arrival(marker.t, paths.partition_of(marker.p), alive, self.shares[marker.t])
        for number, span in enumerate(self.spans):
            if span.last > t:
                parts = self._parts(span, number)
                yield from (Arrival(m.t, span.partition, m, self.share) for m in parts if m.t > t)

    def at(self, t: int) -> Iterator[Marker]:
        """Yield the parts that were live at a time; of a span that goes on after it, one part."""
        exact = t >= self.horizon
        for marker in self.known:
            was = marker.t <= t and (marker.tmb is None or marker.tmb > t)
            if was if exact else marker.t <= t and came_with(marker):
                yield msgspec.structs.replace(marker, tmb=None)
        if not exact:
            for number, span in enumerate(self.spans):
                yield from self._before(span, number, t)

    def _before(self, span: _Span, number: int, t: int) -> Iterator[Marker]:
        if span.last <= t and span.merged is not None:
            yield msgspec.structs.replace(span.merged, tmb=None)
        elif span.first <= t:
            early = [m for m in self._parts(span, number) if m.t <= t]
            if early:
                size = round(self.ratio * sum(m.b for m in early))
                rows = None if span.rows is None else sum(m.n or 0 for m in early)
                order = (span.first, early[-1].t)
                key = self._key(span.partition, t, number, 0)
                yield Marker(p=key, b=size, t=t, n=rows, q=0, o=order, s=span.stats)

    def _parts(self, span: _Span, number: int) -> Iterator[Marker]:
        """Yield the parts of a span, evenly over its time and of one size."""
        times = self._times(span)
        for place, t in enumerate(times):
            yield Marker(
                p=self._key(span.partition, t, number, place + 1),
                b=share_of(span.bytes, len(times), place),
                t=t,
                n=None if span.rows is None else share_of(span.rows, len(times), place),
                q=0,
                s=span.stats,
            )

    def _times(self, span: _Span) -> Sequence[int]:
        count = self._count(span)
        if count == 1:
            return (span.last,)
        length = span.last - span.first
        return [span.first + length * place // (count - 1) for place in range(count)]

    def _count(self, span: _Span) -> int:
        return max(1, round(span.bytes / self.mean)) if self.mean else 1

    def _key(self, partition: str, t: int, number: int, place: int) -> str:
        name = format_uuid7(t, number << 32 | place)
        return self.snapshot.paths.data_part(partition, name)


def share_of(whole: int, count: int, place: int) -> int:
    """Return one of ``count`` shares of a number that differ by at most 1 and add up to it."""
    return whole * (place + 1) // count - whole * place // count


def _span(snapshot: Snapshot, marker: Marker, ratio: float) -> _Span:
    first, last = marker.order()
    partition = snapshot.paths.partition_of(marker.p)
    return _Span(partition, first, last, round(marker.b / ratio), marker.n, marker.s, marker)


def _latest(log: _Log, start: int, now_ms: int, most: int) -> int:
    """Return the first time, from ``start`` on, after which at most ``most`` parts came."""

    def came(t: int) -> int:
        exact = sum(1 for m in log.arrived if m.t > t)
        return exact + sum(log.parts_after(span, t) for span in log.spans)

    if came(start) <= most:
        return start
    low, high = start, now_ms
    while low + 1 < high:
        middle = (low + high) // 2
        low, high = (low, middle) if came(middle) <= most else (middle, high)
    return high


def _ratio(arrived: Iterable[Marker], headers: Iterable[TxnHeader]) -> float:
    """Return the bytes that merges have written for each byte of a part that was never merged.

    Exact where the log still has all of a transaction's inputs that appends have written; what a
    merge has made is taken to keep its size. 1 if nothing was merged of late.
    """
    read: dict[int, int] = defaultdict(int)
    for marker in arrived:
        if marker.tmb is not None:
            read[marker.tmb] += marker.b
    merges = [h for h in headers if h.op == "merge" and h.t in read]
    fresh = sum(read[h.t] for h in merges)
    again = sum(max(0, h.counts.bytes_in - read[h.t]) for h in merges)
    wrote = sum(h.counts.bytes_out for h in merges) - again
    return min(_LARGEST_SHARE, wrote / fresh) if fresh and wrote > 0 else 1.0


def _gone(
    snapshot: Snapshot, before: Sequence[TxnHeader], arrived: Iterable[Marker]
) -> Iterator[_Span]:
    """Yield what was dropped by partition, and has left no part: when, by the merges that named it.

    Partitions that no merge of the history names are left out: nothing tells when their rows came.
    """
    merged: dict[str, list[int]] = defaultdict(list)
    for header in before:
        if header.op == "merge":
            for partition in header.partitions:
                merged[partition].append(header.t)
    there = {snapshot.paths.partition_of(m.p) for m in arrived}
    for header in before:
        if header.op not in REMOVALS or not header.partitions:
            continue
        size = header.counts.bytes_in // len(header.partitions)
        for partition in header.partitions:
            times = merged.get(partition)
            if times and size and partition not in there:
                yield _Span(partition, min(times), max(times), size, None, NO_STATS, None)


def _mean(
    before: Sequence[TxnHeader],
    spans: Sequence[_Span],
    arrived: Sequence[Marker],
    *,
    whole: bool,
) -> float:
    """Return the mean size of the parts that nobody knows, in bytes.

    Each transaction has taken so many parts away as it read more than it wrote. What is left of
    them, and what was dropped, holds their bytes. Without the table's first transactions that is
    too large: a partition that a merge finishes holds the bytes of parts that others had taken
    away before. Then it is the mean of those that are known, if there are some.
    """
    if not whole and len(arrived) >= _SOME_PARTS:
        return sum(m.b for m in arrived) / len(arrived)
    oldest = min((header.t for header in before), default=0)
    taken = sum(
        h.counts.parts_in - h.counts.parts_out
        for h in before
        if h.op not in _SILENT and not h.counts.rows_added
    )
    within = [s for s in spans if s.merged is None or s.merged.t >= oldest]
    count = taken + sum(1 for s in within if s.merged is not None)
    size = sum(s.bytes for s in within)
    if before and count > 0 and size > 0:
        return size / count
    return sum(m.b for m in arrived) / len(arrived) if arrived else 0.0
