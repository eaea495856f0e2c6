"""Tries a small grid of settings and names the cheapest that keeps scans short. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from firnline.operations.what_if.costs import Costs
from firnline.operations.what_if.outcome import Outcome
from firnline.settings.cron import runs_a_day
from firnline.settings.load import TableSettings
from firnline.settings.sections import MergeSettings
from firnline.units import format_size

_SCHEDULES = ("0 * * * *", "*/15 * * * *", "0 */6 * * *")
_OTHERS = 2
"""Schedules that are tried besides that in force."""
_ALIKE = 1.5
"""Two schedules of which one has up to so many times as many runs are as one."""
_SIZES = (2**20, 2**36)
"""Bounds of ``merge.target_size``."""
_NEXT = 3

Changes = Mapping[str, str]
"""Dotted name -> value as in a settings file; without what stays as it is."""


@dataclass(frozen=True, slots=True)
class Tried:
    """What a variant came to."""

    changes: Changes
    outcome: Outcome
    costs: Costs

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return {
            "settings": dict(self.changes),
            **self.outcome.to_json(),
            **self.costs.to_json(),
        }

    def keeps(self, most: int) -> bool:
        """Return True if a scan of yesterday sends at most so many requests."""
        requests = self.costs.requests_of_scan
        return requests is not None and requests <= most


@dataclass(frozen=True, slots=True)
class Suggestion:
    """The cheapest variants, and how many there were."""

    best: Tried | None
    """None if none of them keeps to the limit."""
    following: tuple[Tried, ...]
    """The next cheapest; without a best one those that came nearest to the limit."""
    tried: int
    pruned: int
    """Variants that were not played: a shorter interval was too much already."""
    most_requests: int

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return {
            "best": None if self.best is None else self.best.to_json(),
            "next": [each.to_json() for each in self.following],
            "tried": self.tried,
            "pruned": self.pruned,
            "most_requests": self.most_requests,
        }


def grid(settings: TableSettings, looks_a_day: float) -> list[list[Changes]]:
    """Return the variants to try, those in force among them: at most 24.

    Half, the same and double ``merge.target_size`` and ``merge.min_inputs``, without half of both;
    each with the schedule in force and two others.

    Args:
        settings: in force.
        looks_a_day: times a day that merges are looked for by the schedule in force.

    Returns:
        a list for each pair of sizes and numbers: its schedules, the most frequent first.
    """
    policy = settings.merge
    schedules = [(looks_a_day, "")]
    for cron in _SCHEDULES:
        rate = runs_a_day(cron)
        alike = any(max(rate, other) <= _ALIKE * min(rate, other) for other, _ in schedules)
        if not alike and len(schedules) <= _OTHERS:
            schedules.append((rate, cron))
    crons = [cron for _, cron in sorted(schedules, reverse=True)]
    return [
        [{**pair, **({"merge.schedule": cron} if cron else {})} for cron in crons]
        for pair in _pairs(policy)
    ]


def _pairs(policy: MergeSettings) -> Iterator[Changes]:
    size, least = policy.target_size, policy.min_inputs
    low, high = _SIZES
    bound = policy.max_bytes_per_run
    for target in sorted({size, max(low, size // 2), min(high, 2 * size)}):
        for count in sorted({least, max(2, least // 2), 2 * least}):
            if target < size and count < least:
                continue
            too_large = target > size and bound is not None
            if too_large or count > policy.max_parts_per_group:
                continue  # no settings: a run could not fill one part, or a group not begin
            changes = {"merge.target_size": format_size(target)} if target != size else {}
            changes |= {"merge.min_inputs": str(count)} if count != least else {}
            yield changes


def suggest(
    variants: Sequence[Sequence[Changes]], attempt: Callable[[Changes], Tried], most: int
) -> Suggestion:
    """Return the cheapest of some variants with which a scan of yesterday stays short.

    Args:
        variants: as ``grid``; of each list those after one that is too much are left out, since
            they merge more rarely.
        attempt: plays a variant.
        most: requests of a scan of yesterday.
    """
    tried: list[Tried] = []
    for schedules in variants:
        for changes in schedules:
            tried.append(attempt(changes))
            if not tried[-1].keeps(most):
                break
    different = _different(tried)
    short = sorted((each for each in different if each.keeps(most)), key=_price)
    count = sum(map(len, variants))
    nearest = sorted(different, key=lambda each: each.costs.requests_of_scan or 0.0)
    return Suggestion(
        best=short[0] if short else None,
        following=tuple(short[1 : _NEXT + 1] if short else nearest[:_NEXT]),
        tried=len(tried),
        pruned=count - len(tried),
        most_requests=most,
    )


def _different(tried: Sequence[Tried]) -> list[Tried]:
    """Return one variant for each outcome: that with the fewest changes."""
    by_outcome: dict[Outcome, Tried] = {}
    for each in sorted(tried, key=lambda one: len(one.changes)):
        by_outcome.setdefault(each.outcome, each)
    return list(by_outcome.values())


def _price(tried: Tried) -> tuple[float, int]:
    return tried.costs.total or tried.costs.maintenance, len(tried.changes)


def snippet(name: str, changes: Changes) -> list[str]:
    """Return the lines of tables.yaml that make a variant the settings of a table."""
    lines = ["tables:", f"  {name}:"]
    section = ""
    for dotted, value in sorted(changes.items()):
        head, _, key = dotted.partition(".")
        if head != section:
            lines.append(f"    {head}:")
            section = head
        text = f'"{value}"' if "*" in value else value
        lines.append(f"      {key}: {text}")
    return lines
