"""The evidence of a change: what readers would see of its partitions, before it and after it.

The state after the change is the base with its new parts alive and its replaced parts dead. Both
are read like any table, so deletes, renamed columns and primary keys count as they do for readers,
and the rows after it are those of the very parts that would be committed.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from firnline.commit.change import Change
from firnline.errors import UsageError
from firnline.kernel.engine import Engine
from firnline.log.records import Marker
from firnline.operations.prepared.evidence import SAMPLES, Evidence, added
from firnline.operations.prepared.pieces import Compare, Compared, Comparing, Piece, Wanted
from firnline.read.plan import ReadOptions, plan_read
from firnline.read.task import ReadTask
from firnline.state.snapshot import Snapshot, mark_dead
from firnline.table import Table
from firnline.types.sql import fold_name


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

    spelled = {fold_name(name): name for name in snapshot.schema}
    keys = asked.keys or tuple(table.settings.primary_key)
    unknown = [key for key in keys if fold_name(key) not in spelled]
    if unknown:
        raise UsageError(
            f"table {table.settings.name} has no column {unknown[0]!r} to match rows by",
            next_step=f"name key columns among {', '.join(spelled.values())}",
        )
    check_assertions(asked.assertions, tuple(snapshot.schema.items()))
    return replace(
        asked,
        keys=tuple(spelled[fold_name(key)] for key in keys),
        samples=min(asked.samples, SAMPLES),
    )


def comparison(engine: Callable[[], Engine]) -> Compare | None:
    """Return what compares pieces on the engine's workers; None for an engine without any.

    Asked for before the parts are written: an executor that cannot read them is no reason to have
    written them in vain. Raises EnvironmentFaultError.
    """
    found = engine()
    return found.comparison() if isinstance(found, Comparing) else None


def evidence(
    table: Table,
    snapshot: Snapshot,
    change: Change,
    asked: Asked,
    compare: Compare | None = None,
    tell: Callable[[int], None] = lambda _: None,
) -> Evidence:
    """Compare the rows of a change's partitions before and after it.

    Reads the replaced parts and the new ones once and a half (of a table with a primary key, all
    parts of the partitions), and all parts of the partitions again if something is asserted, which
    then also takes the disk for a copy of their rows, before and after. Memory: ``kernel_memory``
    for each comparison, which spills to disk. Assertions see all rows at once, so they are always
    this process's, with as much memory and the disk for the copies.

    Args:
        table: the table.
        snapshot: the base of the change.
        change: whose new parts are written already.
        asked: as ``check_asked`` returns it.
        compare: as ``comparison`` returns it; None: compared here, one partition after another.
        tell: called with the number of partitions that are compared.

    Raises:
        AssertionFailedError: an assertion does not hold.
        PartGoneError, PartUnreadableError, StoreError, ScratchFullError, KernelError: as for reads.
    """
    sides = _Sides(table, snapshot, _after(snapshot, change), change)
    with tempfile.TemporaryDirectory(prefix="firnline-evidence-") as folder:
        compared = _compare(sides, asked, compare or _compare_here(table, Path(folder)), tell)
        if asked.assertions:
            _assert(sides, asked.assertions, Path(folder))
    return compared


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

    def pieces(self) -> Iterator[Piece]:
        """Yield the reads of what differs in each partition.

        With a primary key the parts that stay decide which rows are seen, so they are read too.
        """
        replaced, added = frozenset(self.change.replaces), {m.p for m in self.change.adds}
        only = (None, None) if self.table.settings.primary_key else (replaced, added)
        for name in self.change.partitions:
            before = self._task(self.before, [name], only[0])
            yield Piece(name, before, self._task(self.after, [name], only[1]))

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


def _compare(
    sides: _Sides, asked: Asked, compare: Compare, tell: Callable[[int], None]
) -> Evidence:
    """Add up the pieces; the driver of a cluster holds no more than their sum."""
    merge = sides.table.settings.merge
    asked_for = Wanted(
        keys=asked.keys,
        samples=asked.samples,
        memory=_memory(sides.table),
        threads=merge.kernel_threads,
    )
    total = Evidence(keys=asked.keys)
    for made in compare(sides.pieces(), asked_for):
        sides.table.store.counters.add(made.requests)
        total = added(total, made.evidence, asked.samples)
        tell(total.partition_count)
    counts = {name: total.columns[name] for name in sides.before.schema if name in total.columns}
    return msgspec.structs.replace(total, columns=counts, assertions=asked.assertions)


def _compare_here(table: Table, folder: Path) -> Compare:
    """Return what compares pieces in this process, one after another."""
    from firnline.operations.prepared.comparing import compare_pieces
    from firnline.read.duckdb import Limits

    def compare(pieces: Iterable[Piece], wanted: Wanted) -> Iterator[Compared]:
        limits = Limits(wanted.memory, wanted.threads, folder / "spill")
        for found in compare_pieces(pieces, wanted, table.store, limits):
            yield Compared(evidence=found)

    return compare


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
