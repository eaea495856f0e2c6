"""Estimates the requests and the money that 30 days of a table's maintenance take. Pure.

Of a table nothing is assumed but what its log and its settings say: appends are those of the newest
days of the log (``arrivals``), runs those of the schedules, merges those that the rules of merges
make of such appends (``merging``), and requests those that each operation promises
(docs/operations.md). Each line says what it is from.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from firnline.log.parts_view import dead
from firnline.operations.cleanup.retention import TXN_KEPT, kept_ms
from firnline.operations.inspect.arrivals import Arrivals
from firnline.operations.inspect.merging import DAYS, Merging, play
from firnline.operations.inspect.prices import Prices
from firnline.settings.dags import SECTIONS, runs_of, started_by_planner
from firnline.settings.fleet import FleetSettings
from firnline.settings.load import TableSettings
from firnline.settings.sections import Operation
from firnline.state.snapshot import Snapshot
from firnline.store.client import PAGE
from firnline.store.sizes import BATCH
from firnline.units import DAY_MS


@dataclass(frozen=True, slots=True)
class Requests:
    """Requests by kind; means, so not whole numbers."""

    list: float = 0
    get: float = 0
    put: float = 0
    delete: float = 0

    def __add__(self, other: Requests) -> Requests:
        return Requests(
            self.list + other.list,
            self.get + other.get,
            self.put + other.put,
            self.delete + other.delete,
        )

    def __sub__(self, other: Requests) -> Requests:
        return self + other * -1

    def __mul__(self, times: float) -> Requests:
        return Requests(self.list * times, self.get * times, self.put * times, self.delete * times)

    def to_json(self) -> dict[str, int]:
        """Return whole numbers by kind."""
        return {
            "list": round(self.list),
            "get": round(self.get),
            "put": round(self.put),
            "delete": round(self.delete),
        }


@dataclass(frozen=True, slots=True)
class Line:
    """What one operation costs in 30 days."""

    operation: str
    runs_a_day: float
    requests: Requests
    usd: float
    source: str
    """Where runs and requests are from."""

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return {
            "operation": self.operation,
            "runs_a_day": round(self.runs_a_day, 3),
            "requests": self.requests.to_json(),
            "usd": round(self.usd, 4),
            "source": self.source,
        }


@dataclass(frozen=True, slots=True)
class Read:
    """What a read of all rows sends at least: its log, and a request for each part."""

    requests: Requests
    usd: float
    """For 1,000 such reads."""

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return {"requests": self.requests.to_json(), "usd_of_1000": round(self.usd, 4)}


@dataclass(frozen=True, slots=True)
class Cost:
    """The costs of a table's maintenance, and what they save its readers."""

    arrivals: Arrivals
    prices: Prices
    lines: tuple[Line, ...]
    now: Read
    """A read of the table as it is."""
    merged: Read
    """One after the merge of what is to be merged now."""
    left_out: tuple[str, ...]
    """What is not counted."""

    @property
    def total(self) -> Line:
        """All operations."""
        requests = sum((line.requests for line in self.lines), Requests())
        return Line("all", 0, requests, sum(line.usd for line in self.lines), "")

    def to_json(self) -> dict[str, Any]:
        """Return plain data; times in milliseconds, sizes in bytes, money in US dollars."""
        return {
            "days": DAYS,
            "arrivals": self.arrivals.to_json(),
            "prices": {"put_of_1000": self.prices.put, "get_of_1000": self.prices.get},
            "operations": [line.to_json() for line in self.lines],
            "requests": self.total.requests.to_json(),
            "usd": round(self.total.usd, 4),
            "read_now": self.now.to_json(),
            "read_after_merge": self.merged.to_json(),
            "left_out": list(self.left_out),
        }


@dataclass(frozen=True, slots=True)
class State:
    """Figures of a table now."""

    log_files: int
    log_files_read: int
    """Those that a reader fetches."""
    live: int
    """Parts."""
    dead: int
    """Replaced parts that clean-up has not deleted yet."""
    seq: int
    """Newest transaction."""
    saved: int
    """Parts fewer after a merge of what is to be merged."""


def state_of(snapshot: Snapshot, saved: int) -> State:
    """Return the figures of a snapshot; ``saved``: parts fewer after a merge."""
    return State(
        log_files=len(snapshot.listing),
        log_files_read=len(snapshot.contents),
        live=len(snapshot.live),
        dead=dead(snapshot.parts),
        seq=snapshot.seq,
        saved=saved,
    )


def estimate(
    arrivals: Arrivals,
    state: State,
    settings: TableSettings,
    fleet: FleetSettings,
    prices: Prices,
) -> Cost:
    """Return what 30 days cost if every day is as those of ``arrivals``.

    Args:
        arrivals: appends.
        state: of the table.
        settings: of the table, its own properties in force.
        fleet: settings of the planner.
        prices: of requests.
    """
    looks, _ = runs_of(settings, "merge", fleet)
    month = _Month(arrivals, state, settings, fleet, prices, play(arrivals, settings, looks))
    pages = list_pages(state.log_files)
    now = Requests(list=pages + 1, get=state.log_files_read + state.live)
    after = Requests(list=pages + 1, get=1 + state.live - state.saved) if state.saved else now
    return Cost(
        arrivals=arrivals,
        prices=prices,
        lines=tuple(month.lines()),
        now=Read(now, 1_000 * prices.of(now)),
        merged=Read(after, 1_000 * prices.of(after)),
        left_out=tuple(_left_out(settings)),
    )


