"""Decide whether a transaction whose object was just created has taken effect.

A process may sleep right before its create-only put, while others use the number, and clean-up
deletes the object: then the put succeeds, and the transaction has not happened. The newest hundred
transactions are never deleted, so those that came after it show this (docs/format.md, "The fence").
"""

from __future__ import annotations

from collections.abc import Iterator

from firnline.commit.base import HEADER_BYTES
from firnline.errors import CommitExpiredError
from firnline.log import chain, txn_file
from firnline.log.reader import list_log
from firnline.log.txn_file import TxnHeader
from firnline.store.base import ObjectMeta
from firnline.table import Table


def has_happened(table: Table, header: TxnHeader, data: bytes) -> bool:
    """Return True if a transaction, whose object this process has created, has taken effect.

    Requests: 1 LIST. If another transaction came after it 1 ranged GET more; without an object of
    the transaction before it (for the first of a table, and after a clone, rebuild or downgrade) 1
    LIST of ``_log/`` more.

    Args:
        table: the table.
        header: of the transaction.
        data: its object.

    Raises LogCorruptError, StoreError: not known.
    """
    paths = table.paths
    # The birth record is no evidence: a downgrade leaves it, and nothing else of the history.
    start = paths.txn(max(header.seq - 2, 0))
    numbers = list(_numbers(table, table.store.list(paths.txn_dir, start), header.seq))
    later = max(numbers, default=0)
    if later == header.seq + 1:
        return _follows(table, later, header, data)
    if later > header.seq:
        return False
    return header.seq - 1 in numbers or not _superseded(table, header)


def not_happened(table: Table, header: TxnHeader) -> CommitExpiredError:
    """Return the error for a transaction that has not taken effect."""
    return CommitExpiredError(
        f"this {header.op} slept until others had used its number, so transaction "
        f"{table.paths.txn(header.seq)} has not happened",
        next_step="run it again; nothing was committed, and clean-up deletes that object",
    )


def _numbers(table: Table, metas: Iterator[ObjectMeta], seq: int) -> Iterator[int]:
    """Yield the numbers from the one before ``seq`` to the first after it."""
    for meta in metas:
        number = table.paths.parse_txn(meta.key)
        if number >= seq - 1:
            yield number
        if number > seq:
            return


def _follows(table: Table, later: int, header: TxnHeader, data: bytes) -> bool:
    """Return True if the next transaction was committed on this one."""
    key, mine = table.paths.txn(later), table.paths.txn(header.seq)
    found = txn_file.decode_header(key, table.store.get_range(key, 0, HEADER_BYTES), table.paths)
    before = "" if found is None else found.before
    if before:
        return before == chain.header_digest(mine, data.partition(b"\n")[0])
    # An older version committed it, after it had published this one.
    return header.log in list_log(table.store, table.paths)[0]


def _superseded(table: Table, header: TxnHeader) -> bool:
    """Return True if the log has a transaction with this number, or a later one, already."""
    listing, _ = list_log(table.store, table.paths)
    return any(i.name.seq >= header.seq for k, i in listing.items() if k != header.log)
