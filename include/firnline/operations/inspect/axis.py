"""A column as an axis: maps values to cells, and predicates to intervals of values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from firnline.errors import UsageError
from firnline.predicate.tree import (
    And,
    Equal,
    Greater,
    GreaterEqual,
    In,
    Less,
    LessEqual,
    Or,
    Predicate,
)
from firnline.types.calendar import date_text, timestamp_text
from firnline.types.schema import normalise
from firnline.types.values import Scalar, bound_key

DAY_NS = 86_400_000_000_000
Number = int | float | Decimal


@dataclass(frozen=True, slots=True)
class Extent:
    """The interval of a column's values in which a predicate can be true."""

    low: Any = None
    high: Any = None
    """None: unbounded."""
    open_high: bool = False
    """True if ``high`` itself is not part of it."""
    whole: bool = False
    """True if the predicate is true for every row in the interval."""


@dataclass(frozen=True, slots=True)
class Axis:
    """Values of a column from ``low`` to ``high``, cut into cells of equal width."""

    column: str
    kind: str
    """SQL type."""
    low: Number
    high: Number
    """Nanoseconds since 1970 for times and dates."""
    cells: int

    @classmethod
    def over(
        cls, column: str, kind: str, ends: tuple[Any, Any], cells: int, given: tuple[Any, Any]
    ) -> Axis:
        """Make an axis that reaches as far as the parts, or as ``given`` says.

        Args:
            column: its name.
            kind: its SQL type.
            ends: smallest and largest number of all parts.
            cells: how many.
            given: numbers to begin and end with, or None.

        Raises UsageError for an empty interval.
        """
        low, high = (own if own is not None else end for own, end in zip(given, ends, strict=True))
        axis = cls(column, normalise(kind), low, high, cells)
        if high < low or (high == low and given != (None, None)):
            raise UsageError(
                f"there is nothing between {axis.text(low)} and {axis.text(high)} to show",
                next_step="give an end after the start",
            )
        return axis

    @property
    def is_time(self) -> bool:
        """True if its numbers are nanoseconds."""
        return self.kind.startswith(("TIMESTAMP", "DATE"))

    def cell(self, number: Number) -> int:
        """Return the cell of a number, without regard to the ends of the axis."""
        width: Any = self._from_low(self.high)
        if not width:
            return 0 if number == self.low else (-1 if number < self.low else self.cells)
        if number == self.high:
            return self.cells - 1
        return int(self._from_low(number) * self.cells // width)

    def cells_of(self, low: Number, high: Number | None) -> tuple[int, int] | None:
        """Return first and last cell between a part's bounds (None: unbounded); None: outside."""
        return self._clipped(self.cell(low), self.cells - 1 if high is None else self.cell(high))

    def cells_between(self, interval: Extent) -> tuple[int, int] | None:
        """Return first and last cell that an extent touches; None: outside."""
        first = 0 if interval.low is None else self.cell(interval.low)
        last = self.cells - 1 if interval.high is None else self.cell(interval.high)
        if interval.open_high and last > first:
            begins = self._from_low(self.high) * last  # where a cell begins, times their number
            last -= begins == self._from_low(interval.high) * self.cells
        return self._clipped(first, last)

    def _from_low(self, number: Number) -> Any:  # noqa: ANN401 - of the type that all of them have
        return number - self.low  # type: ignore[operator] # as above

    def _clipped(self, first: int, last: int) -> tuple[int, int] | None:
        if last < 0 or first >= self.cells:
            return None
        return max(first, 0), min(last, self.cells - 1)

    def text(self, number: Number) -> str:
        """Return a number as text of a value of the column."""
        if self.kind == "DATE":
            return date_text(int(number) // DAY_NS)
        if self.is_time:
            return timestamp_text(int(number) // 1_000).removesuffix(".000000")
        return str(number)


def extent(tree: Predicate, column: str, key: Callable[[Scalar], Any]) -> Extent:
    """Return the interval of a column's values in which a bound predicate can be true."""
    if isinstance(tree, And):
        reach = Extent(whole=True)
        for arg in tree.args:
            reach = _both(reach, extent(arg, column, key))
        return reach
    if isinstance(tree, Or):
        reach = extent(tree.args[0], column, key)
        for arg in tree.args[1:]:
            reach = _either(reach, extent(arg, column, key))
        return reach
    if getattr(tree, "column", None) != column:
        return Extent()
    if isinstance(tree, In):
        values = sorted(key(value) for value in tree.values)
        return Extent(values[0], values[-1])
    if isinstance(tree, Equal | GreaterEqual | Greater | Less | LessEqual):
        return _leaf(tree, key(tree.value))
    return Extent()


def _leaf(tree: Predicate, value: Any) -> Extent:  # noqa: ANN401 - whatever the column holds
    if isinstance(tree, Equal):
        return Extent(value, value, whole=True)
    if isinstance(tree, GreaterEqual | Greater):
        return Extent(low=value, whole=True)
    return Extent(high=value, open_high=isinstance(tree, Less), whole=True)


def _both(a: Extent, b: Extent) -> Extent:
    lows = [e.low for e in (a, b) if e.low is not None]
    highs = sorted((e.high, not e.open_high) for e in (a, b) if e.high is not None)
    high, closed = highs[0] if highs else (None, True)
    return Extent(max(lows, default=None), high, not closed, a.whole and b.whole)


def _either(a: Extent, b: Extent) -> Extent:
    low = None if a.low is None or b.low is None else min(a.low, b.low)
    if a.high is None or b.high is None:
        return Extent(low)
    high, closed = max((e.high, not e.open_high) for e in (a, b))
    return Extent(low, high, not closed)


def reader(column: str, sql_type: str) -> Callable[[Scalar], Any]:
    """Return a function from bound or literal to number; None for a value of another type.

    Raises UsageError for a column of texts or the like.
    """
    kind = normalise(sql_type)
    key = bound_key(kind)
    if key is None or kind in {"VARCHAR", "BOOLEAN", "UUID"}:
        raise UsageError(
            f"column {column!r} is {kind}, which is no axis",
            next_step="name a column of times, dates or numbers with --column",
        )

    def read(value: Scalar) -> Any:  # noqa: ANN401 - one type of number for one column
        if value is None:
            return None
        try:
            comparable = key(value)
        except (ValueError, TypeError, ArithmeticError):
            return None
        number = (
            comparable[1] if isinstance(comparable, tuple) else comparable
        )  # floats: (is NaN, value)
        is_number = isinstance(number, int | float | Decimal) and not isinstance(number, bool)
        return number if is_number else None

    return read