@dataclass(frozen=True, slots=True)
class _Month:
    arrivals: Arrivals
    state: State
    settings: TableSettings
    fleet: FleetSettings
    prices: Prices
    merging: Merging

    def lines(self) -> Iterator[Line]:
        """Yield what each operation costs, of those that run at all."""
        yield self._appends()
        if self._by_planner:
            yield self._planner()
        yield self._merges()
        yield self._cleanups()
        others: dict[Operation, Requests] = {
            "ttl": self._base(self._unfolded) + COMMIT,
            "verify": self._verify(),
            "orphan_sweep": self._sweep(),
        }
        for operation, each in others.items():
            a_day, source = runs_of(self.settings, operation, self.fleet)
            if a_day:
                yield self._line(SECTIONS[operation], a_day, each * (a_day * DAYS), source)

    def _appends(self) -> Line:
        seen = self.arrivals
        each = Requests(list=seen.appends_a_day, put=seen.parts_a_day + seen.appends_a_day)
        source = "the log; 1 LIST, 1 PUT per part and 1 for the log file"
        return self._line("append", seen.appends_a_day, each * DAYS, source)

    def _planner(self) -> Line:
        looks = self.merging.looks
        requests = self._base(0) * looks + Requests(get=self.merging.logs_of_looks)
        source = f"fleet.schedule {self.fleet.schedule}; 2 LIST and the new log files"
        return self._line("planner", looks / DAYS, requests, source)

    def _merges(self) -> Line:
        _, source = runs_of(self.settings, "merge", self.fleet)
        month = self.merging
        # The plan of a run reads the log, and its merge again; a clock starts plans without merges.
        plans, read = month.runs, month.logs_of_runs
        if not self._by_planner:
            plans, read = month.looks, month.logs_of_looks
        requests = self._base(0) * (plans + month.runs) + COMMIT * month.runs
        logs = read + month.logs_of_runs
        requests += Requests(get=logs + month.parts_in, put=month.uploads)
        return self._line("merge", plans / DAYS, requests, f"{source}; the rules of merges")

    def _cleanups(self) -> Line:
        a_day, source = runs_of(self.settings, "tombstone_cleanup", self.fleet)
        gone = self.merging.parts_in / DAYS
        if gone:
            gone += self.arrivals.appends_a_day + self.merging.runs / DAYS
        if not gone and started_by_planner(self.settings, "tombstone_cleanup", self.fleet):
            a_day = 0
        each = self._base(self._unfolded) * 2 + COMMIT + Requests(list=1)
        requests = each * (a_day * DAYS) + Requests(delete=DAYS * math.ceil(gone / BATCH))
        return self._line("cleanup", a_day, requests, source)

    def _verify(self) -> Requests:
        """Requests of a check of names: all folders are listed, and each log file is read."""
        days = kept_ms(self.settings.cleanup.grace) / DAY_MS
        kept = max(TXN_KEPT, days * self.merging.runs / DAYS)
        transactions = min(self.state.seq, kept)
        listed = 4 + self._log_pages + list_pages(self.state.live + self.state.dead)
        return Requests(list=listed, get=self.state.log_files + transactions)

    def _sweep(self) -> Requests:
        listed = 6 + list_pages(self.state.live + self.state.dead)
        return self._base(self._unfolded) + Requests(list=listed)

    def _base(self, log_files: float) -> Requests:
        """Requests that read a log of which so many files are new."""
        return Requests(list=self._log_pages + 1, get=log_files)

    @property
    def _log_pages(self) -> int:
        return list_pages(self.state.log_files)

    @property
    def _by_planner(self) -> bool:
        return started_by_planner(self.settings, "merge", self.fleet)

    @property
    def _unfolded(self) -> float:
        """Log files that a reader fetches, on average at the looks of what merges."""
        month = self.merging
        return month.logs_of_looks / month.looks if month.looks else self.state.log_files_read

    def _line(self, name: str, a_day: float, requests: Requests, source: str) -> Line:
        return Line(name, a_day, requests, self.prices.of(requests), source)


COMMIT = Requests(list=1, get=1, put=4, delete=1)
"""A commit of a new process: two PUT and a LIST, and the four requests of the probe."""


def list_pages(names: float) -> int:
    """Return the requests that list so many names."""
    return max(1, math.ceil(names / PAGE))


def _left_out(settings: TableSettings) -> Iterator[str]:
    yield "storage, traffic, CPU, metrics of Airflow"
    yield "what people start"
    yield "retries"
    yield "merges of finished partitions"
    if settings.cluster_by is not None:
        yield "that a clustered merge writes several parts"
    if settings.imports is not None:
        yield "imports"
    if settings.mirror_every is not None:
        yield "publications of the mirror"
