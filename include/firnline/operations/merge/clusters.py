"""Selects the parts of a clustered table to merge: runs by size, only where they overlap.

The outputs of one merge are a *run*: they do not overlap in the order of ``cluster_by``. A part
that was never clustered is a run by itself. Runs are merged as parts are (``plan.tiers``): from
the smallest on, as long as the next is no larger than twice what is gathered, at least
``min_inputs`` of them. So a row that is rewritten comes into a run at least 1.5 times as large, is
rewritten at most log1.5(run_size / floor) times above the floor (1/64 of ``target_size``; about
log4 when runs are alike), and a query for one value finds it in one part of each of
O(log) runs and of those that reached ``run_size``.

With ``range``, statistics spare what is in order already: a part of at least half the target that
overlaps no other run of its group stays, and what lies on its two sides is merged apart, so that
nothing comes to lie across it.

A second plan right after the first is empty: the group is one run more and no smaller, and where
parts were spared no two runs overlap any more.

In a finished partition runs are gathered up to ``run_size`` whatever their sizes and number.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from firnline.log.records import Marker
from firnline.operations.groups import PlannedGroup
from firnline.operations.merge import splits, tiers
from firnline.operations.merge.finishing import alone_because
from firnline.operations.merge.left import Reasoned
from firnline.settings.load import ClusterSettings, MergeSettings, TableSettings
from firnline.state.snapshot import Snapshot
from firnline.types.order import Order, is_other
from firnline.types.schema import normalise
from firnline.types.values import bound_key, canonical

LARGE = "its clustered run is large enough (3/4 of cluster_by.run_size)"
IN_ORDER = "is clustered, and no other run of its group overlaps it"

_Bound = tuple[int, Any]
_END: _Bound = (1, 0)
"""Above every value: where nulls are."""


@dataclass(frozen=True, slots=True)
class _Run:
    name: str
    parts: tuple[Marker, ...]
    size: int
    """Sum of ``tiers.size_of`` of the parts."""


@dataclass(frozen=True, slots=True)
class _Placed:
    """A part with the interval of its first cluster column."""

    low: _Bound
    high: _Bound
    run: str
    part: Marker


def plan_clusters(
    snapshot: Snapshot,
    settings: TableSettings,
    cluster: ClusterSettings,
    partition: str,
    ready: Sequence[Marker],
    at_ms: int | None,
    *,
    finish: bool = False,
    order: Order = (),
) -> tuple[list[PlannedGroup], list[Reasoned]]:
    """Return groups of overlapping runs of a partition, and the other parts with reasons.

    Args:
        snapshot: the state to plan on.
        settings: of the table.
        cluster: of the table.
        partition: path.
        ready: parts that may be merged at all.
        at_ms: time for which records of deletes that may wait do not count; None: all count.
        finish: bring the partition to the fewest runs.
        order: write parts anew that state another order than this one; empty: none.
    """
    policy, target = settings.merge, settings.merge.target_size
    tier = tiers.Tier(
        cluster.run_bytes(target), policy.min_inputs, policy.max_parts_per_group, floor_of=target
    )
    groups: list[list[Marker]] = []
    left: dict[str, str] = {}
    runs = _runs(ready, cluster, policy)
    left |= {m.p: LARGE for run in runs if run.size >= tier.full for m in run.parts}
    why_alone = alone_because("runs", policy, finish=finish)
    for gathered in _tiers([run for run in runs if run.size < tier.full], tier, finish=finish):
        parts = [m for run in gathered for m in run.parts]
        pays = tiers.shrinks if finish else tiers.worthwhile
        if not pays(len(gathered), sum(run.size for run in gathered), tier):
            left |= dict.fromkeys((m.p for m in parts), why_alone)
            continue
        left |= dict.fromkeys((m.p for m in parts), IN_ORDER)
        groups += _pieces(gathered, snapshot, cluster, policy)
    grouped = {m.p for group in groups for m in group}
    alone = [
        m
        for m in ready
        if m.p not in grouped
        and (not snapshot.is_settled(m, partition, at_ms) or sorted_otherwise(snapshot, [m], order))
    ]
    groups += [[m] for m in sorted(alone, key=attrgetter("p"))]
    grouped |= {m.p for m in alone}
    stay: dict[str, list[Marker]] = defaultdict(list)
    for m in ready:
        if m.p not in grouped:
            stay[left[m.p]].append(m)
    return (
        [_group(snapshot, settings, cluster, partition, parts) for parts in groups],
        list(stay.items()),
    )


def sorted_otherwise(snapshot: Snapshot, parts: Sequence[Marker], wanted: Order) -> bool:
    """Return True if a part states that its rows are in another order than the wanted one.

    What replaces it states the wanted one, or none: it is not written again for this.
    """
    return bool(wanted) and any(is_other(snapshot.sorted_by(m), wanted) for m in parts)


def outputs_of(size: int, target: int) -> int:
    """Return the number of outputs for ``size`` bytes: each has 2/3 to 3/2 of the target."""
    return max(1, (size + target // 2) // target)


def _group(
    snapshot: Snapshot,
    settings: TableSettings,
    cluster: ClusterSettings,
    partition: str,
    parts: Sequence[Marker],
) -> PlannedGroup:
    policy = settings.merge
    deletes = snapshot.deletes_of(parts, partition)
    ordered = tuple(sorted(parts, key=lambda m: (*m.order(), m.p)))
    # One part alone only loses its deleted rows, or gets the current columns or order: its run
    # stays the same.
    size = sum(map(tiers.sizer(policy), parts))
    outputs = 1 if len(parts) == 1 else outputs_of(size, policy.target_size)
    columns = splits.slicing_columns(settings, snapshot.schema)
    slices = min(outputs, splits.slices_of(settings, parts)) if columns else 1
    return PlannedGroup(
        partition=partition,
        parts=ordered,
        deletes=deletes,
        outputs=outputs,
        cluster=cluster.mark,
        slices=slices,
        sliced_by=columns if slices > 1 else (),
    )


def _runs(parts: Sequence[Marker], cluster: ClusterSettings, policy: MergeSettings) -> list[_Run]:
    """Return the runs, smallest first. A part clustered by other columns is not clustered."""
    by_run: dict[str, list[Marker]] = defaultdict(list)
    for marker in parts:
        ours = marker.c is not None and marker.c.startswith(f"{cluster.mark}-")
        by_run[marker.c if ours and marker.c is not None else marker.p].append(marker)
    size = tiers.sizer(policy)
    runs = [_Run(name, tuple(members), sum(map(size, members))) for name, members in by_run.items()]
    return sorted(runs, key=lambda run: (run.size, run.name))


def _tiers(runs: Sequence[_Run], tier: tiers.Tier, *, finish: bool) -> Iterator[list[_Run]]:
    """Yield groups as ``tiers.group_by_size``, with the bound on inputs in parts.

    ``finish``: as ``tiers.group_in_order``.
    """
    gathered: list[_Run] = []
    total = count = 0
    for run in runs:
        size = run.size
        over = total + size > tier.target or count + len(run.parts) > tier.max_inputs
        if gathered and (over or (not finish and tiers.too_large(size, total, tier))):
            yield gathered
            gathered, total, count = [], 0, 0
        gathered.append(run)
        total += size
        count += len(run.parts)
    if gathered:
        yield gathered


def _pieces(
    runs: Sequence[_Run], snapshot: Snapshot, cluster: ClusterSettings, policy: MergeSettings
) -> list[list[Marker]]:
    """Return the parts to merge, cut where a part stays that is in order already."""
    placed = _placed(runs, snapshot, cluster.columns[0]) if cluster.method == "range" else None
    if placed is None:
        return [[m for run in runs for m in run.parts]]
    size = tiers.sizer(policy)
    pieces: list[list[Marker]] = [[]]
    for overlapping in _overlapping(placed, points=len(cluster.columns) > 1):
        one_run = len({place.run for place in overlapping}) == 1
        least = min(size(place.part) for place in overlapping)
        if one_run and least >= policy.target_size // 2:
            pieces.append([])
        else:
            pieces[-1] += [place.part for place in overlapping]
    return [piece for piece in pieces if len(piece) > 1]


def _placed(runs: Sequence[_Run], snapshot: Snapshot, column: str) -> list[_Placed] | None:
    """Return the parts in the order of their intervals; None when an interval is not known."""
    kind = normalise(snapshot.schema.get(column, ""))
    key = bound_key(kind)
    placed: list[_Placed] = []
    for run in runs:
        for part in run.parts:
            bounds = snapshot.stats_of(part).get(column)
            if bounds is None or key is None:
                return None
            low, high, nulls = bounds
            try:
                first = _END if low is None else (0, key(canonical(kind, low)))
                open_end = nulls or high is None
                last = _END if open_end else (0, key(canonical(kind, high)))
            except (ValueError, TypeError):
                return None  # bounds of another type, as other writers may leave them
            placed.append(_Placed(first, last, run.name, part))
    return sorted(placed, key=lambda place: (place.low, place.high, place.part.p))


def _overlapping(placed: Sequence[_Placed], *, points: bool) -> Iterator[list[_Placed]]:
    """Yield parts that overlap by more than a common end.

    Neighbours of a run share a value where the next column goes on. ``points``: parts that hold
    one and the same value only may differ in the next column, so they count as overlapping.
    """
    gathered: list[_Placed] = []
    low = top = _END
    for place in placed:
        same_point = points and place.low == place.high == low == top
        if gathered and not (place.low < top or same_point):
            yield gathered
            gathered = []
        if not gathered:
            low, top = place.low, place.high
        gathered.append(place)
        top = max(top, place.high)
    if gathered:
        yield gathered
