"""The base of a transaction: the newest state, with everything published that is committed.

(docs/format.md, "Transactions", steps 1 and 5; the order of the requests is the argument, keep it.)
"""

from __future__ import annotations

from dataclasses import dataclass

from firnline.errors import LogCorruptError, SnapshotUnstableError
from firnline.log import txn_file
from firnline.log.txn_file import TxnHeader
from firnline.snapshot import Snapshot, read_snapshot
from firnline.store.create import create
from firnline.table import Table

ATTEMPTS = 20
"""How often a commit is rebased, or a base taken again, before it gives up."""


@dataclass(frozen=True, slots=True)
class Base:
    """What a transaction is planned and committed on."""

    snapshot: Snapshot
    began_ms: int
    """``Clock.elapsed_ms`` from before the operation's first snapshot; rebasing keeps it."""

    @property
    def seq(self) -> int:
        """The newest transaction of the snapshot."""
        return self.snapshot.seq


def take_base(
    table: Table,
    *,
    began_ms: int | None = None,
    everything: bool = False,
    tolerant: bool = False,
) -> Base:
    """Read the newest state, publishing a committed transaction that nobody published yet.

    Requests: those of ``read_snapshot`` and one LIST of ``_txn/``; per unpublished transaction
    one GET and one PUT besides.

    Args:
        table: the table.
        began_ms: ``Clock.elapsed_ms`` of the operation's first snapshot, when rebasing.
        everything: see ``read_log``.
        tolerant: see ``snapshot.build``.

    Raises:
        SnapshotUnstableError: rivals committed during every attempt.
        LogCorruptError: log files are lost.
        SchemaConflictError: unless ``tolerant``; a committed repair of it is published first.
    """
    missing = 0
    for _ in range(ATTEMPTS):
        started = table.clock.elapsed_ms()
        snapshot = read_snapshot(table.store, table.paths, everything=everything, tolerant=True)
        # From the names of the very listing that was read: its newest transaction cannot have
        # been folded by anybody. Only the newest of what follows can be unpublished.
        after = table.paths.txn(snapshot.seq) if snapshot.seq else None
        newer = [meta.key for meta in table.store.list(table.paths.txn_dir, after)]
        if not newer:
            if snapshot.conflict is not None and not tolerant:
                raise snapshot.conflict
            return Base(snapshot, started if began_ms is None else began_ms)
        read_at = table.clock.elapsed_ms()
        key = max(newer)
        if (newest := table.paths.parse_txn(key)) > snapshot.seq + 1:
            # Whoever committed it had published the one before. Either rivals were quick between
            # the two listings, or the log is lost, and what is left must not look like a table.
            if newest == missing:
                raise _lost(table, newest - 1)
            missing = newest
            continue
        header, log_file = txn_file.decode(key, table.store.get(key), table.paths)
        publish(table, header, log_file, read_at)
    raise SnapshotUnstableError(
        f"transactions under {table.paths.txn_dir} were committed during each of {ATTEMPTS} "
        "attempts to read the table",
        next_step="try again when fewer runs maintain this table at once",
    )


def _lost(table: Table, seq: int) -> LogCorruptError:
    return LogCorruptError(
        f"transaction {seq} was published, but nothing under {table.paths.log_dir} is as new",
        next_step="look what became of the log files; `firnline rebuild` writes the log anew",
    )


def publish(table: Table, header: TxnHeader, log_file: bytes, read_at_ms: int) -> bool:
    """Create the log file of a committed transaction; True when it stands there afterwards.

    A publisher later than half the grace after it read the transaction leaves it to others: the
    log file may have been published, folded and deleted since, and must not come back.
    """
    half = table.settings.cleanup.grace // 2

    def in_time() -> bool:
        return table.clock.elapsed_ms() - read_at_ms <= half

    if not in_time():
        return False
    create(table.store, header.log, log_file, may_put=in_time)
    return True
