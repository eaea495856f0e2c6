"""Files under ``_txn/``: the header of a transaction and the whole log file that it publishes.

Line 0 is the header, line 1 the checksum over everything else; the bytes of the log file follow
unchanged. Creating this one object is the commit.
"""

from __future__ import annotations

import msgspec

from firnline.errors import LogCorruptError
from firnline.log.codec import UNREADABLE, check_seal, corrupt, seal
from firnline.log.erases import EraseLink
from firnline.log.records import LogContent
from firnline.log.taken_in import TakenIn
from firnline.next_steps import UPGRADE_TO_USE
from firnline.paths import TablePaths
from firnline.properties.record import Properties
from firnline.shown import Shown, figures, when

NAMED_PARTITIONS = 1000
"""Partitions that a header names at most; one with so many may have changed others, too."""


class RunIdentity(msgspec.Struct, frozen=True, omit_defaults=True):
    """The run of an operation, kept in the history for good."""

    dag_id: str = ""
    run_id: str = ""
    try_number: int = 0
    user: str = ""
    """User who started the run."""
    application_id: str = ""
    """Id of the Spark application."""
    host: str = ""
    approved_by: str = ""
    """User who approved it, if an approval was required."""
    task_id: str = ""
    """Task of a DAG that is not firnline's: its run may have several, each with work of its own."""

    @property
    def key(self) -> tuple[str, ...]:
        """Return what is the same in all tries of one run of Airflow, and in no other."""
        named = (self.dag_id, self.run_id)
        return (*named, self.task_id) if self.task_id else named

    def is_run_of(self, other: RunIdentity) -> bool:
        """Return True if both are tries of one run of Airflow, whoever approved and wherever."""
        return self.key == other.key


class Counts(msgspec.Struct, frozen=True, omit_defaults=True):
    """Counts of a transaction; rows in + added = rows out + deleted + de-duplicated + removed."""

    parts_in: int = 0
    parts_out: int = 0
    rows_in: int = 0
    rows_out: int = 0
    rows_deleted: int = 0
    rows_deduplicated: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    rows_removed: int = 0
    """Rows that a user's query removed (negative: that it added)."""
    logs_folded: int = 0
    rows_added: int = 0
    """Rows of ``rows_out`` that come from no part of the table: the new rows of a replace."""
    rows_changed: int = 0
    """Rows of ``rows_out`` that an update gave new values, or that have others by key in a prepared
    rewrite; 0 too where nobody counted them, and of older versions."""


class TxnHeader(Shown, msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Line 0 of a transaction's file."""

    v: int = 1
    seq: int
    txn: str
    """UUIDv7 of the transaction."""
    op: str
    """merge, drop, rewrite, delete, replace, cleanup, …"""
    base: int
    """Sequence number of the snapshot that the transaction is based on."""
    t: int
    """Time of the transaction, its tombstones and its new parts, unix milliseconds."""
    log: str
    """Key under which the log file is published."""
    run: RunIdentity = RunIdentity()
    counts: Counts = Counts()
    partitions: tuple[str, ...] = ()
    """Partitions whose parts changed (at most 1,000 named)."""
    why: str = ""
    """Short description of the request, in addition to ``op``."""
    properties: Properties | None = None
    """Properties of the table from this transaction on: for writers, which do not read the log, and
    if the record in the log was lost. None: an older version wrote the transaction."""
    before: str = ""
    """Digest of the transaction before (``log.chain``); empty for the first one, or where the one
    before is not known."""
    content: str = ""
    """Digest of the log file; empty: an older version wrote the transaction."""
    erase: EraseLink | None = None
    """Place of an erase in the chain of erases; None for others, and of older versions."""
    appends: tuple[TakenIn, ...] = ()
    """Appends that it took into its log file, by writer; empty: nobody gave itself a name, or an
    older version wrote the transaction."""

    def _title(self) -> str:
        return f"Transaction {self.seq}"

    def _facts(self) -> dict[str, str]:
        return {
            "op": self.op,
            "at": when(self.t),
            **figures({"counts": self.counts, "partitions": [*filter(None, self.partitions)]}),
            **figures({"by": self.run.user or self.run.dag_id or self.run.run_id}),
            **figures({"why": self.why}),
            **figures({"took in": tuple(each.in_words() for each in self.appends)}),
        }


_HEADER = msgspec.json.Decoder(TxnHeader)


def encode(header: TxnHeader, log_file: bytes) -> bytes:
    """Return the bytes of a transaction's file."""
    return seal(msgspec.json.encode(header), log_file)


def decode(key: str, data: bytes, paths: TablePaths) -> tuple[TxnHeader, bytes]:
    """Return header and log file of a transaction. Raises LogCorruptError, ForeignPathError."""
    pieces = data.split(b"\n", 2)
    if len(pieces) < 3:
        raise corrupt(key, 1, "the transaction's log file is missing")
    check_seal(key, 2, pieces[0], pieces[1], pieces[2])
    header = decode_header(key, data, paths)
    if header is None:  # cannot be: the first line is whole
        raise corrupt(key, 1, "the header does not end")
    return header, pieces[2]


def decode_header(key: str, head: bytes, paths: TablePaths) -> TxnHeader | None:
    """Return the header from the first bytes of a file; None if they end before it does.

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
            next_step=UPGRADE_TO_USE,
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
    """Return the log files that a transaction folded itself, which existed when it committed."""
    # Log tombstones that it carries over from folded log files have older times.
    return frozenset(tombstone.p for tombstone in content.tombstones if tombstone.t == content.t)
