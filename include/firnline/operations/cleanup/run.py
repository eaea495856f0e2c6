"""Tombstone clean-up: deletes replaced objects whose grace is over.

Data parts, log files that others carry, transactions past their retention. Then one transaction
moves the purge horizon and leaves the markers of what is gone out of the log; of a large table a
new checkpoint is written, since the last may cover log files that are gone.

A crash at any call leaves the table readable as before: nothing that is deleted is needed,
and nothing is forgotten before its deletion was confirmed. The next run deletes the same objects
again (not found counts as done) and commits.
"""

from __future__ import annotations

import logging
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from firnline.commit.base import Base, read_base, take_base
from firnline.commit.transaction import Change, commit
from firnline.errors import RunFailedError
from firnline.log.reader import LogRead
from firnline.log.txn_file import Counts, RunIdentity
from firnline.mirror.readers import readers_of
from firnline.mirror.retention import Readers
from firnline.next_steps import MAY_DELETE
from firnline.operations.cleanup.buried import Waiting
from firnline.operations.cleanup.claims import expired_claims
from firnline.operations.cleanup.collector import paused
from firnline.operations.cleanup.lists import continued_lists
from firnline.operations.cleanup.plan import (
    CleanupPlan,
    doomed,
    plan_cleanup,
    purge_horizon,
)
from firnline.operations.cleanup.retention import TXN_KEPT
from firnline.operations.deletion import Deleter, NotDeleted
from firnline.operations.operation import Work
from firnline.operations.options import CleanupOptions
from firnline.operations.runner import Report, Runner
from firnline.properties.in_force import waits
from firnline.state.dead import without_object
from firnline.state.snapshot import Snapshot, build
from firnline.store.base import ObjectMeta
from firnline.table import Table
from firnline.units import counted

if TYPE_CHECKING:
    from firnline.commit.checkpoint import Written

_LOG = logging.getLogger(__name__)


class CleanupReport(Report, frozen=True, kw_only=True):
    """Result of a clean-up: what it deleted (dry run: would delete), and what waits until when."""

    table: str
    dry_run: bool
    parts: int
    log_files: int
    txn_files: int
    claims: int = 0
    """Claims of keys of appends."""
    bytes: int
    """Size of all objects that were deleted."""
    purged: int
    """Purge horizon, unix ms: states at or before it cannot be read any more."""
    transactions: tuple[int, ...]
    """Sequence number of the transaction that was committed, if any."""
    waiting: tuple[Waiting, ...]
    failed: int
    """Objects whose deletion was not confirmed."""
    failures: tuple[NotDeleted, ...]
    """The first of these objects."""
    checkpoint: str | None = None
    """Key of the checkpoint that was written; None for tables of at most
    ``checkpoint.min_parts`` parts."""
    checkpoints_deleted: int = 0
    """Checkpoints deleted because they are unusable, or replaced by newer ones."""
    warnings: tuple[str, ...] = ()
    """Other failures, which cost time only."""
    requests: dict[str, int]
    seconds: float


class CleanupFailedError(RunFailedError):
    """A clean-up that could not delete some objects; carries the report."""

    def __init__(self, report: CleanupReport) -> None:
        first = report.failures[0]
        done = report.parts + report.log_files + report.txn_files + report.claims
        super().__init__(
            f"{report.failed} of {counted(report.failed + done, 'object')} of table "
            f"{report.table} could not "
            f"be deleted; the first, {first.key}: {first.message}",
            next_step=MAY_DELETE,
        )
        self.report = report


def preview(table: Table, options: CleanupOptions) -> CleanupPlan:
    """Read the whole log and plan; nothing is written but an unpublished transaction's log file.

    Requests: those of ``take_base(everything=True)``, and 1 LIST once there are more than 100
    transactions.
    """
    return plan_on(take_base(table, everything=True), options)


def plan_on(base: Base, options: CleanupOptions) -> CleanupPlan:
    """Plan on a base of the whole log.

    Requests: 1 LIST once there are more than 100 transactions, and those of ``readers.readers_of``
    where the table has a mirror.
    """
    return _plan(base, options, _mirrors(base))


