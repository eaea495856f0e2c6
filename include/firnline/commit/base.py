"""The base of a transaction: the newest state, after publishing any unpublished transaction.

(docs/format.md, "Transactions", steps 1 and 5; the order of the requests is the argument, keep it.)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from firnline.errors import ObjectNotFoundError, SnapshotUnstableError
from firnline.log import txn_file
from firnline.log.txn_file import TxnHeader
from firnline.properties.in_force import current, disagree, put_within
from firnline.properties.record import Birth, Properties
from firnline.state.birth import read_birth
from firnline.state.health import Watch, refuse_objects
from firnline.state.history import heads
from firnline.state.snapshot import Snapshot, read_snapshot
from firnline.store.create import create
from firnline.table import Table

HEADER_BYTES = 64 * 1024
"""First bytes of a transaction's file; a header that names 1,000 partitions fits."""
ATTEMPTS = 20
"""Maximum number of times that a commit is rebased, or a base read again."""


@dataclass(frozen=True, slots=True)
class Base:
    """The state and properties on which a transaction is planned and committed."""

    snapshot: Snapshot
    began_ms: int
    """``Clock.elapsed_ms`` from before the operation's first snapshot; rebasing keeps it."""
    table: Table
    """The table with the settings in force: its own properties override the settings."""
    properties: Properties | None
    """The table's own properties; None: none yet, the first commit records them."""
    born: bool = False
    """True if a table without transactions has a birth record."""
    began_seq: int = 0
    """Newest transaction of the operation's first snapshot; rebasing keeps it."""
    last: int = 0
    """The last number in use before a downgrade, where the log may not show it; 0 otherwise."""
    listed_ms: int = 0
    """Wall clock from before the log was listed, unix ms: ``began_ms`` may stand while a machine is
    paused, and does not tell how old this state is."""

    @property
    def seq(self) -> int:
        """Number that the next transaction follows: that of the newest one."""
        return self.snapshot.seq or self.last


def take_base(
    table: Table,
    *,
    since: Base | None = None,
    everything: bool = False,
    tolerant: bool = False,
    may_hold_objects: bool = False,
    doubled: bool = False,
    checkpoint_above: int | None = None,
) -> Base:
    """Read the newest state, and publish a transaction that is committed but not yet published.

    Requests: those of ``read_snapshot``, 1 LIST of ``_txn/`` among them; per unpublished
    transaction 1 PUT more, and both lists again. For a table without a log file 1 LIST of
    ``_data/``.

    Args:
        table: the table.
        since: an earlier base of the same operation, when rebasing: it keeps when that began.
        everything: see ``read_log``.
        tolerant: see ``snapshot.build``.
        may_hold_objects: do not take objects without a log for those of a lost table: an import
            adopts them where they are.
        doubled: accept rows that are there twice: an append adds to them in any case.
        checkpoint_above: bytes of log above which it is read by a checkpoint, where there is one:
            for a plan that is only shown, as nothing can be committed on such a base. None: all of
            the log is read.

    Raises:
        SnapshotUnstableError: rivals committed during every attempt.
        DoubledRowsError: unless ``doubled``.
        SchemaConflictError: unless ``tolerant``; a committed repair of it is published first.
        PropertiesDifferError, SettingsError: see ``properties.in_force``.
    """
    watch = Watch(table.store, table.paths)
    read = _reader(table, watch, everything=everything, checkpoint_above=checkpoint_above)
    for _ in range(ATTEMPTS):
        started, now = table.clock.elapsed_ms(), table.clock.now_ms()
        snapshot = read()
        newest = watch.health.unpublished
        if newest is not None:
            # Only the newest transaction can be unpublished, and only on the log that was its base.
            publish(table, newest.header, newest.log_file, started)
            continue
        if not snapshot.listing and not may_hold_objects:
            refuse_objects(table)
        if not doubled:
            snapshot.refuse_doubled()
        if snapshot.conflict is not None and not tolerant:
            raise snapshot.conflict
        base = _base(table, snapshot, watch, started, now)
        if since is None:
            return base
        return replace(base, began_ms=since.began_ms, began_seq=since.began_seq)
    raise SnapshotUnstableError(
        f"transactions under {table.paths.txn_dir} were committed during each of {ATTEMPTS} "
        "attempts to read the table",
        next_step="try again when fewer runs maintain this table at the same time",
    )


def read_base(
    table: Table, *, everything: bool = False, checkpoint_above: int | None = None
) -> Base:
    """Read the newest state and write nothing: of ``take_base`` what plans need that only look.

    A transaction that is committed and not published yet is part of the state; it stays so.

    Requests: those of ``take_base`` for a log without an unpublished transaction.

    Args:
        table: the table.
        everything: see ``read_log``.
        checkpoint_above: see ``take_base``.

    Raises:
        LogLostError: there are objects and no log.
        DoubledRowsError, SchemaConflictError: as ``take_base``.
        PropertiesDifferError, SettingsError: as ``take_base``.
    """
    began, now = table.clock.elapsed_ms(), table.clock.now_ms()
    watch = Watch(table.store, table.paths)
    snapshot = _reader(table, watch, everything=everything, checkpoint_above=checkpoint_above)()
    if not snapshot.listing:
        refuse_objects(table)
    snapshot.refuse_doubled()
    if snapshot.conflict is not None:
        raise snapshot.conflict
    return _base(table, snapshot, watch, began, now)


