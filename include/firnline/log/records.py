"""The records of a log file (docs/format.md, "Log file").

All times are unix milliseconds, all sizes bytes. Everything beyond the v1 keys is optional when
read: a v1 client that folds log files drops our extra keys.
"""

from __future__ import annotations

from typing import Any

import msgspec

from firnline.properties.record import PropertiesRecord
from firnline.types.values import Stats

NO_STATS = msgspec.Raw(b"")
"""A marker without statistics."""


class Marker(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, gc=False):
    """One data part: alive without ``tmb``, dead with it."""

    p: str
    """Full key of the part."""
    b: int
    """Size in bytes."""
    t: int
    """When its log file was written."""
    tmb: int | None = None
    """When it was tombstoned."""
    n: int | None = None
    """Rows."""
    q: int | None = None
    """Data sequence: the newest transaction its writer began from."""
    d: tuple[str, ...] | None = None
    """Ids of deletes later than ``q`` that are applied already."""
    o: int | tuple[int, int] | None = None
    """Insertion order: one time or [first, last]; None is ``t``, as of every append."""
    s: msgspec.Raw = NO_STATS
    """Statistics as JSON text, decoded when asked for: most readers never do."""
    c: str | None = None
    """Clustered run: parts with the same one do not overlap in the order of ``cluster_by``."""

    def stats(self) -> Stats:
        """Column -> (min, max, nulls); empty when the writer gave none, or none that read.

        A part without statistics may hold anything, so nothing is lost by that but speed.
        """
        try:
            return _STATS.decode(self.s) if self.s else {}
        except (msgspec.MsgspecError, RecursionError):
            return {}

    def order(self) -> tuple[int, int]:
        """[first, last] of the insertion order, unix ms; without one it is the marker's ``t``."""
        if self.o is None:
            return (self.t, self.t)
        return (self.o, self.o) if isinstance(self.o, int) else self.o

    def unknown(self) -> dict[str, msgspec.Raw]:
        """Keys that this version does not know, kept when the marker is carried."""
        return {}


class ForeignMarker(Marker, frozen=True, rename={"extra": "\uffffextra"}, gc=False):
    """A marker with keys that this version does not know."""

    extra: dict[str, msgspec.Raw] = {}

    def unknown(self) -> dict[str, msgspec.Raw]:
        """The keys that this version does not know, as JSON text."""
        return self.extra


def with_unknown(marker: Marker, extra: dict[str, msgspec.Raw]) -> Marker:
    """The marker with keys that this version does not know."""
    m = marker
    return ForeignMarker(m.p, m.b, m.t, m.tmb, m.n, m.q, m.d, m.o, m.s, m.c, extra=extra)


_STATS = msgspec.json.Decoder(Stats)


def stats_json(stats: Stats) -> msgspec.Raw:
    """Statistics as a marker holds them."""
    return msgspec.Raw(msgspec.json.encode(stats))


class LogTombstone(msgspec.Struct, frozen=True, gc=False):
    """A log file whose content another log file carries."""

    p: str
    t: int
    """When it was first folded."""


class Delete(msgspec.Struct, frozen=True, omit_defaults=True):
    """Hides rows of every part with ``q < seq`` (docs/format.md, "Deletes")."""

    id: str
    seq: int
    t: int
    where: msgspec.Raw
    """The predicate tree as JSON text."""
    partitions: tuple[str, ...] | None = None
    """Globs over partition paths; None for all."""


class TxnMark(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a transaction's log file says of itself in its header."""

    seq: int
    txn: str
    op: str
    purged: int
    """Every part tombstoned at or before this time is confirmed deleted."""
    standing: tuple[int, ...] | None = None
    """Older transactions whose log files it was committed on and did not fold; None: not said."""


class Header(msgspec.Struct, frozen=True, omit_defaults=True):
    """Line 0: the line numbers at which the sections begin."""

    v: int | str
    t: int
    sch: int
    f: int
    tmb: int | None = None
    ext: int | None = None
    x: TxnMark | None = None


class LogContent(msgspec.Struct, frozen=True, kw_only=True):
    """One log file, decoded."""

    t: int
    schema: dict[str, str]
    """Column -> SQL type name."""
    markers: list[Marker] = []
    tombstones: list[LogTombstone] = []
    deletes: list[Delete] = []
    properties: list[PropertiesRecord] = []
    other: list[bytes] = []
    """Extension records of kinds that this version does not know, as JSON text."""
    x: TxnMark | None = None


def marker_json(marker: Marker) -> bytes:
    """One marker line; unknown keys go behind ours."""
    if not isinstance(marker, ForeignMarker):
        return msgspec.json.encode(marker)
    known: dict[str, Any] = {
        name: getattr(marker, name)
        for name in Marker.__struct_fields__
        if getattr(marker, name) not in (None, NO_STATS)
    }
    return msgspec.json.encode({**known, **marker.extra})
