"""Plans a merge: pure, printable, with a reason for every part left alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import Any

from firnline.commit import keys
from firnline.errors import CHOICES, UsageError, some
from firnline.log.records import Marker
from firnline.operations.groups import PlannedGroup
from firnline.operations.merge import splits, tiers
from firnline.operations.merge.by_numbers import stays
from firnline.operations.merge.clusters import plan_clusters, sorted_otherwise
from firnline.operations.merge.finishing import (
    alone_because,
    finished_at,
    may_shrink,
    spans_of,
)
from firnline.operations.merge.left import LeftParts, Reasoned, Tally
from firnline.operations.requests import FIXED_REQUESTS, upload_requests
from firnline.settings.load import MergeSettings, TableSettings
from firnline.shown import ShownFigures
from firnline.state.holds import Held
from firnline.state.partitions import choose
from firnline.state.snapshot import Snapshot
from firnline.types.order import Order, order_of
from firnline.types.schema import normalise
from firnline.types.values import bound_key

__all__ = ["LeftParts", "MergePlan", "PlannedGroup", "plan_merge"]


@dataclass(frozen=True, slots=True, repr=False)
class MergePlan(ShownFigures):
    """The groups of a merge in the order in which they are worked on."""

    seq: int
    """Transaction of the snapshot it was made from."""
    groups: tuple[PlannedGroup, ...]
    left_alone: tuple[LeftParts, ...]
    """All other live parts, by partition and reason."""
    hidden: tuple[PlannedGroup, ...] = ()
    """Per partition, the parts dropped unread: deletes hide every row of each."""
    next_due: int | None = None
    """Time, unix ms, at which the plan may change although nothing is written: the first of the
    parts that wait settles, or its partition is finished; None if none does."""

    @property
    def nothing_to_do(self) -> bool:
        """Return True if no group is worth merging and no part is hidden as a whole."""
        return not self.groups and not self.hidden

    @property
    def parts_hidden(self) -> int:
        """Parts that would be dropped unread."""
        return sum(len(g.parts) for g in self.hidden)

    @property
    def parts_in(self) -> int:
        """Parts that would be read and replaced."""
        return sum(len(g.parts) for g in self.groups)

    @property
    def parts_out(self) -> int:
        """Parts that would be written."""
        return sum(g.outputs for g in self.groups)

    @property
    def tasks(self) -> int:
        """Kernel tasks that the groups would be; fewer where a group cannot be sliced."""
        return sum(g.slices for g in self.groups)

    @property
    def bytes_in(self) -> int:
        """Bytes of the parts, and at most about as many written."""
        return sum(g.bytes for g in self.groups)

    @property
    def requests(self) -> int:
        """Estimate of store requests, log reads and further commits not counted.

        Of sliced groups more than it will be: most slices need some of the parts only.
        """
        uploads = sum(upload_requests(g.bytes, g.outputs) for g in self.groups)
        # Of a sliced group the footers, and in each slice a footer and row groups.
        sliced = sum(2 * g.slices * len(g.parts) for g in self.groups if g.slices > 1)
        return self.parts_in + sliced + uploads + (0 if self.nothing_to_do else FIXED_REQUESTS)

    @property
    def reasons(self) -> dict[str, int]:
        """Reason -> number of parts left alone for it."""
        counts: Counter[str] = Counter()
        for left in self.left_alone:
            counts[left.reason] += left.parts
        return dict(counts.most_common())

    def to_json(self) -> dict[str, Any]:
        """Plain data: totals, a row per group, the reasons with their counts."""
        return {
            "seq": self.seq,
            "parts_in": self.parts_in,
            "parts_out": self.parts_out,
            "parts_hidden": self.parts_hidden,
            "rows_hidden": sum(m.n or 0 for g in self.hidden for m in g.parts),
            "bytes_in": self.bytes_in,
            "tasks": self.tasks,
            "requests": self.requests,
            "groups": [
                {
                    "partition": g.partition,
                    "parts": len(g.parts),
                    "outputs": g.outputs,
                    "bytes": g.bytes,
                    "tasks": g.slices,
                }
                for g in self.groups
            ],
            "left_alone": self.reasons,
            "next_due": self.next_due,
        }


def plan_merge(
    snapshot: Snapshot,
    settings: TableSettings,
    now_ms: int,
    *,
    partitions: Sequence[str] = (),
    max_bytes: int | None = None,
    full: bool = False,
    excluded: frozenset[str] = frozenset(),
) -> MergePlan:
    """Decide what to merge.

    Args:
        snapshot: the state to plan on.
        settings: of the table.
        now_ms: wall clock, for ``settle`` and ``finish_after``.
        partitions: globs over partition paths; empty for all.
        max_bytes: bytes to read at most; None for the table's ``max_bytes_per_run``.
        full: bring every partition to the fewest parts, as if it were finished and settled, and to
            today's ``sort_by``: parts that state another order are written anew.
        excluded: parts that could not be read earlier in this run.

    Raises:
        UsageError: a glob matches no partition, or a sort or key column that no part has.
    """
    _check_columns(snapshot, settings)
    if settings.merge.sql is not None:
        instead = "merge without merge.sql"
        Held.of(snapshot).refuse_any("a merge with merge.sql", instead=instead)
    planner = _Planner(snapshot, settings, now_ms, full=full, excluded=excluded)
    for partition in choose(snapshot.partitions, partitions):
        planner.add(partition)
    groups = sorted(planner.groups, key=lambda group: _urgency(settings.merge, group))
    bound = settings.merge.max_bytes_per_run if max_bytes is None else max_bytes
    kept, over = _bounded(groups, bound)
    for group in over:
        reasoned = ("does not fit into max_bytes of this run", group.parts)
        planner.left.add(group.partition, [reasoned])
    return MergePlan(
        seq=snapshot.seq,
        groups=tuple(kept),
        left_alone=planner.left.rows(),
        hidden=tuple(planner.hidden),
        next_due=planner.due,
    )


@dataclass
class _Planner:
    """Plans one partition after the other, and collects the groups."""

    snapshot: Snapshot
    settings: TableSettings
    now_ms: int
    full: bool
    excluded: frozenset[str]
    groups: list[PlannedGroup] = field(default_factory=list)
    left: Tally = field(default_factory=Tally)
    hidden: list[PlannedGroup] = field(default_factory=list)
    due: int | None = None
    """Time at which the first of what waits may go on, unix ms."""
    size: Callable[[Marker], int] = field(init=False)
    order: Order = field(init=False)
    """Sort order of the table, with ``full``: a part that states another one is sorted again."""
    at_ms: int | None = field(init=False)
    """Time for which records of deletes that may wait do not count; with ``full`` all do."""
    waiting: frozenset[str] = field(init=False)
    """Ids of these records."""
    runs: Mapping[str | None, int] = field(default_factory=dict)
    """Sizes of the split groups of the partition that is being planned, by run."""

    def __post_init__(self) -> None:
        self.size = tiers.sizer(self.settings.merge)
        self.order = order_of(self.settings.sort_by) if self.full else ()
        self.at_ms = None if self.full else self.now_ms
        records = self.snapshot.deletes.values()
        self.waiting = frozenset(d.id for d in records if d.may_wait(self.at_ms))

    def add(self, partition: str) -> None:
        """Plan a partition; its markers, if any are made, are let go of but for those of groups."""
        if self.excluded or not self._stays(partition):
            self._add(partition, self.snapshot.partitions[partition])

    def _stays(self, partition: str) -> bool:
        """Return True if the numbers of a partition tell that all of it stays, and note so."""
        found = stays(self.snapshot, self.settings, partition, self.now_ms, full=self.full)
        if found is None:
            return False
        for reason, parts, size in found.left:
            self.left.count(partition, reason, parts, size)
        if found.due is not None:
            self._wait_until(found.due)
        return True

    def _add(self, partition: str, every: Sequence[Marker]) -> None:
        snapshot, settings = self.snapshot, self.settings
        whole, parts = _hidden(snapshot, settings, partition, every, self.excluded)
        self._wait_for_records(partition, parts)
        self.runs = splits.sizes_of_runs(parts, self.size)
        self.hidden += whole
        finish = self._finishes(every, parts)
        ready = self._ready(partition, parts, finish=finish)
        if settings.cluster_by is not None:
            groups, rest = plan_clusters(
                snapshot,
                settings,
                settings.cluster_by,
                partition,
                ready,
                self.at_ms,
                finish=finish,
                order=self.order,
            )
        else:
            runs = list(_runs(settings, every, ready, finish=finish))
            groups, rest = _group(
                snapshot,
                settings,
                partition,
                runs,
                self.at_ms,
                finish=finish,
                order=self.order,
            )
            if settings.primary_key:
                why = alone_because("parts", settings.merge, finish=finish)
                rest.append((why, _inseparable(ready, runs)))
        self.groups += groups
        self.left.add(partition, rest)

    def _finishes(self, every: Sequence[Marker], parts: Sequence[Marker]) -> bool:
        """Return True if a partition is to be brought to the fewest parts.

        Args:
            every: its parts.
            parts: those of which deletes do not hide every row.
        """
        policy = self.settings.merge
        if self.full:
            return True
        if policy.finish_after is None:
            return False
        at = finished_at(spans_of(self.snapshot, every), policy, self.now_ms)
        if at is None or at <= self.now_ms:
            return at is not None
        if (self.due is None or at < self.due) and may_shrink(self.settings, parts):
            self._wait_until(at)
        return False

    def _ready(self, partition: str, parts: Sequence[Marker], *, finish: bool) -> list[Marker]:
        """Return the parts to group; the others are left alone at once."""
        policy = self.settings.merge
        unsettled = self._unsettled(parts)
        # Of clustered tables, runs are large enough or not, not parts.
        sized = self.settings.cluster_by is None and not finish
        full = tiers.full_from(policy.target_size) if sized else None
        ready: list[Marker] = []
        for marker in parts:
            if marker.p in self.excluded:
                reason = "could not be read earlier in this run"
            elif (
                full is not None
                and (self.runs.get(marker.c) or self.size(marker)) >= full
                and self.snapshot.is_settled(marker, partition, self.at_ms)
            ):
                reason = tiers.LARGE
            elif marker.p in unsettled:
                reason = "is younger than settle"
                self._wait_until(unsettled[marker.p])
            else:
                ready.append(marker)
                continue
            self.left.count(partition, reason, 1, marker.b)
        return ready

    def _unsettled(self, parts: Sequence[Marker]) -> dict[str, int]:
        """Return the parts that wait for ``settle``, and the time at which each is settled."""
        policy = self.settings.merge
        if not policy.settle or self.full:
            return {}
        settled = {m.p: self.snapshot.effective(m.t) + policy.settle for m in parts}
        unsettled = {key: at for key, at in settled.items() if at > self.now_ms}
        return unsettled if len(unsettled) <= policy.settle_max_parts else {}

    def _wait_for_records(self, partition: str, parts: Sequence[Marker]) -> None:
        """Note when the first record that still waits is due."""
        for marker in parts if self.waiting else ():
            for delete in self.snapshot.pending_deletes(marker, partition):
                if delete.due is not None and delete.id in self.waiting:
                    self._wait_until(delete.due)

    def _wait_until(self, time_ms: int) -> None:
        self.due = time_ms if self.due is None else min(self.due, time_ms)


def _check_columns(snapshot: Snapshot, settings: TableSettings) -> None:
    if not snapshot.schema:
        return
    keys.check_deleted(settings, snapshot.schema)
    used = {f"sort_by {f.column}": f.column for f in settings.sort_by}
    used |= {f"primary_key {c}": c for c in settings.primary_key}
    clustered = settings.cluster_by.columns if settings.cluster_by is not None else ()
    used |= {f"cluster_by {c}": c for c in clustered}
    used |= {f"version {c}": c for c in (settings.version,) if c is not None}
    for label, column in used.items():
        if column not in snapshot.schema:
            choices = some(snapshot.schema, CHOICES)
            raise UsageError(
                f"table {settings.name} has no column {column!r} (setting {label})",
                next_step=f"correct the setting; the columns are {choices}",
            )
    for column in clustered:
        if bound_key(normalise(snapshot.schema[column])) is None:
            raise UsageError(
                f"table {settings.name} cannot be clustered by {column!r}: values of type "
                f"{snapshot.schema[column]} have no order",
                next_step="choose another column in cluster_by",
            )


def _hidden(
    snapshot: Snapshot,
    settings: TableSettings,
    partition: str,
    parts: Sequence[Marker],
    excluded: frozenset[str],
) -> tuple[list[PlannedGroup], Sequence[Marker]]:
    """Return the parts of a partition that deletes hide as a whole, and all others."""
    if not snapshot.deletes or settings.primary_key:
        # With a primary key a kernel decides which rows win, so no part is dropped unread.
        return [], parts
    whole: list[Marker] = []
    rest: list[Marker] = []
    for marker in parts:
        # Without a row count (other writers give none) the dropped rows could not be counted.
        counted = marker.n is not None and marker.p not in excluded
        pending = snapshot.pending_deletes(marker, partition) if counted else []
        if not snapshot.hidden_whole(marker, pending):
            rest.append(marker)
            continue
        whole.append(marker)
    ordered = tuple(sorted(whole, key=lambda m: (*m.order(), m.p)))
    deletes = snapshot.deletes_of(whole, partition)
    return [PlannedGroup(partition, ordered, deletes)] if whole else [], rest


def _group(
    snapshot: Snapshot,
    settings: TableSettings,
    partition: str,
    runs: Iterable[list[Marker]],
    at_ms: int | None,
    *,
    finish: bool,
    order: Order,
) -> tuple[list[PlannedGroup], list[Reasoned]]:
    policy = settings.merge
    tier = tiers.tier_of(policy)
    size = tiers.sizer(policy)
    columns = splits.slicing_columns(settings, snapshot.schema)
    groups: list[PlannedGroup] = []
    alone: list[Marker] = []
    for run in runs:
        deletes = snapshot.deletes_of(run, partition)
        total = sum(map(size, run))
        pays = tiers.shrinks if finish else tiers.worthwhile
        hurries = not all(d.may_wait(at_ms) for d in deletes)
        # A record of a schema change waits for parts with columns from before it.
        again = any(map(snapshot.pending_changes, run)) or sorted_otherwise(snapshot, run, order)
        if hurries or again or pays(splits.count(run), total, tier):
            ordered = sorted(run, key=lambda m: (*m.order(), m.p))
            slices = splits.slices_of(settings, run) if columns else 1
            group = PlannedGroup(partition, tuple(ordered), deletes, slices)
            sliced_by = columns if slices > 1 else ()
            groups.append(replace(group, slices=slices, sliced_by=sliced_by))
            continue
        alone += run
    return groups, [(alone_because("parts", policy, finish=finish), alone)]


def _inseparable(ready: Sequence[Marker], runs: Iterable[Sequence[Marker]]) -> list[Marker]:
    """Return the parts in no run: they came at the same time as one that stays."""
    in_runs = {m.p for run in runs for m in run}
    return [m for m in ready if m.p not in in_runs]


def _runs(
    settings: TableSettings, every: Sequence[Marker], ready: list[Marker], *, finish: bool
) -> Iterable[list[Marker]]:
    tier, size = tiers.tier_of(settings.merge), tiers.sizer(settings.merge)
    if not settings.primary_key:
        ranked = sorted(
            ((sum(map(size, unit)), unit[0].p, unit) for unit in splits.together(ready)),
            key=itemgetter(0, 1),
        )
        group = tiers.group_in_order if finish else tiers.group_by_size
        for run in group([total for total, _, _ in ranked], tier):
            yield [m for i in run for m in ranked[i][2]]
        return
    # One row per key survives: which one must not depend on parts between the inputs.
    names = frozenset(m.p for m in ready)
    group = tiers.group_in_order if finish else tiers.group_newest_first
    for stretch in keys.stretches(every, names):
        sizes = [sum(map(size, unit)) for unit in stretch]
        for run in group(sizes, tier):
            yield [m for i in run for m in stretch[i]]


def _urgency(policy: MergeSettings, group: PlannedGroup) -> tuple[float, str]:
    """Return the sort key of a group: the smallest comes first."""
    if policy.order == "recent":
        return (-group.newest, group.partition)
    if policy.order == "oldest":
        return (group.newest, group.partition)
    saved_per_byte = (len(group.parts) - 1) / max(group.bytes, 1)
    return (-saved_per_byte, group.partition)


def _bounded(
    groups: list[PlannedGroup], bound: int | None
) -> tuple[list[PlannedGroup], list[PlannedGroup]]:
    """Return the groups that fit into a bound of bytes, and the others."""
    kept: list[PlannedGroup] = []
    over: list[PlannedGroup] = []
    total = 0
    for group in groups:
        fits = bound is None or total + group.bytes <= bound
        (kept if fits else over).append(group)
        total += group.bytes if fits else 0
    return kept, over
