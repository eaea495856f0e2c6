"""Partitions of which a merge takes nothing, told by numbers alone: no marker is made for them.

A checkpoint has the numbers of its parts as arrays. Where they settle the matter, a plan of ten
million parts needs no object for each of them; where they do not, the partition is planned by its
markers. Whether parts pay is decided by the functions of ``tiers`` and ``finishing`` in both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from firnline.log.parts_view import Numbers, PartitionsView
from firnline.operations.merge import tiers
from firnline.operations.merge.finishing import FEWEST, fewer, finished_at, two_fit, waits_for
from firnline.settings.load import MergeSettings, TableSettings
from firnline.state.snapshot import Snapshot

if TYPE_CHECKING:
    from firnline.log.parts_view import Ints


@dataclass(frozen=True, slots=True)
class Stays:
    """A partition of which a merge takes nothing now."""

    left: tuple[tuple[str, int, int], ...]
    """Reason, parts and bytes."""
    due: int | None = None
    """Time at which that may change although nothing is written, unix ms; None for never."""


def stays(
    snapshot: Snapshot, settings: TableSettings, partition: str, now_ms: int, *, full: bool
) -> Stays | None:
    """Return why a merge takes nothing of a partition; None where its numbers do not tell.

    Args:
        snapshot: the state to plan on.
        settings: of the table.
        partition: path.
        now_ms: wall clock.
        full: as of ``plan_merge``.
    """
    numbers = _numbers(snapshot, settings, partition, full=full)
    if numbers is None or not _is_settled(
        snapshot, settings, partition, numbers, now_ms, full=full
    ):
        return None
    policy = settings.merge
    sizes = _sizes(numbers, policy)
    at = finished_at(fewer(numbers.first, numbers.last, policy), policy, now_ms)
    if full or (at is not None and at <= now_ms):
        if two_fit(_two_least(sizes), policy):
            return None
        return Stays(((FEWEST, len(sizes), int(numbers.sizes.sum())),))
    left = _too_few(numbers, sizes, settings)
    if left is None:
        return None
    return Stays(left, at if at is not None and two_fit(_two_least(sizes), policy) else None)


def _numbers(
    snapshot: Snapshot, settings: TableSettings, partition: str, *, full: bool
) -> Numbers | None:
    """Return the numbers of a partition; None where its markers are there, or are needed."""
    partitions = snapshot.partitions
    if not isinstance(partitions, PartitionsView) or snapshot.dated:
        return None
    if settings.cluster_by is not None or (full and settings.sort_by):
        return None
    try:
        numbers = partitions.numbers(partition)
    except OverflowError:
        return None
    return None if numbers.in_runs else numbers


def _is_settled(
    snapshot: Snapshot,
    settings: TableSettings,
    partition: str,
    numbers: Numbers,
    now_ms: int,
    *,
    full: bool,
) -> bool:
    """Return True if no record is pending for any part, and none waits for ``settle``."""
    record, settle = snapshot.newest_record(partition), settings.merge.settle
    if record and numbers.sequences.min() < record:
        return False
    return full or not settle or int(numbers.times.max()) + settle <= now_ms


def _sizes(numbers: Numbers, policy: MergeSettings) -> Ints:
    """Return ``tiers.size_of`` of each part."""
    if policy.target_rows is None:
        return numbers.sizes
    sizes = numbers.sizes.copy()
    pairs = zip(sizes.tolist(), numbers.rows.tolist(), strict=True)
    sizes[:] = [tiers.size_of(b, None if n < 0 else n, policy) for b, n in pairs]
    return sizes


def _two_least(sizes: Ints) -> Sequence[int]:
    least = sizes.copy()
    if len(least) > 2:
        least.partition(1)
    two: list[int] = least[:2].tolist()
    return two


def _too_few(
    numbers: Numbers, sizes: Ints, settings: TableSettings
) -> tuple[tuple[str, int, int], ...] | None:
    """Return why the parts of a partition that is not finished stay; None if some may be merged."""
    policy = settings.merge
    tier = tiers.tier_of(policy)
    small = sizes < tier.full
    if _may_pay(sizes[small], tier, in_order=bool(settings.primary_key)):
        return None
    left = []
    for reason, mask in ((tiers.LARGE, ~small), (waits_for("parts", policy), small)):
        if mask.any():
            left.append((reason, int(mask.sum()), int(numbers.sizes[mask].sum())))
    return tuple(left)


def _may_pay(small: Ints, tier: tiers.Tier, *, in_order: bool) -> bool:
    """Return True if a group of some of these sizes may pay.

    ``in_order``: which of them may be in one group depends on more than their sizes.
    """
    if not tiers.worthwhile(len(small), int(small.sum()), tier):
        return False
    if in_order:
        return True
    ranked = sorted(small.tolist())
    runs = tiers.group_by_size(ranked, tier)
    return any(tiers.worthwhile(len(run), sum(ranked[run.start : run.stop]), tier) for run in runs)