def _reader(
    table: Table, watch: Watch, *, everything: bool, checkpoint_above: int | None
) -> Callable[[], Snapshot]:
    """Return what reads the newest state, whose mistakes a base refuses by itself."""
    return partial(
        read_snapshot,
        table.store,
        table.paths,
        everything=everything,
        tolerant=True,
        checkpoint_above=checkpoint_above,
        watch=watch,
    )


def _base(table: Table, snapshot: Snapshot, watch: Watch, began: int, now: int) -> Base:
    properties, last = _stated(table, snapshot, born=watch.born, birth=watch.health.birth)
    own, seq = table.under(properties), snapshot.seq or last
    return Base(snapshot, began, own, properties, watch.born, seq, last, now)


def stated(table: Table, snapshot: Snapshot, *, born: bool) -> Properties | None:
    """Return the properties in force; None for a table without properties of its own yet.

    Requests: none if the log states them. If not (after a downgrade, or if a client of version 1
    has folded the record away), or if appends that began the table at the same time disagree, one
    GET of the birth record, and unless that is of a later downgrade one of the newest transaction's
    header.

    Args:
        table: the table.
        snapshot: its newest state.
        born: there is a birth record; a table with transactions is checked for one.

    Raises LogCorruptError.
    """
    return _stated(table, snapshot, born=born)[0]


def _stated(
    table: Table, snapshot: Snapshot, *, born: bool, birth: Birth | None = None
) -> tuple[Properties | None, int]:
    """Return the properties, and the last number that the birth record states if it was read.

    ``birth``: the record, if the log was judged by it.
    """
    records = snapshot.properties
    agree = bool(records) and not disagree(records)
    if agree and not _may_be_late(snapshot):
        return current(records), 0
    if birth is None and (born or snapshot.seq):
        birth = read_birth(table.store, table.paths)
    last = 0 if birth is None else birth.last
    properties = None if birth is None else birth.properties
    if snapshot.seq <= last and properties is not None:
        # What the log or an object under a used number says came too late.
        return properties, last
    if agree:
        return current(records), last
    if snapshot.seq:
        properties = of_history(table, snapshot.seq)
    return current(records) if properties is None else properties, last


def _may_be_late(snapshot: Snapshot) -> bool:
    """Return True if only appends state the properties, and the log may be one after a downgrade.

    Then they may be those of a first append that slept through it. Such a log holds the downgrade's
    own log file, which has no digest, or what clients of version 1 have made of it.
    """
    if snapshot.digest or any(record.seq for record in snapshot.properties):
        return False
    kinds = {item.name.kind for item in snapshot.listing.values()}
    return kinds != {"append"}


def of_history(table: Table, seq: int) -> Properties | None:
    """Return the properties that ``_txn/`` states as of a transaction; 0: the birth record.

    Requests: 1 ranged GET. None if nothing states any. Raises LogCorruptError.
    """
    if not seq:
        birth = read_birth(table.store, table.paths)
        return None if birth is None else birth.properties
    key = table.paths.txn(seq)
    try:
        head = table.store.get_range(key, 0, HEADER_BYTES)
    except ObjectNotFoundError:
        # Lost since it was listed, or never there.
        return of_history(table, 0)
    header = txn_file.decode_header(key, head, table.paths)
    return None if header is None else header.properties


def digest_of(table: Table, base: Base) -> str:
    """Return the digest of the newest transaction (``log.chain``); empty if that is gone.

    Also if a downgrade has used its number up: what is there was created afterwards.

    Requests: none if the log has it. If not (an older version committed it, or a client of version
    1 has folded its log file), one ranged GET of its header, and a whole one if that is long.

    Raises LogCorruptError.
    """
    snapshot = base.snapshot
    if snapshot.digest or snapshot.seq <= base.last:
        return snapshot.digest
    pairs = heads(table, [table.paths.txn(snapshot.seq)])
    return pairs[0][1] if pairs else ""  # a downgrade has deleted the history


def publish(table: Table, header: TxnHeader, log_file: bytes, read_at_ms: int) -> bool:
    """Create the log file of a committed transaction; return True if that was done in time.

    After half the grace since the transaction was read, publishing is left to others: the log file
    may have been published, folded and deleted since, and must not come back. The grace is the
    table's, as for clean-up: a client that opens the table for the first time reads it from the
    header.
    """
    own = header.properties
    half = put_within(table.settings, None if own is None else own.grace)

    def in_time() -> bool:
        return table.clock.elapsed_ms() - read_at_ms <= half

    if not in_time():
        return False
    create(table.store, header.log, log_file, may_put=in_time)
    # A process that slept right before the put may have brought it back, and knows nothing any more
    # of the state that it belongs to: it shall write no checkpoint of that, and take a new base.
    return in_time()
