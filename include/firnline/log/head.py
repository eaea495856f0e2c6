"""The first bytes of a log file, for writers, who need no marker but one."""

from __future__ import annotations

import msgspec

from firnline.log import codec
from firnline.log.records import Delete, Header, LogTombstone, Marker, TxnMark
from firnline.log.schema_changes import MARK, is_change

UNREAD = -1
"""Of a sequence: the bytes end before it."""


class Head(msgspec.Struct, frozen=True):
    """What stands before the markers of a log file."""

    schema: dict[str, str]
    tombstones: list[LogTombstone]
    changes: list[Delete] = []
    """Of a transaction: the records that change the schema."""
    q: int | None = UNREAD
    """Data sequence of its first marker, when that is in the bytes and says so."""
    x: TxnMark | None = None
    """Of a transaction: what it says of itself."""
    part: str = ""
    """Key of the part of its first marker, when that is in the bytes."""


def decode_head(key: str, head: bytes, *, tombstones: bool = False) -> Head | None:
    """What a writer needs, from the first bytes of a log file.

    Of a transaction's (``tombstones``) what stands before its markers; of another one the schema
    and the sequence of its parts, which the first marker says for all of them.

    None when the bytes end before what is asked for does. The checksum is not looked at: it covers
    the whole file.
    """
    if b"\n" not in head:
        return None
    header = codec.decode_header(key, head)
    needed = header.f if tombstones else header.sch + 1
    lines, end = codec.first_lines(head, needed)
    if len(lines) < needed or end > len(head):
        return None
    schema = codec.schema_line(key, header.sch, lines[header.sch])
    if not tombstones:
        first = _first_marker(key, header, head)
        if first is None:
            return Head(schema, [])
        return Head(schema, [], q=first.q, part=first.p)
    ext = [] if header.ext is None else lines[header.ext + 1 : header.tmb or header.f]
    records = codec.extension_lines(key, (header.ext or 0) + 1, [x for x in ext if MARK in x])
    changes = [d for d in records.deletes if is_change(d)]
    return Head(schema, codec.tombstone_lines(key, header, lines), changes, x=header.x)


def _first_marker(key: str, header: Header, head: bytes) -> Marker | None:
    """None when the bytes end before it does; one without a key when there is none."""
    lines, end = codec.first_lines(head, header.f + 1)
    if len(lines) <= header.f or end > len(head):
        return None
    line = lines[header.f]
    return codec.marker_line(key, header.f, line) if line else Marker("", 0, 0)
