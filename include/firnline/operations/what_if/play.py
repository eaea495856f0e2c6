"""Plays recorded arrivals through the planner of merges, with any settings. Pure.

Each run plans by ``operations.merge.plan`` on a state of markers that hold no rows, and takes no
time. Groups become the outputs that the plan says, of the bytes of their inputs: a part that was
never merged shrinks by the measured ratio. TTL drops by its own planner; clean-ups change nothing
that is live. Partitions in which nothing can have changed are not planned again.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from firnline.ids import format_uuid7
from firnline.log.records import NO_STATS, Marker, stats_json
from firnline.operations.drop.dates import latest_of
from firnline.operations.drop.expired import plan_ttl
from firnline.operations.groups import PlannedGroup
from firnline.operations.kernel_tasks import clustered_run
from firnline.operations.merge.plan import plan_merge
from firnline.operations.what_if.arrivals import Arrival, Dropped, Recorded, came_with, share_of
from firnline.operations.what_if.calendar import Calendar
from firnline.operations.what_if.ledger import Ledger
from firnline.operations.what_if.outcome import Outcome
from firnline.operations.what_if.scans import Scans
from firnline.paths import TablePaths
from firnline.settings.load import TableSettings
from firnline.state.snapshot import Snapshot
from firnline.types.schema import normalise

_TOLD_EVERY = 1_000
"""Arrivals between two calls of ``tell``."""
_ARRIVE, _DROP, _EXPIRE, _LOOK, _CLEAN = range(5)
"""Events of one time, in the order in which they happen."""


@dataclass(frozen=True, slots=True)
class Rules:
    """What a table is kept by."""

    settings: TableSettings
    calendar: Calendar
    paths: TablePaths
    schema: Mapping[str, str]
    """SQL type by column."""


def play(arrived: Recorded, rules: Rules, tell: Callable[[int], None] | None = None) -> Outcome:
    """Return what maintenance by some rules makes of recorded arrivals.

    Memory: about 2 KB for each part that is live at one time.

    Args:
        arrived: as recorded.
        rules: settings, and when runs are.
        tell: called with the number of arrivals that are played, now and then.

    Raises UsageError: as ``plan_merge`` and ``plan_ttl``, for columns that are not there.
    """
    table = _Table(arrived, rules)
    played = 0
    for t, kind, event in _events(arrived, rules.calendar):
        table.scans.advance(t)
        if isinstance(event, Arrival):
            table.arrive(event)
            played += 1
            if tell is not None and played % _TOLD_EVERY == 0:
                tell(played)
        elif isinstance(event, Dropped):
            table.drop(event.partitions)
        else:
            {_EXPIRE: table.expire, _LOOK: table.look, _CLEAN: table.clean_up}[kind](t)
        table.scans.logs = table.ledger.logs
    table.scans.advance(arrived.end)
    if tell is not None:
        tell(played)
    return table.outcome()


Event = tuple[int, int, Arrival | Dropped | None]


def _events(arrived: Recorded, calendar: Calendar) -> Iterator[Event]:
    """Yield all events by time."""
    streams: tuple[Iterable[Event], ...] = (
        ((each.t, _ARRIVE, each) for each in arrived.arrivals),
        ((each.t, _DROP, each) for each in arrived.drops),
        ((t, _EXPIRE, None) for t in calendar.ttls),
        ((t, _LOOK, None) for t in calendar.looks),
        ((t, _CLEAN, None) for t in calendar.cleanups),
    )
    return heapq.merge(*streams, key=lambda event: event[:2])


@dataclass
class _Table:
    """The table of a play."""

    arrived: Recorded
    rules: Rules
    ledger: Ledger = field(default_factory=Ledger)
    parts: dict[str, dict[str, Marker]] = field(default_factory=lambda: defaultdict(dict))
    """By partition and key."""
    due: dict[str, int] = field(default_factory=dict)
    """Partition -> time from which its plan may have something, unix ms."""
    fresh: set[str] = field(default_factory=set)
    """Parts that were never merged."""
    dropped: int = 0
    """Bytes."""
    shrunk: int = 0
    """Bytes by which merges have written less than they read."""
    count: int = 0
    """Parts that merges have made: names of the next ones."""

    def __post_init__(self) -> None:
        self.scans = Scans(self.rules.settings, self.arrived.start)
        for marker in self.arrived.initial:
            partition = self.rules.paths.partition_of(marker.p)
            self._add(partition, [marker])
            if came_with(marker):
                self.fresh.add(marker.p)

    @property
    def settings(self) -> TableSettings:
        return self.rules.settings

    def arrive(self, arrival: Arrival) -> None:
        self._add(arrival.partition, [arrival.marker])
        self.fresh.add(arrival.marker.p)
        self.due[arrival.partition] = arrival.t
        self.ledger.append(arrival.share)

    def drop(self, partitions: Iterable[str]) -> None:
        """Drop whole partitions, as a person did."""
        gone = [m for name in partitions for m in self.parts.get(name, {}).values()]
        self._drop(gone)

    def expire(self, now: int) -> None:
        """Drop what a TTL drops; more than it may drop without a question stays."""
        if not self.scans.parts:
            return
        plan = plan_ttl(self._state(self.parts), self.settings, now)
        gone = [m for removal in plan.removals for m in removal.parts]
        if gone and not plan.is_too_much:
            self.ledger.read_log(self.rules.calendar.reads_of_chore)
            self.ledger.commit(now, len(gone))
            self._drop(gone)
        elif self.rules.calendar.idle_chores:
            self.ledger.read_log()

    def clean_up(self, now: int) -> None:
        calendar = self.rules.calendar
        grace, reads = self.settings.cleanup.grace, calendar.reads_of_chore
        self.ledger.clean_up(now, grace, reads, idle=calendar.idle_chores)

    def look(self, now: int) -> None:
        """Plan a merge, and do what it plans."""
        self.ledger.read_log()
        groups = self._plan([name for name, at in self.due.items() if at <= now], now)
        if not groups:
            return
        self.ledger.runs += 1
        self.ledger.read_log(self.rules.calendar.reads_of_merge)
        for group in groups:
            self._replace(group, now)
        replaced = sum(len(group.parts) for group in groups)
        self.ledger.commit(now, replaced, sum(group.outputs for group in groups))

    def _plan(self, partitions: Sequence[str], now: int) -> list[PlannedGroup]:
        """Return the groups of partitions, and note when each of them is to be planned again.

        One after the other, since each has a time of its own; together only where a bound on the
        bytes of a run lets some of them wait for others.
        """
        groups: list[PlannedGroup] = []
        bound = self.settings.merge.max_bytes_per_run
        for names in [[name] for name in partitions] if bound is None else [partitions]:
            if not names:
                continue
            plan = plan_merge(self._state(names), self.settings, now)
            groups += plan.groups
            waiting = now + 1 if plan.groups else plan.next_due
            for name in names:
                del self.due[name]
                if waiting is not None:
                    self.due[name] = waiting
        return groups

    def _state(self, partitions: Iterable[str]) -> Snapshot:
        """Return a state that has the parts of some partitions, and nothing else."""
        return Snapshot(
            paths=self.rules.paths,
            listing={},
            contents={},
            parts={key: m for name in partitions for key, m in self.parts[name].items()},
            log_tombstones={},
            deletes={},
            other=frozenset(),
            schema=self.rules.schema,
            seq=0,
            purged=0,
        )

    def _replace(self, group: PlannedGroup, now: int) -> None:
        read = group.bytes
        kept = sum(m.b for m in group.parts if m.p not in self.fresh)
        wrote = kept + round(self.arrived.ratio * (read - kept))
        self.ledger.merge(len(group.parts), read)
        self.ledger.slices(group.slices, len(group.parts))
        self.ledger.write(group.outputs, wrote)
        self.shrunk += read - wrote
        self._remove(group.partition, group.parts)
        self._add(group.partition, self._outputs(group, wrote, now))

    def _outputs(self, group: PlannedGroup, size: int, now: int) -> list[Marker]:
        names = [format_uuid7(now, self.count + place) for place in range(group.outputs)]
        self.count += group.outputs
        keys = [self.rules.paths.data_part(group.partition, name) for name in names]
        orders = [m.order() for m in group.parts]
        rows = [m.n for m in group.parts if m.n is not None]
        known = len(rows) == len(group.parts)
        run = clustered_run(group, group.parts, keys)
        stats = self._stats(group.parts)
        return [
            Marker(
                p=key,
                b=share_of(size, len(keys), place),
                t=now,
                n=share_of(sum(rows), len(keys), place) if known else None,
                q=0,
                o=(min(first for first, _ in orders), max(last for _, last in orders)),
                s=stats,
                c=run,
            )
            for place, key in enumerate(keys)
        ]

    def _stats(self, parts: Sequence[Marker]) -> msgspec.Raw:
        """Return the statistics by which a TTL dates a part: those of its newest input."""
        ttl = self.settings.ttl
        if ttl is None or ttl.column is None or ttl.column not in self.rules.schema:
            return NO_STATS
        latest = latest_of(normalise(self.rules.schema[ttl.column]))
        try:
            newest = max(parts, key=lambda m: latest(m.stats(), str(ttl.column)))
        except ValueError:
            return NO_STATS  # one of them has no date, so the whole has none
        return stats_json({ttl.column: newest.stats()[ttl.column]})

    def _drop(self, parts: Sequence[Marker]) -> None:
        by_partition: dict[str, list[Marker]] = defaultdict(list)
        for marker in parts:
            by_partition[self.rules.paths.partition_of(marker.p)].append(marker)
        for partition, markers in by_partition.items():
            self.dropped += sum(m.b for m in markers)
            self._remove(partition, markers)

    def _add(self, partition: str, markers: Sequence[Marker]) -> None:
        self.parts[partition].update((m.p, m) for m in markers)
        self.scans.add(partition, markers)
        self.due.setdefault(partition, self.scans.now)

    def _remove(self, partition: str, markers: Sequence[Marker]) -> None:
        held = self.parts[partition]
        for marker in markers:
            del held[marker.p]
            self.fresh.discard(marker.p)
        self.scans.remove(partition, markers)
        if not held:
            del self.parts[partition]
            self.due.pop(partition, None)

    def outcome(self) -> Outcome:
        return Outcome.of(
            self.ledger,
            self.scans.means(),
            parts=self.scans.parts,
            size=sum(m.b for held in self.parts.values() for m in held.values()),
            arrived=self.arrived.bytes,
            dropped=self.dropped,
            shrunk=self.shrunk,
        )
