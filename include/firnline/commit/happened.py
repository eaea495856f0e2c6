"""Decide whether a transaction whose object was just created has taken effect.

A process may sleep right before its create-only put, while others use the number, and clean-up
deletes the object: then the put succeeds, and the transaction has not happened. The newest hundred
transactions are never deleted, so what came after it shows this (docs/format.md, "The fence").
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from firnline.commit.base import HEADER_BYTES
from firnline.errors import (
    CommitExpiredError,
    CommitUnknownError,
    LogCorruptError,
    ObjectNotFoundError,
)
from firnline.log import chain, txn_file
from firnline.log.reader import list_log, newest_seq
from firnline.log.txn_file import TxnHeader
from firnline.state.birth import last_number
from firnline.store.base import ObjectMeta
from firnline.store.present import head_or_none
from firnline.table import Table


def has_happened(table: Table, header: TxnHeader, data: bytes, logs: Collection[str] = ()) -> bool:
    """Return True if a transaction, whose object this process has created, has taken effect.

    Requests: 1 LIST. If another transaction came after it 1 ranged GET more; without an object of
    the transaction before it (for the first of a table, and after a clone, rebuild or downgrade) 1
    LIST of ``_log/`` more. If none of ``logs`` is left there 1 GET of the birth record, and 1 HEAD
    of both if that states that the number was used up.

    Args:
        table: the table.
        header: of the transaction.
        data: its object.
        logs: log files of its base. A downgrade deletes them when it deletes the history.

    Raises:
        CommitUnknownError: this process slept until the evidence was deleted.
        LogCorruptError, StoreError: not known either.
    """
    paths = table.paths
    # The birth record is no evidence: a downgrade leaves it.
    start = paths.txn(max(header.seq - 2, 0))
    numbers = list(_numbers(table, table.store.list(paths.txn_dir, start), header.seq))
    later = max(numbers, default=0)
    if later == header.seq + 1:
        before = _before(table, later)
        if before:
            return before == chain.header_digest(paths.txn(header.seq), data.partition(b"\n")[0])
    elif later <= header.seq and header.seq - 1 in numbers:
        return True
    return _is_the_logs(table, header, later, logs)


def not_happened(table: Table, header: TxnHeader) -> CommitExpiredError:
    """Return the error for a transaction that has not taken effect."""
    return CommitExpiredError(
        f"this {header.op} slept until others had used its number, so transaction "
        f"{table.paths.txn(header.seq)} has not happened",
        next_step="run it again; nothing was committed, and clean-up deletes that object",
    )


def _numbers(table: Table, metas: Iterator[ObjectMeta], seq: int) -> Iterator[int]:
    """Yield the numbers from the one before ``seq`` to the first after it.

    What is no transaction is not looked at: this one is there, and ``verify`` reports the object.
    """
    for meta in metas:
        try:
            number = table.paths.parse_txn(meta.key)
        except LogCorruptError:
            continue
        if number >= seq - 1:
            yield number
        if number > seq:
            return


def _before(table: Table, later: int) -> str:
    """Return the digest of the transaction before one; empty if it is gone, or states none."""
    key = table.paths.txn(later)
    try:
        head = table.store.get_range(key, 0, HEADER_BYTES)
    except ObjectNotFoundError:
        return ""
    header = txn_file.decode_header(key, head, table.paths)
    return "" if header is None else header.before


def _is_the_logs(table: Table, header: TxnHeader, later: int, logs: Collection[str]) -> bool:
    """Return True if the log has this transaction, or none with its number or a later one.

    A later one was committed on this one, or on another with its number: once the log file of that
    is deleted, nobody can tell. Raises CommitUnknownError.
    """
    listing, _ = list_log(table.store, table.paths)
    newest = newest_seq(listing)
    if header.log in listing or newest == header.seq:
        return header.log in listing
    if listing.keys().isdisjoint(logs) and _was_used(table, header.seq):
        return False
    if max(newest, later) <= header.seq:
        return True
    raise CommitUnknownError(
        f"this {header.op} slept until transaction {max(newest, later)}, so it is not known "
        f"whether its own, {table.paths.txn(header.seq)}, has happened",
        next_step="see in the rows, or with `firnline history`, what became of it; nothing was "
        "deleted",
    )


def _was_used(table: Table, seq: int) -> bool:
    """Return True if a transaction was created after a downgrade had found its number in use.

    By the store's times of both: the downgrade writes the birth record before it deletes the
    history, and a transaction that it has deleted had happened.
    """
    if seq > last_number(table.store, table.paths):
        return False
    own, born = (head_or_none(table.store, table.paths.txn(number)) for number in (seq, 0))
    return own is not None and born is not None and own.modified_ms >= born.modified_ms
