"""Orphan sweep: deletes objects that no log file names, which dead runs and appends leave behind.

Lists first; only objects that are still orphans at the moment of deletion are deleted. What it
commits changes no row: it only raises the fence, before anything is deleted that a process which
slept could still name. A run that dies is simply run again.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from itertools import chain

from firnline.commit.base import Base, take_base
from firnline.commit.change import Change
from firnline.commit.transaction import commit
from firnline.errors import CommitConflictError, RunFailedError, UsageError
from firnline.log.fence import raised
from firnline.log.txn_file import Counts, RunIdentity
from firnline.next_steps import MAY_DELETE
from firnline.operations.deletion import Deleter, NotDeleted
from firnline.operations.operation import Work
from firnline.operations.options import SweepOptions
from firnline.operations.prepared import expiry
from firnline.operations.runner import Report, RunMetrics, refuse_unsafe_store
from firnline.operations.sweep.plan import Orphan, Passed, SweepPlan, plan_sweep
from firnline.properties.in_force import Waits, waits
from firnline.settings.ages import LEAST_ORPHAN_MS
from firnline.state.health import no_table
from firnline.state.snapshot import Snapshot
from firnline.store.base import ObjectMeta
from firnline.store.multipart import open_uploads
from firnline.store.upload import OpenUploads, Upload
from firnline.table import Table
from firnline.units import counted, format_duration

_LOG = logging.getLogger(__name__)
OP = "sweep"
WHY = "the fence, before orphans are deleted"
WAITING = "may still be named by a process that slept: a later sweep deletes them"


class SweepReport(Report, frozen=True, kw_only=True):
    """Result of a sweep."""

    table: str
    dry_run: bool
    orphans: int
    """Orphans found, including those beyond what one run may delete."""
    orphan_bytes: int
    deleted: int
    """Objects deleted and uploads aborted."""
    bytes: int
    uploads_aborted: int
    left: dict[str, int]
    """Reason -> orphans that were left alone for it."""
    gone: int
    """Approved keys that are not orphans (any more)."""
    young: int
    """Objects that nothing names and that are too young to decide on."""
    young_bytes: int
    prepared: int
    """Parts of prepared changes, on which somebody may still decide."""
    discarded: int
    """Parts of prepared changes that are deleted because nobody decided in time."""
    failed: int
    """Objects whose deletion was not confirmed."""
    failures: tuple[NotDeleted, ...]
    """The first of these failures."""
    requests: dict[str, int]
    seconds: float


class SweepFailedError(RunFailedError):
    """A sweep that could not delete some objects; carries the report."""

    def __init__(self, report: SweepReport) -> None:
        first = report.failures[0]
        super().__init__(
            f"{report.failed} of {counted(report.failed + report.deleted, 'orphan')} of table "
            f"{report.table} could not be deleted; the first, {first.key}: {first.message}",
            next_step=MAY_DELETE,
        )
        self.report = report


def preview(table: Table, options: SweepOptions) -> SweepPlan:
    """List the orphans; nothing is written but an unpublished transaction's log file.

    Requests: those of ``take_base(everything=True)``, a LIST for 1,000 objects under ``_data/``,
    one of ``_probe/``, one of ``_erase/``, one of ``_txn/`` after the fence, one of ``_prepared/``
    with a GET for each prepared change and decision, on S3 two of the uploads.

    Raises:
        UsageError: there is no table, or ``older_than`` is too short.
        LogLostError: its log is lost: every part would be unnamed.
    """
    return _plan(table, options, _uploads(table))[1]


def plan_and_mark(table: Table, options: SweepOptions, run: RunIdentity) -> SweepPlan:
    """List the orphans, and commit the mark that some of them wait for, unless it is a dry run.

    Requests: those of ``preview``, and those of ``mark`` where a mark is missing. Raises what both
    raise.
    """
    base, plan = _plan(table, options, _uploads(table))
    if plan.marks and not options.dry_run:
        mark(base, plan, run)
    return plan


def mark(base: Base, plan: SweepPlan, run: RunIdentity) -> Snapshot:
    """Raise the fence as far as the plan needs it; return the state by which its orphans count.

    What lands after that state was read, and began before the fence, counts for nobody.

    Requests: none if the fence is there; else those of ``commit``, of the probe of the store, and
    of another ``take_base(everything=True)``.

    Args:
        base: that of the plan.
        plan: the plan.
        run: who runs it, for the history.

    Raises what ``transaction.commit`` raises; then nothing may be deleted.
    """
    needed = plan.fence > base.snapshot.fence and not plan.nothing_to_do
    if not needed and not plan.marks:
        return base.snapshot
    refuse_unsafe_store(base.table)
    change = Change(op=OP, replaces=(), adds=(), counts=Counts(), why=WHY)
    commit(base.table, base, change, run)
    # An append that landed meanwhile, too late, is behind the fence now; somebody may have read it.
    state = take_base(base.table, everything=True)
    if state.snapshot.fence < plan.fence:  # rivals have cleaned up what it was planned by
        raise CommitConflictError(
            f"the fence of table {base.table.settings.name} is at transaction "
            f"{state.snapshot.fence.seq}, and was to be at {plan.fence.seq}",
            next_step="run it again; nothing was deleted",
        )
    return state.snapshot


def run_sweep(work: Work, options: SweepOptions) -> SweepReport:
    """List and delete.

    Requests: those of ``preview``, on S3 one for 1,000 orphans and one for each upload; those of
    ``prepared.expiry.end`` for prepared changes that end; those of a commit, with the probe of the
    store (4 for a process and table), if the fence has to be raised.

    Args:
        work: on what, and for whom; told after each batch.
        options: what to delete.

    Raises:
        UsageError: see ``preview``.
        SweepFailedError: some objects could not be deleted; the error holds the report.
    """
    table = work.table
    metrics = RunMetrics(table)
    uploads = _uploads(table)
    base, plan = _plan(table, options, uploads)
    chosen, left = choose(plan, options)
    if not options.dry_run:
        state = mark(base, plan, work.identity)
        named = state.parts.keys() | state.behind_parts
        chosen = [o for o in chosen if o.key not in named]
    deleter = Deleter(table, len(chosen), work.tell)
    aborted = discarded = 0
    if not options.dry_run:
        discarded = expiry.end(table, plan.endings, work.identity)
        deleter.delete([o.key for o in chosen if o.kind != "upload"])
        aborted = _abort(uploads, [o for o in chosen if o.kind == "upload"], deleter)
        # No transaction records it, so this line is the only trace.
        name, who = (
            table.settings.name,
            work.identity.approved_by or work.identity.user or work.identity.run_id,
        )
        _LOG.info("%s deleted %d orphans of table %s", who, len(deleter.confirmed), name)
    report = SweepReport(
        table=table.settings.name,
        dry_run=options.dry_run,
        orphans=len(plan.orphans) + plan.more,
        orphan_bytes=plan.bytes + plan.more_bytes,
        deleted=len(deleter.confirmed),
        bytes=sum(o.bytes for o in chosen if o.key in deleter.confirmed),
        uploads_aborted=aborted,
        left=left,
        gone=len(set(options.approved or ()) - {o.key for o in plan.orphans}),
        young=plan.young,
        young_bytes=plan.young_bytes,
        prepared=plan.prepared - discarded,
        discarded=discarded,
        failed=deleter.failed,
        failures=tuple(deleter.failures),
        requests=metrics.requests,
        seconds=metrics.seconds,
    )
    if report.failed:
        raise SweepFailedError(report)
    return report


def choose(plan: SweepPlan, options: SweepOptions) -> tuple[list[Orphan], dict[str, int]]:
    """Return the orphans to delete; and for the others reason -> how many."""
    if options.approved is None:
        chosen = [o for o in plan.orphans if o.kind != "foreign"]
        reason = "has a name that firnline does not give: somebody has to approve its key"
    else:
        approved = frozenset(options.approved)
        chosen = [o for o in plan.orphans if o.key in approved]
        reason = "was not approved"
    left = {
        reason: len(plan.orphans) - len(chosen),
        WAITING: plan.waiting,
        "is more than one run may delete (max_deletes_per_run)": plan.more,
    }
    return chosen, {why: count for why, count in left.items() if count}


def _uploads(table: Table) -> OpenUploads | None:
    return open_uploads(table.settings.root, table.access, table.store.counters)


def _plan(
    table: Table, options: SweepOptions, uploads: OpenUploads | None
) -> tuple[Base, SweepPlan]:
    paths, store = table.paths, table.store
    began = table.clock.now_ms()
    held = expiry.held(table)  # before the base: what is committed afterwards still stands here
    base = take_base(table, everything=True)
    if not base.snapshot.listing:
        raise no_table(table)  # without a log, orphans cannot be told
    table = base.table
    others = waits(base.snapshot.properties, table.settings, began)
    grace = _grace(table.settings.name, options, others)
    plan = plan_sweep(
        base.snapshot,
        # Streams, and from after the snapshot: whatever they show that it does not name is
        # either younger than the grace or will never be named.
        chain(store.list(paths.data_dir), store.list(paths.probe("")), _keys_of_erases(table)),
        ()
        if uploads is None
        else chain(
            uploads.list(paths.data_dir),
            uploads.list(paths.erase_dir),
            uploads.list_free(paths.small_dirs),
        ),
        began_ms=began,
        grace_ms=grace,
        limit=table.settings.cleanup.max_deletes_per_run,
        passed=_passed(base, began, others.ended),
        held=held,
    )
    return base, plan


def _passed(base: Base, began_ms: int, ended_ms: int) -> Passed:
    """Return how far the fence reaches, with what this sweep may raise it to.

    Requests: 1 LIST of ``_txn/`` after the fence.
    """
    table, snapshot = base.table, base.snapshot
    fence = raised(snapshot.other, snapshot.listing, began_ms, ended_ms).fence
    start = table.paths.txn(fence.seq - 1) if fence.seq else None
    made = {
        table.paths.parse_txn(meta.key): meta.modified_ms
        for meta in table.store.list(table.paths.txn_dir, start)
    }
    newest = max(made, default=0)
    # By its own date too: a copy, or a relocation, makes objects under _txn/ younger than they are.
    reached = min(made.get(fence.seq, 0), fence.t) if fence.seq else 0
    return Passed(fence, reached, made[newest] if newest else 0)


def _keys_of_erases(table: Table) -> Iterator[ObjectMeta]:
    """Yield the files of keys: those of a run that is under way are younger than any orphan."""
    found = table.store.list(table.paths.erase_dir)
    return (meta for meta in found if table.paths.parse_erase_keys(meta.key) is not None)


def _grace(name: str, options: SweepOptions, others: Waits) -> int:
    """Return the minimum age of an orphan, ms: more than the age of any work in progress."""
    longest = max(others.append_ttl, others.commit_ttl)
    if options.older_than is None:
        return others.orphan_age
    if options.older_than < LEAST_ORPHAN_MS or options.older_than <= longest:
        least = f"at least {format_duration(LEAST_ORPHAN_MS)}"
        if longest >= LEAST_ORPHAN_MS:
            least = f"more than {format_duration(longest)}, its append.ttl or commit_ttl"
        raise UsageError(
            f"an orphan of {name} cannot be as young as "
            f"{format_duration(options.older_than)}: an append or run may still be under way",
            next_step=f"ask for {least}",
        )
    return options.older_than


def _abort(uploads: OpenUploads | None, chosen: Sequence[Orphan], deleter: Deleter) -> int:
    """Abort uploads; return how many are gone."""
    gone = 0
    for orphan in chosen:
        assert uploads is not None  # who else listed them
        key, _, upload_id = orphan.key.rpartition("?uploadId=")
        error = uploads.abort(Upload(key, upload_id, orphan.modified_ms))
        deleter.answered(orphan.key, error)
        gone += error is None
    return gone
