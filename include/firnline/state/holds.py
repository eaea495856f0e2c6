"""Legal holds of a table: rows that no operation may remove (docs/format.md, "Legal holds").

A hold names rows by a condition, partitions by globs, or both, and is part of the table's
properties: whoever commits sees it on the base that he commits on. Statistics decide whether a part
may have such rows, so a part that may have some is treated as if it had.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from glob import escape

from firnline.errors import UsageError, quoted
from firnline.log.records import Marker
from firnline.predicate.pruning import Pruner
from firnline.predicate.tree import And, Not, Predicate, bind, columns_of, parse_json
from firnline.properties.in_force import current
from firnline.properties.record import Hold
from firnline.state.snapshot import Snapshot
from firnline.types.sql import fold_name


@dataclass(frozen=True)
class Held:
    """The holds in force in a snapshot."""

    snapshot: Snapshot
    holds: tuple[Hold, ...]
    _pruners: dict[str, Pruner] = field(default_factory=dict)

    @classmethod
    def of(cls, snapshot: Snapshot) -> Held:
        """Return the holds that the newest properties of a table state."""
        stated = current(snapshot.properties)
        return cls(snapshot, () if stated is None else stated.held)

    def covering(self, marker: Marker, partition: str) -> Hold | None:
        """Return the first hold that may cover rows of a part; None: certainly none does."""
        return next(self._covering(marker, partition), None)

    def covering_dead(self, marker: Marker, partition: str) -> Hold | None:
        """Return the first hold that was put after a part died and may cover rows of it."""
        found = self._covering(marker, partition)
        return next((hold for hold in found if hold.t >= (marker.tmb or 0)), None)

    def _covering(self, marker: Marker, partition: str) -> Iterator[Hold]:
        for hold in self.holds:
            if not in_partitions(hold, partition):
                continue
            stats, hashes = self.snapshot.stats_of(marker), self.snapshot.hashes_of(marker)
            if not hold.where or not self._pruner(hold).matches_nothing(stats, hashes):
                yield hold

    def _pruner(self, hold: Hold) -> Pruner:
        if hold.name not in self._pruners:
            self._pruners[hold.name] = Pruner(parse_json(hold.where), self.snapshot.schema)
        return self._pruners[hold.name]

    def keeping(self, condition: Predicate) -> Predicate:
        """Return the condition without the rows of holds that have one.

        A row for which it is not known whether a hold covers it, because of a null, stays too.
        """
        if not self.holds:
            return condition
        kept = [Not(parse_json(hold.where)) for hold in self.holds if hold.where]
        return bind(And((condition, *kept)), self.snapshot.schema) if kept else condition

    def refuse_partitions(self, what: str, partitions: Sequence[str]) -> None:
        """Raise UsageError if a condition for some partitions may meet one that is held by name.

        Args:
            what: the operation, as the beginning of a sentence: "a delete".
            partitions: globs; empty for all.
        """
        exact = bool(partitions) and all(name == escape(name) for name in partitions)
        for hold in self.by_partition().holds:
            if exact and not any(in_partitions(hold, name) for name in partitions):
                continue
            raise UsageError(
                f"{what} on partitions of the legal hold {_described(hold)}",
                next_step="name partitions that it does not cover, each by its exact name",
            )

    def refuse_any(
        self,
        what: str,
        *,
        instead: str = "delete by a condition, which leaves such rows",
    ) -> None:
        """Raise UsageError if there is a hold: of an operation whose records may hide any row.

        Args:
            what: the operation, as the beginning of a sentence: "a replace".
            instead: what may be done while the hold lasts, in the imperative.
        """
        if self.holds:
            raise UsageError(
                f"{what} may take rows of the legal hold {_described(self.holds[0])}, also some "
                "that are being appended",
                next_step=f"{instead}, or end the hold first: `firnline hold TABLE` lists them",
            )

    def refuse_loss(self, what: str) -> None:
        """Raise UsageError if there is a hold: of an operation that takes values of all rows.

        Args:
            what: the operation, as the beginning of a sentence: "a drop of columns".
        """
        if self.holds:
            raise UsageError(
                f"{what} takes values of the rows of the legal hold {_described(self.holds[0])}",
                next_step="leave it until a person has ended the hold: "
                "`firnline hold TABLE` lists them",
            )

    def by_partition(self) -> Held:
        """Return those of the holds that name partitions."""
        return Held(self.snapshot, tuple(hold for hold in self.holds if hold.partitions))

    def refuse(self, what: str, parts: Iterable[tuple[str, Marker]]) -> None:
        """Raise UsageError if a hold may cover rows of parts that an operation would replace.

        Args:
            what: the operation, as the beginning of a sentence: "a rewrite".
            parts: (partition, part).
        """
        for partition, marker in parts if self.holds else ():
            hold = self.covering(marker, partition)
            if hold is not None:
                raise UsageError(
                    f"{what} would replace part {marker.p}, which may have rows of the legal hold "
                    f"{_described(hold)}; nothing was changed",
                    next_step="leave its partitions out; only a person ends a hold: `firnline "
                    "hold` lists them",
                )

    def refuse_columns(self, what: str, columns: Iterable[str]) -> None:
        """Raise UsageError if a hold names one of the columns."""
        gone = {fold_name(column) for column in columns}
        for hold in self.holds:
            named = columns_of(parse_json(hold.where)) if hold.where else ()
            found = [column for column in named if fold_name(column) in gone]
            if found:
                raise UsageError(
                    f"{what} column {quoted(found[0])}, by which the legal hold "
                    f"{_described(hold)} names rows",
                    next_step="end the hold first, or leave the column as it is",
                )


def dead_under_hold(snapshot: Snapshot, keys: Iterable[str]) -> frozenset[str]:
    """Return those of dead parts that died before a legal hold and may have rows of it.

    What dies later has moved to other parts: nobody may remove it.

    Args:
        snapshot: that names them.
        keys: of parts; one that it does not name is under no hold.
    """
    held, place, parts = Held.of(snapshot), snapshot.paths.partition_of, snapshot.parts
    known = (key for key in keys if key in parts) if held.holds else ()
    return frozenset(k for k in known if held.covering_dead(parts[k], place(k)) is not None)


def in_partitions(hold: Hold, partition: str) -> bool:
    """Return True if a hold covers a partition by its name; one that names none covers all."""
    return not hold.partitions or any(fnmatchcase(partition, glob) for glob in hold.partitions)


def _described(hold: Hold) -> str:
    return f"{quoted(hold.name)} ({hold.by}: {hold.why})"
