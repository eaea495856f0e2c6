"""What the rules of merges make of appends that come evenly: a month played through. Pure.

Every partition that got appends is taken to get the same, all month long, in parts of the mean
size. Groups are cut by the planner's own rules (``operations.merge.tiers``); finished partitions,
clustering, time limits of groups and deletes are left out.
"""

from __future__ import annotations

from dataclasses import dataclass

from firnline.operations.inspect.arrivals import Arrivals
from firnline.operations.merge.tiers import Tier, group_by_size, group_newest_first, worthwhile
from firnline.operations.requests import upload_requests
from firnline.settings.load import TableSettings

DAYS = 30
"""Days that are played."""


@dataclass(slots=True)
class Merging:
    """What 30 days of appends and merges come to."""

    looks: int = 0
    """Times at which somebody looked for something to merge."""
    runs: int = 0
    """Looks that found some."""
    parts_in: int = 0
    """Parts read and replaced."""
    parts_out: int = 0
    uploads: int = 0
    """Requests that write the new parts."""
    bytes_in: int = 0
    logs_of_looks: float = 0
    """Log files that all looks read."""
    logs_of_runs: float = 0
    """Those of the looks that were followed by a merge."""


def play(arrivals: Arrivals, settings: TableSettings, looks_a_day: float) -> Merging:
    """Return what 30 days come to.

    Args:
        arrivals: appends.
        settings: of the table, with its merge policy.
        looks_a_day: runs of what looks for something to merge.
    """
    merging = Merging(looks=round(looks_a_day * DAYS))
    policy = settings.merge
    tier = Tier(policy.target_size, policy.min_inputs, policy.max_parts_per_group)
    parts = arrivals.parts_a_day * DAYS / max(1, arrivals.partitions)
    appends = arrivals.appends_a_day * DAYS
    held: list[int] = []
    folded = 0.0
    for look in range(1, merging.looks + 1):
        come = int(parts * look / merging.looks) - int(parts * (look - 1) / merging.looks)
        held += [arrivals.part_bytes] * come
        unfolded = appends * look / merging.looks - folded + 1  # 1: that of the newest transaction
        merging.logs_of_looks += unfolded
        held, merged = _merged(held, tier, merging, arrivals, keyed=bool(settings.primary_key))
        if merged:
            merging.runs += 1
            merging.logs_of_runs += unfolded
            folded = appends * look / merging.looks
    return merging


def _merged(
    held: list[int], tier: Tier, merging: Merging, arrivals: Arrivals, *, keyed: bool
) -> tuple[list[int], bool]:
    """Merge what is worth it in each partition; return the small parts left, and if any was."""
    sizes = held if keyed else sorted(held)
    cut = group_newest_first if keyed else group_by_size
    left: list[int] = []
    merged = False
    for run in cut(sizes, tier):
        group = sizes[run.start : run.stop]
        total = sum(group)
        if not worthwhile(len(group), total, tier):
            left += group
            continue
        merged = True
        merging.parts_in += len(group) * arrivals.partitions
        merging.parts_out += arrivals.partitions
        merging.bytes_in += total * arrivals.partitions
        merging.uploads += upload_requests(total) * arrivals.partitions
        left.append(total)
    return [size for size in left if size < tier.full], merged
