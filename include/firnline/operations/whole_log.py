"""Commits a log file that stands for the whole table: of a rebuild, of a downgrade.

As every transaction it is committed by a create-only put under ``_txn/`` and published from there:
a rival that commits at the same time loses or wins, and a crash at any call leaves either nothing
or a transaction that whoever comes next publishes.
"""

from __future__ import annotations

import logging

from firnline.base import publish
from firnline.errors import (
    CommitConflictError,
    CommitExpiredError,
    CommitUnknownError,
    FirnlineError,
    OutcomeUnknownError,
    StoreUnavailableError,
)
from firnline.log import txn_file
from firnline.log.txn_file import TxnHeader
from firnline.store.create import create
from firnline.table import Table

_LOG = logging.getLogger(__name__)


def commit_whole(table: Table, header: TxnHeader, log_file: bytes, began_ms: int) -> bool:
    """Commit and publish; True when the log file stands under ``_log/``.

    Requests: 2 PUT.

    Args:
        table: the table.
        header: of the transaction; its number is the newest one's plus 1.
        log_file: what it publishes.
        began_ms: ``Clock.elapsed_ms`` from before the table was read.

    Raises:
        CommitExpiredError: more than ``commit_ttl`` since then; nothing was committed.
        CommitConflictError: a rival has the number; nothing was committed.
        CommitUnknownError: nobody can say whether it took effect.
    """
    started, ttl = table.clock.elapsed_ms(), table.settings.commit_ttl
    if started - began_ms > ttl:
        raise CommitExpiredError(
            f"this {header.op} read the table {(started - began_ms) // 1000} s ago, longer than "
            f"commit_ttl ({ttl // 1000} s)",
            next_step="run it again, or raise commit_ttl",
        )
    key = table.paths.txn(header.seq)
    try:
        rival = create(
            table.store,
            key,
            txn_file.encode(header, log_file),
            may_put=lambda: table.clock.elapsed_ms() - began_ms <= ttl,
        )
    except (OutcomeUnknownError, StoreUnavailableError) as error:
        raise CommitUnknownError(
            f"nobody can say whether transaction {key} was written ({error.message})",
            next_step="run it again: it sees what became of this one; nothing was deleted",
        ) from error
    if rival is not None:
        raise CommitConflictError(
            f"somebody else committed transaction {key} meanwhile",
            next_step="stop the table's other runs and run it again",
        )
    try:
        return publish(table, header, log_file, started)
    except FirnlineError as error:
        # Committed it is: whoever takes the next base publishes it.
        _LOG.warning("transaction %d is committed but not published yet: %s", header.seq, error)
        return False
