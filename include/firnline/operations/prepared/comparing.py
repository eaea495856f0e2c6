"""Compare pieces in DuckDB: in this process, or in one of an engine's workers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from firnline.operations.prepared.evidence import (
    Evidence,
    Kind,
    PartitionDifference,
    Sample,
    added,
    left_of,
)
from firnline.operations.prepared.pieces import Piece, Wanted
from firnline.read.comparison import Difference, Shown, difference
from firnline.read.duckdb import Limits, open_connection
from firnline.store.base import Store


def compare_pieces(
    pieces: Iterable[Piece], wanted: Wanted, store: Store, limits: Limits
) -> Iterator[Evidence]:
    """Compare pieces one after another, and yield the evidence of each.

    Args:
        pieces: taken one by one.
        wanted: of them; no rows are shown beyond the first of each kind over all pieces.
        store: of their parts.
        limits: of each comparison.

    Raises as ``read.comparison.difference``.
    """
    shown = Evidence()
    connection = open_connection(limits)
    try:
        for piece in pieces:
            most = max(left_of(shown.samples, wanted.samples).values())
            made = difference(
                connection,
                piece.before,
                piece.after,
                store,
                limits,
                keys=wanted.keys,
                samples=most,
            )
            found = _evidence(piece, made, wanted.keys)
            shown = added(shown, found, wanted.samples)
            yield found
    finally:
        connection.close()


def _evidence(piece: Piece, made: Difference, keys: Sequence[str]) -> Evidence:
    names = [name for name, _ in piece.before.columns]
    each = PartitionDifference(
        partition=piece.partition,
        rows_before=made.rows_before,
        rows_after=made.rows_after,
        removed=made.removed,
        added=made.added,
        changed=made.changed,
    )
    return Evidence(
        partitions=(each,),
        partition_count=1,
        rows_before=made.rows_before,
        rows_after=made.rows_after,
        removed=made.removed,
        added=made.added,
        changed=made.changed,
        columns={name: count for name, count in made.columns.items() if count},
        samples=tuple(_sample(piece.partition, names, keys, row) for row in made.shown),
    )


def _sample(partition: str, names: Sequence[str], keys: Sequence[str], row: Shown) -> Sample:
    before, after = (dict(zip(names, side or (), strict=False)) for side in (row.before, row.after))
    for name, differs in zip(names, row.differs, strict=False):
        if not differs and name not in keys:
            del before[name], after[name]
        elif differs and before[name] == after[name]:
            after[name] = f"{after[name]}… (differs further on)"
    return Sample(partition=partition, kind=_kind(row), before=before, after=after)


def _kind(row: Shown) -> Kind:
    if row.before is None:
        return "added"
    return "removed" if row.after is None else "changed"
