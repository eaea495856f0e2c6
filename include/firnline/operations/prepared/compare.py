"""The evidence of a change: what readers would see of its partitions, before it and after it.

The state after the change is the base with its new parts alive and its replaced parts dead. Both
are read like any table, so deletes, renamed columns and primary keys count as they do for readers,
and the rows after it are those of the very parts that would be committed.
"""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from firnline.commit.change import Change
from firnline.errors import UsageError
from firnline.log.records import Marker
from firnline.operations.prepared.evidence import (
    SAMPLES,
    Evidence,
    Kind,
    PartitionDifference,
    Sample,
    summed,
)
from firnline.read.plan import ReadOptions, plan_read
from firnline.read.task import ReadTask
from firnline.state.snapshot import Snapshot, mark_dead
from firnline.table import Table
from firnline.types.sql import fold_name

if TYPE_CHECKING:
    from firnline.read.comparison import Difference, Shown


@dataclass(frozen=True, slots=True)
class Asked:
    """The evidence that a user asks for."""

    keys: tuple[str, ...] = ()
    """Columns that match rows; empty: the table's primary key, if it has one."""
    assertions: tuple[str, ...] = ()
    samples: int = 0
    """Rows of each kind to show, over all partitions. None unless somebody asks: they are stored
    with the change, and shown to everyone who may see it."""


def check_asked(table: Table, snapshot: Snapshot, asked: Asked) -> Asked:
    """Return what is asked with the keys in force. Raises UsageError before any part is read."""
    from firnline.kernel.query.assertions import check_assertions

    known = {fold_name(name): name for name in snapshot.schema}
    keys = asked.keys or tuple(table.settings.primary_key)
    unknown = [key for key in keys if fold_name(key) not in known]
    if unknown:
        raise UsageError(
            f"table {table.settings.name} has no column {unknown[0]!r} to match rows by",
            next_step=f"name key columns among {', '.join(known.values())}",
        )
    check_assertions(asked.assertions, tuple(snapshot.schema.items()))
    return replace(
        asked,
        keys=tuple(known[fold_name(key)] for key in keys),
        samples=min(asked.samples, SAMPLES),
    )


def evidence(table: Table, snapshot: Snapshot, change: Change, asked: Asked) -> Evidence:
    """Compare the rows of a change's partitions before and after it.

    Reads the replaced parts and the new ones once and a half (of a table with a primary key, all
    parts of the partitions), and all parts of the partitions again if something is asserted, which
    then also takes the disk for a copy of their rows, before and after. Memory: ``kernel_memory``
    for the comparison, which spills to disk, and as much for the assertions after it.

    Args:
        table: the table.
        snapshot: the base of the change.
        change: whose new parts are written already.
        asked: as ``check_asked`` returns it.

    Raises:
        AssertionFailedError: an assertion does not hold.
        PartGoneError, PartUnreadableError, StoreError, ScratchFullError, KernelError: as for reads.
    """
    sides = _Sides(table, snapshot, _after(snapshot, change), change)
    with tempfile.TemporaryDirectory(prefix="firnline-evidence-") as folder:
        found = _compare(sides, asked, Path(folder))
        if asked.assertions:
            _assert(sides, asked.assertions, Path(folder))
    return found


def _after(snapshot: Snapshot, change: Change) -> Snapshot:
    """Return the state that the change would make."""
    parts = dict(snapshot.parts)
    for key in change.replaces:
        parts[key] = mark_dead(parts[key], snapshot.newest_t + 1)
    parts.update((marker.p, marker) for marker in change.adds)
    return replace(snapshot, parts=parts)


