"""A column that is renamed, dropped or widened, and the value that every row must have in it.

The column is ``c0`` at first, and ``c1`` after the first change that renames or drops it. A writer
may not know of a change yet: rows written under a dropped name belong to another column.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from firnline.log.records import LogContent, Marker
from firnline.log.schema_changes import split
from firnline.state.snapshot import Snapshot
from firnline.types.rowhash import digest_of
from simulation.world import KEY_STEP, Violation


def value_of(k: int) -> int:
    """Return the value of a row in the column."""
    return k // KEY_STEP


@dataclass
class Columns:
    """Changes of the column, and the names that rows were written under."""

    changes: dict[int, bool] = field(default_factory=dict)
    """Transaction -> True if values are kept under the next name."""
    adopted: dict[int, int] = field(default_factory=dict)
    """Transaction -> number of a name that reappeared as another column and got the newest name."""
    stated: dict[int, int] = field(default_factory=dict)
    """Row -> number of the name it was written under."""
    parts: dict[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)
    """Part -> its rows as stored."""
    digests: dict[str, str] = field(default_factory=dict)
    """Part -> digest of its rows."""

    @property
    def newest(self) -> int:
        """Return the number of the newest committed name."""
        return len(self.changes)

    def committed(self, seq: int, content: LogContent) -> None:
        """Take in a transaction's changes of the column, or of one that late writers named."""
        for change in split(content.deletes)[1]:
            name, before = f"c{self.newest}", f"c{self.newest - 1}"
            if change.seq == seq and (name in change.what.rename or name in change.what.drop):
                self.changes[seq] = name in change.what.rename
            elif change.seq == seq and change.what.rename.get(before) == name:
                self.adopted[seq] = self.newest - 1

    def check(self, snapshot: Snapshot, born: Mapping[int, tuple[int, str, str]]) -> None:
        """Compare the values that readers see with the expected ones. Raises Violation."""
        kept = [self.changes[seq] for seq in sorted(self.changes) if seq <= snapshot.seq]
        name = f"c{len(kept)}"
        for marker in snapshot.live.values():
            self._check_digest(marker)
            names = snapshot.columns_of(marker).names(name)
            for row in self.parts[marker.p]:
                seen = next((row[n] for n in names if row.get(n) is not None), None)
                right = self._right(row["k"], born[row["k"]][0], kept, snapshot.seq)
                if seen != right:
                    raise Violation(
                        f"row {row['k']} has {seen} in column {name}, and it must be {right}"
                    )

    def _check_digest(self, marker: Marker) -> None:
        """Compare what a part states with its rows; not all parts state something."""
        if marker.g is None or marker.p not in self.parts:
            return
        if marker.p not in self.digests:
            rows = pa.Table.from_pylist(list(map(dict, self.parts[marker.p])))
            self.digests[marker.p] = str(digest_of(rows))
        if marker.g != self.digests[marker.p]:
            raise Violation(f"part {marker.p} states another digest than its rows have")

    def _right(self, k: int, q: int, kept: Sequence[bool], newest: int) -> int | None:
        """Return the expected value of a row whose append began after transaction ``q``."""
        mine, now = self.stated[k], len(kept)
        known = sum(seq <= q for seq in self.changes)
        for adopted, number in sorted(self.adopted.items()):
            if number == mine < known and q < adopted <= newest:
                mine, known = number + 1, sum(seq <= adopted for seq in self.changes)
        followed = mine == known and mine < now and all(kept[mine:now])
        return value_of(k) if mine == now or followed else None
