"""The records of a log file (docs/format.md, "Log file").

All times are unix milliseconds, all sizes bytes. Everything beyond the v1 keys is optional when
read: a v1 client that folds log files drops our extra keys.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import msgspec

from firnline.parquet.part import WrittenPart
from firnline.paths import without_empty_segments
from firnline.properties.record import PropertiesRecord
from firnline.types.hashes import Hashes
from firnline.types.order import Order, SortKey, parse_key, plain_key
from firnline.types.values import Stats

NO_STATS = msgspec.Raw(b"")
"""Value of a marker without statistics, hash ranges or a sort order."""

_STATS = msgspec.json.Decoder(Stats)
_HASHES = msgspec.json.Decoder(Hashes)

REARRANGING = frozenset({"merge", "cleanup", "properties", "analyze", "sweep"})
"""``op`` of transactions after which each partition has the rows that it had before, in the same
columns: they arrange them in other parts, or state more of them. A merge may have run a query, and
then has other rows (``TxnMark.query``)."""


class Marker(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, gc=False):
    """A data part: live without ``tmb``, dead with it."""

    p: str
    """Full key of the part."""
    b: int
    """Size in bytes."""
    t: int
    """Time of its log file."""
    tmb: int | None = None
    """Time since when it is dead."""
    n: int | None = None
    """Rows."""
    q: int | None = None
    """Data sequence: the newest transaction in its writer's snapshot."""
    d: tuple[str, ...] | None = None
    """Ids of deletes later than ``q`` that are already applied."""
    o: int | tuple[int, int] | None = None
    """Insertion order: one time or [first, last]; None means ``t``, as for every append."""
    s: msgspec.Raw = NO_STATS
    """Statistics as JSON text, decoded lazily: most readers do not need them."""
    c: str | None = None
    """Id of the clustered run: its parts do not overlap in the order of ``cluster_by``."""
    h: msgspec.Raw = NO_STATS
    """Hash ranges as JSON text, decoded lazily like ``s``."""
    g: str | None = None
    """Digest of its rows (``types.digests``), in the columns of the part itself."""
    k: msgspec.Raw = NO_STATS
    """Sort order of its rows as JSON text, decoded lazily like ``s``; with its own column names."""
    w: tuple[str, ...] | None = None
    """Names of the writers of its rows, sorted, as far as they gave themselves some
    (``log.writers``)."""

    def stats(self) -> Stats:
        """Return column -> (min, max, nulls); empty if the writer gave none, or invalid ones.

        A part without statistics may hold any value, so that costs only speed.
        """
        try:
            return _STATS.decode(self.s) if self.s else {}
        except (msgspec.MsgspecError, RecursionError):
            return {}

    def hashes(self) -> Hashes:
        """Return the hash ranges; none if the writer gave none, or invalid ones."""
        try:
            ranges = _HASHES.decode(self.h) if self.h else ()
        except (msgspec.MsgspecError, RecursionError):
            return ()
        return tuple(each for each in ranges if each.is_sound)

    def sorted_by(self) -> Order:
        """Return what the rows are sorted by; nothing if the writer did not say, or invalidly.

        The footer says the same. Nothing may rely on it for correctness.
        """
        return parse_order(bytes(self.k)) if self.k else ()

    def order(self) -> tuple[int, int]:
        """Return [first, last] of the insertion order, unix ms; without one the marker's ``t``."""
        if self.o is None:
            return (self.t, self.t)
        return (self.o, self.o) if isinstance(self.o, int) else self.o

    def unknown(self) -> dict[str, msgspec.Raw]:
        """Return the keys that this version does not know; carried markers keep them."""
        return {}


class ForeignMarker(Marker, frozen=True, rename={"extra": "\uffffextra"}, gc=False):
    """A marker with keys that this version does not know."""

    extra: dict[str, msgspec.Raw] = {}

    def unknown(self) -> dict[str, msgspec.Raw]:
        """Return the keys that this version does not know, and ``p`` as ``spelled``: JSON texts."""
        return self.extra


def with_unknown(marker: Marker, extra: dict[str, msgspec.Raw]) -> Marker:
    """Return the marker with keys that this version does not know."""
    m = marker
    values = (m.p, m.b, m.t, m.tmb, m.n, m.q, m.d, m.o, m.s, m.c, m.h, m.g, m.k, m.w)
    return ForeignMarker(*values, extra=extra)


def spelled(marker: Marker) -> str:
    """Return the path of a part as its own writer wrote it.

    Clients of log version 1 compare paths as texts: to bury a part that one of them has named
    ``_data//name.parquet`` (``TablePaths.part_key``), a marker has to name it so.
    """
    text = marker.unknown().get("p")
    spelling = marker.p if text is None else msgspec.json.decode(text, type=str)
    # A marker of a copy has the path of the copy.
    return spelling if without_empty_segments(spelling) == marker.p else marker.p


