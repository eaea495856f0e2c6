"""Selects the parts that a delete reads, drops unread or leaves alone, with reasons."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from firnline.commit import keys
from firnline.log.records import Marker
from firnline.operations.groups import LeftAlone, PlannedGroup
from firnline.operations.merge import tiers
from firnline.operations.requests import FIXED_REQUESTS, upload_requests
from firnline.settings.load import TableSettings
from firnline.shown import ShownFigures
from firnline.state.snapshot import Snapshot

Verdict = Literal["none", "some", "all"]
"""Number of a part's rows that match, as far as its statistics tell."""

NO_ROW = "its statistics prove that no row matches"
HIDDEN = "may hold matching rows: readers hide them at once, the next merge removes them"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Selected(ShownFigures):
    """Parts by what is done with them."""

    seq: int
    """Transaction of the snapshot it was made from."""
    groups: tuple[PlannedGroup, ...]
    """Groups to read: a part with a matching row is rewritten, the rest of the group stays."""
    dropped: tuple[tuple[str, Marker], ...]
    """(partition, part) to drop without being read: every row matches."""
    left_alone: tuple[LeftAlone, ...]

    @property
    def nothing_to_do(self) -> bool:
        """Never: the delete record is committed also when no part holds a matching row.

        An append that is under way may bring such rows, and only the record hides them.
        """
        return False

    @property
    def only_record(self) -> bool:
        """True when no part is read or dropped: the transaction holds the record alone."""
        return not self.groups and not self.dropped

    @property
    def parts_in(self) -> int:
        """Parts that would be read."""
        return sum(len(group.parts) for group in self.groups)

    @property
    def bytes_in(self) -> int:
        """Bytes that would be read, and at most about as many written."""
        return sum(group.bytes for group in self.groups)

    @property
    def excluded(self) -> int:
        """Parts that statistics prove to hold no matching row."""
        return sum(part.reason == NO_ROW for part in self.left_alone)

    @property
    def hidden(self) -> int:
        """Parts that may hold matching rows and stay until a merge."""
        return sum(part.reason == HIDDEN for part in self.left_alone)

    @property
    def requests(self) -> int:
        """Upper estimate of store requests; log reads and further commits not counted."""
        uploads = sum(upload_requests(g.bytes) for g in self.groups)
        return self.parts_in + uploads + FIXED_REQUESTS

    def as_json(self) -> dict[str, Any]:
        """The part of ``to_json`` that every plan of this kind has."""
        reasons = Counter(part.reason for part in self.left_alone)
        return {
            "seq": self.seq,
            "parts_to_read": self.parts_in,
            "parts_to_drop": len(self.dropped),
            "rows_to_drop": sum(m.n or 0 for _, m in self.dropped),
            "bytes_in": self.bytes_in,
            "requests": self.requests,
            "only_record": self.only_record,
            "groups": [
                {"partition": g.partition, "parts": len(g.parts), "bytes": g.bytes}
                for g in self.groups
            ],
            "dropped": _by_partition(self.dropped),
            "left_alone": dict(reasons.most_common()),
        }


def select(
    snapshot: Snapshot,
    settings: TableSettings,
    partitions: Sequence[str],
    judge: Callable[[Marker], Verdict],
    excluded: frozenset[str],
) -> Selected:
    """Judge every live part of the partitions; the groups hold the parts to read."""
    groups: list[PlannedGroup] = []
    dropped: list[tuple[str, Marker]] = []
    left: list[LeftAlone] = []
    for partition in partitions:
        ready: list[Marker] = []
        none: list[Marker] = []
        for marker in snapshot.partitions[partition]:
            if marker.p in excluded:
                reason = "could not be read earlier in this run"
                left.append(LeftAlone(marker.p, partition, marker.b, reason))
                continue
            verdict = judge(marker)
            if verdict == "none":
                none.append(marker)
            elif verdict == "all":
                dropped.append((partition, marker))
            else:
                ready.append(marker)
        if settings.primary_key:
            # The new part has another name: parts inserted together are rewritten together.
            orders = {m.order() for m in ready}
            ready += [m for m in none if m.order() in orders]
            none = [m for m in none if m.order() not in orders]
        left += [LeftAlone(m.p, partition, m.b, NO_ROW) for m in none]
        groups += _group(snapshot, settings, partition, ready)
    return Selected(
        seq=snapshot.seq, groups=tuple(groups), dropped=tuple(dropped), left_alone=tuple(left)
    )


def select_whole(
    snapshot: Snapshot, partitions: Sequence[str], judge: Callable[[Marker], Verdict]
) -> Selected:
    """Return every partition in which a row may match, as one group with all of its parts.

    For conditions on the rows that win a primary key: which row that is, all parts together say.
    """
    groups: list[PlannedGroup] = []
    left: list[LeftAlone] = []
    for partition in partitions:
        parts = snapshot.partitions[partition]
        if any(judge(marker) != "none" for marker in parts):
            ordered = sorted(parts, key=keys.place)
            groups.append(group_of(snapshot, partition, ordered))
        else:
            left += [LeftAlone(m.p, partition, m.b, NO_ROW) for m in parts]
    return Selected(seq=snapshot.seq, groups=tuple(groups), dropped=(), left_alone=tuple(left))


def _group(
    snapshot: Snapshot, settings: TableSettings, partition: str, ready: list[Marker]
) -> list[PlannedGroup]:
    """Group parts that are read together; the rows of those rewritten become one part.

    With a primary key every part stays by itself, but for those inserted at one time: an unchanged
    part between two that became one would have to come both before and after it in insertion order.
    With ``cluster_by`` every part stays by itself, so that it stays what it is in its run.
    """
    policy = settings.merge
    if settings.primary_key:
        return [group_of(snapshot, partition, unit) for unit in keys.units(ready)]
    ordered = sorted(ready, key=lambda m: (*m.order(), m.p))
    most = policy.max_parts_per_group if settings.cluster_by is None else 1
    tier = tiers.Tier(policy.target_size, 1, most)
    runs = tiers.group_in_order([m.b for m in ordered], tier)
    return [group_of(snapshot, partition, [ordered[i] for i in run]) for run in runs]


def group_of(snapshot: Snapshot, partition: str, parts: Sequence[Marker]) -> PlannedGroup:
    """Return a group of parts, in insertion order, with the deletes that are pending on them."""
    pending = {d.id: d for m in parts for d in snapshot.pending_deletes(m, partition)}
    return PlannedGroup(partition, tuple(parts), tuple(pending.values()))


def leave_unchanged(
    snapshot: Snapshot, partitions: Sequence[str], judge: Callable[[Marker], Verdict]
) -> Selected:
    """Select nothing: all parts, matching ones too, stay for readers and the next merge."""
    left = (
        LeftAlone(m.p, partition, m.b, NO_ROW if judge(m) == "none" else HIDDEN)
        for partition in partitions
        for m in snapshot.partitions[partition]
    )
    return Selected(seq=snapshot.seq, groups=(), dropped=(), left_alone=tuple(left))


def _by_partition(dropped: Sequence[tuple[str, Marker]]) -> list[dict[str, Any]]:
    rows: dict[str, dict[str, Any]] = {}
    for partition, marker in dropped:
        row = rows.setdefault(
            partition, {"partition": partition, "parts": 0, "rows": 0, "bytes": 0}
        )
        row["parts"] += 1
        row["rows"] += marker.n or 0
        row["bytes"] += marker.b
    return list(rows.values())
