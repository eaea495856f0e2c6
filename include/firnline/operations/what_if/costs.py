"""Dollars of an outcome: of maintenance, and of scans of yesterday. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from firnline.operations.inspect.cost import Requests, list_pages
from firnline.operations.inspect.merging import DAYS
from firnline.operations.inspect.prices import Prices
from firnline.operations.what_if.outcome import Outcome, rounded
from firnline.operations.what_if.scans import Means
from firnline.units import DAY_MS


@dataclass(frozen=True, slots=True)
class Pricing:
    """What requests cost, and how many scans there are."""

    prices: Prices
    scans_a_day: float
    length_ms: int
    """Time of the outcomes."""

    @property
    def months(self) -> float:
        """Times that 30 days are longer than the time of the outcomes."""
        return DAYS * DAY_MS / max(1, self.length_ms)


@dataclass(frozen=True, slots=True)
class Costs:
    """US dollars in 30 days."""

    maintenance: float
    scans: float | None
    """Of so many scans of yesterday a day; None if nothing tells what they open."""
    requests_of_scan: float | None
    """Of one of them: two LIST or more, the log files, and a GET for each part."""

    @property
    def total(self) -> float | None:
        """Of both; None if the one or the other is not known."""
        return None if self.scans is None else self.maintenance + self.scans

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return {
            "usd_of_maintenance": round(self.maintenance, 4),
            "usd_of_scans": rounded(self.scans, 4),
            "usd": rounded(self.total, 4),
            "requests_of_a_scan_of_yesterday": rounded(self.requests_of_scan),
        }


def costs_of(outcome: Outcome, pricing: Pricing) -> Costs:
    """Return the dollars of an outcome, brought to 30 days."""
    maintenance = pricing.prices.of(outcome.requests) * pricing.months
    scan = None if outcome.means is None else scan_of_yesterday(outcome.means)
    if scan is None:
        return Costs(maintenance, None, None)
    scans = pricing.prices.of(scan) * pricing.scans_a_day * DAYS
    return Costs(maintenance, scans, scan.list + scan.get)


def scan_of_yesterday(means: Means) -> Requests:
    """Return what a scan of yesterday sends at least; of a table without a yesterday one of all."""
    parts = means.parts if means.yesterday is None else means.yesterday
    return Requests(list=list_pages(means.logs) + 1, get=means.logs + parts)
