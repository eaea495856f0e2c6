"""States of a table that a reader of its parts alone would show wrongly, so that a mirror waits.

Engines that read a mirror read whole parts under the table's present columns. A part of which a
delete may hide rows, or that a change of the schema has not reached, would give them deleted rows
or lack values. The mirror then stays at the version before, until a merge has rewritten such parts.
Pure functions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from firnline.log.records import Delete, Marker
from firnline.log.schema_changes import SchemaChange
from firnline.state.snapshot import Snapshot


class Hold(msgspec.Struct, frozen=True, kw_only=True):
    """The reason why a state cannot be mirrored."""

    parts: int
    """Live parts that would be shown wrongly."""
    first: str
    """Key of one of them."""
    reason: str
    """The end of a sentence: ``deletes may hide rows of 3 parts``."""
    since_ms: int
    """When the oldest record of these took effect, unix ms."""

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        plain: dict[str, Any] = msgspec.to_builtins(self)
        return plain


ReadsNarrower = Callable[[str], bool]
"""Returns True if every reader of the mirror reads a column of any narrower type as this type."""


class Hiding(msgspec.Struct, frozen=True, kw_only=True):
    """A live part of which deletes may hide rows."""

    partition: str
    marker: Marker
    deletes: tuple[Delete, ...]

    @property
    def ids(self) -> tuple[str, ...]:
        """Ids of the deletes, sorted: the same ones hide the same rows."""
        return tuple(sorted(delete.id for delete in self.deletes))


def parts_with_deletes(snapshot: Snapshot) -> list[Hiding]:
    """Return the live parts of which deletes may hide rows."""
    prefix = len(snapshot.paths.data_dir)
    hiding: list[Hiding] = []
    for marker in _unapplied(snapshot):
        partition = marker.p[prefix:].rpartition("/")[0]
        pending = snapshot.pending_deletes(marker, partition)
        if pending:
            hiding.append(Hiding(partition=partition, marker=marker, deletes=tuple(pending)))
    return hiding


def find_hold(
    snapshot: Snapshot, reads: ReadsNarrower, hiding: Sequence[Hiding], *, why: str = ""
) -> Hold | None:
    """Return why the state cannot be mirrored; None if it can.

    Args:
        snapshot: the newest state.
        reads: the types to which readers of the mirror widen by themselves.
        hiding: parts whose hidden rows the mirror cannot leave out.
        why: a clause about them, for the reason.
    """
    return _of_deletes(snapshot, hiding, why) or _of_changes(snapshot, reads)


def _of_deletes(snapshot: Snapshot, hiding: Sequence[Hiding], why: str) -> Hold | None:
    if not hiding:
        return None
    return Hold(
        parts=len(hiding),
        first=hiding[0].marker.p,
        reason=f"deletes may hide rows of {len(hiding)} of its parts{why and why + ','} until a "
        "merge",
        since_ms=min(snapshot.effective(d.t) for each in hiding for d in each.deletes),
    )


def _unapplied(snapshot: Snapshot) -> Iterator[Marker]:
    """Yield live parts to which a delete may apply; decided once for each sequence and ``d``."""
    records = [(d.seq, d.id) for d in snapshot.deletes.values()]
    if not records:
        return
    newest = max(records)[0]
    decided: dict[tuple[int, tuple[str, ...] | None], bool] = {}
    for marker in snapshot.live.values():
        q = marker.q
        if q is None:
            yield marker
        elif q < newest:
            key = (q, marker.d)
            may_apply = decided.get(key)
            if may_apply is None:
                done = marker.d or ()
                may_apply = decided[key] = any(seq > q and i not in done for seq, i in records)
            if may_apply:
                yield marker


def _of_changes(snapshot: Snapshot, reads: ReadsNarrower) -> Hold | None:
    if not snapshot.changes:
        return None
    held: list[Marker] = []
    since: list[int] = []
    newest = snapshot.changes[-1].seq
    for marker in snapshot.live.values():
        if marker.q is not None and marker.q >= newest:
            continue  # nearly all parts of a large table
        pending = [c for c in snapshot.pending_changes(marker) if not _is_read(c, reads)]
        if pending:
            held.append(marker)
            since += [c.t for c in pending]
    if not held:
        return None
    return Hold(
        parts=len(held),
        first=held[0].p,
        reason=f"{len(held)} of its parts have the columns of before a change until a merge",
        since_ms=min(map(snapshot.effective, since)),
    )


def _is_read(change: SchemaChange, reads: ReadsNarrower) -> bool:
    """Return True if readers need no rewritten part to see the change.

    A change states the wider type only: the part may have any type that is narrower.
    """
    what = change.what
    if what.rename or what.drop:
        return False
    return all(map(reads, what.widen.values()))
