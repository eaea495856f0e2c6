"""Plan an analyze: the live parts that lack bounds of a column which the table keeps bounds of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from firnline.log.records import Marker
from firnline.parquet.footers import FooterFacts
from firnline.settings.load import TableSettings
from firnline.state.partitions import choose
from firnline.state.snapshot import Snapshot
from firnline.types.schema import normalise
from firnline.types.sql import fold_name
from firnline.types.values import WITHOUT_BOUNDS, Stats, bound_key

HAS_ALL = "states the bounds of all of these columns"
_NO_FOOTER = WITHOUT_BOUNDS | {"UUID"}
"""Types without bounds in a footer: it does not state whether a float column holds NaN."""


@dataclass(frozen=True, slots=True)
class Lacking:
    """A part that lacks bounds."""

    partition: str
    marker: Marker
    columns: Mapping[str, str]
    """Name in the part, by column of the table."""

    def stats_from(self, facts: FooterFacts) -> Stats:
        """Return the bounds that a footer states, by their names in the part.

        A column that the part does not hold is null in all of its rows.
        """
        held = {fold_name(name) for name in facts.columns}
        found: Stats = {}
        for name in self.columns.values():
            if name in facts.stats:
                found[name] = facts.stats[name]
            elif fold_name(name) not in held:
                found[name] = (None, None, facts.rows)
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class AnalyzePlan:
    """Footers to read."""

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

    @property
    def nothing_to_do(self) -> bool:
        """Return True if no footer can say more than the log."""
        return not self.lacking

    def to_json(self) -> dict[str, Any]:
        """Return totals, also by partition and by column."""
        by_column = Counter(column for part in self.lacking for column in part.columns)
        return {
            "seq": self.seq,
            "columns": list(self.columns),
            "columns_without_bounds": list(self.without),
            "columns_not_kept": list(self.not_kept),
            "columns_unknown": list(self.unknown),
            "parts": len(self.lacking),
            "parts_complete": self.complete,
            "requests": len(self.lacking),
            "lacking": {column: by_column[column] for column in self.columns},
            "partitions": dict(Counter(part.partition for part in self.lacking)),
        }


def plan_analyze(
    snapshot: Snapshot,
    settings: TableSettings,
    *,
    stated: TableSettings | None = None,
    partitions: Sequence[str] = (),
) -> AnalyzePlan:
    """Find the parts whose markers lack bounds that their footers may have.

    Args:
        snapshot: the state to plan on.
        settings: in force; ``statistics_columns`` are the columns.
        stated: as the caller has them; None if they are the same.
        partitions: globs over partition paths; empty for all.

    Raises UsageError: a glob matches no partition.
    """
    wanted = [name for name in settings.statistics_columns if name in snapshot.schema]
    named = (stated or settings).statistics
    columns = tuple(name for name in wanted if _in_footers(snapshot.schema[name]))
    lacking: list[Lacking] = []
    complete = 0
    for partition in choose(snapshot.partitions, partitions):
        for marker in sorted(snapshot.partitions[partition], key=lambda m: m.p):
            missing = _missing(snapshot, marker, columns)
            if missing:
                lacking.append(Lacking(partition, marker, missing))
            else:
                complete += 1
    return AnalyzePlan(
        seq=snapshot.seq,
        columns=columns,
        without=tuple(name for name in wanted if name not in columns),
        not_kept=tuple(
            name
            for name in named
            if name in snapshot.schema and name not in settings.statistics_columns
        ),
        unknown=tuple(name for name in named if name not in snapshot.schema),
        lacking=tuple(lacking),
        complete=complete,
    )


def _in_footers(kind: str) -> bool:
    kind = normalise(kind)
    return bound_key(kind) is not None and kind not in _NO_FOOTER


def _missing(snapshot: Snapshot, marker: Marker, columns: Sequence[str]) -> Mapping[str, str]:
    known, held = snapshot.stats_of(marker), snapshot.columns_of(marker)
    found: dict[str, str] = {}
    for column in columns:
        names = held.names(column)
        if column not in known and len(names) == 1:  # of two names neither has bounds for both
            found[column] = names[0]
    return found
