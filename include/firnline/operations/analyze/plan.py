"""Plan an analyze: the live parts that lack what the table keeps of them.

That is bounds, hash ranges, and what their rows are sorted by.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from firnline.log.records import Marker
from firnline.operations.kernel_tasks import buckets
from firnline.parquet.footers import FooterFacts
from firnline.settings.load import TableSettings
from firnline.state.partitions import choose
from firnline.state.snapshot import Snapshot
from firnline.types.schema import normalise
from firnline.types.sql import fold_name
from firnline.types.values import WITHOUT_BOUNDS, Stats, bound_key

_NO_FOOTER = WITHOUT_BOUNDS | {"UUID"}
"""Types without bounds in a footer: it does not state whether a float column holds NaN."""


@dataclass(frozen=True, slots=True)
class Hashed:
    """Columns that a table keeps a hash range of: those of a bucket, or of a hash cluster."""

    columns: tuple[str, ...]
    forms: tuple[str, ...]
    """The bytes that are hashed, by the types of the table; see ``types.murmur3.form_of``."""
    buckets: int
    """Number of buckets; 0: the hash itself."""

    def __str__(self) -> str:
        number = f"{self.buckets}, " if self.buckets else ""
        return f"{'bucket' if self.buckets else 'hash'}({number}{', '.join(self.columns)})"


@dataclass(frozen=True, slots=True)
class Lacking:
    """A part that lacks bounds, hash ranges or its order."""

    partition: str
    marker: Marker
    columns: Mapping[str, str]
    """Name in the part, by column of the table without bounds."""
    hashed: Mapping[Hashed, Hashed] = field(default_factory=dict)
    """With the names in the part, by what the part states no range of."""
    order: bool = False
    """True if it does not state what its rows are sorted by."""

    @property
    def of_footer(self) -> bool:
        """Return True if its footer may state what it lacks."""
        return bool(self.columns) or self.order

    @property
    def steps(self) -> int:
        """Return how often it is opened: for its footer, and for columns to hash."""
        return self.of_footer + bool(self.hashed)

    def stats_from(self, facts: FooterFacts) -> Stats:
        """Return the bounds that a footer states, by their names in the part.

        A column that the part does not hold is null in all of its rows.
        """
        held = {fold_name(name) for name in facts.columns}
        stats: Stats = {}
        for name in self.columns.values():
            if name in facts.stats:
                stats[name] = facts.stats[name]
            elif fold_name(name) not in held:
                stats[name] = (None, None, facts.rows)
        return stats


@dataclass(frozen=True, slots=True, kw_only=True)
class AnalyzePlan:
    """Footers and columns to read."""

    seq: int
    columns: tuple[str, ...]
    """Columns of the table whose bounds markers are to state, as far as a footer has them."""
    without: tuple[str, ...]
    """Such columns of types that have no bounds in a footer: only appends and merges state them."""
    not_kept: tuple[str, ...]
    """Columns that only the settings name, and the table's own properties do not yet."""
    unknown: tuple[str, ...]
    """Columns that the setting ``statistics`` names, and the table does not have."""
    lacking: tuple[Lacking, ...]
    """In the order of partitions and names."""
    complete: int
    """Number of the other parts of these partitions."""
    hashed: tuple[Hashed, ...] = ()
    """All of which the table keeps hash ranges."""
    not_hashed: int = 0
    """Parts that state no such range, where columns are not to be read."""

    @property
    def nothing_to_do(self) -> bool:
        """Return True if no part that would be read can say more than the log."""
        return not self.lacking

    @property
    def without_order(self) -> int:
        """Return the number of parts that do not state what they are sorted by."""
        return sum(part.order for part in self.lacking)

    @property
    def steps(self) -> int:
        """Return the number of footers to read, and of parts with columns to hash."""
        return sum(part.steps for part in self.lacking)

    @property
    def named(self) -> str:
        """Return what is to be stated, in words."""
        hashed = dict.fromkeys(str(each) for part in self.lacking for each in part.hashed)
        words = [f"statistics of {', '.join(self.columns)}"] if self.columns else []
        words += ["sort orders"] if self.without_order else []
        words += [f"hash ranges of {', '.join(hashed)}"] if hashed else []
        return " and ".join(words)

    def to_json(self) -> dict[str, Any]:
        """Return totals, also by partition and by column."""
        by_column = Counter(column for part in self.lacking for column in part.columns)
        by_hash = Counter(str(each) for part in self.lacking for each in part.hashed)
        return {
            "seq": self.seq,
            "columns": list(self.columns),
            "columns_without_bounds": list(self.without),
            "columns_not_kept": list(self.not_kept),
            "columns_unknown": list(self.unknown),
            "parts": len(self.lacking),
            "parts_complete": self.complete,
            "parts_without_order": self.without_order,
            "parts_to_hash": sum(bool(part.hashed) for part in self.lacking),
            "requests": self.steps,
            "lacking": {column: by_column[column] for column in self.columns},
            "lacking_hashes": {str(each): by_hash[str(each)] for each in self.hashed},
            "parts_not_hashed": self.not_hashed,
            "partitions": dict(Counter(part.partition for part in self.lacking)),
        }


