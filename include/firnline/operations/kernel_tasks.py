"""Turns planned groups into kernel tasks, and kernel results into a change of the table."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal
from zlib import crc32

from firnline.commit import keys
from firnline.commit.transaction import Change
from firnline.kernel.task import (
    BloomFilters,
    Bucket,
    Cluster,
    KernelInput,
    KernelResult,
    KernelTask,
    KeyFile,
    Layout,
    Level,
    Source,
)
from firnline.log.records import Delete, Marker, marker_of
from firnline.log.txn_file import Counts
from firnline.log.writers import writers_of
from firnline.operations.groups import SPLIT_MARK, PlannedGroup
from firnline.parquet.part import PartMetadata
from firnline.predicate.tree import parse_json, to_sql
from firnline.settings.load import MergeSettings, TableSettings
from firnline.state.snapshot import Snapshot
from firnline.table import Table
from firnline.types.hashes import around
from firnline.types.order import SortKey

_LOG = logging.getLogger(__name__)

SAMPLED = 8
"""Of so many groups one is proven with ``merge.proof: sample``."""
MERGE_SOURCE = "source_files"
"""Name of the rows of a group in ``merge.sql``."""


@dataclass(frozen=True, slots=True)
class RowWork:
    """The work of an operation on the rows of a group, beyond putting its parts together."""

    op: str = "merge"
    """The operation; also the ``writer`` in the metadata of the new parts."""
    hides: tuple[Delete, ...] = ()
    """Deletes of the very transaction that brings the new parts: applied to every input, beside
    those that are pending. The caller picks the groups that they are about."""
    keep: str | None = None
    query: str | None = None
    source: str = "_rows"
    time_limit_ms: int | None = None
    changes: str | None = None
    keys: KeyFile | None = None
    only_touched: bool = False
    keep_winners: bool = False
    layout: Layout | None = None
    """The rest as in ``KernelTask``."""


def merge_work(settings: TableSettings) -> RowWork:
    """Return the work of a merge: ``merge.sql``, when the table has one."""
    if settings.merge.sql is None:
        return RowWork()
    limit = settings.rewrite.time_limit
    return RowWork(query=settings.merge.sql, source=MERGE_SOURCE, time_limit_ms=limit)


def kernel_task(
    table: Table, snapshot: Snapshot, number: int, group: PlannedGroup, work: RowWork | None = None
) -> KernelTask:
    """Return the kernel task of one group.

    Args:
        table: the table.
        snapshot: what the group was planned on.
        number: of the group, repeated in its result.
        group: its parts, in insertion order.
        work: what to do with the rows; None for the table's merge.
    """
    settings, policy = table.settings, table.settings.merge
    work = work or merge_work(settings)
    schema = snapshot.schema
    old = _forgettable(table, snapshot, group, work)
    return KernelTask(
        group=number,
        partition=group.partition,
        inputs=tuple(_input(snapshot, group, marker, work, old) for marker in group.parts),
        columns=tuple(schema.items()),
        sort_by=tuple(SortKey(f.column, f.descending) for f in settings.sort_by),
        stats_columns=tuple(c for c in settings.statistics_columns if c in schema),
        hashes=around(snapshot.hashes_of(m) for m in group.parts),
        buckets=buckets(settings, schema),
        primary_key=settings.primary_key,
        version=settings.version,
        deleted=settings.deleted,
        metadata=_metadata(table, snapshot, group, work),
        data_prefix=table.paths.partition_dir(group.partition),
        memory=policy.kernel_memory,
        threads=policy.kernel_threads,
        row_group_rows=policy.row_group_rows,
        compression_level=policy.compression_level,
        bloom_filters=bloom_filters(policy),
        query=work.query,
        source=work.source,
        time_limit_ms=work.time_limit_ms,
        changes=work.changes,
        keep=work.keep,
        keys=work.keys,
        only_touched=work.only_touched,
        keep_winners=work.keep_winners,
        cluster=_cluster(settings, group),
        layout=work.layout,
        proof=proof_of(table, group.parts[0]),
    )


def _forgettable(
    table: Table, snapshot: Snapshot, group: PlannedGroup, work: RowWork
) -> frozenset[str]:
    if work.only_touched and not work.keep_winners:
        return frozenset()
    now = table.clock.now_ms()
    return keys.forgettable(snapshot, table.settings, group.partition, group.parts, now)


def levels(settings: TableSettings) -> tuple[Level, ...]:
    """Return the levels of a table's partitions, for kernels."""
    return tuple(
        Level(
            column=field.column,
            transform=field.transform,
            buckets=field.buckets,
            label=field.label,
            text=str(field),
        )
        for field in settings.partition_by
    )


