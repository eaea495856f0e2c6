"""Rewrites the parts that hold matching rows: what a delete and an erase have in common."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace

import msgspec

from firnline.commit.outputs import Outputs
from firnline.commit.transaction import Change
from firnline.kernel.engine import Engine
from firnline.kernel.task import KernelResult
from firnline.log.records import Delete, Marker
from firnline.operations.committer import Done, outputs_of
from firnline.operations.groups import run_groups
from firnline.operations.kernel_tasks import Work, change_of, kernel_task, touched_parts
from firnline.operations.merge.groups import PlannedGroup
from firnline.operations.merge.run import Failure, Progress
from firnline.operations.selection import Selected
from firnline.state.snapshot import Snapshot
from firnline.table import Table


@dataclass
class Executed:
    """What the kernels made of a plan."""

    done: list[Done] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    """Parts that stay as they are because they could not be read, or one beside them could not."""

    @property
    def untouched(self) -> list[str]:
        """Parts that were read and hold no matching row."""
        return [key for _, result in self.done for key in result.untouched]

    @property
    def touched(self) -> list[tuple[str, Marker, int]]:
        """(partition, part, rows that went) of the parts that are replaced."""
        return [
            (group.partition, marker, result.rows_hidden.get(marker.p, 0))
            for group, result in self.done
            for marker in touched_parts(group, result)
        ]

    def discard(self, table: Table) -> None:
        """Delete the outputs, which nobody has tried to commit."""
        Outputs(table, outputs_of(self.done)).delete()


def execute(
    table: Table,
    snapshot: Snapshot,
    engine: Engine,
    groups: Sequence[PlannedGroup],
    work: Work,
    tell: Callable[[Progress], None],
    *,
    go_on: bool,
) -> Executed:
    """Read all groups; a part without a matching row stays, the rows of the others move.

    Nothing is committed.

    Args:
        table: the table.
        snapshot: what the groups were planned on.
        engine: runs the kernels.
        groups: parts to read.
        work: what makes a row go.
        tell: called whenever a group has been read.
        go_on: read the other groups after a failure, and those of the failed partition again
            without the part at fault; False ends with the first failure.
    """
    found = Executed()
    progress = _Telling(groups, tell)
    todo = list(groups)
    try:
        while todo:
            todo = _pass(table, snapshot, engine, todo, work, found, progress, go_on=go_on)
    except BaseException:
        found.discard(table)
        raise
    return found


def change(
    snapshot: Snapshot, found: Executed, selected: Selected, deletes: Sequence[Delete], op: str
) -> Change:
    """The one transaction: new parts, tombstones of replaced and of dropped ones, records."""
    made = change_of(snapshot, found.done, op=op, deletes=deletes)
    dropped = [marker for _, marker in selected.dropped]
    rows, counts = sum(m.n or 0 for m in dropped), made.counts
    # Rows that a delete took away as the winners of their keys are deleted rows.
    removed = counts.rows_removed
    return replace(
        made,
        replaces=(*made.replaces, *(m.p for m in dropped)),
        counts=msgspec.structs.replace(
            counts,
            parts_in=counts.parts_in + len(dropped),
            rows_in=counts.rows_in + rows,
            rows_deleted=counts.rows_deleted + rows + removed,
            rows_removed=0,
            bytes_in=counts.bytes_in + sum(m.b for m in dropped),
        ),
        partitions=tuple(sorted({*made.partitions, *(p for p, _ in selected.dropped)})),
        clean=tuple(found.untouched),
    )


@dataclass
class _Telling:
    groups: Sequence[PlannedGroup]
    tell: Callable[[Progress], None]
    read: int = 0
    done: int = 0

    def __call__(self, group: PlannedGroup, result: KernelResult) -> None:
        if result.error is None:
            self.read += len(group.parts)
            self.done += 1
        parts = sum(len(g.parts) for g in self.groups)
        self.tell(
            Progress(
                groups=len(self.groups),
                groups_done=min(self.done, len(self.groups)),
                parts_in=parts,
                parts_merged=min(self.read, parts),
                parts_done=0,
                transactions=0,
            )
        )


def _pass(
    table: Table,
    snapshot: Snapshot,
    engine: Engine,
    groups: Sequence[PlannedGroup],
    work: Work,
    found: Executed,
    progress: _Telling,
    *,
    go_on: bool,
) -> list[PlannedGroup]:
    """Run groups once; returns those to run again without the parts at fault."""
    tasks = [
        (group, kernel_task(table, snapshot, number, group, work))
        for number, group in enumerate(groups)
    ]
    again: list[PlannedGroup] = []
    with closing(run_groups(table, engine, tasks, progress)) as running:
        for result in running:
            if result is None:
                continue
            found.done += result.done
            found.failures += result.failures
            if not result.failures:
                continue
            mine = [group for group in groups if group.partition == result.partition]
            if not go_on:
                found.failed += [m.p for group in mine for m in group.parts]
                return []
            rest = _without(mine, result.failures)
            kept = {m.p for group in rest for m in group.parts}
            found.failed += [m.p for group in mine for m in group.parts if m.p not in kept]
            again += rest
    return again


def _without(groups: Sequence[PlannedGroup], failures: Sequence[Failure]) -> list[PlannedGroup]:
    """The groups without the parts at fault; none when a failure names no part."""
    bad = {failure.key for failure in failures}
    if None in bad:
        return []
    rest = [
        PlannedGroup(
            group.partition, tuple(m for m in group.parts if m.p not in bad), group.deletes
        )
        for group in groups
    ]
    return [group for group in rest if group.parts]
