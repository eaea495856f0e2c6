"""Encode and decode log files.

A log file of firnline is sealed: its first extension record is ``{"sum":{"crc32":n}}`` over all
other bytes. Newline-delimited JSON that was truncated at a line's end, or has a changed digit,
still parses; with the seal it is an error instead of a wrong snapshot. Files of v1 clients have no
extension section and are accepted without a checksum.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from itertools import chain, islice, pairwise

import msgspec

from firnline.errors import ForeignPathError, LogCorruptError
from firnline.log.records import (
    Delete,
    Header,
    LogContent,
    LogTombstone,
    Marker,
    TxnMark,
    marker_json,
    with_spelling,
    with_unknown,
)
from firnline.log.writers import written_by
from firnline.next_steps import UPGRADE_TO_USE
from firnline.paths import TablePaths
from firnline.properties.record import PropertiesRecord, parse_line, record_line

VERSION = 1
UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""Exceptions of msgspec for bytes that are not the expected JSON, or nested too deeply."""
_LINES_AT_ONCE = 8_192
_MAX_NUMBER = 2**63 - 1
"""Largest number: other readers of the log use 64-bit integers."""
_RESTORE = (
    "restore it from a backup, or if it is a transaction's from its copy under _txn/; else move it "
    "away and run `firnline rebuild`"
)


class _Sum(msgspec.Struct, frozen=True):
    crc32: int


class _Seal(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    sum: _Sum


class _Del(msgspec.Struct, frozen=True):
    del_: Delete = msgspec.field(name="del")


_encode = msgspec.json.Encoder().encode
_HEADER = msgspec.json.Decoder(Header)
_SCHEMA = msgspec.json.Decoder(dict[str, str])
_SEAL = msgspec.json.Decoder(_Seal)
_RAW_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])
_DELETE = msgspec.json.Decoder(_Del)
_TOMBSTONE = msgspec.json.Decoder(LogTombstone)
_MARKER = msgspec.json.Decoder(Marker)


def seal(head: bytes, tail: bytes | memoryview, *more: bytes) -> bytes:
    """Join texts with a line behind the first that holds the checksum of all others.

    Args:
        head: what stands before that line.
        tail: what stands behind it.
        more: further lines, which are copied once.
    """
    total = zlib.crc32(tail, zlib.crc32(head))
    for lines in more:
        total = zlib.crc32(lines, zlib.crc32(b"\n", total))
    return b"\n".join([head, _encode(_Seal(_Sum(total))), tail, *more])


def is_seal(line: bytes) -> bool:
    """Return True for a line that holds a checksum."""
    return line.startswith(b'{"sum":')


def with_mark(data: bytes, mark: TxnMark) -> bytes:
    """Return a sealed log file with another mark of its transaction."""
    (head, schema, _), end = first_lines(data, 3)
    fields = _RAW_OBJECT.decode(head)
    first = _encode({**fields, "x": msgspec.Raw(_encode(mark))})
    return seal(first + b"\n" + schema, memoryview(data)[end:])


def check_seal(key: str, line: int, head: bytes, sealed: bytes, tail: bytes | memoryview) -> None:
    """Raise LogCorruptError unless the checksum line ``sealed`` fits the bytes around it."""
    try:
        stated = _SEAL.decode(sealed).sum.crc32
    except UNREADABLE as error:
        raise corrupt(key, line, f"the checksum is missing: {error}") from error
    if stated != zlib.crc32(tail, zlib.crc32(head)):
        raise corrupt(key, line, "the checksum does not match: the object was truncated or changed")


def corrupt(key: str, line: int, why: str) -> LogCorruptError:
    """Return the error for a line (counted from 1) that cannot be read."""
    return LogCorruptError(f"log file {key} line {line} cannot be read: {why}", next_step=_RESTORE)