def buckets(settings: TableSettings, columns: Collection[str]) -> tuple[Bucket, ...]:
    """Return the buckets of a table's partitions of which the parts state their range."""
    return tuple(
        Bucket(column=field.column, count=field.buckets)
        for field in settings.partition_by
        if field.buckets is not None and field.column in columns
    )


def _metadata(
    table: Table, snapshot: Snapshot, group: PlannedGroup, work: RowWork
) -> dict[str, str]:
    return PartMetadata(
        table=table.paths.prefix,
        partition=group.partition,
        writer=work.op,
        q=snapshot.seq,
        o=_insertion_order(group.parts),
        replaces=tuple(_input_name(table, m, work) for m in group.parts),
    ).to_pairs()


def _input_name(table: Table, marker: Marker, work: RowWork) -> str:
    """Return the name of an input for the footer; with its folder where the output has another."""
    if work.layout is None:
        return table.paths.parse_part(marker.p).name
    return "/" + marker.p.removeprefix(table.paths.data_dir)


def bloom_filters(policy: MergeSettings) -> BloomFilters | None:
    """Return the Bloom filters of the parts that a kernel writes."""
    filters = policy.bloom_filters
    if filters is None:
        return None
    return BloomFilters(false_positives=filters.false_positives, max_distinct=filters.max_distinct)


def _cluster(settings: TableSettings, group: PlannedGroup) -> Cluster | None:
    cluster_by = settings.cluster_by
    if cluster_by is None or group.cluster is None:
        return None
    return Cluster(method=cluster_by.method, columns=cluster_by.columns, outputs=group.outputs)


def _input(
    snapshot: Snapshot, group: PlannedGroup, marker: Marker, work: RowWork, forget: frozenset[str]
) -> KernelInput:
    pending = snapshot.pending_deletes(marker, group.partition) if group.deletes else []
    return KernelInput(
        key=marker.p,
        bytes=marker.b,
        rows=marker.n,
        where_hidden=hidden_condition([*pending, *work.hides], snapshot.schema),
        order=marker.order(),
        sources=sources_of(snapshot, marker),
        forget=marker.p in forget,
        digest=digest_of(snapshot, marker),
    )


def sources_of(snapshot: Snapshot, marker: Marker) -> tuple[Source, ...]:
    """Return a part's columns that the table has under other names, or not at all."""
    made = snapshot.columns_of(marker).made_of
    return tuple(Source(column=column, names=names) for _, (column, names) in sorted(made.items()))


def digest_of(snapshot: Snapshot, marker: Marker) -> str | None:
    """Return what a part states of its rows; None if its columns have other names now.

    A digest is of the names that columns had when the part was written.
    """
    return None if snapshot.columns_of(marker).made_of else marker.g


def proof_of(table: Table, first: Marker) -> Literal["rows", "counts"]:
    """Return how the task of a group is proven, by ``merge.proof``.

    Args:
        table: the table.
        first: a part of the group, by whose name samples are taken: plans are made again with the
            same answer.
    """
    wanted = table.settings.merge.proof
    if wanted != "sample":
        return wanted
    return "rows" if crc32(first.p.encode()) % SAMPLED == 0 else "counts"


def hidden_condition(deletes: Sequence[Delete], schema: Mapping[str, str]) -> str | None:
    """Return the DuckDB condition that is true for the rows which any of the deletes hides."""
    if not deletes:
        return None
    return " OR ".join(f"({to_sql(parse_json(d.where), schema)})" for d in deletes)


