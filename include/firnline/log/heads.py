"""Read the columns of a table from the heads of its log files, for writers, which need no markers.

The log files of a table of a million parts have a hundred megabytes; their schema lines are in the
first kilobyte.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from firnline.errors import ObjectNotFoundError, SnapshotUnstableError
from firnline.log import codec
from firnline.log.reader import ATTEMPTS, LogObject, list_log, refuse_other_size
from firnline.log.records import Delete, Header, LogTombstone, Marker, TxnMark
from firnline.log.schema_changes import MARK, is_change, line_now, split
from firnline.log.schema_lines import line_sequence
from firnline.next_steps import MANY_CLEANUPS
from firnline.paths import TablePaths
from firnline.store.base import Store

UNREAD = -1
"""Sequence of a head whose bytes end before its first marker."""

HEAD_BYTES = 16 * 1024
"""Bytes of a log file that are fetched first to find the schema line."""
_GROWTH = 16
"""Factor by which each further read is larger than the one before."""


class Head(msgspec.Struct, frozen=True):
    """The content of a log file before its markers."""

    schema: dict[str, str]
    tombstones: list[LogTombstone]
    changes: list[Delete] = []
    """Records of a transaction that change the schema."""
    q: int | None = UNREAD
    """Data sequence of its first marker, if that is in the bytes and states one."""
    x: TxnMark | None = None
    """Mark of a transaction."""
    part: str = ""
    """Key of the part of its first marker, if that is in the bytes."""


def decode_head(key: str, head: bytes, *, tombstones: bool = False) -> Head | None:
    """Decode the data that a writer needs from the first bytes of a log file.

    For a transaction (``tombstones``) everything before its markers; for another log file the
    schema and the sequence of its parts, which is that of the first marker.

    None if the bytes end before the wanted data. The checksum is not checked, since it covers the
    whole file.
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
    """Return the first marker: None if the bytes end before it, an empty one if none exists."""
    lines, end = codec.first_lines(head, header.f + 1)
    if len(lines) <= header.f or end > len(head):
        return None
    line = lines[header.f]
    return codec.marker_line(key, header.f, line) if line else Marker("", 0, 0)


def read_schemas(
    store: Store, paths: TablePaths, known: dict[str, Head] | None = None
) -> list[tuple[str, Mapping[str, str]]]:
    """Return (log file, schema line) of every log file that no transaction has folded.

    The lines are those after all changes of the schema.

    Requests: 1 LIST, and one ranged GET per such log file; a few more where the schema line is
    longer than ``HEAD_BYTES`` or a transaction folded hundreds of log files.

    Args:
        store: of the table.
        paths: of the table.
        known: heads read before, by log file: they need no request, since objects never change.
            It is updated to hold exactly the heads of this call.

    Raises:
        LogCorruptError: a log file cannot be read.
        ForeignPathError: a log file names objects of another place.
        SnapshotUnstableError: clean-up ran during every attempt.
    """
    known = {} if known is None else known
    for _ in range(ATTEMPTS):
        listing, _ = list_log(store, paths)
        try:
            heads = _read(store, listing, known)
            if any(head.changes for head in heads.values()):
                heads = _with_sequences(store, listing, heads)
        except ObjectNotFoundError:
            continue  # clean-up ran: list again, as every reader does
        for key, head in heads.items():
            _refuse_foreign(key, head, paths)
        known.clear()
        known.update(heads)
        return _lines(listing, heads)
    raise SnapshotUnstableError(
        f"the log under {paths.log_dir} changed during each of {ATTEMPTS} attempts to read it",
        next_step=MANY_CLEANUPS,
    )


def _refuse_foreign(key: str, head: Head, paths: TablePaths) -> None:
    """Raise ForeignPathError for the log of a table that was copied or renamed."""
    for tombstone in head.tombstones:
        paths.check_log(tombstone.p, f"a log tombstone of log file {key}")
    if head.part:
        paths.check_part(paths.part_key(head.part), f"a marker of log file {key}")


