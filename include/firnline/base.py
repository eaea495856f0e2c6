"""The base of a transaction: the newest state, with everything published that is committed.

(docs/format.md, "Transactions", steps 1 and 5; the order of the requests is the argument, keep it.)
"""

from __future__ import annotations

from dataclasses import dataclass

from firnline.errors import LogCorruptError, SnapshotUnstableError
from firnline.log import codec, txn_file
from firnline.log.records import LogContent
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
    missing = ""
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
        lost = _lost(table, snapshot, key)
        if isinstance(lost, LogCorruptError):
            # Either rivals were quick between the two listings, or the log is lost, and what is
            # left must not look like a table.
            if key == missing:
                raise lost
            missing = key
            continue
        publish(table, *lost, read_at)
    raise SnapshotUnstableError(
        f"transactions under {table.paths.txn_dir} were committed during each of {ATTEMPTS} "
        "attempts to read the table",
        next_step="try again when fewer runs maintain this table at once",
    )


def _lost(table: Table, snapshot: Snapshot, key: str) -> LogCorruptError | tuple[TxnHeader, bytes]:
    """What says that the log is lost; else header and log file of the transaction to publish."""
    newest = table.paths.parse_txn(key)
    if newest > snapshot.seq + 1:
        # Whoever committed it had published the one before.
        found = f"transaction {newest - 1} was published, but nothing under {{}} is as new"
        return _corrupt(table, found)
    header, log_file = txn_file.decode(key, table.store.get(key), table.paths)
    if not snapshot.seq and _stood_on_others(
        snapshot, header, codec.decode(header.log, log_file, table.paths)
    ):
        found = f"transaction {newest} was committed on log files, and none of them is under {{}}"
        return _corrupt(table, found)
    return header, log_file


def _stood_on_others(snapshot: Snapshot, header: TxnHeader, content: LogContent) -> bool:
    """Whether log files that were there before the first transaction are gone, all of them.

    Nobody deletes one that it folded before it is published, but a client of version 1 that has
    folded it too. A transaction that folded none and buried no part was committed on an empty
    log, and cannot be told from one that was never published (docs/guarantees.md).
    """
    folded = txn_file.folded_by(content)
    if folded:
        return folded.isdisjoint(snapshot.listing.keys() | snapshot.log_tombstones.keys())
    buried = any(marker.tmb is not None for marker in content.markers)
    return buried and not snapshot.listing and header.op != "rebuild"


def _corrupt(table: Table, found: str) -> LogCorruptError:
    return LogCorruptError(
        found.format(table.paths.log_dir),
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
