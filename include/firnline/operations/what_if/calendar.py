"""When maintenance runs in a play: by the planner of the fleet, by schedules or at an interval.

Pure. Times are unix milliseconds, in UTC.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from firnline.errors import UsageError
from firnline.operations.dag_ids import dag_id
from firnline.operations.fleet.chores import daily
from firnline.operations.fleet.quiet import quiet_now
from firnline.settings.cron import runs_between, spread
from firnline.settings.dags import cron_of, has_dag, started_by_planner
from firnline.settings.fleet import FleetSettings
from firnline.settings.load import TableSettings
from firnline.settings.sections import Operation
from firnline.units import DAY_MS, format_duration


@dataclass(frozen=True, slots=True)
class Calendar:
    """The times of a play."""

    looks: tuple[int, ...]
    """Times at which somebody looks for something to merge."""
    cleanups: tuple[int, ...]
    ttls: tuple[int, ...]
    reads_of_merge: int
    """Times that a run reads the log besides the look that found something."""
    reads_of_chore: int
    """Times that a clean-up or TTL that has something to do reads the log."""
    idle_chores: bool
    """True if a clean-up and a TTL are started without anything to do, too."""
    source: str
    """Clause: what says when merges run."""


def calendar_of(
    settings: TableSettings,
    fleet: FleetSettings,
    between: tuple[int, int],
    *,
    every_ms: int | None = None,
    merged: Sequence[int] = (),
) -> Calendar:
    """Return when the maintenance of a table runs.

    Args:
        settings: of the table.
        fleet: of the planner.
        between: start and end, unix ms.
        every_ms: interval of merges that somebody else starts, such as a crontab; None: as the
            settings say.
        merged: times of merges in the history, unix ms: those that settings without a schedule,
            which leave merges to people and events, are taken to have again.

    Raises UsageError: nothing says when merges run.
    """
    by_planner = started_by_planner(settings, "merge", fleet)
    cron = cron_of(settings, "merge", fleet)
    if every_ms is not None:
        looks: Sequence[int] = list(_at_interval(every_ms, between))
        source, reads = f"every {format_duration(every_ms)}", 0
    elif by_planner and fleet.schedule is not None:
        times = runs_between(fleet.schedule, *between)
        looks = [t for t in times if quiet_now(fleet, t) is None]
        source, reads = f"by the planner of the fleet, {fleet.schedule}", 2
    elif cron is not None:
        own = spread(cron, dag_id("merge", settings.name))
        looks, source, reads = list(runs_between(own, *between)), f"by merge.schedule, {cron}", 1
    elif merged:
        looks, source, reads = merged, "at the times of the merges in the history", 1
    else:
        raise UsageError(
            f"nothing says when merges of {settings.name} run: its settings have no schedule for "
            "them, and its history has no merge",
            next_step="say it with --every, such as --every 1h",
        )
    return Calendar(
        looks=tuple(looks),
        cleanups=_chores(settings, fleet, "tombstone_cleanup", between),
        ttls=_chores(settings, fleet, "ttl", between),
        reads_of_merge=reads,
        reads_of_chore=1 if every_ms is not None else 2,
        idle_chores=not started_by_planner(settings, "tombstone_cleanup", fleet),
        source=source,
    )


def _at_interval(every_ms: int, between: tuple[int, int]) -> Iterator[int]:
    """Yield the multiples of an interval after the start, up to the end."""
    start, end = between
    yield from range((start // every_ms + 1) * every_ms, end + 1, every_ms)


def _chores(
    settings: TableSettings, fleet: FleetSettings, operation: Operation, between: tuple[int, int]
) -> tuple[int, ...]:
    """Return the times of a clean-up or TTL: the table's own time of each day, or its schedule."""
    start, end = between
    if not has_dag(settings, operation):
        return ()
    if started_by_planner(settings, operation, fleet):
        first = daily(settings.name, start) + DAY_MS
        return tuple(range(first, end + 1, DAY_MS))
    cron = cron_of(settings, operation, fleet)
    if cron is None:
        return ()
    return tuple(runs_between(spread(cron, dag_id(operation, settings.name)), start, end))