def with_spelling(marker: Marker, key: str) -> Marker:
    """Return a marker whose part has this key, and that is written as it is spelled now."""
    if key == marker.p:
        return marker
    extra = {**marker.unknown(), "p": msgspec.Raw(msgspec.json.encode(spelled(marker)))}
    return with_unknown(msgspec.structs.replace(marker, p=key), extra)


def stats_json(stats: Stats) -> msgspec.Raw:
    """Return statistics in the form of a marker."""
    return msgspec.Raw(msgspec.json.encode(stats))


def hashes_json(hashes: Hashes) -> msgspec.Raw:
    """Return hash ranges in the form of a marker; nothing for none."""
    return msgspec.Raw(msgspec.json.encode(hashes)) if hashes else NO_STATS


def sort_json(order: Order) -> msgspec.Raw:
    """Return what rows are sorted by in the form of a marker; nothing for nothing."""
    return (
        msgspec.Raw(msgspec.json.encode([plain_key(key) for key in order])) if order else NO_STATS
    )


@lru_cache(maxsize=1024)
def parse_order(text: bytes) -> Order:
    """Parse an order in JSON; empty for none, and for what this version cannot read."""
    try:
        sort_keys = _ORDER.decode(text) if text else ()
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return ()
    keys = tuple(
        parse_key(each) if isinstance(each, str) else SortKey(each.column, each.descending)
        for each in sort_keys
    )
    return keys if all(key.column.strip() for key in keys) else ()


class _WholeKey(msgspec.Struct, forbid_unknown_fields=True):
    """A column that the short form cannot hold; a later version may say more of it."""

    column: str
    descending: bool = False


_ORDER = msgspec.json.Decoder(tuple[_WholeKey | str, ...])


def marker_of(
    part: WrittenPart,
    *,
    t: int = 0,
    q: int | None = None,
    d: tuple[str, ...] | None = None,
    o: int | tuple[int, int] | None = None,
    c: str | None = None,
    w: tuple[str, ...] | None = None,
) -> Marker:
    """Return the marker of a new part, with all that its writer states of it.

    Args:
        part: as it was written.
        t: time of its log file, unix ms; 0: the transaction that brings it sets it.
        q, d, o, c, w: see Marker.
    """
    return Marker(
        p=part.key,
        b=part.bytes,
        t=t,
        n=part.rows,
        q=q,
        d=d,
        o=o,
        s=stats_json(part.stats),
        c=c,
        h=hashes_json(part.hashes),
        g=part.digest,
        k=sort_json(part.sorted_by),
        w=w,
    )


class LogTombstone(msgspec.Struct, frozen=True, gc=False):
    """A folded log file: another log file carries its content."""

    p: str
    t: int
    """Time when it was first folded."""


class Delete(msgspec.Struct, frozen=True, omit_defaults=True):
    """Hides rows of every part with ``q < seq`` (docs/format.md, "Deletes")."""

    id: str
    seq: int
    t: int
    where: msgspec.Raw
    """The predicate tree as JSON text."""
    partitions: tuple[str, ...] | None = None
    """Globs over partition paths; None for all partitions."""
    due: int | None = None
    """Unix ms before which a merge need not rewrite a part for this record alone; None: the next
    merge does."""

    def may_wait(self, at_ms: int | None) -> bool:
        """Return True if its rows, which readers do not see, may stay in the bytes at a time.

        ``at_ms``: unix ms; None: nothing waits.
        """
        return self.due is not None and at_ms is not None and at_ms < self.due


class TxnMark(msgspec.Struct, frozen=True, omit_defaults=True):
    """The transaction's data in the header of its log file."""

    seq: int
    txn: str
    op: str
    purged: int
    """Purge horizon: every part that died at or before this time is confirmed deleted."""
    standing: tuple[int, ...] | None = None
    """Older transactions whose log files existed and were not folded by it; None: unknown."""
    digest: str = ""
    """Digest of the transaction (``log.chain``); empty: an older version committed it."""
    query: bool | None = None
    """Of a merge: True if its new parts have the rows of the user's query, which may be others than
    those before; None: not known, an older version committed it."""


class Header(msgspec.Struct, frozen=True, omit_defaults=True):
    """Line 0, with the line numbers at which the sections begin."""

    v: int | str
    t: int
    sch: int
    f: int
    tmb: int | None = None
    ext: int | None = None
    x: TxnMark | None = None


class LogContent(msgspec.Struct, frozen=True, kw_only=True):
    """A decoded log file."""

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
    """Return a marker as its line; unknown keys come last."""
    if not isinstance(marker, ForeignMarker):
        return msgspec.json.encode(marker)
    fields: dict[str, Any] = {
        name: getattr(marker, name)
        for name in Marker.__struct_fields__
        if getattr(marker, name) not in (None, NO_STATS)
    }
    return msgspec.json.encode({**fields, **marker.extra, "p": spelled(marker)})