def plan_analyze(
    snapshot: Snapshot,
    settings: TableSettings,
    *,
    stated: TableSettings | None = None,
    partitions: Sequence[str] = (),
    hashes: bool = False,
) -> AnalyzePlan:
    """Find the parts whose markers lack bounds that their footers may have, or hash ranges.

    Of a table with ``sort_by`` also those that do not state what their rows are sorted by.

    Args:
        snapshot: the state to plan on.
        settings: in force; ``statistics_columns`` are the columns.
        stated: as the caller has them; None if they are the same.
        partitions: globs over partition paths; empty for all.
        hashes: also read columns for hash ranges.

    Raises UsageError: a glob matches no partition.
    """
    statistics = [name for name in settings.statistics_columns if name in snapshot.schema]
    named = (stated or settings).statistics
    columns = tuple(name for name in statistics if _in_footers(snapshot.schema[name]))
    kept = hashed_of(settings, snapshot.schema)
    lacking: list[Lacking] = []
    complete = not_hashed = 0
    for partition in choose(snapshot.partitions, partitions):
        for marker in sorted(snapshot.partitions[partition], key=lambda m: m.p):
            missing = _missing(snapshot, marker, columns)
            ranges = _not_hashed(snapshot, marker, kept)
            not_hashed += bool(ranges) and not hashes
            part = Lacking(
                partition,
                marker,
                missing,
                ranges if hashes else {},
                order=bool(settings.sort_by) and not marker.sorted_by(),
            )
            if part.steps:
                lacking.append(part)
            else:
                complete += 1
    return AnalyzePlan(
        seq=snapshot.seq,
        columns=columns,
        without=tuple(name for name in statistics if name not in columns),
        not_kept=tuple(
            name
            for name in named
            if name in snapshot.schema and name not in settings.statistics_columns
        ),
        unknown=tuple(name for name in named if name not in snapshot.schema),
        lacking=tuple(lacking),
        complete=complete,
        hashed=kept,
        not_hashed=not_hashed,
    )


def hashed_of(settings: TableSettings, schema: Mapping[str, str]) -> tuple[Hashed, ...]:
    """Return what a table keeps hash ranges of, as far as its columns have hashes."""
    from firnline.kernel.hashes import forms_of
    from firnline.types.murmur3 import form_of_sql

    kept: list[Hashed] = []
    for each in buckets(settings, schema):
        form = form_of_sql(normalise(schema[each.column]))
        if form is not None:
            kept.append(Hashed((each.column,), (form,), each.count))
    cluster = settings.cluster_by
    if cluster is not None and cluster.method == "hash" and schema.keys() >= {*cluster.columns}:
        forms = forms_of([normalise(schema[name]) for name in cluster.columns])
        if forms is not None:
            kept.append(Hashed(tuple(cluster.columns), forms, 0))
    return tuple(kept)


def _not_hashed(
    snapshot: Snapshot, marker: Marker, kept: Sequence[Hashed]
) -> Mapping[Hashed, Hashed]:
    held = snapshot.columns_of(marker)
    # A range of hashes of other bytes is not counted again: the part would give the same.
    stated = {(each.columns, each.buckets) for each in snapshot.hashes_of(marker)}
    spelled: dict[Hashed, Hashed] = {}
    for each in kept:
        names = [held.names(column) for column in each.columns]
        if (each.columns, each.buckets) not in stated and all(len(n) == 1 for n in names):
            spelled[each] = replace(each, columns=tuple(name for (name,) in names))
    return spelled


def _in_footers(kind: str) -> bool:
    kind = normalise(kind)
    return bound_key(kind) is not None and kind not in _NO_FOOTER


def _missing(snapshot: Snapshot, marker: Marker, columns: Sequence[str]) -> Mapping[str, str]:
    stated, held = snapshot.stats_of(marker), snapshot.columns_of(marker)
    missing: dict[str, str] = {}
    for column in columns:
        names = held.names(column)
        if column not in stated and len(names) == 1:  # of two names neither has bounds for both
            missing[column] = names[0]
    return missing
