"""The timeline of a table: parts and delete records over one column, layer by layer.

A layer is a data sequence: each layer hides what it covers in the lower ones. Pure, and bounded: a
table of a million parts gives no more than ``lanes`` x ``layers`` x ``cells``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from firnline.errors import UsageError
from firnline.log.records import Marker
from firnline.operations.inspect.axis import Axis, extent, reader
from firnline.predicate.tree import parse_json
from firnline.state.snapshot import Snapshot
from firnline.types.schema import normalise
from firnline.types.values import Scalar, canonical

SEEN, PARTLY, HIDDEN = 0, 1, 2
"""Share of a part that records hide in one cell: nothing, some rows, all."""


@dataclass(frozen=True, slots=True)
class Bar:
    """One part."""

    key: str
    first: int
    last: int
    """Cells that it touches, both inclusive."""
    rows: int | None
    bytes: int
    shades: tuple[int, ...]
    """For each of its cells."""
    low: Scalar
    high: Scalar
    """Bounds of the column in it; high is None where nobody knows."""


@dataclass(frozen=True, slots=True)
class Record:
    """One delete record."""

    id: str
    seq: int
    op: str
    """Operation of the transaction that brought it; ``delete`` where it is no longer known."""
    t: int
    where: str
    """The predicate as JSON."""
    first: int
    last: int
    whole: bool
    """True if it hides every row in between; else it hides only some of them."""


@dataclass(frozen=True, slots=True)
class Layer:
    """Parts of a sequence (or of several neighbouring ones), or the records of one."""

    newest: int
    oldest: int
    """Sequences, both inclusive."""
    parts: int = 0
    rows: int = 0
    bytes: int = 0
    lanes: tuple[tuple[Bar, ...], ...] = ()
    """Bars that do not touch each other; empty where there are too many of them."""
    density: tuple[int, ...] = ()
    """Parts that touch each cell, in that case."""
    records: tuple[Record, ...] = ()


@dataclass(frozen=True, slots=True)
class Timeline:
    """The contents of the picture."""

    column: str
    seq: int
    axis: Axis
    layers: tuple[Layer, ...]
    """From the newest, on top, down."""
    visible: tuple[float, ...]
    """Rows in each cell that no record hides as a whole, if rows were even within parts."""
    parts: int
    unknown_parts: int
    """Parts without bounds of the column: they may lie anywhere and are not drawn."""
    unknown_rows: int
    outside: int
    """Parts outside of the requested interval."""

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        axis = self.axis
        return {
            "column": self.column,
            "seq": self.seq,
            "start": axis.text(axis.low),
            "end": axis.text(axis.high),
            "cells": axis.cells,
            "parts": self.parts,
            "unknown_parts": self.unknown_parts,
            "unknown_rows": self.unknown_rows,
            "outside": self.outside,
            "layers": [msgspec.to_builtins(layer) for layer in self.layers],
            "visible": [round(rows, 1) for rows in self.visible],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Limits of the picture."""

    cells: int = 72
    lanes: int = 4
    """Lanes of one layer."""
    layers: int = 16


@dataclass(frozen=True, slots=True)
class _Placed:
    marker: Marker
    first: int
    last: int
    sequence: int


def plan_timeline(
    snapshot: Snapshot,
    column: str,
    bounds: Bounds,
    start: Scalar = None,
    end: Scalar = None,
    ops: Mapping[int, str] | None = None,
) -> Timeline:
    """Lay a table out over a column.

    Args:
        snapshot: the state.
        column: of times, dates or numbers, as the schema spells it.
        bounds: how much may be drawn.
        start: first value to show; None: the smallest of any part.
        end: first value that is not shown; None: behind the largest.
        ops: sequence -> operation, for the records.

    Raises:
        UsageError: the column is none, or no part says where it lies.
    """
    kind = snapshot.schema.get(column)
    if kind is None:
        raise UsageError(
            f"the table has no column {column!r}, but {', '.join(snapshot.schema) or 'none'}",
            next_step="correct the column's name",
        )
    read = reader(column, kind)
    spans, unknown = _spans(snapshot, column, read)
    if not spans:
        raise UsageError(
            f"no part says between which values of {column!r} its rows lie",
            next_step="name a column of partition_by, sort_by, primary_key or ttl with --column",
        )
    tops = [high for _, _, high in spans if high is not None]
    ends = min(low for _, low, _ in spans), max([*tops, *(low for _, low, _ in spans)])
    given = (_given(kind, read, start), _given(kind, read, end))
    axis = Axis.over(column, kind, ends, bounds.cells, given)
    placed = [
        _Placed(m, *cells, snapshot.sequence_of(m))
        for m, low, high in spans
        if (cells := axis.cells_of(low, high)) is not None
    ]
    records = _records(snapshot, axis, read, ops or {})
    drawn = _Drawn(snapshot, axis, bounds, records)
    layers = drawn.layers(placed)
    return Timeline(
        column=column,
        seq=snapshot.seq,
        axis=axis,
        layers=layers,
        visible=tuple(drawn.visible),
        parts=len(placed),
        unknown_parts=len(unknown),
        unknown_rows=sum(m.n or 0 for m in unknown),
        outside=len(spans) - len(placed),
    )