def encode(content: LogContent) -> bytes:
    """Encode a log file: without a trailing newline, never empty."""
    ext = [
        *(_encode(_Del(delete)) for delete in content.deletes),
        *map(record_line, content.properties),
        *content.other,
    ]
    tombstones = [_encode(t) for t in content.tombstones]
    first = 3 + len(ext)
    header = Header(
        v=VERSION,
        t=content.t,
        sch=1,
        ext=2,
        tmb=first if tombstones else None,
        f=first + len(tombstones),
        x=content.x,
    )
    head = _encode(header) + b"\n" + _encode(content.schema)
    lines = chain(ext, tombstones, map(marker_json, content.markers))
    # In pieces: a line of each part as an object of its own would take as much again.
    pieces = [b"\n".join(some) for some in iter(lambda: list(islice(lines, _LINES_AT_ONCE)), [])]
    return seal(head, *(pieces or [b""]))


def decode(key: str, data: bytes, paths: TablePaths) -> LogContent:
    """Decode a log file, of firnline or of a v1 client.

    Raises:
        LogCorruptError: names the file and the line.
        ForeignPathError: a marker or tombstone points outside the table.
    """
    header = decode_header(key, data)
    lines, end = first_lines(data, header.f)
    if len(lines) < header.f:
        raise corrupt(key, 1, f"it states {header.f} lines before the markers, but has fewer")
    _check_sections(key, header, data, lines)
    ext = [] if header.ext is None else lines[header.ext + 1 : header.tmb or header.f]
    tombstones = tombstone_lines(key, header, lines)
    records = extension_lines(key, (header.ext or 0) + 1, ext)
    markers = _with_keys(_markers(key, header.f, memoryview(data)[end:]), data, paths)
    if header.ext is None:
        _check_numbers(key, header, tombstones, markers)
    _check_paths(key, data, tombstones, markers, paths)
    return LogContent(
        t=header.t,
        schema=schema_line(key, header.sch, lines[header.sch]),
        markers=written_by(key, markers),
        tombstones=tombstones,
        deletes=records.deletes,
        properties=records.properties,
        other=records.other,
        x=header.x,
    )


def _check_numbers(
    key: str, header: Header, tombstones: Sequence[LogTombstone], markers: Sequence[Marker]
) -> None:
    """Refuse impossible sizes and times in a log file that has no checksum."""
    first = header.f - len(tombstones)
    numbers = [*((tombstone.t,) for tombstone in tombstones), *map(_numbers, markers)]
    for number, values in enumerate(numbers, first + 1):
        if min(values) < 0 or max(values) > _MAX_NUMBER:
            raise corrupt(key, number, "a size or time is negative or beyond 64 bits")


def _numbers(marker: Marker) -> tuple[int, ...]:
    return (marker.b, marker.t, marker.tmb or 0, marker.n or 0, marker.q or 0, *marker.order())


def _check_paths(
    key: str,
    data: bytes,
    tombstones: Sequence[LogTombstone],
    markers: Sequence[Marker],
    paths: TablePaths,
) -> None:
    try:
        for tombstone in tombstones:
            paths.check_log(tombstone.p)
        paths.check_parts([marker.p for marker in markers], data)
    except ForeignPathError as error:
        raise ForeignPathError(
            f"in log file {key} {error.message}", next_step=error.next_step
        ) from None


def first_lines(data: bytes, count: int, start: int = 0) -> tuple[list[bytes], int]:
    """Return the first lines from a place on, and the offset of the rest, which is not copied."""
    lines: list[bytes] = []
    while len(lines) < count and start <= len(data):
        end = data.find(b"\n", start)
        end = len(data) if end < 0 else end
        lines.append(data[start:end])
        start = end + 1
    return lines, start


def decode_header(key: str, data: bytes) -> Header:
    """Decode line 0. Raises LogCorruptError, also for a format version that is not 1."""
    line, _, _ = data.partition(b"\n")
    try:
        header = _HEADER.decode(line)
    except UNREADABLE as error:
        raise corrupt(key, 1, str(error)) from error
    if str(header.v) != str(VERSION):
        raise LogCorruptError(
            f"log file {key} has format version {header.v}, this firnline reads version {VERSION}",
            next_step=UPGRADE_TO_USE,
        )
    sections = [header.sch, *(n for n in (header.ext, header.tmb) if n is not None), header.f]
    if sections[0] < 1 or any(a >= b for a, b in pairwise(sections)):
        raise corrupt(key, 1, f"its sections are out of order: {sections}")
    return header


