"""From a merge plan to kernel tasks, and from kernel results to a change of the table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from firnline.kernel.model import KernelInput, KernelResult, KernelTask, SortKey
from firnline.log.records import Delete, Marker, stats_json
from firnline.log.txn_file import Counts
from firnline.part import WrittenPart
from firnline.part_metadata import PartMetadata
from firnline.plan.merge import PlannedGroup
from firnline.predicate import parse_json, to_sql
from firnline.snapshot import Snapshot
from firnline.table import Table
from firnline.transaction import Change


def kernel_task(table: Table, snapshot: Snapshot, number: int, group: PlannedGroup) -> KernelTask:
    """One group as a kernel takes it."""
    settings, policy = table.settings, table.settings.merge
    schema = snapshot.schema
    return KernelTask(
        group=number,
        partition=group.partition,
        inputs=tuple(_input(snapshot, group, marker) for marker in group.parts),
        columns=tuple(schema.items()),
        sort_by=tuple(SortKey(f.column, f.descending) for f in settings.sort_by),
        stats_columns=tuple(c for c in settings.statistics_columns if c in schema),
        primary_key=settings.primary_key,
        version=settings.version,
        metadata=PartMetadata(
            table=table.paths.prefix,
            partition=group.partition,
            writer="merge",
            q=snapshot.seq,
            o=_insertion_order(group.parts),
            replaces=tuple(table.paths.parse_part(m.p).name for m in group.parts),
        ).to_pairs(),
        data_prefix=table.paths.partition_dir(group.partition),
        memory=policy.kernel_memory,
        threads=policy.kernel_threads,
        row_group_rows=policy.row_group_rows,
        compression_level=policy.compression_level,
    )


def _input(snapshot: Snapshot, group: PlannedGroup, marker: Marker) -> KernelInput:
    pending = snapshot.pending_deletes(marker, group.partition) if group.deletes else []
    return KernelInput(
        key=marker.p,
        bytes=marker.b,
        rows=marker.n,
        where_hidden=hidden_condition(pending, snapshot.schema),
    )


def hidden_condition(deletes: Sequence[Delete], schema: Mapping[str, str]) -> str | None:
    """DuckDB condition that is true for the rows which any of the deletes hides."""
    if not deletes:
        return None
    return " OR ".join(f"({to_sql(parse_json(d.where), schema)})" for d in deletes)


def _insertion_order(parts: Sequence[Marker]) -> tuple[int, int]:
    orders = [m.order() for m in parts]
    return min(o[0] for o in orders), max(o[1] for o in orders)


def change_of(snapshot: Snapshot, done: Sequence[tuple[PlannedGroup, KernelResult]]) -> Change:
    """One transaction for several completed groups.

    Args:
        snapshot: what the groups were planned on: its newest transaction is the data sequence of
            the new parts, so that a delete committed since then still applies to them.
        done: groups and their results, none of them failed.
    """
    adds = [
        _marker(part, snapshot.seq, _insertion_order(group.parts))
        for group, result in done
        for part in result.parts
    ]
    results = [result for _, result in done]
    replaced = [m for group, _ in done for m in group.parts]
    return Change(
        op="merge",
        replaces=tuple(m.p for m in replaced),
        adds=tuple(adds),
        counts=Counts(
            parts_in=len(replaced),
            parts_out=len(adds),
            rows_in=sum(r.rows_in for r in results),
            rows_out=sum(p.rows for r in results for p in r.parts),
            rows_deleted=sum(r.rows_deleted for r in results),
            rows_deduplicated=sum(r.rows_deduplicated for r in results),
            bytes_in=sum(m.b for m in replaced),
            bytes_out=sum(m.b for m in adds),
        ),
        partitions=tuple(sorted({group.partition for group, _ in done})),
    )


def _marker(part: WrittenPart, q: int, order: tuple[int, int]) -> Marker:
    return Marker(
        p=part.key, b=part.bytes, t=0, n=part.rows, q=q, o=order, s=stats_json(part.stats)
    )
