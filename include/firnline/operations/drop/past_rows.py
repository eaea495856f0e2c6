"""Selects the rows that are past their time to live in parts that hold younger ones.

A part is dropped only when all of its rows are past. With ``ttl.rows`` a run hides the past rows of
the others by a delete record, ``column < time``, and merges remove them. The record says until when
a merge may leave a part as it is (``due``): without it each run would have the next merge rewrite
every part with a row that became past since the run before. Pure functions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import msgspec

from firnline.commit import keys
from firnline.log.records import Delete, Marker
from firnline.operations.drop.dates import past_before
from firnline.predicate.pruning import Pruner
from firnline.predicate.tree import And, Less, Predicate, parse_json, to_json
from firnline.settings.load import TableSettings
from firnline.state.holds import Held
from firnline.state.snapshot import Snapshot
from firnline.types.schema import normalise
from firnline.types.values import Stats, bound_key, canonical

_GRANULE = 3_600_000
"""Rows are hidden to the hour: a run that follows soon finds its condition in force already."""


class PastRows(msgspec.Struct, frozen=True, kw_only=True):
    """Rows that a run hides, in parts that stay."""

    column: str
    before: str
    """Rows with an earlier time are hidden; in the form of ``firnline.types.values``."""
    parts: int
    """Parts that may hold such rows."""
    bytes: int
    """Their size."""
    rows: int | None
    """Estimate of the rows that readers see until then, as if times were spread evenly between the
    smallest and the largest of a part; None: some part does not state its rows."""
    share: float
    """Of the bytes of these parts, estimated in the same way."""
    due_ms: int
    """Unix ms from which a merge rewrites a part for them alone."""
    where: str
    """The whole condition as JSON: without rows of legal holds."""
    partitions: tuple[str, ...] = ()
    """Globs over the partitions that it is for; empty for all."""
    holds: tuple[str, ...] = ()
    """Legal holds whose rows stay, with those of which a null leaves open whether one covers
    them."""

    @property
    def record(self) -> Delete:
        """The delete record; its id, sequence and time are set when it is committed."""
        where = msgspec.Raw(self.where.encode())
        return Delete("", 0, 0, where, self.partitions or None, self.due_ms)


def find_past_rows(
    snapshot: Snapshot,
    settings: TableSettings,
    now_ms: int,
    stays: Iterable[tuple[str, Marker]],
    partitions: Sequence[str] = (),
) -> PastRows | None:
    """Return the rows to hide; None: no part that stays can hold one that is not hidden yet.

    Args:
        snapshot: the state to plan on; it has ``ttl.column``, which holds times.
        settings: of the table; ``ttl.rows`` is set.
        now_ms: wall clock, unix ms.
        stays: partition and marker of the live parts that are not dropped.
        partitions: globs over partition paths; empty for all.

    Raises UsageError: rows of one primary key may differ in the column.
    """
    ttl = settings.ttl
    assert ttl is not None
    assert ttl.column is not None
    keys.refuse_outside_key(
        settings,
        [ttl.column],
        "a TTL of rows",
        next_step="set ttl.rows to false: parts go when all of their rows are past",
    )
    if ttl.column not in snapshot.schema:
        return None  # a table without a part
    kind = normalise(snapshot.schema[ttl.column])
    cutoff = (now_ms - ttl.keep) // _GRANULE * _GRANULE
    held = Held.of(snapshot)
    held.refuse_partitions("a TTL of rows", partitions)
    before = past_before(cutoff, kind, ttl.time_zone)
    search = _Search(snapshot, ttl.column, kind, before, held.keeping(Less(ttl.column, before)))
    found = [(m, share) for name, m in stays if (share := search.share(m, name)) is not None]
    if not found:
        return None
    size = sum(m.b for m, _ in found)
    rows = [None if m.n is None else m.n * share for m, share in found]
    stated = [n for n in rows if n is not None]
    return PastRows(
        column=ttl.column,
        before=search.before,
        parts=len(found),
        bytes=size,
        rows=round(sum(stated)) if len(stated) == len(rows) else None,
        share=sum(m.b * share for m, share in found) / max(size, 1),
        due_ms=now_ms + ttl.merged_within,
        where=to_json(search.condition).decode(),
        partitions=tuple(partitions),
        holds=tuple(hold.name for hold in held.holds),
    )


@dataclass(frozen=True, slots=True)
class _Hidden:
    """The rows that a record of an earlier run hides."""

    before: int
    """Those with an earlier time."""
    all_but: Pruner | None
    """Only those that match it: legal holds that have ended kept the others; None: all."""


@dataclass
class _Search:
    snapshot: Snapshot
    column: str
    kind: str
    before: str
    condition: Predicate
    _known: dict[str, _Hidden | None] = field(default_factory=dict)
    """Id of a delete -> ``_hidden``: each is pending for many parts."""

    @cached_property
    def _kept(self) -> tuple[Predicate, ...]:
        """Return the conditions of the legal holds in force, as a record states them."""
        return _limits(parse_json(to_json(self.condition)))[1]

    @cached_property
    def _pruner(self) -> Pruner:
        return Pruner(self.condition, self.snapshot.schema)

    @cached_property
    def _key(self) -> Callable[[Any], Any]:
        key = bound_key(self.kind)
        assert key is not None  # of times there is one
        return key

    def share(self, marker: Marker, partition: str) -> float | None:
        """Return the fraction of a part's rows that would be hidden anew; None: none of them."""
        stats = self.snapshot.stats_of(marker)
        if self._pruner.matches_nothing(stats, self.snapshot.hashes_of(marker)):
            return None
        end = self._key(self.before)
        pending = self.snapshot.pending_deletes(marker, partition)
        for delete in pending:
            if delete.id not in self._known:
                self._known[delete.id] = self._hidden(delete)
        of_ttl = [one for delete in pending if (one := self._known[delete.id]) is not None]
        times = [
            one.before
            for one in of_ttl
            if one.all_but is None
            or one.all_but.matches_all(stats, self.snapshot.hashes_of(marker))
        ]
        hidden = max(times, default=None)
        if hidden is not None and hidden >= end:
            return None
        spread = _spread(stats, self.column, self.kind, self._key)
        if spread is None:
            return 1.0
        return _fraction(spread, end) - (0.0 if hidden is None else _fraction(spread, hidden))

    def _hidden(self, delete: Delete) -> _Hidden | None:
        """Return what an earlier run has hidden; None: the record is of another form."""
        tree, kept = _limits(parse_json(delete.where))
        if not isinstance(tree, Less) or tree.column != self.column:
            return None
        ended = tuple(limit for limit in kept if limit not in self._kept)
        return _Hidden(
            before=self._key(canonical(self.kind, tree.value)),
            all_but=Pruner(And(ended), self.snapshot.schema) if ended else None,
        )


def _limits(tree: Predicate) -> tuple[Predicate, tuple[Predicate, ...]]:
    """Return the condition of a TTL, and those under which legal holds let rows go."""
    return (tree.args[0], tree.args[1:]) if isinstance(tree, And) else (tree, ())


def _spread(
    stats: Stats, column: str, kind: str, key: Callable[[Any], Any]
) -> tuple[int, int] | None:
    low, high, _ = stats.get(column, (None, None, 0))
    try:
        return (key(canonical(kind, low)), key(canonical(kind, high)))
    except (ValueError, TypeError):
        return None  # no bounds, or of another type, as other writers may leave them


def _fraction(spread: tuple[int, int], before: int) -> float:
    low, high = spread
    if low == high:
        return float(low < before)
    return min(1.0, max(0.0, (before - low) / (high - low)))