def _read(
    store: Store, listing: Mapping[str, LogObject], known: Mapping[str, Head]
) -> dict[str, Head]:
    """Return log file -> head.

    Raises ObjectNotFoundError if one is gone: the log file that carries its columns may be newer
    than the listing.
    """
    heads: dict[str, Head] = {}
    folded: set[str] = set()
    ours = [key for key, item in listing.items() if item.name.seq]
    for key in sorted(ours, key=lambda key: listing[key].name.seq, reverse=True):
        # As in reader.read_log: each one names older ones that need no request.
        if key not in folded:
            head = known.get(key)
            if head is None:
                head = _head(store, key, listing[key].size, b"", tombstones=True)
            heads[key] = head
            folded.update(tombstone.p for tombstone in head.tombstones)
    rest = [key for key in listing if key not in heads and key not in folded]
    heads.update((key, known[key]) for key in rest if key in known)
    return heads | _heads(store, listing, [key for key in rest if key not in known])


def _heads(store: Store, listing: Mapping[str, LogObject], keys: list[str]) -> dict[str, Head]:
    heads: dict[str, Head] = {}
    longer: list[tuple[str, bytes]] = []
    for key, head in store.get_heads(keys, HEAD_BYTES) if keys else ():
        if head is None:
            raise ObjectNotFoundError(f"log file {key} is gone", next_step="list the log again")
        size = listing[key].size
        if len(head) != min(size, HEAD_BYTES):
            refuse_other_size(key, len(head), size)
        whole = len(head) >= size
        decoded = decode_head(key, head + b"\n" if whole else head)
        if decoded is None:
            longer.append((key, head))
        else:
            heads[key] = decoded
    for key, head in longer:
        heads[key] = _head(store, key, listing[key].size, head, tombstones=False)
    return heads


def _with_sequences(
    store: Store, listing: Mapping[str, LogObject], heads: Mapping[str, Head]
) -> dict[str, Head]:
    """Read on where the first marker is not in the bytes yet, as after a very long schema line."""
    completed = dict(heads)
    for key, head in heads.items():
        if head.q == UNREAD and not listing[key].name.seq:
            size = listing[key].size
            marked = _head(store, key, size, b"", tombstones=False, marked=True)
            completed[key] = marked
    return completed


def _lines(
    listing: Mapping[str, LogObject], heads: Mapping[str, Head]
) -> list[tuple[str, Mapping[str, str]]]:
    records = [record for head in heads.values() for record in head.changes]
    _, changes = split(records)
    if not changes:
        return sorted((key, head.schema) for key, head in heads.items())
    times = {(item.name.t, item.name.seq) for item in listing.values() if item.name.seq}
    times |= {(change.t, change.seq) for change in changes}
    numbers = sorted(times)
    return sorted(
        (key, line_now(changes, head.schema, line_sequence(listing[key].name, head.q, numbers)))
        for key, head in heads.items()
    )


def _head(
    store: Store, key: str, size: int, data: bytes, *, tombstones: bool, marked: bool = False
) -> Head:
    """Read on until the head of a log file is complete; with ``marked``, with its first marker.

    Raises LogCorruptError.
    """
    step = HEAD_BYTES
    while True:
        whole = len(data) >= size
        # The last line has no newline; without parts it belongs to the head.
        seen = data + b"\n" if whole else data
        head = decode_head(key, seen, tombstones=tombstones) if seen else None
        if head is not None and not (marked and head.q == UNREAD):
            return head
        if head is not None and whole:
            return msgspec.structs.replace(head, q=None)  # it names no part
        if whole:
            raise codec.corrupt(key, 1, "it ends before the end of its sections")
        more = store.get_range(key, len(data), length := min(step, size - len(data)))
        data += more
        if len(more) != length:
            refuse_other_size(key, len(data), size)
        step *= _GROWTH
