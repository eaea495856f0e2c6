"""What maintenance was, by the history: the same figures as those of a play. Pure."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence

from firnline.log.records import Marker
from firnline.log.txn_file import TxnHeader
from firnline.operations.what_if.arrivals import Arrival, Recorded
from firnline.operations.what_if.calendar import Calendar
from firnline.operations.what_if.ledger import Ledger
from firnline.operations.what_if.outcome import Outcome
from firnline.operations.what_if.scans import Means, Scans
from firnline.operations.what_if.transactions import Transactions, in_order, lines_of
from firnline.settings.load import TableSettings
from firnline.state.snapshot import Snapshot

_Event = tuple[int, int, Arrival | TxnHeader | Marker | None]
"""Time, kind and what happened."""


def was(
    snapshot: Snapshot,
    headers: Sequence[TxnHeader],
    arrived: Recorded,
    calendar: Calendar,
    settings: TableSettings,
) -> Outcome:
    """Return what the records say of the time of some arrivals.

    Merges, their parts and bytes, clean-ups and drops are those of the history, and what is live is
    in the log. How often somebody looked for a merge is not recorded: that is as in the calendar.
    Means of scans are there if the log reaches back to the start.

    Args:
        snapshot: the newest state, dead parts included.
        headers: transactions of the time, in any order.
        arrived: arrivals of the time.
        calendar: of the settings in force.
        settings: in force.
    """
    history = Transactions(
        reads_of_merge=calendar.reads_of_merge,
        # Without anything to do it is in the calendar, with its one reading.
        reads_of_cleanup=calendar.reads_of_chore - calendar.idle_chores,
        reads_of_removal=calendar.reads_of_chore,
        grace_ms=settings.cleanup.grace,
    )
    within = sorted((h for h in headers if arrived.start < h.t <= arrived.end), key=in_order)
    looks: Iterator[_Event] = ((t, 0, None) for t in calendar.looks)
    idle: Iterator[_Event] = ((t, 1, None) for t in calendar.cleanups if calendar.idle_chores)
    came: Iterator[_Event] = ((each.t, 2, each) for each in arrived.arrivals)
    done: Iterator[_Event] = ((header.t, 3, header) for header in within)
    for _, kind, event in heapq.merge(looks, idle, came, done, key=lambda event: event[:2]):
        if event is None:
            history.ledger.read_log(everything=kind == 1)
        elif isinstance(event, Arrival):
            history.ledger.append(event.share)
        elif isinstance(event, TxnHeader):
            history.take(event)
    exact = arrived.start >= snapshot.purged
    live = snapshot.live.values()
    return Outcome.of(
        history.ledger,
        _means(snapshot, arrived, settings, within) if exact else None,
        parts=len(live),
        size=sum(m.b for m in live),
        arrived=arrived.bytes,
        dropped=history.dropped,
        shrunk=history.shrunk,
    )


def _means(
    snapshot: Snapshot, arrived: Recorded, settings: TableSettings, within: Sequence[TxnHeader]
) -> Means:
    """Return the means of what scans had to open, from the times of birth and death in the log."""
    scans = Scans(settings, arrived.start)
    logs = Ledger()
    came: Iterator[_Event] = ((each.t, 2, each) for each in arrived.arrivals)
    done: Iterator[_Event] = ((header.t, 3, header) for header in within)
    lives = _lives(snapshot, arrived.start, arrived.end)
    for t, kind, event in heapq.merge(lives, came, done, key=lambda event: event[:2]):
        scans.advance(t)
        if isinstance(event, Marker):
            (scans.add if kind else scans.remove)(snapshot.paths.partition_of(event.p), [event])
        elif isinstance(event, Arrival):
            logs.append(event.share)
        elif event is not None:
            logs.fold(t, lines_of(event))
        scans.logs = logs.logs
    scans.advance(arrived.end)
    return scans.means()


def _lives(snapshot: Snapshot, start: int, end: int) -> Iterator[_Event]:
    """Yield when parts died (0) and came (1), by time; those of before the start come at it."""
    lives: list[_Event] = []
    for marker in snapshot.parts.values():
        died = marker.tmb
        if marker.t > end or (died is not None and died <= max(start, marker.t)):
            continue
        lives.append((max(start, marker.t), 1, marker))
        if died is not None and died <= end:
            lives.append((died, 0, marker))
    return iter(sorted(lives, key=lambda event: event[:2]))
