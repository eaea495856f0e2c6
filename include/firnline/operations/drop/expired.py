"""Selects the data that a TTL removes, and why the rest stays: pure, printable.

A partition goes only when its whole span is past. The span comes from the transforms of
``partition_by``, from a regular expression over a free layout (``ttl.partition``), or, part by
part, from a column's statistics (``ttl.column``). Partitions of a former ``partition_by`` have
other names: their parts are dated by the statistics of its time columns. Partitions and parts
without a date are reported and stay.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from firnline.commit.keys import may_go
from firnline.errors import CHOICES, UsageError, some
from firnline.log.parts_view import totals
from firnline.log.records import Delete, Marker
from firnline.operations.drop.dates import (
    end_by_regex,
    end_of_day,
    latest_instant,
    latest_of,
    without,
)
from firnline.operations.drop.past_rows import PastRows, find_past_rows
from firnline.operations.drop.plan import Removal, Removals, Undecided
from firnline.paths import NULL_VALUE
from firnline.settings.fields import TIME_TRANSFORMS
from firnline.settings.load import TableSettings, TtlSettings
from firnline.state.holds import Held
from firnline.state.partitions import choose
from firnline.state.snapshot import Snapshot
from firnline.types.schema import normalise
from firnline.types.values import ZONED
from firnline.units import DAY_MS

YOUNG = "is not wholly past"
FORMER = "its name is not of the layout that partition_by says"
OLDER = "is past, but an older row of its primary keys may be in a part that is not"
_TIMES = (*ZONED, "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP", "TIMESTAMP_NS", "DATE")
_LISTED = 1_000
_SINCE_AGREED = 0.05
"""Fraction of the table that may have become past since somebody agreed."""


@dataclass(frozen=True, slots=True, repr=False)
class TtlPlan(Removals):
    """The plan of a TTL: what is dropped, what stays, and what has no date."""

    by: str
    """transform, regex or column."""
    keep_ms: int
    cutoff_ms: int
    """Unix ms; what ended at or before it goes."""
    kept: dict[str, int] = field(default_factory=dict)
    """Reason -> number of partitions (by a column: parts) that stay."""
    undecided: tuple[Undecided, ...] = ()
    former: frozenset[str] = frozenset()
    """Partitions of a former layout, which lose parts by their statistics."""
    fraction: float = 0.0
    """Of the table's rows that goes; of its bytes, if some part does not state its rows."""
    most: float = 1.0
    """Fraction that may go without a question (``ttl.max_removed_fraction``)."""
    allowed: float = 1.0
    """Fraction that may go: more than that if somebody has agreed to it, or with force."""
    hides: PastRows | None = None
    """Past rows of parts that stay, with ``ttl.rows``."""

    @property
    def nothing_to_do(self) -> bool:
        """Return True if no part is to be dropped, and no row to be hidden."""
        return not self.removals and self.hides is None

    @property
    def records(self) -> tuple[Delete, ...]:
        """The delete record of ``hides``."""
        return () if self.hides is None else (self.hides.record,)

    @property
    def is_too_much(self) -> bool:
        """Return True if somebody has to agree to so much."""
        return self.fraction > self.allowed

    @property
    def single_parts(self) -> list[str]:
        """Keys of the parts that go by their own statistics, not with their partition."""
        by_part = (r for r in self.removals if self.by == "column" or r.partition in self.former)
        return [m.p for removal in by_part for m in removal.parts]

    def to_json(self) -> dict[str, Any]:
        """Plain data: totals, a row for each partition that loses parts, the rest by reason."""
        rows = [
            {
                "partition": r.partition,
                "parts": len(r.parts),
                "rows": r.rows,
                "bytes": r.bytes,
                "end_ms": r.end_ms,
            }
            for r in self.removals
        ]
        return {
            **self.totals(),
            "by": self.by,
            "keep_ms": self.keep_ms,
            "cutoff_ms": self.cutoff_ms,
            "fraction": self.fraction,
            "max_removed_fraction": self.most,
            "too_much": self.is_too_much,
            "partitions": rows,
            "hides": msgspec.to_builtins(self.hides),
            "kept": self.kept,
            "undecided": msgspec.to_builtins(self.undecided[:_LISTED]),
            "undecided_count": len(self.undecided),
        }


