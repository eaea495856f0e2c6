"""The plan of a removal of partitions: pure, printable, bound to the state that was listed."""

from __future__ import annotations

import difflib
import hashlib
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from firnline.errors import PlanChangedError, UsageError, quoted, some
from firnline.log.records import Delete, Marker
from firnline.operations.requests import FIXED_REQUESTS
from firnline.shown import ShownFigures
from firnline.state.holds import Held
from firnline.state.snapshot import Snapshot
from firnline.units import about_size, counted

_COMPARED = 2_000
"""Names searched for a similar one: more of them take seconds."""


class PartitionInfo(msgspec.Struct, frozen=True, kw_only=True):
    """Figures of one partition, from which a person chooses."""

    partition: str
    parts: int
    rows: int | None
    """Rows of its parts; None when some part does not state them."""
    bytes: int
    oldest_ms: int
    """Insertion time of its oldest rows, unix ms."""
    newest_ms: int
    version: str
    """Digest of the names of its live parts: it differs once the partition has changed."""

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        plain: dict[str, Any] = msgspec.to_builtins(self)
        return plain


def describe(partition: str, markers: Sequence[Marker]) -> PartitionInfo:
    """Figures of a partition's live parts (at least one)."""
    rows = [m.n for m in markers]
    stated = [n for n in rows if n is not None]
    return PartitionInfo(
        partition=partition,
        parts=len(markers),
        rows=sum(stated) if len(stated) == len(rows) else None,
        bytes=sum(m.b for m in markers),
        oldest_ms=min(m.order()[0] for m in markers),
        newest_ms=max(m.order()[1] for m in markers),
        version=version_of(markers),
    )


def version_of(markers: Sequence[Marker]) -> str:
    """Return the digest of the parts' keys, whatever their order; 16 hexadecimal digits."""
    keys = "\n".join(sorted(m.p for m in markers))
    return hashlib.blake2b(keys.encode(), digest_size=8).hexdigest()


class Undecided(msgspec.Struct, frozen=True, kw_only=True):
    """A partition or part that a rule by age could not decide on; it was left alone."""

    partition: str
    parts: int
    bytes: int
    reason: str


@dataclass(frozen=True, slots=True)
class Removal:
    """Live parts of one partition that are to be dropped."""

    partition: str
    parts: tuple[Marker, ...]
    end_ms: int | None = None
    """Latest time of a row, unix ms; None where the plan does not go by time."""

    @property
    def bytes(self) -> int:
        """Bytes that clean-up will free."""
        return sum(m.b for m in self.parts)

    @property
    def rows(self) -> int:
        """Rows of the parts that state them."""
        return sum(m.n or 0 for m in self.parts)

    @property
    def parts_without_rows(self) -> int:
        """Parts of other writers that do not state their rows."""
        return sum(m.n is None for m in self.parts)


@dataclass(frozen=True, slots=True, repr=False)
class Removals(ShownFigures):
    """All parts to drop in one transaction."""

    seq: int
    """Transaction of the snapshot it was made from."""
    removals: tuple[Removal, ...]

    @property
    def nothing_to_do(self) -> bool:
        """Return True if no part is to be dropped."""
        return not self.removals

    @property
    def records(self) -> tuple[Delete, ...]:
        """Delete records of rows in parts that stay; their ids are set when they are committed."""
        return ()

    @property
    def parts(self) -> int:
        """Parts to drop."""
        return sum(len(r.parts) for r in self.removals)

    @property
    def rows(self) -> int:
        """Rows to drop, as far as the parts state them."""
        return sum(r.rows for r in self.removals)

    @property
    def parts_without_rows(self) -> int:
        """Parts whose rows are not in ``rows``."""
        return sum(r.parts_without_rows for r in self.removals)

    @property
    def bytes(self) -> int:
        """Bytes that clean-up will free, after the grace."""
        return sum(r.bytes for r in self.removals)

    @property
    def requests(self) -> int:
        """Store requests at most, log reads not counted."""
        return 0 if self.nothing_to_do else FIXED_REQUESTS

    def totals(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "seq": self.seq,
            "parts": self.parts,
            "rows": self.rows,
            "parts_without_rows": self.parts_without_rows,
            "bytes": self.bytes,
            "requests": self.requests,
        }


@dataclass(frozen=True, slots=True, repr=False)
class DropPlan(Removals):
    """Partitions chosen by a person, with their contents at planning."""

    @property
    def versions(self) -> dict[str, str]:
        """Partition -> version, to be given as ``expected``."""
        return {r.partition: version_of(r.parts) for r in self.removals}

    def to_json(self) -> dict[str, Any]:
        """Plain data: totals, and a row for each partition."""
        rows = [describe(r.partition, r.parts).to_json() for r in self.removals]
        return {**self.totals(), "partitions": rows}


def plan_drop(
    snapshot: Snapshot, partitions: Sequence[str], expected: Mapping[str, str]
) -> DropPlan:
    """Plan to drop all live parts of the named partitions.

    Args:
        snapshot: the state to plan on.
        partitions: exact names, no globs; at least one.
        expected: partition -> version as it was listed; partitions that are not in it are
            taken as they are.

    Raises:
        PlanChangedError: a partition is not what it was when it was listed.
        UsageError: a partition that does not exist, or none named; one with rows of a legal hold.
    """
    if not partitions:
        raise UsageError(
            "no partition was named", next_step="name those to drop: see `firnline drop TABLE`"
        )
    refuse_changed(snapshot, expected)
    chosen = tuple(dict.fromkeys(partitions))
    missing = [name for name in chosen if name not in snapshot.partitions]
    if missing:
        raise _missing(missing, list(snapshot.partitions))
    held = Held.of(snapshot)
    held.refuse("a removal", ((name, m) for name in chosen for m in snapshot.partitions[name]))
    removals = (Removal(name, tuple(snapshot.partitions[name])) for name in chosen)
    return DropPlan(snapshot.seq, tuple(removals))


def refuse_changed(snapshot: Snapshot, expected: Mapping[str, str]) -> None:
    """Raise PlanChangedError that names the partitions which are not what was listed."""
    changed: list[str] = []
    for name, version in expected.items():
        markers = snapshot.partitions.get(name)
        if markers is None:
            changed.append(f"{name or '(none)'} is gone")
        elif version_of(markers) != version:
            changed.append(f"{name or '(none)'} {_now(markers)}")
    if changed:
        raise PlanChangedError(
            f"{len(changed)} of {counted(len(expected), 'partition')} changed after the list was "
            f"made: {some(changed)}",
            next_step="list them again and confirm what they hold now; nothing was dropped",
        )


def _now(markers: Sequence[Marker]) -> str:
    described = describe("", markers)
    rows = "" if described.rows is None else f"{counted(described.rows, 'row')}, "
    parts = counted(described.parts, "part")
    return f"has {parts} now ({rows}{about_size(described.bytes)})"


def _missing(missing: Sequence[str], partitions: Sequence[str]) -> UsageError:
    """Return the error for partitions that do not exist; ``known`` is sorted."""
    first = missing[0]
    at = max(0, bisect_left(partitions, first) - _COMPARED // 2)
    near = difflib.get_close_matches(first, partitions[at : at + _COMPARED], n=3) or partitions[:3]
    others = f", nor {len(missing) - 1} more of those named" if len(missing) > 1 else ""
    return UsageError(
        f"there is no partition {quoted(first)}{others}",
        next_step=f"give exact names, such as {', '.join(near)}"
        if near
        else "the table has no partition; append to it first",
    )
