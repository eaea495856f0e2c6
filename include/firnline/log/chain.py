"""Digests that chain the transactions of a table (docs/format.md, "Chained history").

The header of a transaction states the digest of its log file and that of the transaction before;
the digest of a transaction is that of its header. Keys count without the table's place, so a
relocation changes no digest.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import NamedTuple

import msgspec

from firnline.log import codec
from firnline.log.codec import UNREADABLE, corrupt
from firnline.log.records import TxnMark
from firnline.log.txn_file import TxnHeader
from firnline.paths import TablePaths

_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])
_TEXT = msgspec.json.Decoder(str)
_encode = msgspec.json.Encoder().encode
MARK_BYTES = len(',"digest":""') + 64
"""Bytes of its digest in the log file of every transaction."""
_PIECE_BYTES = 2**20
_HERE = TablePaths("")
"""A table whose keys begin with ``_data/`` or ``_log/``."""


class Linked(NamedTuple):
    """A transaction that states its place in the chain."""

    header: TxnHeader
    log_file: bytes
    mark: TxnMark | None
    """With the digest of the transaction; None in a log file of version 1."""


class Link(msgspec.Struct, frozen=True):
    """The place of a transaction in the chain, as it is stored and as its bytes give it."""

    digest: str
    """Of its header, computed."""
    before: str = ""
    """Of the transaction before, as the header states it; empty if it states none."""
    content: str = ""
    """Of its log file, as the header states it; empty if an older version wrote it."""
    content_now: str = ""
    """Of its log file, computed."""
    mark: str = ""
    """Of itself, as its log file states it; empty if that states none."""


def header_digest(key: str, line: bytes) -> str:
    """Return the SHA-256 of a header, hexadecimal: of the line, with the mere name in ``log``.

    Args:
        key: of the transaction, for errors.
        line: first line of its file.

    Raises LogCorruptError.
    """
    try:
        fields = _OBJECT.decode(line)
        name = _TEXT.decode(fields["log"]).rpartition("/")[2]
    except (*UNREADABLE, KeyError) as error:
        raise corrupt(key, 1, str(error)) from error
    return _sha256([_encode({**fields, "log": msgspec.Raw(_encode(name))})])


def content_digest(key: str, log_file: bytes, paths: TablePaths) -> str:
    """Return the SHA-256 of a log file, hexadecimal.

    Of its lines without the checksum, which the place of the table changes, without the digest in
    the first one, and with keys of objects that begin with ``_data/`` or ``_log/``.

    Args:
        key: of the log file, for errors.
        log_file: its bytes.
        paths: of the table.

    Raises LogCorruptError.
    """
    lines, start = codec.first_lines(log_file, 2)
    head, schema = (*lines, b"")[:2]
    sealed, behind = codec.first_lines(log_file, 1, start)
    if sealed and codec.is_seal(sealed[0]):
        start = behind
    try:
        first = _without_digest(head)
    except UNREADABLE as error:
        raise corrupt(key, 1, str(error)) from error
    return _sha256(chain((first, b"\n", schema), _anywhere(log_file, start, paths)))


def _anywhere(log_file: bytes, start: int, paths: TablePaths) -> Iterator[bytes]:
    """Yield a newline and the lines from a place on, with keys that do not say where the table is.

    In pieces: of a log file that names millions of parts there should be no second one in memory.
    """
    folders = ((paths.data_dir, _HERE.data_dir), (paths.log_dir, _HERE.log_dir))
    begins = [(_start(folder), _start(name)) for folder, name in folders]
    newline = b"\n"
    while True:
        end = log_file.find(b"\n", start + _PIECE_BYTES)
        piece = newline + log_file[start : end if end >= 0 else None]
        for begin, name in begins:
            piece = piece.replace(begin, name)
        yield piece
        if end < 0:
            return
        newline, start = b"", end  # where the next one begins, there is one


def _without_digest(head: bytes) -> bytes:
    fields = _OBJECT.decode(head)
    if "x" not in fields:
        return head
    mark = _OBJECT.decode(fields["x"])
    mark.pop("digest", None)
    return _encode({**fields, "x": msgspec.Raw(_encode(mark))})


def _start(folder: str) -> bytes:
    """Return the beginning of the line of an object in a folder."""
    return b'\n{"p":' + _encode(folder)[:-1]


def _sha256(pieces: Iterable[bytes]) -> str:
    digest = hashlib.sha256()
    for piece in pieces:
        digest.update(piece)
    return digest.hexdigest()


def link(
    header: TxnHeader, log_file: bytes, mark: TxnMark | None, before: str, paths: TablePaths
) -> Linked:
    """Put a transaction into the chain.

    Args:
        header: its header, without digests.
        log_file: its log file.
        mark: the mark in the log file; None in one of version 1.
        before: digest of the transaction before; empty for the first one, or where none is known.
        paths: of the table.
    """
    content = content_digest(header.log, log_file, paths)
    header = msgspec.structs.replace(header, before=before, content=content)
    if mark is None:
        return Linked(header, log_file, None)
    digest = header_digest(paths.txn(header.seq), _encode(header))
    mark = msgspec.structs.replace(mark, digest=digest)
    return Linked(header, codec.with_mark(log_file, mark), mark)


def link_of(
    data: bytes, header: TxnHeader, log_file: bytes, mark: TxnMark | None, paths: TablePaths
) -> Link:
    """Return the link of a transaction's file.

    Args:
        data: its bytes.
        header: its header, decoded.
        log_file: its log file.
        mark: the mark in that log file, decoded.
        paths: of the table.

    Raises LogCorruptError.
    """
    return Link(
        digest=header_digest(paths.txn(header.seq), data[: data.index(b"\n")]),
        before=header.before,
        content=header.content,
        content_now=content_digest(header.log, log_file, paths),
        mark="" if mark is None else mark.digest,
    )
