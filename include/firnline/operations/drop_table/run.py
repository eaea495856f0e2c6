"""Drop a whole table, in two runs: all parts in one transaction, and days later every object.

Between the two the table is as any other of which parts were dropped: a restore brings it back, and
clean-up deletes what is dead. The second run deletes only what it is sure of; a run that dies
leaves a table that is dropped, one whose log is lost, or nothing, and is run again.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from firnline.commit.base import Base, take_base
from firnline.errors import (
    CommitConflictError,
    LogLostError,
    RunFailedError,
    UsageError,
    some,
)
from firnline.log.txn_file import TxnHeader
from firnline.mirror.readers import readers_of
from firnline.next_steps import MAY_DELETE
from firnline.operations.deletion import Deleter, NotDeleted
from firnline.operations.drop.run import remove
from firnline.operations.drop_table.plan import (
    OP,
    WHY,
    AllParts,
    DropTablePlan,
    all_parts,
    catalog_entry,
    find_mark,
    holds,
    is_quiet_since,
    refuse_changed,
    refuse_live,
    refuse_name,
    refuse_other_phase,
    version,
    wait_of,
)
from firnline.operations.drop_table.stock import EVERY_KEY, Stock, Under, take_stock
from firnline.operations.erase.certificate import list_certificates
from firnline.operations.in_time import InTime
from firnline.operations.operation import Work
from firnline.operations.options import DropTableOptions
from firnline.operations.prepared.waiting import waiting
from firnline.operations.runner import Report, Runner
from firnline.properties.in_force import waits
from firnline.state.health import no_table
from firnline.state.history import history
from firnline.state.snapshot import Snapshot
from firnline.store.listing import passed_over
from firnline.store.multipart import open_uploads
from firnline.store.now import store_now_ms
from firnline.store.upload import OpenUploads, Upload
from firnline.table import Table
from firnline.units import counted

_LOG = logging.getLogger(__name__)
_HEADERS = 20
"""Newest transactions among which the mark is: since then only clean-ups and sweeps commit."""


class DropTableReport(Report, frozen=True, kw_only=True):
    """Result of a run: one transaction, nothing, or the end of the table."""

    table: str
    dry_run: bool
    plan: dict[str, object]
    """As ``DropTablePlan.to_json``."""
    transaction: int | None = None
    """The mark, if this run has committed it."""
    due_ms: int | None = None
    """Time after which another run may delete every object, unix ms."""
    deleted: int = 0
    """Objects that are gone."""
    uploads_aborted: int = 0
    markers: int = 0
    """Folder markers of consoles, which stay."""
    failed: int = 0
    failures: tuple[NotDeleted, ...] = ()
    """The first objects that could not be deleted."""
    requests: dict[str, int]
    seconds: float


class DropTableFailedError(RunFailedError):
    """A run that could not delete some objects, and stopped there; carries the report."""

    def __init__(self, report: DropTableReport) -> None:
        first = report.failures[0]
        super().__init__(
            f"{counted(report.failed, 'object')} of table {report.table} could not be deleted, and "
            f"those that are deleted after them are there; the first, {first.key}: {first.message}",
            next_step=MAY_DELETE,
        )
        self.report = report


def preview(table: Table, options: DropTableOptions) -> DropTablePlan:
    """Plan; nothing is written but an unpublished transaction's log file.

    Requests: those of ``take_base(everything=True)``; 1 LIST and at most 20 ranged GET for the
    history. Before the first run 2 LIST besides, and a GET for each prepared change. After it 1
    HEAD, and those of ``readers_of`` for a table with mirrors; once it is time, as far as this
    machine's clock tells, 1 LIST per 1,000 objects and, on S3, 1 LIST of the uploads.

    Raises as ``run_drop_table``.
    """
    if options.name is not None:
        refuse_name(options.name, table.settings.name)
    return _Look(table, options).plan()


def run_drop_table(work: Work, options: DropTableOptions) -> DropTableReport:
    """Drop all parts, or delete every object if that was done long enough ago.

    Requests of the first run: those of ``preview``, and those of ``drop.run.run_drop``. Of a later
    one those of ``preview``; once it is time 1 PUT, 1 HEAD and 1 DELETE for the store's clock, the
    deletes (1 for 1,000 keys where the store can, for each of at most seven steps), 2 LIST between
    them, and 1 DELETE for each upload.

    Args:
        work: on what, and for whom; told after each batch of deletes.
        options: the name of the table, and whether foreign objects go.

    Raises:
        UsageError: the name is not that of the table; it has parts that came after the first run,
            foreign objects, another table below it, or parts that somebody may be about to append.
        PlanChangedError: the table is not what somebody has agreed to.
        NoTableError: there is no table.
        LogLostError: its log is lost, and not by an earlier run of this.
        SnapshotUnstableError: the run stood still for longer than half the grace, and stops.
        CommitConflictError: something was written while objects were deleted; the run stops.
        DropTableFailedError: objects could not be deleted; the error holds the report.
        CommitExpiredError, CommitUnknownError: see ``transaction.commit``.
    """
    run = _Run(work, options)
    plan = run.look.plan()
    if options.dry_run or plan.phase == "wait":
        return run.report(plan)
    refuse_name(options.name, work.table.settings.name)
    return run.drop(plan) if plan.phase == "drop" else run.delete(plan)


@dataclass
class _Look:
    """Reads how far the end of a table has come."""

    table: Table
    options: DropTableOptions
    uploads: Sequence[Upload] = ()

    def plan(self) -> DropTablePlan:
        """Plan on the newest state. Raises as ``run_drop_table``."""
        try:
            base = take_base(self.table, everything=True)
        except LogLostError as lost:
            return self._of_lost(lost)
        if not base.snapshot.listing:
            raise no_table(self.table)
        self.table = base.table
        headers = [each for each in history(self.table, _HEADERS) if each.seq <= base.seq]
        mark = find_mark(headers)
        if mark is not None:
            refuse_live(base.snapshot, self.table.settings.name, mark)
        if mark is None or not is_quiet_since(headers, mark):
            return self._first(base.snapshot)
        return self._second(base.snapshot, mark)

    def _plan(self, snapshot: Snapshot) -> DropTablePlan:
        settings = self.table.settings
        return DropTablePlan(
            phase="drop",
            root=settings.root,
            holds=holds(all_parts(snapshot)),
            agreed=version(snapshot),
            wait_ms=wait_of(waits(snapshot.properties, settings, self.table.clock.now_ms())),
            mirrors=settings.mirrors,
            named_in=self.options.named_in,
            catalog=catalog_entry(settings),
        )

    def _first(self, snapshot: Snapshot) -> DropTablePlan:
        prepared = tuple(change.id for change in waiting(self.table).prepared)
        listed = list_certificates(self.table)
        certificates = sum(each.status in ("waiting", "complete") for each in listed)
        return replace(self._plan(snapshot), prepared=prepared, certificates=certificates)

    def _second(self, snapshot: Snapshot, mark: TxnHeader) -> DropTablePlan:
        plan, table = self._plan(snapshot), self.table
        marked = table.store.head(table.paths.txn(mark.seq)).modified_ms
        plan = replace(
            plan, phase="wait", mark=mark.seq, due_ms=marked + plan.wait_ms, agreed=str(mark.seq)
        )
        now = table.clock.now_ms()
        if now <= marked + plan.wait_ms:
            return plan
        shown_by = self._shown_by(snapshot, marked + plan.wait_ms)
        if shown_by:
            return replace(plan, shown_by=shown_by)
        named = snapshot.parts.keys() | snapshot.behind_parts
        under = Under(named, mark.seq, marked, now, plan.wait_ms)
        return replace(plan, phase="delete", stock=self._allowed(self._stock(under), under))

    def _shown_by(self, snapshot: Snapshot, due_ms: int) -> tuple[str, ...]:
        """Return the mirrors whose readers may still use dead parts."""
        table, now = self.table, self.table.clock.now_ms()
        grace = waits(snapshot.properties, table.settings, now).grace
        dead = {part.tmb for part in snapshot.parts.values() if part.tmb is not None}
        return tuple(
            readers.format
            for readers in readers_of(table, grace, now)
            if any(readers.uses(tmb, due_ms, now) for tmb in dead)
        )

    def _stock(self, under: Under) -> Stock:
        """List everything below the root."""
        table = self.table
        found = self.open_uploads
        self.uploads = [] if found is None else list(found.list(table.paths.root))
        return take_stock(table.paths, table.store.list(table.paths.root), under)

    def _allowed(self, stock: Stock, under: Under) -> Stock:
        """Return what is to be deleted. Raises UsageError for what may not go."""
        table = self.table
        if stock.nested:
            raise UsageError(
                f"below {table.settings.root} there is another table: {some(stock.nested)}",
                next_step="drop or move that one first; nothing was deleted",
            )
        if stock.foreign and not self.options.with_foreign:
            raise UsageError(
                f"below {table.settings.root} there are {counted(len(stock.foreign), 'object')} "
                f"that firnline has not written: {some(stock.foreign)}",
                next_step="move them away, or give --with-foreign to delete them, too",
            )
        uploads = (each.key for each in self.uploads if self._is_young(each, under))
        young = [*stock.young, *uploads]
        if young:
            raise UsageError(
                f"somebody may be about to append to {table.settings.name}: {some(young)} "
                f"{'is' if len(young) == 1 else 'are'} younger than the drop, and nobody names "
                f"{'it' if len(young) == 1 else 'them'} yet",
                next_step="stop what appends to it, and run it again once they are older than "
                "append.ttl; `firnline sweep` lists them",
            )
        return stock

    @staticmethod
    def _is_young(upload: Upload, under: Under) -> bool:
        return under.mark_ms <= upload.began_ms and under.now_ms - upload.began_ms <= under.wait_ms

    @cached_property
    def open_uploads(self) -> OpenUploads | None:
        """The uploads that the store lists; None if it has none of this kind."""
        table = self.table
        return open_uploads(table.settings.root, table.access, table.store.counters)

    def _of_lost(self, lost: LogLostError) -> DropTablePlan:
        """Plan to go on where a run has died that deleted log and transactions.

        It is known by what is left: nothing but log files and transactions, with the mark; or the
        birth record alone. No row is among these. Raises the error of the lost log for all else.
        """
        table, headers = self.table, history(self.table, _HEADERS)
        mark = find_mark(headers)
        if headers and (mark is None or not is_quiet_since(headers, mark)):
            raise lost
        wait = max([0, *(_longest(each) for each in headers)])
        marked = table.store.head(table.paths.txn(mark.seq)).modified_ms if mark else 0
        now, seq = table.clock.now_ms(), mark.seq if mark else 0
        # Without a log whatever lies under _data/ may be somebody's rows.
        under = Under(EVERY_KEY, seq, marked, now, wait)
        stock = self._stock(under)
        alone = mark is not None or "log file" not in stock.objects
        if not (stock.has_only_log and alone) or now <= marked + wait:
            raise lost
        self._allowed(stock, under)
        return DropTablePlan(
            phase="delete",
            root=table.settings.root,
            holds={"partitions": 0, "parts": 0, "rows": 0, "parts_without_rows": 0, "bytes": 0},
            agreed=str(seq),
            wait_ms=wait,
            named_in=self.options.named_in,
            catalog=catalog_entry(table.settings),
            mark=seq or None,
            due_ms=marked + wait,
            stock=stock,
        )


def _longest(header: TxnHeader) -> int:
    stated = header.properties
    return 0 if stated is None else max(stated.grace, stated.append_ttl, stated.commit_ttl)


@dataclass
class _Run:
    work: Work
    options: DropTableOptions
    aborted: int = 0
    began_ms: int = 0
    """``Clock.elapsed_ms`` from before anything was read."""
    deleter: Deleter = field(init=False)
    look: _Look = field(init=False)
    runner: Runner = field(init=False)

    def __post_init__(self) -> None:
        self.began_ms = self.work.table.clock.elapsed_ms()
        self.look = _Look(self.work.table, self.options)
        self.runner = Runner(self.work.table, self.work.identity)
        self.deleter = Deleter(self.work.table, 0)

    def drop(self, plan: DropTablePlan) -> DropTableReport:
        """Drop all parts, which begins the end of the table."""

        def refuse(snapshot: Snapshot) -> None:
            refuse_changed(snapshot, self.options.agreed)

        def make_plan(base: Base) -> AllParts:
            return all_parts(base.snapshot)

        removed = remove(self.runner, OP, make_plan, dry_run=False, refuse=refuse, why=WHY)
        assert removed.transaction is not None  # the plan always has something to do
        made = replace(plan, holds=holds(removed.plan), mark=removed.transaction)
        due = self.look.table.clock.now_ms() + plan.wait_ms
        return self.report(made, transaction=removed.transaction, due_ms=due)

    def delete(self, plan: DropTablePlan) -> DropTableReport:
        """Delete every object, step by step, if the store's clock agrees that it is time."""
        table, stock = self.look.table, plan.stock
        refuse_other_phase(plan, self.options.agreed)
        table.stated.ends = True
        waiting_still = self._too_early(plan)
        if waiting_still is not None:
            return self.report(waiting_still)
        self.deleter = Deleter(table, stock.count, self.work.tell)
        self._abort()
        self._steps(plan, stock.first, InTime.since(table, self.began_ms))
        self._steps(plan, stock.last, self._alone([*stock.last, *stock.end]))
        self._steps(plan, stock.end, self._alone(stock.end))
        # Nothing of the table records it any more.
        run = self.work.identity
        who = run.approved_by or run.user or run.run_id
        _LOG.info("%s deleted table %s at %s", who, table.settings.name, table.settings.root)
        return self.report(plan)

    def _too_early(self, plan: DropTablePlan) -> DropTablePlan | None:
        """Return the plan to wait, if the store's clock says so; it is that of the mark, too."""
        table = self.look.table
        if plan.mark is None or plan.due_ms is None:
            return None  # only the birth record is left
        key = table.paths.probe(table.ids.uuid7(table.clock.now_ms()))
        if store_now_ms(table.store, key) > plan.due_ms:
            return None
        return replace(plan, phase="wait", stock=Stock())

    def _steps(self, plan: DropTablePlan, steps: Iterable[Sequence[str]], time: InTime) -> None:
        """Delete one step after the other; the next one needs all of the one before.

        A run that stood still stops: the table may be restored since, or another one be there.
        """
        for keys in steps:
            time.refuse(f"before it could delete {keys[0]}")
            self.deleter.delete(keys)
            if self.deleter.failed:
                raise DropTableFailedError(self.report(plan))

    def _alone(self, steps: Iterable[Sequence[str]]) -> InTime:
        """Return since when it is known that nothing is there but what the next steps delete.

        Raises CommitConflictError if anything else is.
        """
        table, expected = self.look.table, {key for keys in steps for key in keys}
        time = InTime.since(table, table.clock.elapsed_ms())
        listed = table.store.list(table.paths.root)
        others = [meta.key for meta in listed if meta.key not in expected]
        if others:
            raise CommitConflictError(
                f"{some(others)} came to {table.settings.name} while its objects were deleted",
                next_step="stop what writes to it, and run it again; what is left stays",
            )
        return time

    def _abort(self) -> None:
        for upload in self.look.uploads:
            assert self.look.open_uploads is not None  # who else listed them
            error = self.look.open_uploads.abort(upload)
            self.deleter.answered(upload.name, error)
            self.aborted += error is None

    def report(
        self, plan: DropTablePlan, transaction: int | None = None, due_ms: int | None = None
    ) -> DropTableReport:
        table = self.look.table
        root = table.paths.root
        return DropTableReport(
            table=table.settings.name,
            dry_run=self.options.dry_run,
            plan=plan.to_json(),
            transaction=transaction,
            due_ms=due_ms or plan.due_ms,
            deleted=len(self.deleter.confirmed) - self.aborted,
            uploads_aborted=self.aborted,
            markers=sum(key.startswith(root) for key in passed_over(table.store)),
            failed=self.deleter.failed,
            failures=tuple(self.deleter.failures),
            requests=self.runner.requests,
            seconds=self.runner.seconds,
        )
