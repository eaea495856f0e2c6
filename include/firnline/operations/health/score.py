"""The score of a table's health, 0 to 100, with a reason for every point that is missing.

Points go for what costs readers requests, bytes or time, and for what nobody has noticed:

- up to 50: the share of live parts that a merge would take away (every scan pays a request each);
- up to 20: the share of all bytes that a clean-up may delete now;
- up to 10: the share of bytes that are past their time to live;
- up to 15: log files that every reader reads, from 100 on, all of them from 1,000;
- 10: settings that state other properties than the table has;
- 20: a plan that cannot be made.

A table that cannot be read has no points at all.
"""

from __future__ import annotations

from dataclasses import dataclass

from firnline.operations.health.figures import Figures
from firnline.units import about_size

FULL = 100
_LOG_FILES = 100, 1_000


@dataclass(frozen=True, slots=True)
class Reason:
    """Reason for which points are deducted."""

    points: int
    text: str


@dataclass(frozen=True, slots=True)
class Score:
    """Points, and the reasons for those that are missing, the largest first."""

    points: int
    reasons: tuple[Reason, ...]


def score(figures: Figures) -> Score:
    """Return the score of a table."""
    losses = [
        _share(
            50,
            figures.saved,
            figures.parts,
            f"{figures.merge_parts:,} parts, {figures.saved:,} requests a scan, wait for a merge",
        ),
        _share(
            20,
            figures.deletable_bytes,
            figures.bytes + figures.dead_bytes,
            f"{about_size(figures.deletable_bytes)} wait for a clean-up",
        ),
        _share(
            10,
            figures.expired_bytes,
            figures.bytes,
            f"{about_size(figures.expired_bytes)} are past their time to live",
        ),
        _log(figures),
        Reason(10 * bool(figures.differs), f"settings differ: {', '.join(figures.differs)}"),
        *(Reason(20, problem) for problem in figures.problems),
    ]
    reasons = sorted((one for one in losses if one.points), key=lambda one: -one.points)
    return Score(max(0, FULL - sum(one.points for one in reasons)), tuple(reasons))


def unreadable(text: str) -> Score:
    """Return the score of a table that cannot be read."""
    return Score(0, (Reason(FULL, text),))


def _share(most: int, part: int, whole: int, text: str) -> Reason:
    """Return the points that a share of a whole costs, in proportion and rounded."""
    return Reason(round(most * min(1.0, part / whole)) if whole else 0, text)


def _log(figures: Figures) -> Reason:
    least, most = _LOG_FILES
    share = min(1.0, max(0, figures.log_files_read - least) / (most - least))
    return Reason(round(15 * share), f"{figures.log_files_read:,} log files for every reader")
