"""The base of a transaction: the newest state, with everything published that is committed.

(docs/format.md, "Transactions", steps 1 and 5; the order of the requests is the argument, keep it.)
"""

from __future__ import annotations

from dataclasses import dataclass

from firnline.errors import ObjectNotFoundError, SnapshotUnstableError
from firnline.log import txn_file
from firnline.log.txn_file import TxnHeader
from firnline.properties import birth
from firnline.properties.in_force import current, disagree, put_within
from firnline.properties.record import Properties
from firnline.state.health import Watch, refuse_objects
from firnline.state.snapshot import Snapshot, read_snapshot
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
    born: bool = False
    """A table without transactions has a birth record."""

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
    may_hold_objects: bool = False,
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
        may_hold_objects: objects without a log are none of a table that was lost: an import takes
            them in where they lie.

    Raises:
        SnapshotUnstableError: rivals committed during every attempt.
        LogLostError: log files are lost.
        SchemaConflictError: unless ``tolerant``; a committed repair of it is published first.
        PropertiesDifferError, SettingsError: see ``properties.in_force``.
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
        if not snapshot.listing and not may_hold_objects:
            refuse_objects(table)
        if snapshot.conflict is not None and not tolerant:
            raise snapshot.conflict
        known = stated(table, snapshot, born=watch.born)
        began = started if began_ms is None else began_ms
        return Base(snapshot, began, table.under(known), known, watch.born)
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


def publish(table: Table, header: TxnHeader, log_file: bytes, read_at_ms: int) -> bool:
    """Create the log file of a committed transaction; True when it stands there afterwards.

    A publisher later than half the grace after it read the transaction leaves it to others: the
    log file may have been published, folded and deleted since, and must not come back. The grace is
    the table's, by which clean-up goes: whoever comes for the first time knows it from the header.
    """
    said = header.properties
    half = put_within(table.settings, None if said is None else said.grace)

    def in_time() -> bool:
        return table.clock.elapsed_ms() - read_at_ms <= half

    if not in_time():
        return False
    create(table.store, header.log, log_file, may_put=in_time)
    return True
