"""The plans of a delete and of an erase: pure, printable, with reasons."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from firnline.commit import keys
from firnline.errors import UsageError
from firnline.log.records import Marker
from firnline.operations.common_options import Mode
from firnline.operations.hidden import shown_partition
from firnline.operations.selection import Selected, Verdict, leave_unchanged, select, select_whole
from firnline.predicate.hashing import LiteralHashes
from firnline.predicate.pruning import Pruner
from firnline.predicate.tree import In, Predicate, bind, columns_of, to_json
from firnline.settings.load import TableSettings
from firnline.state.holds import Held
from firnline.state.partitions import choose
from firnline.state.snapshot import Snapshot
from firnline.types.hashes import Hashes
from firnline.types.schema import normalise
from firnline.types.values import Scalar, Stats, bound_key, canonical


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class DeletePlan(Selected):
    """The plan of a delete by predicate."""

    mode: Mode
    where: bytes
    """The bound predicate as JSON."""
    partitions: tuple[str, ...]
    """Globs over partition paths; empty for all."""
    holds: tuple[str, ...] = ()
    """Legal holds whose rows stay, with those of which a null leaves open whether one covers
    them."""
    by_winners: bool = False
    """It is carried out on the rows that readers see, with all older ones of their keys, and
    commits no record: the condition names columns in which versions of a key differ."""

    @property
    def nothing_to_do(self) -> bool:
        """Return True if there is no record to commit and no part to read."""
        return self.by_winners and self.only_record

    def to_json(self) -> dict[str, Any]:
        """Plain data: totals, a row per group and per partition that loses whole parts."""
        return {
            "mode": self.mode,
            "by_winners": self.by_winners,
            "holds": list(self.holds),
            "where": msgspec.json.decode(self.where),
            "partitions": list(self.partitions),
            **self.as_json(),
        }


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ErasePlan(Selected):
    """The plan of an erase. Holds no key."""

    columns: tuple[str, ...]
    keys: int
    """Distinct keys."""

    def to_json(self) -> dict[str, Any]:
        """Plain data, without the keys, also where a partition has the name of one."""
        figures = self.as_json()
        for listed in (figures["groups"], figures["dropped"]):
            for entry in listed:
                entry["partition"] = shown_partition(entry["partition"], self.columns)
        return {"columns": list(self.columns), "keys": self.keys, **figures}


def comparison(name: str, sql_type: str) -> Callable[[Scalar], Any]:
    """Return by what the values of a key column are compared. Raises UsageError for other types."""
    key = bound_key(sql_type)
    if key is None:
        raise UsageError(
            f"column {name!r} is {sql_type}, whose values cannot be compared",
            next_step="erase by a column of numbers, texts, dates, times or UUIDs",
        )
    return key


@dataclass(frozen=True, slots=True)
class KeyColumn:
    """The distinct values of one key column, in the order in which bounds compare."""

    name: str
    sql_type: str
    ordered: Sequence[Any]
    values: In
    """The condition that the column has one of them."""
    literals: LiteralHashes

    @classmethod
    def of(cls, name: str, sql_type: str, values: Sequence[Scalar]) -> KeyColumn:
        """Make it from canonical values in any order. Raises UsageError for other types."""
        kind = normalise(sql_type)
        key = comparison(name, kind)
        listed = In(name, tuple(values))
        ordered = sorted({key(value) for value in values})
        return cls(name, kind, ordered, listed, LiteralHashes(listed, {name: kind}))

    def misses(self, stats: Stats, hashes: Hashes = ()) -> bool:
        """Return True if a part with these statistics and hashes cannot hold any of the values."""
        if self.literals.exclude(self.values, hashes):
            return True
        bounds = stats.get(self.name)
        if bounds is None:
            return False
        low, high, _ = bounds
        if low is None:
            return True  # nothing but nulls
        key = bound_key(self.sql_type)
        if key is None:
            return False
        try:
            first = bisect_left(self.ordered, key(canonical(self.sql_type, low)))
            if first == len(self.ordered):
                return True
            return high is not None and bool(
                self.ordered[first] > key(canonical(self.sql_type, high))
            )
        except (ValueError, TypeError):
            return False  # bounds of another type, as other writers may leave them


def plan_delete(
    snapshot: Snapshot,
    settings: TableSettings,
    where: Predicate,
    *,
    mode: Mode,
    partitions: Sequence[str] = (),
    excluded: frozenset[str] = frozenset(),
) -> DeletePlan:
    """Decide what a delete reads, rewrites and drops.

    Args:
        snapshot: the state to plan on.
        settings: of the table.
        where: rows to delete.
        mode: lazy touches no part.
        partitions: globs over partition paths; empty for all.
        excluded: parts that must not be read.

    Raises:
        UsageError: a glob matches no partition, or ``bind`` refuses the predicate; a lazy delete
            by columns outside the primary key.
    """
    held = Held.of(snapshot)
    held.refuse_partitions("a delete", partitions)
    asked = bind(where, snapshot.schema)
    tree = held.keeping(asked)
    judge = judge_by(snapshot, tree, snapshot.schema)
    other = settings.outside_key(columns_of(tree))
    if other:
        _refuse_beside_hold(held, settings, asked, other[0])
    if mode == "lazy":
        step = "delete eagerly (mode eager): it looks for the newest row of each key"
        keys.refuse_outside_key(settings, other, "a lazy delete", next_step=step)
    chosen = choose(snapshot.partitions, partitions)
    if mode == "lazy":
        selected = leave_unchanged(snapshot, chosen, judge)
    elif other:
        selected = select_whole(snapshot, chosen, judge)
    else:
        selected = select(snapshot, settings, chosen, judge, excluded)
    return DeletePlan(
        seq=snapshot.seq,
        mode=mode,
        where=to_json(tree),
        partitions=tuple(partitions),
        by_winners=bool(other),
        holds=tuple(hold.name for hold in held.holds),
        groups=selected.groups,
        dropped=selected.dropped,
        left_alone=selected.left_alone,
    )


def _refuse_beside_hold(held: Held, settings: TableSettings, asked: Predicate, column: str) -> None:
    """Raise UsageError if there is a hold: a delete by columns outside the primary key.

    Older versions of a key go with the one that readers see, whatever a hold says of them. A delete
    by the key alone is one, too, if it has to leave out rows that a hold names otherwise.

    Args:
        held: the holds.
        settings: of the table.
        asked: the condition without what the holds keep.
        column: the first one outside the key, of either.
    """
    key, own = ", ".join(settings.primary_key), settings.outside_key(columns_of(asked))
    if own:
        what, instead = f"a delete by {own[0]!r}", f"delete by {key}"
    else:
        what = f"a delete beside a legal hold by {column!r}"
        instead = f"name the rows of the hold by {key}"
    held.refuse_any(f"{what}, which is not of the primary key,", instead=instead)


def judge_by(
    snapshot: Snapshot, tree: Predicate, columns: Mapping[str, str]
) -> Callable[[Marker], Verdict]:
    """Return a function that tells from a part's marker how many of its rows match."""
    pruner = Pruner(tree, columns)

    def judge(marker: Marker) -> Verdict:
        outcomes = pruner.outcomes(snapshot.stats_of(marker), snapshot.hashes_of(marker))
        if not outcomes.true:
            return "none"
        whole = not outcomes.false and not outcomes.unknown
        # Without a row count (other writers give none) the deleted rows could not be counted.
        return "all" if whole and marker.n is not None else "some"

    return judge


def plan_erase(
    snapshot: Snapshot,
    settings: TableSettings,
    columns: Sequence[KeyColumn],
    count: int,
    excluded: frozenset[str] = frozenset(),
) -> ErasePlan:
    """Decide which parts an erase reads.

    Args:
        snapshot: the state to plan on.
        settings: of the table.
        columns: one entry per key column.
        count: distinct keys.
        excluded: parts that could not be read earlier in this run.

    Raises UsageError for columns outside the table's primary key.
    """
    step = "look up the primary keys of the rows and erase by those"
    names = [column.name for column in columns]
    keys.refuse_outside_key(settings, names, "an erase", next_step=step)

    def judge(marker: Marker) -> Verdict:
        stats, hashes = snapshot.stats_of(marker), snapshot.hashes_of(marker)
        return "none" if any(column.misses(stats, hashes) for column in columns) else "some"

    selected = select(snapshot, settings, list(snapshot.partitions), judge, excluded)
    return ErasePlan(
        seq=snapshot.seq,
        columns=tuple(names),
        keys=count,
        groups=selected.groups,
        dropped=selected.dropped,
        left_alone=selected.left_alone,
    )