def plan_ttl(
    snapshot: Snapshot,
    settings: TableSettings,
    now_ms: int,
    *,
    partitions: Sequence[str] = (),
    force: bool = False,
    agreed: float = 0.0,
) -> TtlPlan:
    """Select the partitions or parts that are past their time to live.

    Args:
        snapshot: the state to plan on.
        settings: of the table.
        now_ms: wall clock, unix ms.
        partitions: globs over partition paths; empty for all.
        force: any fraction of the table may go.
        agreed: fraction that somebody has agreed to; 0: nobody was asked.

    Raises:
        UsageError: the table has no ``ttl``, its column is not there or holds no times, or a glob
            matches no partition.
    """
    ttl = settings.ttl
    if ttl is None:
        raise UsageError(
            f"table {settings.name} has no ttl: its rows are kept for ever",
            next_step="set ttl.keep for the table in the settings file",
        )
    state = _State(snapshot, settings, ttl, now_ms - ttl.keep)
    decide = state.by_name
    if ttl.column is not None:
        _check_column(snapshot, settings, ttl.column)
        decide = state.by_column
    chosen = choose(snapshot.partitions, partitions, of=settings.name)
    found = [r for partition in chosen if (r := decide(partition)) is not None]
    removals = [r for one in found if (r := state.without_held(one)) is not None]
    hides = None
    if ttl.rows:
        gone = {m.p for removal in removals for m in removal.parts}
        stays = ((p, m) for p in chosen for m in snapshot.partitions[p] if m.p not in gone)
        hides = find_past_rows(snapshot, settings, now_ms, stays, partitions)
    return TtlPlan(
        seq=snapshot.seq,
        removals=tuple(removals),
        by="column" if ttl.column else "regex" if ttl.partition else "transform",
        keep_ms=ttl.keep,
        cutoff_ms=state.cutoff,
        kept=dict(state.kept.most_common()),
        undecided=tuple(state.undecided),
        former=frozenset(state.former),
        fraction=_fraction(snapshot, removals, hides),
        most=ttl.max_removed_fraction,
        allowed=1.0
        if force
        else max(ttl.max_removed_fraction, agreed + _SINCE_AGREED if agreed else 0),
        hides=hides,
    )


def _fraction(snapshot: Snapshot, removals: Sequence[Removal], hides: PastRows | None) -> float:
    whole = totals(snapshot.live)
    if whole.rows is not None:
        hidden = 0 if hides is None else hides.rows or 0
        return (sum(r.rows for r in removals) + hidden) / max(whole.rows, 1)
    size = 0.0 if hides is None else hides.bytes * hides.share
    return (sum(r.bytes for r in removals) + size) / max(whole.bytes, 1)


def _check_column(snapshot: Snapshot, settings: TableSettings, column: str) -> None:
    if not snapshot.schema:
        return
    kind = snapshot.schema.get(column)
    if kind is None:
        raise UsageError(
            f"table {settings.name} has no column {column!r} (setting ttl.column)",
            next_step=f"correct it; the columns are {some(snapshot.schema, CHOICES)}",
        )
    if normalise(kind) not in _TIMES:
        raise UsageError(
            f"column {column!r} of table {settings.name} (setting ttl.column) is {kind}, no time",
            next_step="name a DATE or TIMESTAMP column, or read the time from the partition",
        )


class _FormerLayoutError(ValueError):
    """A partition whose name has another form than ``partition_by`` gives."""


@dataclass
class _Dated:
    """The parts of a partition, by what their statistics say."""

    gone: dict[str, tuple[Marker, int]] = field(default_factory=dict)
    """Key -> part whose rows are all past, and its end, unix ms."""
    unknown: dict[str, list[Marker]] = field(default_factory=dict)
    """Reason -> parts that cannot be dated."""
    young: int = 0


