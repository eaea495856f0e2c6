"""The union of markers of the same part in several log files (docs/format.md, "Snapshot")."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from firnline.errors import LogCorruptError
from firnline.log.records import LogContent, Marker, parse_order, with_unknown

_COLUMNS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_RANGES = msgspec.json.Decoder(list[msgspec.Raw])


def union_parts(contents: Iterable[LogContent]) -> dict[str, Marker]:
    """Return all markers by path, each in its final state."""
    return union_with({}, contents)


def union_with(known: Mapping[str, Marker], contents: Iterable[LogContent]) -> dict[str, Marker]:
    """Return the union of parts and of the markers of further log files; ``known`` stays as it is.

    Raises LogCorruptError: see ``combine``.
    """
    parts = dict(known)
    first = parts.setdefault  # one look-up per marker: a million of them are common
    for content in contents:
        for marker in content.markers:
            before = first(marker.p, marker)
            if before is not marker:
                parts[marker.p] = combine(before, marker)
    return parts


@dataclass(frozen=True, slots=True)
class Past:
    """The times of log files that belong to a past state."""

    upto: int
    """All times up to this one, unix ms."""
    early: frozenset[int] = frozenset()
    """Later times too: those that are dated far ahead of when they took effect."""
    purged: int = -1
    """A part that died up to this time is dead in every state that can be read."""


def is_live(marker: Marker, past: Past | None) -> bool:
    """Return True for a part that is live now, or was in a past state."""
    if past is None:
        return marker.tmb is None
    if marker.t > past.upto and marker.t not in past.early:
        return False
    return marker.tmb is None or (
        marker.tmb > max(past.upto, past.purged) and marker.tmb not in past.early
    )


def combine(a: Marker, b: Marker) -> Marker:
    """Combine two markers of one part: dead wins over live, the earliest tombstone wins.

    A value that only one of them states is kept (a v1 client's fold drops the extra keys). So are
    bounds of a column and hash ranges: a part never changes, so all of them are true. The larger of
    two sequences wins: both were derived from the same ``t``, by readers that knew more or fewer
    transactions.

    Raises LogCorruptError if they disagree on the object itself.
    """
    if a == b:
        return a
    if (dead := _dead_one(a, b)) is not None:
        return dead
    if a.b != b.b or (None not in (a.n, b.n) and a.n != b.n):
        raise LogCorruptError(
            f"two log files disagree on the size of part {a.p}: {a.b} and {b.b} bytes, "
            f"{a.n} and {b.n} rows",
            next_step="compare the part with both and move the wrong log file away",
        )
    merged = msgspec.structs.replace(
        a,
        t=min(a.t, b.t),
        tmb=min((x.tmb for x in (a, b) if x.tmb is not None), default=None),
        n=a.n if b.n is None else b.n,
        q=max((x.q for x in (a, b) if x.q is not None), default=None),
        d=tuple(sorted({*(a.d or ()), *(b.d or ())})) or None,
        o=_order(a, b),
        s=_stats(a.s, b.s),
        c=min((x.c for x in (a, b) if x.c is not None), default=None),
        h=_hashes(a.h, b.h),
        # Of two different ones the smaller: at most one is right, and a wrong one is found.
        g=min((x.g for x in (a, b) if x.g is not None), default=None),
        k=_sort(a.k, b.k),
        w=min((x.w for x in (a, b) if x.w is not None), default=None),
    )
    extra = {**a.unknown(), **b.unknown()}
    return with_unknown(merged, extra) if extra else merged


def _dead_one(a: Marker, b: Marker) -> Marker | None:
    """Return the dead one of two markers that differ in nothing but a tombstone, as most do."""
    alive, dead = (a, b) if a.tmb is None else (b, a)
    if alive.tmb is not None or dead.tmb is None:
        return None
    return dead if msgspec.structs.replace(alive, tmb=dead.tmb) == dead else None


def _stats(a: msgspec.Raw, b: msgspec.Raw) -> msgspec.Raw:
    """Return the statistics of all columns that one of two markers has.

    The result does not depend on the order: of two texts for a column the smaller one stays.
    """
    if a == b or not a or not b:
        return a or b
    bounds_by_column: dict[str, msgspec.Raw] = {}
    readable = [x for x in (a, b) if _reads(_COLUMNS, x)]
    if len(readable) < 2:
        return readable[0] if readable else min(a, b, key=bytes)
    for text in readable:
        for column, bounds in _COLUMNS.decode(text).items():
            bounds_by_column[column] = min(bounds, bounds_by_column.get(column, bounds), key=bytes)
    return msgspec.Raw(msgspec.json.encode(bounds_by_column, order="deterministic"))


def _hashes(a: msgspec.Raw, b: msgspec.Raw) -> msgspec.Raw:
    """Return all hash ranges that one of two markers has, in an order of their own."""
    if a == b or not a or not b:
        return a or b
    readable = [x for x in (a, b) if _reads(_RANGES, x)]
    if len(readable) < 2:
        return readable[0] if readable else min(a, b, key=bytes)
    ranges = {bytes(each) for text in readable for each in _RANGES.decode(text)}
    return msgspec.Raw(b"[" + b",".join(sorted(ranges)) + b"]")


def _sort(a: msgspec.Raw, b: msgspec.Raw) -> msgspec.Raw:
    """Return the sort order that one of two markers states; of two different ones the smaller."""
    if a == b or not a or not b:
        return a or b
    readable = [x for x in (a, b) if parse_order(bytes(x))]
    return min(readable or (a, b), key=bytes)


def _reads(decoder: Any, text: msgspec.Raw) -> bool:  # noqa: ANN401 - a decoder of any type
    try:
        decoder.decode(text)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return False
    return True


def _order(a: Marker, b: Marker) -> int | tuple[int, int] | None:
    if a.o == b.o or b.o is None:
        return a.o
    return (
        b.o if a.o is None else (min(a.order()[0], b.order()[0]), max(a.order()[1], b.order()[1]))
    )


def first_folded(contents: Iterable[LogContent]) -> dict[str, int]:
    """Return when each folded log file was first folded, unix ms."""
    times: dict[str, int] = {}
    for tombstone in (each for content in contents for each in content.tombstones):
        times[tombstone.p] = min(tombstone.t, times.get(tombstone.p, tombstone.t))
    return times
