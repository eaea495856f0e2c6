"""Conditions on rows, as the oracle evaluates them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Hides:
    """A condition on rows: those of these partitions and users, of an interval of keys."""

    partitions: frozenset[str]
    users: frozenset[str]
    keys: range | None = None
    spares: tuple[Hides, ...] = ()
    """Rows for which it is not true all the same: those of legal holds."""

    def row(self, k: int, partition: str, user: str) -> bool:
        """Return True if the condition is true for a row."""
        inside = self.keys is None or k in self.keys
        meant = inside and partition in self.partitions and user in self.users
        return meant and not any(spared.row(k, partition, user) for spared in self.spares)