@dataclass
class _State:
    snapshot: Snapshot
    settings: TableSettings
    ttl: TtlSettings
    cutoff: int
    kept: Counter[str] = field(default_factory=Counter)
    undecided: list[Undecided] = field(default_factory=list)
    former: set[str] = field(default_factory=set)
    held: Held = field(init=False)

    def __post_init__(self) -> None:
        self.held = Held.of(self.snapshot)

    def by_name(self, partition: str) -> Removal | None:
        """Return the whole partition or nothing of it, by its name.

        Of a partition of a former layout, the parts whose statistics prove that every row is past.
        """
        markers = self.snapshot.partitions[partition]
        try:
            end = end_by_regex(partition, self.ttl) if self.ttl.partition else self._end(partition)
        except _FormerLayoutError:
            return self._former(partition)
        except ValueError as error:
            self._leave(partition, markers, str(error))
            return None
        if end > self.cutoff:
            self.kept[YOUNG] += 1
            return None
        return Removal(partition, tuple(markers), end)

    def without_held(self, removal: Removal) -> Removal | None:
        """Return what goes without the parts that may have rows of a legal hold."""
        holds = {m.p: self.held.covering(m, removal.partition) for m in removal.parts}
        rest = [m for m in removal.parts if holds[m.p] is None]
        if len(rest) == len(removal.parts):
            return removal
        for hold in dict.fromkeys(h for h in holds.values() if h is not None):
            parts = [m for m in removal.parts if holds[m.p] == hold]
            self._leave(removal.partition, parts, f"is past, but under the legal hold {hold.name}")
        alone = may_go(self.snapshot, self.settings, removal.partition, rest)
        return replace(removal, parts=tuple(alone)) if alone else None

    def _end(self, partition: str) -> int:
        """Return the latest time of a row, by the transforms; of several time columns the later."""
        from firnline.parquet.partition import span_of

        spans = span_of(partition, self.settings.partition_by)
        if spans is None:
            raise _FormerLayoutError
        times = self._times
        levels = zip(self.settings.partition_by, partition.split("/"), strict=True)
        nulls = [
            level.column
            for level, segment in levels
            if level.column in times and segment.partition("=")[2] == NULL_VALUE
        ]
        if nulls or times != spans.keys():
            raise ValueError(f"its rows have no {nulls[0] if nulls else sorted(times)[0]} (null)")
        for column, (start, end) in spans.items():
            if start >= end:
                raise ValueError(f"the levels of its name contradict each other on {column}")
        return max(self._instant(column, end) for column, (_, end) in spans.items())

    def _instant(self, column: str, wall_ms: int) -> int:
        kind = self.snapshot.schema.get(column)
        zone = self.ttl.time_zone
        if kind is None:  # nobody says whether it has a zone, or is a date
            wall_ms = end_of_day(wall_ms)
            return max(wall_ms, latest_instant(wall_ms, zone))
        kind = normalise(kind)
        if kind in ZONED:
            return wall_ms
        return latest_instant(end_of_day(wall_ms) if kind == "DATE" else wall_ms, zone)

    @property
    def _times(self) -> set[str]:
        """The columns of the time transforms."""
        return {f.column for f in self.settings.partition_by if f.transform in TIME_TRANSFORMS}

    def _former(self, partition: str) -> Removal | None:
        self.former.add(partition)
        dated = self._dated(partition, sorted(self._times))
        if dated.young:
            self.kept[YOUNG] += 1
        for reason, markers in dated.unknown.items():
            self._leave(partition, markers, f"{FORMER}, and a part of it {reason}")
        return self._removal(partition, dated, by_part=False)

    def by_column(self, partition: str) -> Removal | None:
        """Return the parts whose statistics prove that every row is past."""
        assert self.ttl.column is not None
        dated = self._dated(partition, [self.ttl.column])
        if dated.young:
            self.kept[YOUNG] += dated.young
        for reason, markers in dated.unknown.items():
            if not self.ttl.rows or reason == without(self.ttl.column):
                # Otherwise their past rows are hidden, and the rest is young.
                self._leave(partition, markers, reason, count=len(markers))
        return self._removal(partition, dated, by_part=True)

    def _dated(self, partition: str, columns: Sequence[str]) -> _Dated:
        """Date the parts of a partition by statistics; of several columns the latest time counts.

        A column that is missing, or holds no times, says nothing of the time of a row.
        """
        dated = _Dated()
        schema = self.snapshot.schema
        kinds = {column: normalise(schema.get(column, "DATE")) for column in columns}
        readers = [(column, latest_of(kind)) for column, kind in kinds.items()]
        wrong = [c for c in columns if c in schema and kinds[c] not in _TIMES]
        for marker in self.snapshot.partitions[partition]:
            try:
                if wrong:
                    raise ValueError(f"has no times in {wrong[0]}, which is {schema[wrong[0]]}")
                stats = self.snapshot.stats_of(marker)
                walls = [(column, latest(stats, column)) for column, latest in readers]
            except ValueError as error:
                dated.unknown.setdefault(str(error), []).append(marker)
                continue
            end = self._past(walls)
            if end is None:
                dated.young += 1
            else:
                dated.gone[marker.p] = (marker, end)
        return dated

    def _past(self, walls: Sequence[tuple[str, int]]) -> int | None:
        """Return the end of a part that is past; None if a time of it may not be."""
        # The zone is only asked where it decides: there may be a million parts.
        if any(wall - DAY_MS > self.cutoff for _, wall in walls):
            return None
        end = max(self._instant(column, wall) for column, wall in walls)
        return end if end <= self.cutoff else None

    def _removal(self, partition: str, dated: _Dated, *, by_part: bool) -> Removal | None:
        gone = [marker for marker, _ in dated.gone.values()]
        alone = may_go(self.snapshot, self.settings, partition, gone)
        if len(alone) < len(gone):
            going = {m.p for m in alone}
            stay = [m for m in gone if m.p not in going]
            self._leave(partition, stay, OLDER, count=len(stay) if by_part else 1)
        if not alone:
            return None
        return Removal(partition, tuple(alone), max(dated.gone[m.p][1] for m in alone))

    def _leave(
        self, partition: str, markers: Sequence[Marker], reason: str, *, count: int = 1
    ) -> None:
        self.kept[reason] += count
        size = sum(m.b for m in markers)
        self.undecided.append(
            Undecided(partition=partition, parts=len(markers), bytes=size, reason=reason)
        )