def schema_line(key: str, number: int, line: bytes) -> dict[str, str]:
    """Decode a schema line. Raises LogCorruptError."""
    try:
        return _SCHEMA.decode(line)
    except UNREADABLE as error:
        raise corrupt(key, number + 1, str(error)) from error


def _check_sections(key: str, header: Header, data: bytes, lines: Sequence[bytes]) -> None:
    # A line outside of all sections would be checked by nothing, the seal's own name included.
    after_schema = header.ext or header.tmb or header.f
    if header.sch != 1 or after_schema != 2:
        raise corrupt(key, 1, "its sections do not cover all lines")
    if header.ext is None:
        return
    head = lines[0] + b"\n" + lines[1]
    sealed = lines[2]
    check_seal(key, 3, head, sealed, memoryview(data)[len(head) + len(sealed) + 2 :])


def tombstone_lines(key: str, header: Header, lines: Sequence[bytes]) -> list[LogTombstone]:
    """Decode the log tombstones in the lines before the markers. Raises LogCorruptError."""
    if header.tmb is None:
        return []
    tombstones = []
    for number in range(header.tmb, header.f):
        try:
            tombstones.append(_TOMBSTONE.decode(lines[number]))
        except UNREADABLE as error:
            raise corrupt(key, number + 1, str(error)) from error
    return tombstones


class Extensions(msgspec.Struct, frozen=True):
    """Extension records of a log file by kind."""

    deletes: list[Delete] = []
    properties: list[PropertiesRecord] = []
    other: list[bytes] = []


def extension_lines(key: str, number: int, lines: Sequence[bytes]) -> Extensions:
    """Decode extension lines. Raises LogCorruptError."""
    extensions = Extensions()
    for offset, line in enumerate(lines):
        try:
            kinds = _RAW_OBJECT.decode(line)
            if "del" in kinds:
                extensions.deletes.append(_DELETE.decode(line).del_)
            elif "props" in kinds:
                extensions.properties.append(_properties(key, number + offset, line))
            else:
                extensions.other.append(line)
        except UNREADABLE as error:
            raise corrupt(key, number + offset + 1, str(error)) from error
    return extensions


def _properties(key: str, number: int, line: bytes) -> PropertiesRecord:
    try:
        return parse_line(line)
    except UNREADABLE as error:
        # The checksum matches, so the line was written like this.
        raise LogCorruptError(
            f"log file {key} line {number + 1} holds properties of the table that this version "
            f"does not know: {error}",
            next_step=UPGRADE_TO_USE,
        ) from error


def _markers(key: str, first: int, rest: memoryview) -> list[Marker]:
    try:
        return _MARKER.decode_lines(rest)
    except UNREADABLE:
        # Rare: an unknown key, or a broken line. Only then decode line by line.
        return [
            marker_line(key, first + offset, line)
            for offset, line in enumerate(bytes(rest).split(b"\n"))
            if line
        ]


def _with_keys(markers: list[Marker], data: bytes, paths: TablePaths) -> list[Marker]:
    """Return the markers under the keys of their parts (``TablePaths.part_key``).

    No marker of firnline has an empty segment. JSON may write a slash with a backslash before it.
    """
    if b"//" not in data and b"\\" not in data:
        return markers
    return [m if "//" not in m.p else with_spelling(m, paths.part_key(m.p)) for m in markers]


def marker_line(key: str, number: int, line: bytes) -> Marker:
    """Decode a marker, also with unknown keys. Raises LogCorruptError."""
    try:
        return _MARKER.decode(line)
    except UNREADABLE as error:
        first_error = error
    try:
        fields = _RAW_OBJECT.decode(line)
        extra = {k: v for k, v in fields.items() if k not in Marker.__struct_fields__}
        known = _encode({k: v for k, v in fields.items() if k not in extra})
        marker = _MARKER.decode(known)
    except UNREADABLE as error:
        raise corrupt(key, number + 1, str(error)) from first_error
    return with_unknown(marker, extra)
