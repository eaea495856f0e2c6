"""The change that an operation makes to a table, as ``transaction.commit`` takes it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from firnline.errors import CommitConflictError
from firnline.log.erases import PlannedErase
from firnline.log.records import REARRANGING, Delete, Marker
from firnline.log.txn_file import Counts
from firnline.next_steps import PLANNED_ON_CURRENT
from firnline.properties.record import Hold, Properties
from firnline.state.holds import Held
from firnline.state.snapshot import Snapshot

_KEEPING = REARRANGING | {"repartition", "evolve", "rebuild"}
"""Operations after which every row is there that was there before."""


@dataclass(frozen=True, slots=True)
class Repaired:
    """A repair of the schema, applied to a base."""

    folds: tuple[str, ...]
    """Log files to fold, and no others: those whose schema lines are wrong."""
    line: Mapping[str, str]
    """The schema line that replaces theirs."""
    gone: frozenset[str] = frozenset()
    """Columns that the line no longer states, by ``fold_name``."""


@dataclass(frozen=True, slots=True)
class Change:
    """The change that an operation makes to the table."""

    op: str
    replaces: tuple[str, ...]
    """Keys of the parts that it tombstones."""
    adds: tuple[Marker, ...]
    """New parts; ``t`` is set when the transaction is built, ``q`` None means its own seq."""
    counts: Counts
    partitions: tuple[str, ...] = ()
    deletes: tuple[Delete, ...] = ()
    """Records to add; ``seq`` and ``t`` are set when the transaction is built."""
    keeps: tuple[Delete, ...] = ()
    """Records of other transactions that hide rows of its new parts: in force again from now on."""
    columns: Mapping[str, str] | None = None
    """SQL type by column, of the new rows; columns that the table lacks are added to it."""
    clean: tuple[str, ...] = ()
    """Parts without a row that ``deletes`` hide: their markers will say so (``d``)."""
    states: tuple[Marker, ...] = ()
    """Further statistics and row counts of live parts, by path: united with their markers. A part
    that is no longer live on the base is passed over."""
    purge: Callable[[Snapshot], int] | None = None
    """Computes the new purge horizon on a base; None leaves it unchanged."""
    refuse: Callable[[Snapshot], None] | None = None
    """Called with every base before the commit; an error that it raises ends the commit."""
    repair: Callable[[Snapshot], Repaired] | None = None
    """Computes the repair of a schema; called like ``refuse``, also on a base with a conflict."""
    planned: Snapshot | None = None
    """Base on which it was planned, if that matters: see ``commit.keys.refuse_beneath``."""
    properties: Properties | None = None
    """The table's new properties; None: unchanged."""
    why: str = ""
    """Reason for the history, beyond ``op``."""
    query: bool | None = None
    """Of a merge: whether its new parts have the rows of the user's query (``merge.sql``)."""
    computed: bool = False
    """Values of its new parts were computed from those of the parts that it replaces: the condition
    of a delete need not match what it matched before."""
    erase: PlannedErase | None = None
    """Of an erase: what takes the next place in the chain of erases (``log.erases``)."""
    holds: tuple[Hold, ...] | None = None
    """Legal holds whose rows it keeps; None: of an operation that does not look for them, and
    may replace no part that may have such rows."""
    checkpoint: bool = True
    """Write a checkpoint afterwards if one is due (clean-up writes its own)."""


def refuse_newer_deletes(snapshot: Snapshot, change: Change, planned: int) -> None:
    """Raise CommitConflictError if a delete since the plan may hide rows that are computed from.

    Its condition is about the values before. Applied to the new ones, as to the parts of a merge,
    it would bring rows back that it has hidden, or hide others, also where it matched none before.

    Args:
        snapshot: the state to commit on; the parts that the change replaces are live in it.
        change: the change to commit.
        planned: the newest transaction when it was planned.
    """
    if not change.computed:
        return
    before = (snapshot.live[key] for key in change.replaces)
    for marker in (*before, *(new for new in change.adds if new.q is not None)):
        pending = snapshot.pending_deletes(marker, snapshot.paths.partition_of(marker.p))
        newer = next((delete for delete in pending if delete.seq > planned), None)
        if newer is not None:
            raise CommitConflictError(
                f"transaction {newer.seq} deleted rows while this {change.op} ran, and may match "
                f"some of part {marker.p}",
                next_step=PLANNED_ON_CURRENT,
            )


def refuse_held(snapshot: Snapshot, change: Change) -> None:
    """Refuse a change that may remove rows of a legal hold (docs/format.md, "Legal holds").

    Args:
        snapshot: the state to commit on; the parts that the change replaces are live in it.
        change: the change to commit.

    Raises:
        UsageError: it may replace such rows or hide them, and does not look for holds.
        CommitConflictError: a hold was put since it was planned.
    """
    held = Held.of(snapshot)
    rearranges = change.op in _KEEPING and not change.query
    if not held.holds or rearranges or not (change.replaces or change.deletes):
        return
    if change.holds is None:
        parts = ((snapshot.paths.partition_of(key), snapshot.live[key]) for key in change.replaces)
        held.refuse(f"this {change.op}", parts)
        if change.deletes:
            held.refuse_any(f"this {change.op}")
        return
    newer = next((hold for hold in held.holds if hold not in change.holds), None)
    if newer is not None:
        raise CommitConflictError(
            f"the legal hold {newer.name!r} was put while this {change.op} ran",
            next_step=PLANNED_ON_CURRENT,
        )


def refuse_other_columns(snapshot: Snapshot, change: Change, planned: int) -> None:
    """Raise CommitConflictError if a rival changed the schema since a change was planned.

    A change that names columns names the old ones. A merge does not: its outputs have the sequence
    of their base, so the rival's change applies to them.

    Args:
        snapshot: the state to commit on.
        change: the change to commit.
        planned: the newest transaction when it was planned.
    """
    names_columns = change.deletes or change.columns is not None or change.repair is not None
    if not names_columns and all(m.q is not None for m in change.adds):
        return
    newer = next((c for c in snapshot.changes if c.seq > planned), None)
    if newer is not None:
        raise CommitConflictError(
            f"transaction {newer.seq} changed the table's columns while this {change.op} ran",
            next_step="run it again: it is planned on the current columns",
        )
