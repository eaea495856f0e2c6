"""The base of a transaction: the newest state, with everything published that is committed.

(docs/format.md, "Transactions", steps 1 and 5; the order of the requests is the argument, keep it.)
"""

from __future__ import annotations

from dataclasses import dataclass

from firnline.errors import LogCorruptError, ObjectNotFoundError, SnapshotUnstableError
from firnline.log import birth, codec, txn_file
from firnline.log.properties import Properties
from firnline.log.records import LogContent
from firnline.log.txn_file import TxnHeader
from firnline.properties import current, disagree
from firnline.snapshot import Snapshot, read_snapshot
from firnline.store.create import create
from firnline.table import Table

HEADER_BYTES = 64 * 1024
"""First bytes of a transaction's file; a header that names 1,000 partitions fits."""
ATTEMPTS = 20
"""How often a commit is rebased, or a base taken again, before it gives up."""


@dataclass(frozen=True, slots=True)
class Base:
    """What a transaction is planned and committed on."""

    snapshot: Snapshot
    began_ms: int
    """``Clock.elapsed_ms`` from before the operation's first snapshot; rebasing keeps it."""
    table: Table
    """With the settings in force: what the table says itself stands in place of theirs."""
    properties: Properties | None
    """What the table says itself; None: nothing yet, the first commit writes them down."""

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
        PropertiesDifferError, SettingsError: see ``properties.in_force``.
    """
    missing = ""
    for _ in range(ATTEMPTS):
        started = table.clock.elapsed_ms()
        snapshot = read_snapshot(table.store, table.paths, everything=everything, tolerant=True)
        # From the names of the very listing that was read: its newest transaction cannot have
        # been folded by anybody. Only the newest of what follows can be unpublished.
        after = table.paths.txn(snapshot.seq) if snapshot.seq else None
        found = [meta.key for meta in table.store.list(table.paths.txn_dir, after)]
        newer = [key for key in found if key != table.paths.birth]
        if not newer:
            if snapshot.conflict is not None and not tolerant:
                raise snapshot.conflict
            known = stated(table, snapshot, born=bool(found))
            began = started if began_ms is None else began_ms
            return Base(snapshot, began, table.under(known), known)
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


def stated(table: Table, snapshot: Snapshot, *, born: bool) -> Properties | None:
    """Return the properties in force; None for a table that says nothing of itself yet.

    Requests: none where the log says them. Where it does not, as after a downgrade or where a
    client of version 1 has folded the record away, and where appends that began the table at once
    disagree, one GET: of the newest transaction's header, or of the birth record.

    Args:
        table: the table.
        snapshot: its newest state.
        born: there is a birth record; for a table with transactions it is looked for.

    Raises LogCorruptError.
    """
    records = snapshot.properties
    if records and not disagree(records):
        return current(records)
    found = of_history(table, snapshot.seq) if snapshot.seq or born else None
    return current(records) if found is None else found


def of_history(table: Table, seq: int) -> Properties | None:
    """Return what ``_txn/`` says of the properties as of a transaction; 0: the birth record.

    Requests: 1 ranged GET. None where nothing says any. Raises LogCorruptError.
    """
    key = table.paths.txn(seq)
    try:
        head = table.store.get_range(key, 0, HEADER_BYTES)
    except ObjectNotFoundError:
        # A downgrade leaves nothing of the history but a birth record.
        return of_history(table, 0) if seq else None
    if not seq:
        return birth.decode(key, head).properties
    header = txn_file.decode_header(key, head, table.paths)
    return None if header is None else header.properties


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
