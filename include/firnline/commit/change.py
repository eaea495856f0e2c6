"""What an operation wants to do to a table: what ``transaction.commit`` takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from firnline.errors import CommitConflictError
from firnline.log.records import Delete, Marker
from firnline.log.txn_file import Counts
from firnline.properties.record import Properties
from firnline.state.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Mended:
    """How a repair of the schema goes on a base."""

    folds: tuple[str, ...]
    """Exactly these log files are folded: those whose schema lines are wrong."""
    line: Mapping[str, str]
    """The schema line that stands for theirs."""
    gone: frozenset[str] = frozenset()
    """Columns that the line states no more, by ``fold_name``."""


@dataclass(frozen=True, slots=True)
class Change:
    """What an operation wants to do to the table."""

    op: str
    replaces: tuple[str, ...]
    """Keys of the parts it tombstones."""
    adds: tuple[Marker, ...]
    """Its new parts; ``t`` is set when the transaction is built, ``q`` None means its own seq."""
    counts: Counts
    partitions: tuple[str, ...] = ()
    deletes: tuple[Delete, ...] = ()
    """Records to add; ``seq`` and ``t`` are set when the transaction is built."""
    keeps: tuple[Delete, ...] = ()
    """Records of others that hide rows of its new parts: they stand from now on again."""
    columns: Mapping[str, str] | None = None
    """Column -> SQL type of the rows that it brings; what the table lacks is added to it."""
    clean: tuple[str, ...] = ()
    """Parts without a row that ``deletes`` hide: their markers will say so (``d``)."""
    purge: Callable[[Snapshot], int] | None = None
    """New purge horizon on a base; None leaves it where it is."""
    refuse: Callable[[Snapshot], None] | None = None
    """Called with every base before it is committed on; what it raises ends the commit."""
    mend: Callable[[Snapshot], Mended] | None = None
    """Of a repair of the schema, called as ``refuse``: the base may be one with a conflict."""
    planned: Snapshot | None = None
    """What it was planned on, where that matters: see ``plan.keys.refuse_beneath``."""
    properties: Properties | None = None
    """What the table says of itself from then on; None: what it says already."""
    why: str = ""
    """For the history: what ``op`` does not say."""
    checkpoint: bool = True
    """Whether a checkpoint is written afterwards when one is due (clean-up writes its own)."""


def refuse_other_columns(snapshot: Snapshot, change: Change, planned: int) -> None:
    """Raise CommitConflictError where a rival changed the schema since a change was planned.

    What speaks of columns speaks of the old ones. A merge does not: its outputs have the sequence
    of their base, so what the rival did applies to them.

    Args:
        snapshot: what is committed on.
        change: what is to be committed.
        planned: newest transaction when it was planned.
    """
    speaks = change.deletes or change.columns is not None or change.mend is not None
    if not speaks and all(m.q is not None for m in change.adds):
        return
    newer = next((c for c in snapshot.changes if c.seq > planned), None)
    if newer is not None:
        raise CommitConflictError(
            f"transaction {newer.seq} changed the table's columns while this {change.op} ran",
            next_step="run it again: it plans on the columns that are there now",
        )