def _spans(
    snapshot: Snapshot, column: str, read: Callable[[Scalar], Any]
) -> tuple[list[tuple[Marker, Any, Any]], list[Marker]]:
    """Return (part, smallest, largest or None) of parts with bounds, and the other parts."""
    spans: list[tuple[Marker, Any, Any]] = []
    unknown: list[Marker] = []
    for marker in snapshot.live.values():
        bounds = snapshot.stats_of(marker).get(column)
        low = None if bounds is None else read(bounds[0])
        if bounds is None or low is None:
            unknown.append(marker)
        else:
            spans.append((marker, low, read(bounds[1])))
    return spans, unknown


def _given(kind: str, read: Callable[[Scalar], Any], value: Scalar) -> Any:  # noqa: ANN401 - a number
    if value is None:
        return None
    try:
        return read(canonical(normalise(kind), value))
    except ValueError as error:
        raise UsageError(
            f"the interval to show is none: {error}", next_step="write values of the column"
        ) from None


def _records(
    snapshot: Snapshot, axis: Axis, read: Callable[[Scalar], Any], ops: Mapping[int, str]
) -> list[Record]:
    records: list[Record] = []
    for delete in snapshot.deletes.values():
        covered = extent(parse_json(delete.where), axis.column, read)
        cells = axis.cells_between(covered)
        if cells is None:
            continue
        whole = covered.whole and delete.partitions is None
        op, where = ops.get(delete.seq, "delete"), bytes(delete.where).decode()
        records.append(
            Record(delete.id, delete.seq, op, delete.t, where, cells[0], cells[1], whole)
        )
    return sorted(records, key=lambda r: (-r.seq, r.first, r.id))


@dataclass(slots=True)
class _Drawn:
    snapshot: Snapshot
    axis: Axis
    bounds: Bounds
    records: Sequence[Record]
    visible: list[float] = field(default_factory=list)

    def layers(self, placed: Sequence[_Placed]) -> tuple[Layer, ...]:
        self.visible = [0.0] * self.axis.cells
        parts: dict[int, list[_Placed]] = defaultdict(list)
        for one in placed:
            parts[one.sequence].append(one)
        records: dict[int, list[Record]] = defaultdict(list)
        for record in self.records:
            records[record.seq].append(record)
        layers: list[Layer] = []
        for group in self._groups(sorted(parts.keys() | records.keys(), reverse=True)):
            inside = [one for seq in group for one in parts.get(seq, ())]
            hatched = [record for seq in group for record in records.get(seq, ())]
            # A replace's own parts lie above its record, which lies above all older parts.
            if inside:
                layers.append(self._of_parts(group, inside))
            if hatched:
                layers.append(Layer(group[0], group[-1], records=tuple(hatched)))
        return tuple(layers)

    def _groups(self, sequences: Sequence[int]) -> Iterable[Sequence[int]]:
        """Return the newest sequences each by itself, the older ones in equal groups."""
        most = self.bounds.layers
        alone = len(sequences) if len(sequences) <= most else most // 2
        yield from ([seq] for seq in sequences[:alone])
        rest = sequences[alone:]
        if rest:
            size = -(-len(rest) // (most - alone))
            yield from (rest[at : at + size] for at in range(0, len(rest), size))

    def _of_parts(self, group: Sequence[int], inside: Sequence[_Placed]) -> Layer:
        ordered = sorted(inside, key=lambda one: (one.first, one.last, one.marker.p))
        lanes = _packed(ordered, self.bounds.lanes)
        density: list[int] = [0] * self.axis.cells if lanes is None else []
        bars: dict[str, Bar] = {}
        for one in ordered:
            shades = self._shades(one)
            self._count(one, shades)
            if lanes is None:
                for cell in range(one.first, one.last + 1):
                    density[cell] += 1
            else:
                bars[one.marker.p] = self._bar(one, shades)
        return Layer(
            group[0],
            group[-1],
            parts=len(inside),
            rows=sum(one.marker.n or 0 for one in inside),
            bytes=sum(one.marker.b for one in inside),
            lanes=tuple(tuple(bars[one.marker.p] for one in lane) for lane in lanes or ()),
            density=tuple(density),
        )

    def _bar(self, one: _Placed, shades: tuple[int, ...]) -> Bar:
        marker = one.marker
        low, high, _ = self.snapshot.stats_of(marker)[self.axis.column]
        return Bar(marker.p, one.first, one.last, marker.n, marker.b, shades, low, high)

    def _shades(self, one: _Placed) -> tuple[int, ...]:
        shades = [SEEN] * (one.last - one.first + 1)
        applied = one.marker.d or ()
        for record in self.records:
            if record.seq <= one.sequence:
                break  # newest first
            if record.id in applied:
                continue
            shade = HIDDEN if record.whole else PARTLY
            for cell in range(max(one.first, record.first), min(one.last, record.last) + 1):
                shades[cell - one.first] = max(shade, shades[cell - one.first])
        return tuple(shades)

    def _count(self, one: _Placed, shades: tuple[int, ...]) -> None:
        share = (one.marker.n or 0) / len(shades)
        for place, shade in enumerate(shades):
            if shade != HIDDEN:
                self.visible[one.first + place] += share


def _packed(ordered: Sequence[_Placed], most: int) -> list[list[_Placed]] | None:
    """Place parts in lanes without overlap; None where that takes more than ``most`` lanes."""
    lanes: list[list[_Placed]] = []
    for one in ordered:
        lane = next((lane for lane in lanes if lane[-1].last < one.first), None)
        if lane is None:
            if len(lanes) == most:
                return None
            lanes.append([one])
        else:
            lane.append(one)
    return lanes