def look(table: Table) -> CleanupPlan:
    """Return what a clean-up would do now; nothing is written.

    Requests: those of ``read_base(everything=True)``, 1 LIST once there are more than 100
    transactions, and those of ``readers.readers_of`` where the table has a mirror.

    Raises as ``read_base`` and ``plan_cleanup``.
    """
    return plan_on(read_base(table, everything=True), CleanupOptions())


def run_cleanup(work: Work, options: CleanupOptions) -> CleanupReport:
    """Delete, then commit.

    Requests for n objects on S3: n/1000 deletes, rounded up (one more where transactions go), and
    besides them 12 plus the log files there are before and after: two LIST for each of two bases,
    the probe of the store (4 for a process and table), two PUT and a LIST for the commit, one LIST
    of old transactions. A run whose bound is below what one transaction replaced lists ``_data/``
    besides. A table with appends that had a key, or with imports, costs 2 or 3 LIST more
    (``claims.expired_claims``, ``lists.continued_lists``). Of a table of more than
    ``checkpoint.min_parts`` parts see ``checkpoint.renew``. Those
    of ``readers.readers_of`` come in addition where the table has a mirror.

    Args:
        work: on what, and for whom; told after each batch.
        options: bounds.

    Raises:
        CleanupFailedError: some objects could not be deleted; what is safe is committed, and the
            error holds the report.
        CommitUnknownError and others: see ``transaction.commit``; the next run goes on.
    """
    with paused():
        return _run(work, options)


def _run(work: Work, options: CleanupOptions) -> CleanupReport:
    runner = Runner(work.table, work.identity)
    base = runner.take_base(everything=True)
    begun = _Run(runner, options, base.snapshot, _mirrors(base))
    table, plan = base.table, _plan(base, options, begun.mirrors)
    if options.dry_run or plan.nothing_to_do:
        everything = frozenset(d.key for d in plan.all)
        gone = everything if options.dry_run else frozenset()
        return begun.report(plan, gone, Deleter(table, 0), base.snapshot.horizon, ())
    if plan.parts or plan.gone:
        runner.probe()
    deleter = Deleter(table, plan.count, work.tell)
    # Parts and log files in any order: a log file goes only if others carry all of it, a part
    # only if it has been seen dead for the grace, and until the commit nothing is forgotten.
    deleter.delete([d.key for d in (*plan.parts, *plan.logs)])
    purged, transactions, state = _commit(table, plan, deleter.confirmed, work.identity)
    # Old transactions go last: only a horizon that is certainly committed says that the parts
    # which they marked dead are gone, and a rebuild of a lost log needs the others. A commit of
    # unknown outcome ends the run above, with all of them in place. For exclusion any order would
    # do: nobody can still want the number of a transaction that is older than commit_ttl.
    if not deleter.failed:
        deleter.delete([d.key for d in (*plan.transactions, *plan.claims)])
    written = _renew(table, state or _without(base.snapshot, deleter.confirmed))
    report = begun.report(plan, deleter.confirmed, deleter, purged, transactions, written)
    if report.failed:
        raise CleanupFailedError(report)
    return report


def _plan(base: Base, options: CleanupOptions, mirrors: Sequence[Readers] = ()) -> CleanupPlan:
    table = base.table

    def plan(gone: Container[str] = ()) -> CleanupPlan:
        old: Iterable[ObjectMeta] = ()
        if base.seq >= TXN_KEPT:
            old = table.store.list(table.paths.txn_dir, table.paths.birth)
        now, most = table.clock.now_ms(), options.max_deletes
        return plan_cleanup(
            base.snapshot,
            old,
            table.settings,
            now,
            most,
            gone,
            old_types=options.old_types,
            mirrors=mirrors,
        )

    made = plan()
    made = plan(without_object(table.store, base.snapshot)) if made.cut else made
    room = (options.max_deletes or table.settings.cleanup.max_deletes_per_run) - made.count
    now_ms = table.clock.now_ms()
    beside = [*expired_claims(base, now_ms), *continued_lists(base, now_ms)]
    return replace(made, claims=doomed(beside[:room]))


def _mirrors(base: Base) -> tuple[Readers, ...]:
    """Return what readers of the mirrors may use that the table states."""
    table = base.table
    now = table.clock.now_ms()
    return readers_of(table, waits(base.snapshot.properties, table.settings, now).grace, now)


