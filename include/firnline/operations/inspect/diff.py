"""The difference between two states of a table: parts that were added and removed. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from firnline.log.parts_view import summed
from firnline.log.records import Marker
from firnline.state.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class PartitionDiff:
    """A partition that differs between the two states."""

    partition: str
    came: tuple[Marker, ...]
    """Parts of the later state alone."""
    went: tuple[Marker, ...]
    """Parts of the earlier state alone."""

    def to_json(self) -> dict[str, Any]:
        """Plain data: figures, and the parts by key."""
        return {
            "partition": self.partition,
            "came": summed(self.came)._asdict(),
            "went": summed(self.went)._asdict(),
            "came_parts": [marker.p for marker in self.came],
            "went_parts": [marker.p for marker in self.went],
        }


@dataclass(frozen=True, slots=True)
class Diff:
    """Two states compared."""

    partitions: tuple[PartitionDiff, ...]
    deletes: tuple[int, ...]
    """Transactions of deletes that are in the later state alone: they hide rows of parts that stay,
    which no count of rows here shows."""

    @property
    def nothing_changed(self) -> bool:
        """Return True if both states read the same."""
        return not self.partitions and not self.deletes

    def to_json(self) -> dict[str, Any]:
        """Plain data: totals, and every partition that changed."""
        came = summed(m for one in self.partitions for m in one.came)
        went = summed(m for one in self.partitions for m in one.went)
        return {
            "came": came._asdict(),
            "went": went._asdict(),
            "deletes": list(self.deletes),
            "partitions": [one.to_json() for one in self.partitions],
        }


def compare(before: Snapshot, after: Snapshot) -> Diff:
    """Compare two states of one table.

    Args:
        before: the state to start from; need not be the older one.
        after: the state to arrive at.
    """
    old, new = frozenset(before.live), frozenset(after.live)
    came = _by_partition(after, new - old)
    went = _by_partition(before, old - new)
    changed = (
        PartitionDiff(name, tuple(came.get(name, ())), tuple(went.get(name, ())))
        for name in sorted({*came, *went})
    )
    deletes = sorted({d.seq for i, d in after.deletes.items() if i not in before.deletes})
    return Diff(tuple(changed), tuple(deletes))


def _by_partition(snapshot: Snapshot, paths: Iterable[str]) -> dict[str, list[Marker]]:
    by_partition: dict[str, list[Marker]] = {}
    for path in sorted(paths):
        partition = snapshot.paths.partition_of(path)
        by_partition.setdefault(partition, []).append(snapshot.live[path])
    return by_partition
