"""One part with other columns: as a kernel takes it, and as the table gets it back."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from firnline.commit.transaction import Change, Mended
from firnline.kernel.task import KernelInput, KernelTask, SortKey
from firnline.log.records import Marker, stats_json
from firnline.log.txn_file import Counts
from firnline.operations.committer import Done
from firnline.operations.kernel_tasks import bloom_filters, sources_of
from firnline.operations.schema_fix.parts import PartFix
from firnline.parquet.part import PartMetadata
from firnline.state.snapshot import Snapshot
from firnline.table import Table
from firnline.types.sql import fold_name


def rewrite_task(
    table: Table,
    snapshot: Snapshot,
    number: int,
    fix: PartFix,
    op: str,
    named_ms: int | None = None,
) -> KernelTask:
    """A part that becomes one part of its own, with all of its rows.

    No delete is applied and no row goes for its key: sequence and order of insertion stay, so
    readers and merges do the same to the new part as to the old. With a primary key the new names
    (``named_ms``) have to be in the order of the old ones.
    """
    settings, policy, marker = table.settings, table.settings.merge, fix.marker
    has = {fold_name(name): name for name, _ in fix.columns}
    return KernelTask(
        group=number,
        partition=fix.partition,
        inputs=(
            KernelInput(
                key=marker.p,
                bytes=marker.b,
                rows=marker.n,
                order=marker.order(),
                sources=sources_of(snapshot, marker),
            ),
        ),
        columns=fix.columns,
        sort_by=tuple(
            SortKey(has[fold_name(f.column)], f.descending)
            for f in settings.sort_by
            if fold_name(f.column) in has
        ),
        stats_columns=tuple(c for c in settings.statistics_columns if c in has.values()),
        metadata=PartMetadata(
            table=table.paths.prefix,
            partition=fix.partition,
            writer=op,
            q=snapshot.sequence_of(marker),
            o=marker.order(),
            d=_applied(snapshot, marker) or (),
            replaces=(table.paths.parse_part(marker.p).name,),
        ).to_pairs(),
        data_prefix=table.paths.partition_dir(fix.partition),
        named_ms=named_ms,
        memory=policy.kernel_memory,
        threads=policy.kernel_threads,
        row_group_rows=policy.row_group_rows,
        compression_level=policy.compression_level,
        bloom_filters=bloom_filters(policy),
        conversions=fix.conversions,
        dropped=fix.dropped,
    )


def _applied(snapshot: Snapshot, old: Marker) -> tuple[str, ...] | None:
    """What the new part shows: with the sequence of the old one changes would be made again."""
    changes = {change.id for change in snapshot.pending_changes(old)}
    return tuple(sorted(changes.union(old.d or ()))) or None


def replacing(
    snapshot: Snapshot, done: Sequence[Done], op: str, mend: Callable[[Snapshot], Mended]
) -> Change:
    """One transaction that puts new parts in the place of old ones.

    Args:
        snapshot: what the parts were planned on.
        done: each old part with what became of it.
        op: the operation.
        mend: the schema line of the transaction, and the log files that it folds.
    """
    adds = [
        Marker(
            p=part.key,
            b=part.bytes,
            t=0,
            n=part.rows,
            q=snapshot.sequence_of(old),
            d=_applied(snapshot, old),
            o=old.order(),
            s=stats_json(part.stats),
            c=old.c,
        )
        for group, result in done
        for old in group.parts
        for part in result.parts
    ]
    olds = [old for group, _ in done for old in group.parts]
    counts = Counts(
        parts_in=len(olds),
        parts_out=len(adds),
        rows_in=sum(result.rows_in for _, result in done),
        rows_out=sum(part.rows for _, result in done for part in result.parts),
        bytes_in=sum(old.b for old in olds),
        bytes_out=sum(new.b for new in adds),
    )
    return Change(
        op=op,
        replaces=tuple(old.p for old in olds),
        adds=tuple(adds),
        counts=counts,
        partitions=tuple(sorted({group.partition for group, _ in done})),
        mend=mend,
    )
