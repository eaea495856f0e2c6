"""Files under ``_txn/``: the header of a transaction and the whole log file it publishes.

Line 0 is the header, line 1 the checksum over everything else, then the log file's bytes as they
are. Creating this one object is the commit.
"""

from __future__ import annotations

import msgspec

from firnline.errors import LogCorruptError
from firnline.log.codec import UNREADABLE, check_seal, corrupt, seal
from firnline.log.records import LogContent
from firnline.paths import TablePaths
from firnline.properties.record import Properties


class RunIdentity(msgspec.Struct, frozen=True, omit_defaults=True):
    """Who ran an operation; stands in the history for good."""

    dag_id: str = ""
    run_id: str = ""
    try_number: int = 0
    user: str = ""
    """Who started it."""
    application_id: str = ""
    """Of the Spark application."""
    host: str = ""
    approved_by: str = ""
    """Who approved it, where it asked somebody."""


class Counts(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a transaction did; rows in + added = rows out + deleted + de-duplicated + removed."""

    parts_in: int = 0
    parts_out: int = 0
    rows_in: int = 0
    rows_out: int = 0
    rows_deleted: int = 0
    rows_deduplicated: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    rows_removed: int = 0
    """That a user's query took away (negative: that it made)."""
    logs_folded: int = 0
    rows_added: int = 0
    """Of ``rows_out``, that come from no part of the table: the new rows of a replace."""


class TxnHeader(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Line 0 of a transaction's file."""

    v: int = 1
    seq: int
    txn: str
    """UUIDv7 of the transaction."""
    op: str
    """merge, drop, rewrite, delete, replace, cleanup, …"""
    base: int
    """Sequence number of the snapshot that was committed on."""
    t: int
    """Unix milliseconds; of its tombstones and new parts too."""
    log: str
    """Key under which the log file is published."""
    run: RunIdentity = RunIdentity()
    counts: Counts = Counts()
    partitions: tuple[str, ...] = ()
    """Partitions whose parts changed (at most 1,000 named)."""
    why: str = ""
    """What it was asked for, in a few words, where ``op`` does not say all."""
    properties: Properties | None = None
    """Of the table from then on: for writers, who do not read the log, and where the record in
    the log was lost. None: an older version wrote it."""


_HEADER = msgspec.json.Decoder(TxnHeader)


def encode(header: TxnHeader, log_file: bytes) -> bytes:
    """The bytes of a transaction's file."""
    return seal(msgspec.json.encode(header), log_file)


def decode(key: str, data: bytes, paths: TablePaths) -> tuple[TxnHeader, bytes]:
    """Header and log file of a transaction. Raises LogCorruptError, ForeignPathError."""
    pieces = data.split(b"\n", 2)
    if len(pieces) < 3:
        raise corrupt(key, 1, "the transaction's log file is missing")
    check_seal(key, 2, pieces[0], pieces[1], pieces[2])
    header = decode_header(key, data, paths)
    if header is None:  # cannot be: the first line is whole
        raise corrupt(key, 1, "the header does not end")
    return header, pieces[2]


def decode_header(key: str, head: bytes, paths: TablePaths) -> TxnHeader | None:
    """The header from the first bytes of a file; None when they end before it does.

    Raises LogCorruptError, ForeignPathError.
    """
    line, newline, _ = head.partition(b"\n")
    if not newline:
        return None
    try:
        header = _HEADER.decode(line)
    except UNREADABLE as error:
        raise corrupt(key, 1, str(error)) from error
    if header.v != 1:
        raise LogCorruptError(
            f"transaction {key} has format version {header.v}, this firnline reads version 1",
            next_step="upgrade firnline before you touch this table",
        )
    paths.check_log(header.log, f"the header of transaction {key}")
    try:
        name = paths.parse_log(header.log)
    except LogCorruptError as error:
        raise corrupt(key, 1, error.message) from None
    if paths.parse_txn(key) != header.seq or name.seq != header.seq or name.txn != header.txn:
        raise corrupt(key, 1, f"its header is that of transaction {header.seq} ({header.log})")
    return header


def folded_by(content: LogContent) -> frozenset[str]:
    """Log files that a transaction folded itself: they stood there when it was committed."""
    # Those that it took over from others it folded have their older times.
    return frozenset(stone.p for stone in content.tombstones if stone.t == content.t)
