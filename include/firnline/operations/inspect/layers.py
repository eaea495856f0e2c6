"""A table laid out over a column, before it is drawn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from firnline.operations.inspect.axis import Axis
from firnline.types.values import Scalar

SEEN, PARTLY, HIDDEN = 0, 1, 2
"""How much of a part records hide in one cell: nothing, some rows, all."""


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
    """Of the transaction that brought it; ``delete`` where nobody knows any more."""
    t: int
    where: str
    """The predicate as JSON."""
    first: int
    last: int
    whole: bool
    """Whether it hides every row between; else only some of them."""


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
    """Then: how many parts touch each cell."""
    records: tuple[Record, ...] = ()


@dataclass(frozen=True, slots=True)
class Timeline:
    """The picture, before it is drawn."""

    column: str
    seq: int
    axis: Axis
    layers: tuple[Layer, ...]
    """From the newest, on top, down."""
    visible: tuple[float, ...]
    """Rows in each cell that no record hides as a whole, if rows were even within parts."""
    parts: int
    unknown_parts: int
    """Without bounds of the column: they may lie anywhere and are not drawn."""
    unknown_rows: int
    outside: int
    """Parts that lie outside of the interval that was asked for."""

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
    """How much may be drawn."""

    cells: int = 72
    lanes: int = 4
    """Of one layer."""
    layers: int = 16
