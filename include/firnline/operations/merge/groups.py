"""The plan of a merge, as plain data that can be printed."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import msgspec

from firnline.log.records import Delete, Marker
from firnline.operations.requests import FIXED_REQUESTS, upload_requests
from firnline.shown import ShownFigures


class LeftAlone(msgspec.Struct, frozen=True, gc=False):
    """A live part that the plan leaves unchanged, and why; there may be a million of them."""

    key: str
    partition: str
    bytes: int
    reason: str


@dataclass(frozen=True, slots=True)
class PlannedGroup:
    """Parts of one partition that become one part, or a few: clustered, or one for each slice."""

    partition: str
    parts: tuple[Marker, ...]
    """In insertion order."""
    deletes: tuple[Delete, ...] = ()
    """Deletes that hide rows in some of the parts."""
    outputs: int = 1
    """Parts to write; more than one only where they are clustered or sliced."""
    cluster: str | None = None
    """``ClusterSettings.mark`` of the clustering of the outputs; None if they are not clustered."""

    slices: int = 1
    """Tasks that merge it, each with key ranges; fewer where the footers of its parts do not tell
    ranges apart."""
    sliced_by: tuple[str, ...] = ()
    """Columns of the key ranges; empty for one task."""

    @property
    def bytes(self) -> int:
        """Bytes to read, and at most about as many to write."""
        return sum(m.b for m in self.parts)

    @property
    def newest(self) -> int:
        """Largest insertion time, unix ms."""
        return max(m.order()[1] for m in self.parts)


@dataclass(frozen=True, slots=True, repr=False)
class MergePlan(ShownFigures):
    """The groups of a merge in the order in which they are worked on."""

    seq: int
    """Transaction of the snapshot it was made from."""
    groups: tuple[PlannedGroup, ...]
    left_alone: tuple[LeftAlone, ...]
    hidden: tuple[PlannedGroup, ...] = ()
    """Per partition, the parts dropped unread: deletes hide every row of each."""
    next_due: int | None = None
    """Time, unix ms, at which the plan may change although nothing is written: the first of the
    parts that wait settles, or its partition is finished; None if none does."""

    @property
    def nothing_to_do(self) -> bool:
        """Return True if no group is worth merging and no part is hidden as a whole."""
        return not self.groups and not self.hidden

    @property
    def parts_hidden(self) -> int:
        """Parts that would be dropped unread."""
        return sum(len(g.parts) for g in self.hidden)

    @property
    def parts_in(self) -> int:
        """Parts that would be read and replaced."""
        return sum(len(g.parts) for g in self.groups)

    @property
    def parts_out(self) -> int:
        """Parts that would be written."""
        return sum(g.outputs for g in self.groups)

    @property
    def tasks(self) -> int:
        """Kernel tasks that the groups would be; fewer where a group cannot be sliced."""
        return sum(g.slices for g in self.groups)

    @property
    def bytes_in(self) -> int:
        """Bytes of the parts, and at most about as many written."""
        return sum(g.bytes for g in self.groups)

    @property
    def requests(self) -> int:
        """Estimate of store requests, log reads and further commits not counted.

        Of sliced groups more than it will be: most slices need some of the parts only.
        """
        uploads = sum(upload_requests(g.bytes, g.outputs) for g in self.groups)
        # Of a sliced group the footers, and in each slice a footer and row groups.
        sliced = sum(2 * g.slices * len(g.parts) for g in self.groups if g.slices > 1)
        return self.parts_in + sliced + uploads + (0 if self.nothing_to_do else FIXED_REQUESTS)

    @property
    def reasons(self) -> dict[str, int]:
        """Reason -> number of parts left alone for it."""
        return dict(Counter(part.reason for part in self.left_alone).most_common())

    def to_json(self) -> dict[str, Any]:
        """Plain data: totals, a row per group, the reasons with their counts."""
        return {
            "seq": self.seq,
            "parts_in": self.parts_in,
            "parts_out": self.parts_out,
            "parts_hidden": self.parts_hidden,
            "rows_hidden": sum(m.n or 0 for g in self.hidden for m in g.parts),
            "bytes_in": self.bytes_in,
            "tasks": self.tasks,
            "requests": self.requests,
            "groups": [
                {
                    "partition": g.partition,
                    "parts": len(g.parts),
                    "outputs": g.outputs,
                    "bytes": g.bytes,
                    "tasks": g.slices,
                }
                for g in self.groups
            ],
            "left_alone": self.reasons,
            "next_due": self.next_due,
        }
