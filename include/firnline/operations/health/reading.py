"""Read a table once for all figures of its health. Writes nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from types import MappingProxyType

from firnline.commit.base import read_base
from firnline.errors import FirnlineError, LogCorruptError
from firnline.log.reader import LogObject, list_log
from firnline.log.txn_file import TxnHeader
from firnline.operations.cleanup.estimate import CleanupEstimate, estimate_cleanup
from firnline.operations.cleanup.plan import CleanupPlan, plan_cleanup
from firnline.operations.cleanup.retention import TXN_KEPT
from firnline.operations.drop.expired import TtlPlan, plan_ttl
from firnline.operations.health.erases import Erased, erases_of
from firnline.operations.merge.plan import MergePlan, plan_merge
from firnline.operations.prepared.objects import entries
from firnline.operations.prepared.waiting import WaitingChange, waiting_of
from firnline.properties.record import Properties
from firnline.settings.load import TableSettings
from firnline.state.health import no_table
from firnline.state.history import history
from firnline.state.holds import Held
from firnline.state.snapshot import CHECKPOINT_ABOVE, Snapshot
from firnline.store.base import ObjectMeta
from firnline.table import Table

HEADERS = 20
"""Newest transactions that are read, for the last one of each operation."""


@dataclass(frozen=True, slots=True)
class Seen:
    """The state of a log at one time, by which a later look tells that nothing was written since.

    Log files and transactions are created once and never changed: two listings with the same names
    are the same state.
    """

    seq: int
    """Newest transaction."""
    log: bytes
    """Digest of the listing of ``_log/``."""
    prepared: frozenset[str]
    """Keys under ``_prepared/``."""
    at_ms: int


def unchanged(table: Table, seen: Seen) -> bool:
    """Return True if nothing was written since; nothing is fetched.

    Requests: 3 LIST: of ``_log/``, of ``_txn/`` after the newest transaction that was seen, and of
    ``_prepared/``.

    Raises:
        FirnlineError: the store cannot be listed.
    """
    listing, _ = list_log(table.store, table.paths)
    if _digest(listing) != seen.log:
        return False
    newer = table.store.list(table.paths.txn_dir, table.paths.txn(seen.seq))
    if next(iter(newer), None) is not None:
        return False
    return seen.prepared == frozenset(m.key for m in table.store.list(table.paths.prepared_dir))


def _digest(listing: Mapping[str, LogObject]) -> bytes:
    digest = blake2b(digest_size=16)
    for key in sorted(listing):
        digest.update(f"{key}\n{listing[key].size}\n".encode())
    return digest.digest()


@dataclass(frozen=True, slots=True)
class Prepared:
    """What is prepared and waits for somebody to commit or discard it."""

    keys: frozenset[str]
    changes: tuple[WaitingChange, ...]
    problem: str = ""
    """Why it cannot be read."""


@dataclass(frozen=True)
class Reading:
    """A table as it was read, once for all of its figures; plans are made on demand."""

    snapshot: Snapshot
    settings: TableSettings
    """In force: the table's own properties among them."""
    wanted: TableSettings
    """The caller's own."""
    properties: Properties | None
    headers: Sequence[TxnHeader]
    """Newest transactions, newest first."""
    old: Sequence[ObjectMeta]
    """Listing of ``_txn/`` from its beginning; empty for a short history."""
    prepared: Prepared
    now_ms: int
    erases: tuple[Erased, ...] = ()
    """The newest erases, newest first, where they were asked for."""

    @property
    def seen(self) -> Seen:
        """The state that was read."""
        log = _digest(self.snapshot.listing)
        return Seen(self.snapshot.seq, log, self.prepared.keys, self.now_ms)

    @cached_property
    def merge(self) -> MergePlan | FirnlineError:
        """The plan of a merge, or why there is none."""
        try:
            return plan_merge(self.snapshot, self.settings, self.now_ms)
        except FirnlineError as error:
            return error

    @cached_property
    def ttl(self) -> TtlPlan | FirnlineError | None:
        """The plan of a TTL run, or why there is none; None for a table without a TTL."""
        if self.settings.ttl is None:
            return None
        try:
            return plan_ttl(self.snapshot, self.settings, self.now_ms)
        except FirnlineError as error:
            return error

    def cleanup(self, max_deletes: int | None = None) -> CleanupPlan | CleanupEstimate:
        """Return the plan of a clean-up, or an estimate of it if a checkpoint was read.

        ``max_deletes``: None for the bound of the settings.
        """
        plan = estimate_cleanup if self.snapshot.covered else plan_cleanup
        return plan(self.snapshot, self.old, self.settings, self.now_ms, max_deletes)


def read(
    table: Table,
    headers: int = HEADERS,
    known: Mapping[int, TxnHeader] = MappingProxyType({}),
    erases: Mapping[str, Erased] | None = None,
    *,
    checkpoint_above: int = CHECKPOINT_ABOVE,
) -> Reading:
    """Read a table's log and the newest headers of its transactions.

    Requests: 2 LIST and one GET per log file, folded ones too; 1 LIST and a ranged GET for each
    header, if any is asked for; 1 LIST more once there are more than 100 transactions; 1 LIST of
    ``_prepared/``, and 1 GET for each prepared change; with ``erases`` those of ``erases_of``.
    Above ``CHECKPOINT_ABOVE`` bytes of log files 1 LIST more and normally 1 GET fetch a checkpoint
    in place of the log files that it covers. A table with a legal hold is then read once more
    without it: which dead parts the hold keeps is not told by numbers.

    Memory: 0.1 KB a part by a checkpoint, else 0.8 KB.

    Args:
        table: the table.
        headers: newest transactions whose headers are read.
        known: headers by number that are not read again.
        erases: erases by id whose certificates are not read again; None to read none at all.
        checkpoint_above: bytes of log files above which a checkpoint takes their place.

    Raises:
        NoTableError: there is no table at the root.
        FirnlineError: the log cannot be read.
    """
    base = read_base(table, everything=True, checkpoint_above=checkpoint_above)
    if base.snapshot.covered and Held.of(base.snapshot).holds:
        base = read_base(table, everything=True)
    snapshot, table = base.snapshot, base.table
    if not snapshot.listing:
        raise no_table(table)
    long = snapshot.seq >= TXN_KEPT
    return Reading(
        snapshot=snapshot,
        settings=table.settings,
        wanted=table.wanted or table.settings,
        properties=base.properties,
        headers=history(table, headers, known) if headers else (),
        old=list(table.store.list(table.paths.txn_dir, table.paths.birth)) if long else [],
        prepared=_prepared(table),
        now_ms=table.clock.now_ms(),
        erases=() if erases is None else erases_of(table, snapshot, erases),
    )


def _prepared(table: Table) -> Prepared:
    listed = entries(table)
    keys = frozenset(meta.key for entry in listed for meta in entry.objects)
    try:
        return Prepared(keys, waiting_of(table, listed))
    except LogCorruptError as error:  # no reason to show nothing else of the table
        return Prepared(keys, (), error.message)
