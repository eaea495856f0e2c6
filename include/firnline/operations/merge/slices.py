"""Kernel tasks of the groups of a merge: one for a group, or one for each of its slices.

What a plan says of slices is what is wanted; here the footers of large parts are read, and cut
points chosen by the statistics of row groups (``cutting``). A group that they do not tell how to
cut is one task.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

from msgspec import structs

from firnline.commit.outputs import Outputs
from firnline.kernel.task import KernelResult, KernelTask, KeyRange, Slice
from firnline.log.records import Marker
from firnline.operations.groups import PlannedGroup
from firnline.operations.kernel_tasks import kernel_task
from firnline.operations.merge.cutting import (
    PartGroups,
    SlicePlan,
    cut_into_slices,
    halvings_of,
    is_small,
    share_outputs,
)
from firnline.parquet.footers import (
    FooterFacts,
    FooterTask,
    FooterWanted,
    RowGroupFacts,
    many_facts,
)
from firnline.state.snapshot import Snapshot
from firnline.table import Table
from firnline.types.digests import Digest, parse_digest, total
from firnline.types.schema import normalise
from firnline.types.sql import fold_name
from firnline.types.values import text_of

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class GroupTasks:
    """The tasks of one group."""

    group: PlannedGroup
    tasks: tuple[KernelTask, ...]
    rows: int | None = None
    """Rows of the parts, by footers or markers; None for a group of one task, which counts them."""
    digest: Digest | None = None
    """Of the rows of all parts, which every task relies on; None if each proves its own rows."""


def tasks_of(
    table: Table, snapshot: Snapshot, groups: Sequence[PlannedGroup]
) -> Iterator[GroupTasks]:
    """Yield the tasks of groups; ``KernelTask.group`` numbers the tasks of all of them.

    Requests: for each part of several row groups, of a group that the plan wants to slice, one
    ranged GET (two if its footer is very large). Markers say enough of the others.

    Args:
        table: the table.
        snapshot: what the groups were planned on.
        groups: the groups.

    Raises StoreError: the store failed while footers were read.
    """
    number = 0
    for group in groups:
        task = kernel_task(table, snapshot, number, group)
        of_group = _sliced(table, snapshot, group, task) or GroupTasks(group, (task,))
        number += len(of_group.tasks)
        yield of_group


def _sliced(
    table: Table, snapshot: Snapshot, group: PlannedGroup, task: KernelTask
) -> GroupTasks | None:
    """Return the slices of a group; None if it is one task."""
    if not group.sliced_by:
        return None
    parts = _parts(table, snapshot, group)
    if parts is None:
        return None  # the task will say which part cannot be read
    task, digest = _with_digests(task)
    kinds = {column: normalise(snapshot.schema[column]) for column in group.sliced_by}
    slices = cut_into_slices(parts, tuple(kinds.values()), group.slices, _halvings(task))
    if not slices:
        _LOG.info(
            "partition %s: a group of %d parts is one task, because the row groups of its parts "
            "overlap in %s too much to give several tasks a share of them",
            group.partition,
            len(group.parts),
            " and ".join(kinds),
        )
        return None
    tasks = (
        _slice_task(task, number, each, outputs, kinds)
        for number, (each, outputs) in enumerate(
            zip(slices, share_outputs(slices, group.outputs), strict=True), task.group
        )
    )
    rows = sum(each.rows for part in parts for each in part.row_groups)
    return GroupTasks(group, tuple(tasks), rows, digest)


def _with_digests(task: KernelTask) -> tuple[KernelTask, Digest | None]:
    """Return the sum of what the inputs state; without it none of them states anything.

    A slice reads a share of an input, so only the sum over all slices can be compared with it.
    """
    stated = [parse_digest(each.digest) for each in task.inputs]
    digests = [digest for digest in stated if digest is not None]
    proven = task.proof == "rows" and task.query is None and task.has_digests
    if proven and len(digests) == len(stated):
        return task, total(digests)
    inputs = tuple(structs.replace(each, digest=None) for each in task.inputs)
    return structs.replace(task, inputs=inputs), None


def _halvings(task: KernelTask) -> int | None:
    """Return how often slices may halve the values of a column; None: as often as they need."""
    cluster = task.cluster
    if cluster is None or cluster.method != "zorder":
        return None
    return halvings_of(cluster.outputs, len(cluster.columns))


def _slice_of(plan: SlicePlan, kinds: Mapping[str, str]) -> Slice:
    ranges = (
        KeyRange(
            column=column,
            low=None if low is None else text_of(kind, low),
            high=None if high is None else text_of(kind, high),
        )
        for (column, kind), low, high in zip(kinds.items(), plan.low, plan.high, strict=True)
    )
    return Slice(ranges=tuple(each for each in ranges if (each.low, each.high) != (None, None)))


def _parts(table: Table, snapshot: Snapshot, group: PlannedGroup) -> list[PartGroups] | None:
    """Return the row groups of the parts of a group; None if a part cannot be read."""
    columns = group.sliced_by
    alone = {m.p: _as_one(table, snapshot, m, columns) for m in group.parts}
    tasks = [FooterTask(m.p, m.b) for m in group.parts if alone[m.p] is None]
    wanted = FooterWanted(columns=dict(snapshot.schema), groups_by=columns)
    footers = {facts.key: facts for facts in many_facts(table.store, tasks, wanted)}
    if any(facts.error is not None for facts in footers.values()):
        return None
    parts: list[PartGroups] = []
    for marker in group.parts:
        one = alone[marker.p]
        groups = _row_groups(snapshot, marker, columns, footers) if one is None else (one,)
        parts.append(PartGroups(marker.b, groups))
    return parts


def _as_one(
    table: Table, snapshot: Snapshot, marker: Marker, columns: Sequence[str]
) -> RowGroupFacts | None:
    """Return a part that is read as a whole or not at all, from its marker; None for others.

    Their footers would say nothing more: they have one row group, or are small.
    """
    stats = snapshot.stats_of(marker)
    if marker.n is None or any(column not in stats for column in columns):
        return None
    if not is_small(marker.b) and marker.n > table.settings.merge.row_group_rows:
        return None
    return RowGroupFacts(marker.n, marker.b, tuple(stats[column] for column in columns))


def _row_groups(
    snapshot: Snapshot,
    marker: Marker,
    columns: Sequence[str],
    footers: Mapping[str, FooterFacts],
) -> tuple[RowGroupFacts, ...]:
    """Return the row groups of a part, without bounds of columns that it has by another name."""
    made = {fold_name(name) for name, _ in snapshot.columns_of(marker).made_of.values()}
    usable = [fold_name(column) not in made for column in columns]
    return tuple(
        structs.replace(
            group,
            bounds=tuple(
                each if usable[place] else None for place, each in enumerate(group.bounds)
            ),
        )
        for group in footers[marker.p].bounds
    )


def _slice_task(
    task: KernelTask, number: int, plan: SlicePlan, outputs: int, kinds: Mapping[str, str]
) -> KernelTask:
    cluster = task.cluster
    if cluster is not None:
        narrowed = dict(zip(kinds, plan.narrowed, strict=True))
        by_column = tuple(narrowed.get(column, 0.0) for column in cluster.columns)
        cluster = structs.replace(
            cluster,
            outputs=outputs,
            narrowed=by_column if cluster.method == "zorder" else (),
        )
    inputs = tuple(
        structs.replace(task.inputs[each.part], row_groups=each.row_groups) for each in plan.reads
    )
    key_ranges = _slice_of(plan, kinds)
    return structs.replace(task, group=number, inputs=inputs, slice=key_ranges, cluster=cluster)


@dataclass
class Gathering:
    """Puts the results of a group's tasks together: all of them become its result, or none.

    Used as a context manager: outputs of groups that are not complete at its end are deleted.
    """

    table: Table
    work: Sequence[GroupTasks]
    new: Outputs = field(init=False)
    """Outputs of tasks whose group is not complete."""
    _of: dict[int, GroupTasks] = field(init=False)
    _found: dict[int, list[KernelResult]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.new = Outputs(self.table)
        self._of = {task.group: each for each in self.work for task in each.tasks}

    @property
    def tasks(self) -> list[KernelTask]:
        """Return the tasks of all groups."""
        return list(chain.from_iterable(each.tasks for each in self.work))

    def __enter__(self) -> Gathering:
        return self

    def __exit__(self, *_: object) -> None:
        self.new.delete()

    def add(self, result: KernelResult) -> tuple[PlannedGroup, KernelResult] | None:
        """Take the result of a task; return the group's once it is complete.

        The outputs of a group that is returned are the caller's. Of one that failed none is left.
        """
        of = self._of[result.group]
        if len(of.tasks) == 1:
            return of.group, result
        self.new.add(*(part.key for part in result.parts))
        results = self._found.setdefault(of.tasks[0].group, [])
        results.append(result)
        if len(results) < len(of.tasks):
            return None
        keys = [part.key for each in results for part in each.parts]
        whole = _together(of, sorted(results, key=lambda each: each.group))
        if whole.error is None:
            self.new.release(keys)
        else:
            self.new.delete(keys)
        return of.group, whole


def _together(of: GroupTasks, results: Sequence[KernelResult]) -> KernelResult:
    """Return the result of a group from those of its slices."""
    failed = next((each for each in results if each.error is not None), None)
    if failed is not None:
        return failed
    rows = sum(each.rows_in for each in results)
    if rows != of.rows:
        return KernelResult(
            group=results[0].group,
            error=f"the {len(results)} slices of a group of {len(of.group.parts)} parts read "
            f"{rows} rows, and the parts have {of.rows}: the statistics of a part's row groups may "
            "be wrong",
            error_type="RowCountMismatchError",
            error_next_step="nothing was changed; set merge.split_above to more than "
            f"{of.group.bytes} bytes, and the group is merged by one task, which does not rely on "
            "statistics",
        )
    if of.digest is not None and (why := _difference(of.digest, results)):
        return KernelResult(
            group=results[0].group,
            error=f"the {len(results)} slices of a group of {len(of.group.parts)} parts failed "
            f"their proof: {why}",
            error_type="RowsDifferError",
            error_next_step="nothing was changed; check the parts with `firnline verify --rows`; "
            f"with merge.split_above above {of.group.bytes} bytes one task merges the group",
        )
    return KernelResult(
        group=results[0].group,
        parts=tuple(part for each in results for part in each.parts),
        rows_in=rows,
        rows_deleted=sum(each.rows_deleted for each in results),
        rows_deduplicated=sum(each.rows_deduplicated for each in results),
        rows_removed=sum(each.rows_removed for each in results),
        left_out=tuple(sorted({name for each in results for name in each.left_out})),
        seconds=max(each.seconds for each in results),
    )


def _difference(stated: Digest, results: Sequence[KernelResult]) -> str:
    """Return in which way slices do not hold the rows of their parts; empty if they do."""
    digests = [parse_digest(each.digest) for each in results]
    present = [digest for digest in digests if digest is not None]
    if len(present) < len(digests):
        return (
            f"{len(digests) - len(present)} of them cannot say which rows they have read, because "
            "a part has a column that the table does not have, or of a type without digests"
        )
    if total(present) == stated:
        return ""
    return f"the parts have the digest {stated}, and the slices {total(present)}"