@dataclass(frozen=True, slots=True)
class _Sides:
    """The states before and after a change."""

    table: Table
    before: Snapshot
    after: Snapshot
    change: Change

    def compared(self, partition: str) -> tuple[ReadTask, ReadTask]:
        """Return the reads of what differs in a partition.

        With a primary key the parts that stay decide which rows are seen, so they are read too.
        """
        if self.table.settings.primary_key:
            return self._task(self.before, [partition]), self._task(self.after, [partition])
        replaced, added = frozenset(self.change.replaces), {m.p for m in self.change.adds}
        return (
            self._task(self.before, [partition], replaced),
            self._task(self.after, [partition], added),
        )

    def whole(self) -> tuple[ReadTask, ReadTask]:
        """Return the reads of all partitions of the change."""
        partitions = self.change.partitions
        return self._task(self.before, partitions), self._task(self.after, partitions)

    def _task(
        self, state: Snapshot, partitions: Sequence[str], only: Collection[str] | None = None
    ) -> ReadTask:
        parts: dict[str, Marker] = {
            marker.p: marker
            for partition in partitions
            for marker in state.partitions.get(partition, ())
            if only is None or marker.p in only
        }
        return plan_read(replace(state, parts=parts), self.table.settings, ReadOptions()).task


def _compare(sides: _Sides, asked: Asked, folder: Path) -> Evidence:
    from firnline.read.comparison import difference
    from firnline.read.duckdb import Limits, open_connection

    table = sides.table
    limits = Limits(_memory(table), table.settings.merge.kernel_threads, folder / "spill")
    made: dict[str, Difference] = {}
    left = dict.fromkeys(_KINDS, asked.samples)
    connection = open_connection(limits)
    try:
        for partition in sides.change.partitions:
            before, after = sides.compared(partition)
            most = max(left.values())
            found = difference(
                connection, before, after, table.store, limits, keys=asked.keys, samples=most
            )
            made[partition] = replace(found, shown=tuple(_first(found.shown, left)))
    finally:
        connection.close()
    names = list(sides.before.schema)
    columns = {name: sum(each.columns[name] for each in made.values()) for name in names}
    samples = [
        _sample(partition, names, asked.keys, shown)
        for partition, each in made.items()
        for shown in each.shown
    ]
    differences = [_difference(partition, each) for partition, each in made.items()]
    return summed(asked.keys, differences, columns, samples, asked.assertions)


_KINDS: tuple[Kind, ...] = ("removed", "added", "changed")


def _first(shown: Iterable[Shown], left: dict[Kind, int]) -> Iterator[Shown]:
    """Yield rows while fewer of their kind were shown than is asked for."""
    for row in shown:
        kind = _kind(row)
        if left[kind]:
            left[kind] -= 1
            yield row


def _kind(row: Shown) -> Kind:
    if row.before is None:
        return "added"
    return "removed" if row.after is None else "changed"


def _sample(partition: str, names: Sequence[str], keys: Sequence[str], row: Shown) -> Sample:
    before, after = (dict(zip(names, side or (), strict=False)) for side in (row.before, row.after))
    if row.before is not None and row.after is not None:
        same = [n for n in names if before[n] == after[n] and n not in keys]
        for name in same:
            del before[name], after[name]
    return Sample(partition=partition, kind=_kind(row), before=before, after=after)


def _difference(partition: str, made: Difference) -> PartitionDifference:
    return PartitionDifference(
        partition=partition,
        rows_before=made.rows_before,
        rows_after=made.rows_after,
        removed=made.removed,
        added=made.added,
        changed=made.changed,
    )


def _assert(sides: _Sides, texts: Sequence[str], folder: Path) -> None:
    """Copy the rows of both sides to local files, and run the assertions on them."""
    from firnline.kernel.query.assertions import assert_rows
    from firnline.read.duckdb import Limits, write_file

    table, policy = sides.table, sides.table.settings.merge
    limits = Limits(_memory(table), policy.kernel_threads, folder / "spill")
    files = (folder / "before.parquet", folder / "after.parquet")
    for task, path in zip(sides.whole(), files, strict=True):
        write_file(task, table.store, limits, path, None)
    assert_rows(
        texts,
        tuple(sides.before.schema.items()),
        files,
        memory=policy.kernel_memory,
        threads=policy.kernel_threads,
        limit_s=table.settings.rewrite.time_limit / 1000,
    )


def _memory(table: Table) -> int:
    from firnline.kernel.duckdb import MEMORY_SHARE

    return int(table.settings.merge.kernel_memory * MEMORY_SHARE)
