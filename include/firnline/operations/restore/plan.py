"""The plan of a restore: undoes transactions in some partitions. Pure.

Dead parts never come back under their names, so parts are copied within the store, under fresh
ones. A copy is the part as it was: its rows, statistics, insertion order and data sequence ``q``,
by which exactly the deletes of then apply; the deletes that are undone stand in its ``d``, as if
its writer had taken care of them (docs/format.md, "Restore").
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from firnline.errors import UsageError
from firnline.log.parts_view import summed
from firnline.log.records import Delete, Marker
from firnline.operations.restore.since import (
    Since,
    refuse_deleted,
    refuse_foreign,
    refuse_impossible,
)
from firnline.operations.restore.undone import touched
from firnline.shown import ShownFigures
from firnline.state.holds import Held
from firnline.state.partitions import choose, matches
from firnline.state.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Copied:
    """A part to copy."""

    source: Marker
    partition: str
    d: tuple[str, ...]
    """Deletes that do not apply to the copy."""

    def marker(self, snapshot: Snapshot, key: str) -> Marker:
        """Return the marker of the copy, under its name; unknown fields stay."""
        old = self.source
        return msgspec.structs.replace(
            old,
            p=key,
            tmb=None,
            q=snapshot.sequence_of(old),
            d=self.d or None,
            o=old.t if old.o is None else old.o,
        )


@dataclass(frozen=True, slots=True, repr=False)
class RestorePlan(ShownFigures):
    """Parts to copy, and live parts to tombstone."""

    seq: int
    """Transaction of the snapshot it was made from."""
    to: int
    """Transaction whose state comes back."""
    copies: tuple[Copied, ...]
    removes: tuple[Marker, ...]
    keeps: frozenset[str]
    """Live parts of the partitions that stay as they are."""
    partitions: tuple[str, ...]
    """Partitions that change."""
    undone: tuple[int, ...]
    """Transactions whose effect on these partitions is undone."""
    globs: tuple[str, ...] = ()
    """Requested partitions; empty: all."""
    needs: tuple[Delete, ...] = ()
    """Deletes that hide rows of the copies, forgotten by now or not."""

    def concerns(self, partition: str) -> bool:
        """Return True if the partition is restored, whether this plan changes it or not."""
        return matches(partition, self.globs)

    @property
    def nothing_to_do(self) -> bool:
        """Return True if the partitions are in the requested state already."""
        return not self.copies and not self.removes

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        back, gone = summed(c.source for c in self.copies), summed(self.removes)
        return {
            "seq": self.seq,
            "to": self.to,
            "restored": back._asdict(),
            "removed": gone._asdict(),
            "kept_parts": len(self.keeps),
            "partitions": list(self.partitions),
            "undone": list(self.undone),
        }


def plan_restore(
    snapshot: Snapshot,
    since: Since,
    globs: Sequence[str] = (),
    *,
    exact: bool = False,
    ordered: bool = False,
) -> RestorePlan:
    """Decide what to copy and what to tombstone.

    The result holds the rows of the state right after ``since.seq``, and unless ``exact`` those
    that were appended since, as if none of the transactions after it had touched the partitions.

    Args:
        snapshot: the newest state, read from the log itself.
        since: what is to be undone.
        globs: of partitions; without one all.
        exact: also take away what was appended since.
        ordered: of a table with a primary key. Of parts that were inserted at one time only the
            names tell which came later, so they are copied all or none.

    Raises:
        SnapshotExpiredError: parts of that state are deleted.
        UsageError: no such partition, or something in between cannot be undone.
    """
    refuse_deleted(snapshot, since, globs)
    snapshot = _remembering(snapshot, since)
    every = _by_partition(snapshot)
    some = ", ".join(list(every)[:5]) or "none"
    step = f"write one of its names, dropped ones included, such as {some}"
    parts = {name: every[name] for name in choose(every, globs, next_step=step)}
    erased = refuse_impossible(since, list(parts), whole=not globs)
    copies: list[Copied] = []
    removes: list[Marker] = []
    keeps: set[str] = set()
    for partition, markers in parts.items():
        refuse_foreign(since, partition, markers)
        copied, stay = _sort_out(snapshot, since, partition, markers, erased, exact=exact)
        moved = {c.source.order() for c in copied}
        along = [m for m in stay if ordered and m.order() in moved]
        copies += [*copied, *(Copied(m, partition, m.d or ()) for m in along)]
        kept = frozenset(m.p for m in stay) - frozenset(m.p for m in along)
        keeps |= kept
        removes += [m for m in markers if m.tmb is None and m.p not in kept]
    place = snapshot.paths.partition_of
    Held.of(snapshot).refuse("a restore", ((place(m.p), m) for m in removes))
    changed = {c.partition for c in copies} | {snapshot.paths.partition_of(m.p) for m in removes}
    return RestorePlan(
        seq=snapshot.seq,
        to=since.seq,
        copies=tuple(copies),
        removes=tuple(removes),
        keeps=frozenset(keeps),
        partitions=tuple(sorted(changed)),
        undone=touched(since.headers, changed),
        globs=tuple(globs),
        needs=_needed(snapshot, copies),
    )


def refuse_newer(plan: RestorePlan, newest: int | None) -> None:
    """Raise UsageError if a transaction after ``newest`` would be undone; None allows all."""
    later = [seq for seq in plan.undone if newest is not None and seq > newest]
    if later:
        some = ", ".join(map(str, later[:5]))
        raise UsageError(
            f"transaction {some} changed these partitions after transaction {newest}, the newest "
            "that may be undone, so nothing is restored",
            next_step="look at a new dry run, and restore if later transactions may be undone, too",
        )


def _remembering(snapshot: Snapshot, since: Since) -> Snapshot:
    """The state, with the deletes that were forgotten since because no part needed them any more.

    A copy may: one that an erase left stays in force. Any other is to be named in its ``d``, for it
    stands in its folded log file for the grace, and for a rebuild in its transaction.
    """
    return replace(snapshot, deletes={**{d.id: d for d in since.deletes}, **snapshot.deletes})


def _needed(snapshot: Snapshot, copies: Sequence[Copied]) -> tuple[Delete, ...]:
    needed: dict[str, Delete] = {}
    for copied in copies:
        marker = copied.marker(snapshot, copied.source.p)
        needed.update((d.id, d) for d in snapshot.pending_deletes(marker, copied.partition))
    return tuple(needed.values())


def _sort_out(
    snapshot: Snapshot,
    since: Since,
    partition: str,
    markers: Sequence[Marker],
    erased: frozenset[int],
    *,
    exact: bool,
) -> tuple[list[Copied], list[Marker]]:
    """Split wanted parts of a partition into those to copy, and live ones that may stay."""
    copies: list[Copied] = []
    stay: list[Marker] = []
    for m in markers:
        then = m.t <= since.t and (m.tmb is None or m.tmb > since.t)
        appended = m.t > since.t and m.p not in since.born
        if not then and (exact or not appended):
            continue
        undone = _undone(snapshot, since, m, erased)
        hidden = {d.id for d in snapshot.pending_deletes(m, partition)} & set(undone)
        if m.tmb is None and not hidden:
            stay.append(m)
        else:
            copies.append(Copied(m, partition, tuple(sorted({*(m.d or ()), *undone}))))
    return copies, stay


def _undone(snapshot: Snapshot, since: Since, marker: Marker, erased: frozenset[int]) -> list[str]:
    """Return ids of the deletes since then that would apply to the part; those of an erase stay."""
    return [
        d.id
        for d in snapshot.deletes.values()
        if d.seq > max(since.seq, snapshot.sequence_of(marker)) and d.seq not in erased
    ]


def _by_partition(snapshot: Snapshot) -> Mapping[str, list[Marker]]:
    """Return all parts by partition, dead ones included."""
    by_partition: dict[str, list[Marker]] = {}
    for path, marker in snapshot.parts.items():
        by_partition.setdefault(snapshot.paths.partition_of(path), []).append(marker)
    return dict(sorted(by_partition.items()))
