"""The base of a transaction: the newest state, with everything published that is committed.

(docs/format.md, "Transactions", steps 1 and 5; the order of the requests is the argument, keep it.)
"""

from __future__ import annotations

from dataclasses import dataclass

from firnline.errors import SnapshotUnstableError
from firnline.log.txn_file import TxnHeader
from firnline.snapshot import Snapshot, read_snapshot
from firnline.state.health import Watch, refuse_objects
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

    Requests: those of ``read_snapshot``, 1 LIST of ``_txn/`` among them; per unpublished
    transaction one PUT besides, and both lists anew. Of a table without a log file 1 LIST of
    ``_data/``.

    Args:
        table: the table.
        began_ms: ``Clock.elapsed_ms`` of the operation's first snapshot, when rebasing.
        everything: see ``read_log``.
        tolerant: see ``snapshot.build``.

    Raises:
        SnapshotUnstableError: rivals committed during every attempt.
        LogLostError: log files are lost.
        SchemaConflictError: unless ``tolerant``; a committed repair of it is published first.
    """
    watch = Watch(table.store, table.paths)
    for _ in range(ATTEMPTS):
        started = table.clock.elapsed_ms()
        snapshot = read_snapshot(
            table.store, table.paths, everything=everything, tolerant=True, watch=watch
        )
        newest = watch.health.unpublished
        if newest is not None:
            # Only the newest transaction can be unpublished, and only on what it was committed on.
            publish(table, newest.header, newest.log_file, started)
            continue
        if not snapshot.listing:
            refuse_objects(table)
        if snapshot.conflict is not None and not tolerant:
            raise snapshot.conflict
        return Base(snapshot, started if began_ms is None else began_ms)
    raise SnapshotUnstableError(
        f"transactions under {table.paths.txn_dir} were committed during each of {ATTEMPTS} "
        "attempts to read the table",
        next_step="try again when fewer runs maintain this table at once",
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