def _renew(table: Table, snapshot: Snapshot) -> Written | None:
    least = table.settings.checkpoint.min_parts
    if least is None or len(snapshot.parts) <= least:
        return None
    from firnline.commit import checkpoint

    written = checkpoint.renew(table, snapshot)
    if written.warning:
        _LOG.warning("after the clean-up: %s", written.warning)
    return written


def _without(snapshot: Snapshot, gone: Iterable[str]) -> Snapshot:
    """Return the state without log files deleted since: other log files carry all their records."""
    lost = frozenset(gone)
    listing = {key: item for key, item in snapshot.listing.items() if key not in lost}
    contents = {key: content for key, content in snapshot.contents.items() if key not in lost}
    return build(snapshot.paths, LogRead(listing, contents), tolerant=True)


def _commit(
    table: Table, plan: CleanupPlan, confirmed: Iterable[str], run: RunIdentity
) -> tuple[int, tuple[int, ...], Snapshot | None]:
    """Move the horizon and rewrite the log.

    Returns the horizon, sequence numbers of what was committed, and the newest state where it was
    read.

    On a base of its own: merges may have committed during a long deletion, log files that were
    just deleted must not be in the listing (their markers could not be left out), and a
    deletion as long as ``commit_ttl`` is no reason not to commit, since what is deleted stays so.
    """
    gone = frozenset((*confirmed, *plan.gone))
    done = [d for d in plan.parts if d.key in gone]
    if not done and not plan.gone:
        # Log files alone need no commit: the next fold forgets their tombstones. A commit would
        # fold something, which has to be deleted one grace later, and so on forever.
        return plan.purged, (), None
    base = take_base(table, everything=True)
    purge = partial(purge_horizon, confirmed=gone)
    if purge(base.snapshot) <= base.snapshot.purged:
        # Another clean-up has moved the horizon already, or the oldest part could not be deleted.
        return base.snapshot.horizon, (), base.snapshot
    change = Change(
        op="cleanup",
        replaces=(),
        adds=(),
        counts=Counts(parts_in=len(done), bytes_in=sum(d.bytes for d in done)),
        purge=purge,
        checkpoint=False,
    )
    committed = commit(table, base, change, run)
    state = committed.base.snapshot if committed.base else None
    horizon = state.horizon if state else base.snapshot.effective(purge(base.snapshot))
    return horizon, (committed.header.seq,), state


@dataclass(frozen=True, slots=True)
class _Run:
    """The inputs of one run."""

    runner: Runner
    options: CleanupOptions
    snapshot: Snapshot
    mirrors: Sequence[Readers]

    def report(
        self,
        plan: CleanupPlan,
        gone: Iterable[str],
        deleter: Deleter,
        purged: int,
        transactions: tuple[int, ...],
        written: Written | None = None,
    ) -> CleanupReport:
        gone_keys = frozenset(gone)
        kinds = (plan.parts, plan.logs, plan.transactions, plan.claims)
        parts, logs, old, claims = ([d for d in kind if d.key in gone_keys] for kind in kinds)
        return CleanupReport(
            table=self.runner.table.settings.name,
            dry_run=self.options.dry_run,
            parts=len(parts),
            log_files=len(logs),
            txn_files=len(old),
            claims=len(claims),
            bytes=sum(d.bytes for d in (*parts, *logs, *old, *claims)),
            purged=purged,
            transactions=transactions,
            waiting=plan.waiting,
            failed=deleter.failed,
            failures=tuple(deleter.failures),
            checkpoint=written.key if written else None,
            checkpoints_deleted=written.deleted if written else 0,
            warnings=self._warnings(plan, written),
            requests=self.runner.requests,
            seconds=self.runner.seconds,
        )

    def _warnings(self, plan: CleanupPlan, written: Written | None) -> tuple[str, ...]:
        table = self.runner.table
        warnings = [] if written is None else [written.warning]
        now, grace = table.clock.now_ms(), table.settings.cleanup.grace
        for mirror, forced in zip(self.mirrors, plan.forced, strict=True):
            warnings.append(mirror.warning(self.snapshot, now, grace, forced) or "")
        return tuple(filter(None, warnings))
