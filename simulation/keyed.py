"""The visible row of each key and the insertion order of rows, for tables with a primary key.

The order is kept from when each append landed: it comes where its time places it among the parts
that are live then. What merges, deletes and clean-ups do may not change it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from firnline.log.records import Marker
from firnline.state.snapshot import Snapshot
from simulation.kinds import is_tombstone
from simulation.world import Violation

Row = tuple[int, str, str]
"""Number, partition and user of a row; the key is the user."""
Key = tuple[str, str]


@dataclass
class Keyed:
    """Rows of a table with a primary key, in order of insertion."""

    versioned: bool
    rows: Mapping[str, Sequence[Row]]
    """Rows by part."""
    order: dict[str, list[int]] = field(default_factory=dict)
    """Order of rows by partition."""
    came: dict[int, tuple[int, str]] = field(default_factory=dict)
    """Row -> time of its append, and its part."""
    there: dict[int, int] = field(default_factory=dict)
    """Row -> when it became visible by the store's clock, unix ms."""
    late: set[str] = field(default_factory=set)
    """Partitions with an append so late that merges had already passed its place."""

    def landed(self, snapshot: Snapshot, marker: Marker) -> None:
        """Take in an appended part that has become visible."""
        found = self.rows[marker.p]
        if not found:
            return
        partition = found[0][1]
        order = self.order.setdefault(partition, [])
        index = {k: at for at, k in enumerate(order)}
        parts, (at, _) = in_order(snapshot, partition), marker.order()
        if any(first <= at <= last and first < last for first, last in (m.order() for m in parts)):
            self.late.add(partition)
        here = {k for m in parts for k, _, _ in self.rows[m.p]}
        place = 0
        for other in parts[: parts.index(marker)]:
            place = max([place, *(index[k] + 1 for k, _, _ in self.rows[other.p] if k in index)])
        # Rows in no live part may come back, or be hidden by later rows.
        came = at, marker.p
        while place < len(order) and order[place] not in here and self.came[order[place]] < came:
            place += 1
        order[place:place] = [k for k, _, _ in found]
        self.came.update((k, came) for k, _, _ in found)

    def arrange(self, snapshot: Snapshot, partition: str) -> None:
        """Take the order from the live parts; rows that are in none are placed with the next."""
        order = self.order.get(partition, [])
        rank = {
            k: number
            for number, marker in enumerate(in_order(snapshot, partition))
            for k, _, _ in self.rows[marker.p]
        }
        found: dict[int, int] = {}
        last = len(rank)
        for k in reversed(order):
            last = found[k] = rank.get(k, last)
        places = {k: at for at, k in enumerate(order)}
        self.order[partition] = sorted(order, key=lambda k: (found[k], places[k]))

    def adopt(self, snapshot: Snapshot) -> None:
        """Reorder after a rebuild: overlapping appends are ordered by their beginning."""
        for name in snapshot.partitions:
            partition = name.removeprefix("p=")
            order = self.order.setdefault(partition, [])
            parts = in_order(snapshot, partition)
            known = frozenset(order)
            for marker in parts:
                new = [k for k, _, _ in self.rows[marker.p] if k not in known]
                order += new
                self.came.update((k, (marker.order()[0], marker.p)) for k in new)
            self.arrange(snapshot, partition)

    def places(self) -> dict[int, int]:
        """Return the rank of each row within its key."""
        if self.versioned:
            return {k: k for order in self.order.values() for k in order}
        return {k: at for order in self.order.values() for at, k in enumerate(order)}

    def winners(self, rows: Iterable[Row]) -> dict[Key, int]:
        """Return the newest row of each key, tombstones included."""
        places = self.places()
        best: dict[Key, int] = {}
        for k, p, u in rows:
            if k not in places:
                raise Violation(f"rows lost: no part holds {k}, which nobody took away")
            if (p, u) not in best or places[k] > places[best[p, u]]:
                best[p, u] = k
        return best

    def shown(self, parts: Iterable[Sequence[Row]]) -> list[int]:
        """Return the rows that a reader sees of parts given in insertion order."""
        best: dict[Key, int] = {}
        for rows in parts:
            for k, p, u in rows:
                if not self.versioned or k > best.get((p, u), -1):
                    best[p, u] = k
        return seen(best)


def seen(winners: Mapping[Key, int]) -> list[int]:
    """Return the rows without the tombstones."""
    return [k for k in winners.values() if not is_tombstone(k)]


def in_order(snapshot: Snapshot, partition: str) -> list[Marker]:
    """Return the live parts of a partition in insertion order."""
    parts = snapshot.partitions.get(f"p={partition}", [])
    return sorted(parts, key=lambda m: (*m.order(), m.p))


def spans_another(parts: Sequence[Marker]) -> bool:
    """Return True if a part was inserted between the first and last row of another one."""
    return any(
        first <= one.order()[0] <= last and one is not other
        for other in parts
        if (first := other.order()[0]) < (last := other.order()[1])
        for one in parts
    )


def superseded(keyed: Keyed, rows: Sequence[Row], left: frozenset[int]) -> Iterator[int]:
    """Yield rows that a merge left out because its inputs have a newer row of their key."""
    best = keyed.winners(rows)
    return (k for k, p, u in rows if k not in left and best[p, u] != k)