def _insertion_order(parts: Sequence[Marker]) -> tuple[int, int]:
    orders = [m.order() for m in parts]
    return min(o[0] for o in orders), max(o[1] for o in orders)


def change_of(
    snapshot: Snapshot,
    done: Sequence[tuple[PlannedGroup, KernelResult]],
    *,
    op: str = "merge",
    deletes: Sequence[Delete] = (),
) -> Change:
    """Return one transaction for several completed groups.

    Inputs that a kernel left as they are (``unchanged``) are not replaced.

    Args:
        snapshot: what the groups were planned on: its newest transaction is the data sequence of
            the new parts, so that a delete committed since then still applies to them.
        done: groups and their results, none of them failed.
        op: the operation.
        deletes: records that the transaction adds, and that the new parts name as applied
            (``RowWork.hides``).
    """
    applied = tuple(sorted(d.id for d in deletes)) or None
    for group, result in done:
        if result.left_out:
            _LOG.warning(
                "partition %s: parts have the columns %s, which the path has and the table does "
                "not; what replaces these parts is without them",
                group.partition,
                ", ".join(result.left_out),
            )
    rewritten = [(group, rewritten_parts(group, result), result) for group, result in done]
    adds = [
        marker_of(part, q=snapshot.seq, d=applied, o=_insertion_order(parts), c=run, w=writers)
        for group, parts, result in rewritten
        for keys in ([part.key for part in result.parts],)
        for run, writers in ((clustered_run(group, parts, keys), writers_of(parts)),)
        for part in result.parts
    ]
    replaced = [m for _, parts, _ in rewritten for m in parts]
    return Change(
        op=op,
        replaces=tuple(m.p for m in replaced),
        adds=tuple(adds),
        counts=_counts(replaced, adds, [result for _, _, result in rewritten]),
        partitions=tuple(sorted({group.partition for group, parts, _ in rewritten if parts})),
        deletes=tuple(deletes),
        planned=snapshot,
    )


def unread(group: PlannedGroup) -> KernelResult:
    """Return the result for parts whose rows are all hidden by deletes: no output, nothing read."""
    rows = sum(m.n or 0 for m in group.parts)
    return KernelResult(group=-1, rows_in=rows, rows_deleted=rows)


def rewritten_parts(group: PlannedGroup, result: KernelResult) -> list[Marker]:
    """Return the parts of a group that its output replaces."""
    left = frozenset(result.unchanged)
    return [m for m in group.parts if m.p not in left]


def _counts(
    replaced: Sequence[Marker], adds: Sequence[Marker], results: Sequence[KernelResult]
) -> Counts:
    return Counts(
        parts_in=len(replaced),
        parts_out=len(adds),
        rows_in=sum(r.rows_in for r in results),
        rows_out=sum(p.rows for r in results for p in r.parts),
        rows_deleted=sum(r.rows_deleted for r in results),
        rows_deduplicated=sum(r.rows_deduplicated for r in results),
        rows_removed=sum(r.rows_removed for r in results),
        rows_changed=sum(r.rows_changed for r in results),
        bytes_in=sum(m.b for m in replaced),
        bytes_out=sum(m.b for m in adds),
    )


def clustered_run(
    group: PlannedGroup, parts: Sequence[Marker], outputs: Sequence[str]
) -> str | None:
    """Return the run of clustered or sliced outputs: that of all inputs, or a new one, or None.

    Fewer rows of a run are still apart from the rest of it.

    Args:
        group: as planned.
        parts: those of it that are replaced.
        outputs: keys of the new parts.
    """
    runs = {m.c for m in parts}
    run = runs.pop() if len(runs) == 1 else None
    sliced = group.slices > 1 and len(outputs) > 1
    mark = group.cluster or (SPLIT_MARK if sliced else None)
    if mark is None or (run is not None and run.startswith(f"{mark}-")):
        return run
    if not outputs:
        return None
    name = outputs[0].rpartition("/")[2].removesuffix(".parquet")
    return f"{mark}-{name}"
