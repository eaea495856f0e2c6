"""The statistics of a part as Delta's readers skip files by them."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from firnline.log.records import Marker
from firnline.types.calendar import timestamp_text
from firnline.types.schema import normalise
from firnline.types.values import Scalar, Stats, canonical, parse_nanoseconds

Bound = str | int | float | msgspec.Raw

_MS = 1_000_000
_LENGTH = len("YYYY-MM-DDTHH:MM:SS.fff")
_AS_IN_MARKERS = frozenset(
    {"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER"}
    | {"FLOAT", "DOUBLE", "VARCHAR", "DATE"}
)
_TIMES = frozenset({"TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE"})


class FileStats(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Statistics of one file; columns without a bound are left out."""

    num_records: int = msgspec.field(name="numRecords")
    min_values: dict[str, Bound] = msgspec.field(name="minValues", default_factory=dict)
    max_values: dict[str, Bound] = msgspec.field(name="maxValues", default_factory=dict)
    null_count: dict[str, int] = msgspec.field(name="nullCount", default_factory=dict)
    tight: bool = msgspec.field(name="tightBounds", default=True)
    """False: the bounds are those of hidden rows too."""


def file_stats(
    marker: Marker, stats: Stats, columns: Mapping[str, str], *, tight: bool = True
) -> str | None:
    """Return the statistics of a part as JSON text; None if its rows are not known.

    Args:
        marker: of the part.
        stats: its statistics, with the table's names and types.
        columns: column -> SQL type.
        tight: False for a part of which a deletion vector hides rows.
    """
    if marker.n is None:
        return None
    low: dict[str, Bound] = {}
    high: dict[str, Bound] = {}
    nulls: dict[str, int] = {}
    for name, (first, last, count) in stats.items():
        kind = normalise(columns.get(name, ""))
        nulls[name] = count
        for bounds, value, up in ((low, first, False), (high, last, True)):
            limit = None if value is None else bound(kind, value, up=up)
            if limit is not None:
                bounds[name] = limit
    stated = FileStats(
        num_records=marker.n, min_values=low, max_values=high, null_count=nulls, tight=tight
    )
    return msgspec.json.encode(stated).decode()


def bound(kind: str, value: Scalar, *, up: bool) -> Bound | None:
    """Return a bound as Delta spells it; None where it has none.

    Times are in milliseconds there, so a lower bound is rounded down and an upper one up.

    Args:
        kind: canonical SQL type.
        value: bound in the form of markers.
        up: True for an upper bound.
    """
    if kind not in _TIMES and kind not in _AS_IN_MARKERS and not kind.startswith("DECIMAL("):
        return None
    try:
        checked = canonical(kind, value)
    except ValueError:
        return None  # another client's marker; without a bound the part is read
    if kind in _TIMES:
        return _time(kind, str(checked), up=up)
    if kind.startswith("DECIMAL("):
        # Its digits as a JSON number: a float would round them.
        return msgspec.Raw(str(checked).encode())
    return checked


def _time(kind: str, text: str, *, up: bool) -> str | None:
    nanoseconds = parse_nanoseconds(text)
    ms = -(-nanoseconds // _MS) if up else nanoseconds // _MS
    rounded = timestamp_text(ms * 1_000)[:-3]
    if len(rounded) > _LENGTH:
        return None  # rounded up into the year 10000
    return rounded + ("Z" if kind == "TIMESTAMP WITH TIME ZONE" else "")
