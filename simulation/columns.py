"""A column that gets other names, goes or becomes wider: what every row must show under its name.

The column is ``c0`` at first, and ``c1`` after the first change that renames or drops it. A writer
may be late with the news: under a name that went, rows have another column.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from firnline.log.records import LogContent
from firnline.log.schema_changes import split
from firnline.state.snapshot import Snapshot
from simulation.world import KEY_STEP, Violation


def value_of(k: int) -> int:
    """What a row has in the column."""
    return k // KEY_STEP


@dataclass
class Columns:
    """Changes of the column, and the names that rows were written under."""

    changes: dict[int, bool] = field(default_factory=dict)
    """Transaction -> whether values are kept, under the next name."""
    adopted: dict[int, int] = field(default_factory=dict)
    """Transaction -> number of a name that had come back, as another column, and got the newest."""
    stated: dict[int, int] = field(default_factory=dict)
    """Row -> number of the name it was written under."""
    parts: dict[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)
    """Part -> its rows as they lie there."""

    @property
    def newest(self) -> int:
        """Number of the name by all that is committed."""
        return len(self.changes)

    def committed(self, seq: int, content: LogContent) -> None:
        """A transaction may have changed the column, or one that late writers named as before."""
        for change in split(content.deletes)[1]:
            name, before = f"c{self.newest}", f"c{self.newest - 1}"
            if change.seq == seq and (name in change.what.rename or name in change.what.drop):
                self.changes[seq] = name in change.what.rename
            elif change.seq == seq and change.what.rename.get(before) == name:
                self.adopted[seq] = self.newest - 1

    def check(self, snapshot: Snapshot, born: Mapping[int, tuple[int, str, str]]) -> None:
        """Compare what readers of a state see with what it must be. Raises Violation."""
        kept = [self.changes[seq] for seq in sorted(self.changes) if seq <= snapshot.seq]
        name = f"c{len(kept)}"
        for marker in snapshot.live.values():
            names = snapshot.columns_of(marker).names(name)
            for row in self.parts[marker.p]:
                seen = next((row[n] for n in names if row.get(n) is not None), None)
                right = self._right(row["k"], born[row["k"]][0], kept, snapshot.seq)
                if seen != right:
                    raise Violation(
                        f"row {row['k']} has {seen} in column {name}, and it must be {right}"
                    )

    def _right(self, k: int, q: int, kept: Sequence[bool], newest: int) -> int | None:
        """Of a row whose append began after transaction ``q``, in a state."""
        mine, now = self.stated[k], len(kept)
        known = sum(seq <= q for seq in self.changes)
        for adopted, number in sorted(self.adopted.items()):
            if number == mine < known and q < adopted <= newest:
                mine, known = number + 1, sum(seq <= adopted for seq in self.changes)
        followed = mine == known and mine < now and all(kept[mine:now])
        return value_of(k) if mine == now or followed else None
