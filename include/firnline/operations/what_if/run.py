"""Reads a table's records and plays them: with the settings in force, and with others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from firnline.log.txn_file import TxnHeader
from firnline.operations.inspect.prices import Prices
from firnline.operations.what_if.arrivals import Recorded, recorded
from firnline.operations.what_if.calendar import Calendar, calendar_of
from firnline.operations.what_if.costs import Costs, Pricing, costs_of
from firnline.operations.what_if.outcome import Outcome
from firnline.operations.what_if.play import Rules, play
from firnline.operations.what_if.suggest import Changes, Suggestion, Tried, grid, suggest
from firnline.operations.what_if.variant import variant
from firnline.operations.what_if.was import was
from firnline.operations.what_if_options import WhatIfOptions
from firnline.properties.in_force import current, in_force
from firnline.settings.fleet import FleetSettings
from firnline.settings.load import TableSettings
from firnline.shown import ShownFigures
from firnline.state.history import history_since
from firnline.state.moment import snapshot_at
from firnline.state.snapshot import Snapshot
from firnline.table import Table
from firnline.units import DAY_MS

_MOST_HEADERS = 100_000

Tell = Callable[[int, int], None]
"""Called with the parts that are played and those that are to be, of all plays together."""


@dataclass(frozen=True, slots=True)
class Figures:
    """An outcome with its costs."""

    outcome: Outcome
    costs: Costs

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return {**self.outcome.to_json(), **self.costs.to_json()}


@dataclass(frozen=True, slots=True, repr=False)
class WhatIf(ShownFigures):
    """What was, what a play makes of it, and what another would have."""

    table: str
    root: str
    arrived: Recorded
    options: WhatIfOptions
    prices: Prices
    calendar: Calendar
    """Of the settings in force."""
    other_calendar: Calendar | None
    """Of the variant."""
    was: Figures
    as_it_is: Figures
    what_if: Figures | None
    """None if no setting was changed."""
    suggestion: Suggestion | None
    left_out: tuple[str, ...]
    requests: Mapping[str, int]
    """Sent to answer."""

    def to_json(self) -> dict[str, Any]:
        """Return plain data; times in unix milliseconds, sizes in bytes, money in US dollars."""
        came, asked, other = self.arrived, self.options, self.other_calendar
        return {
            "table": self.table,
            "root": self.root,
            "settings": {name: str(value) for name, value in asked.set.items()},
            "start": came.start,
            "end": came.end,
            "since": came.since,
            "arrivals": {
                "parts": len(came.arrivals),
                "bytes": came.bytes,
                "reconstructed": came.reconstructed,
                "reconstructed_mean_bytes": came.mean_bytes,
                "cut": came.cut,
                "most_parts": asked.most_parts,
            },
            "merge_ratio": round(came.ratio, 4),
            "merges": self.calendar.source,
            "merges_what_if": None if other is None else other.source,
            "scans_a_day": asked.scans_a_day,
            "prices": {"put_of_1000": self.prices.put, "get_of_1000": self.prices.get},
            "was": self.was.to_json(),
            "as_it_is": self.as_it_is.to_json(),
            "what_if": None if self.what_if is None else self.what_if.to_json(),
            "difference": difference(self.was.to_json(), self.as_it_is.to_json()),
            "suggestion": None if self.suggestion is None else self.suggestion.to_json(),
            "left_out": list(self.left_out),
            "requests_sent": dict(self.requests),
        }


def what_if(
    table: Table,
    fleet: FleetSettings,
    options: WhatIfOptions,
    prices: Prices,
    tell: Tell | None = None,
) -> WhatIf:
    """Return what maintenance and reading would have cost with other settings.

    Reads only. Requests: those of ``read_snapshot``, and 1 LIST and a ranged GET for each
    transaction of the days asked for.

    Args:
        table: the table.
        fleet: settings of the planner.
        options: what is asked.
        prices: of requests.
        tell: called now and then.

    Raises:
        UsageError: there is no table, no history to play or no time for merges, or the changes are
            no settings.
        SettingsError, PropertiesDifferError: see ``properties.in_force``.
        others: as ``read_snapshot`` and ``history_since``.
    """
    snapshot = snapshot_at(table)
    stated, own = current(snapshot.properties), table.wanted or table.settings
    settings = in_force(own, stated)
    changed = variant(own, stated, options.set) if options.set else None
    now = table.clock.now_ms()
    start = now - options.days * DAY_MS
    headers = history_since(table, start, _MOST_HEADERS)
    arrived = recorded(snapshot, headers, start, now, options.most_parts)
    asked = _Asked(snapshot, headers, arrived, fleet, options, prices)
    calendar = asked.calendar(settings)
    other = None if changed is None else asked.calendar(changed, options.set)
    looks_a_day = len(calendar.looks) * DAY_MS / max(1, arrived.end - arrived.start)
    variants = grid(settings, looks_a_day) if options.suggest else []
    counting = _Counting(len(arrived.arrivals), 1 + (changed is not None), tell)
    counting.plays += sum(map(len, variants))

    def tried(changes: Changes) -> Tried:
        its = variant(own, stated, changes) if changes else settings
        figures = asked.play(its, asked.calendar(its, changes), counting)
        return Tried(changes, figures.outcome, figures.costs)

    as_it_is = asked.play(settings, calendar, counting)
    figures = None
    if changed is not None and other is not None:
        figures = asked.play(changed, other, counting)
    return WhatIf(
        table=settings.name,
        root=settings.root,
        arrived=arrived,
        options=options,
        prices=prices,
        calendar=calendar,
        other_calendar=other,
        was=asked.figures(was(snapshot, headers, arrived, calendar, settings)),
        as_it_is=as_it_is,
        what_if=figures,
        suggestion=suggest(variants, tried, options.most_requests) if variants else None,
        left_out=tuple(left_out(settings, fleet, arrived)),
        requests=table.store.counters.as_dict(),
    )


@dataclass
class _Counting:
    """Counts the parts of all plays."""

    each: int
    plays: int
    tell: Tell | None
    done: int = 0

    def told(self, played: int) -> None:
        if self.tell is not None:
            self.tell(self.done + played, self.plays * self.each)


@dataclass(frozen=True)
class _Asked:
    """What all plays of one question have in common."""

    snapshot: Snapshot
    headers: Sequence[TxnHeader]
    arrived: Recorded
    fleet: FleetSettings
    options: WhatIfOptions
    prices: Prices

    def calendar(
        self, settings: TableSettings, changes: Mapping[str, object] | None = None
    ) -> Calendar:
        """Return when a variant runs; one that changes the schedule has no other interval."""
        between = (self.arrived.start, self.arrived.end)
        every = None if "merge.schedule" in (changes or {}) else self.options.every
        merged = sorted({h.t for h in self.headers if h.op == "merge" and between[0] < h.t})
        return calendar_of(settings, self.fleet, between, every_ms=every, merged=merged)

    def play(self, settings: TableSettings, calendar: Calendar, counting: _Counting) -> Figures:
        rules = Rules(settings, calendar, self.snapshot.paths, self.snapshot.schema)
        outcome = play(self.arrived, rules, counting.told)
        counting.done += counting.each
        return self.figures(outcome)

    def figures(self, outcome: Outcome) -> Figures:
        length = self.arrived.end - self.arrived.start
        pricing = Pricing(self.prices, self.options.scans_a_day, length)
        return Figures(outcome, costs_of(outcome, pricing))


_COMPARED = (
    *("parts", "bytes", "mean_parts", "mean_parts_of_yesterday", "merges", "bytes_read"),
    *("bytes_written", "write_amplification", "usd_of_maintenance"),
)


def difference(was: Mapping[str, Any], played: Mapping[str, Any]) -> dict[str, float | None]:
    """Return by which share of what was a play is above it; None where that is not known.

    Args:
        was: figures of the history.
        played: those of the play with the settings in force.
    """
    shares: dict[str, float | None] = {}
    for name in _COMPARED:
        shares[name] = _share(was[name], played[name])
    for kind, count in was["requests"].items():
        shares[f"requests_{kind}"] = _share(count, played["requests"][kind])
    return shares


def _share(was: float | None, played: float | None) -> float | None:
    if was is None or played is None:
        return None
    if not was:
        return 0.0 if not played else None
    return round(played / was - 1, 4)


def left_out(settings: TableSettings, fleet: FleetSettings, arrived: Recorded) -> list[str]:
    """Return what a play does not count, each as a clause."""
    clauses = [
        "storage, traffic, CPU, verify and orphan sweep",
        "that a run takes time, and may commit more than one transaction",
    ]
    if arrived.not_played:
        ops = (f"{op} ({count:,})" for op, count in sorted(arrived.not_played.items()))
        clauses.append(f"other transactions of this time: {', '.join(ops)}")
    if settings.cluster_by is not None:
        clauses.append("that a clustered merge spares parts which overlap no others")
    if settings.ttl is not None and settings.ttl.rows:
        clauses.append("past rows of parts that hold younger ones")
    if settings.primary_key or settings.merge.sql is not None:
        clauses.append("rows that merges leave out, beyond the measured ratio of bytes")
    if fleet.budget is not None:
        clauses.append("the budget of the fleet")
    if settings.merge.slots > 1:
        clauses.append("several merges at the same time")
    return clauses
