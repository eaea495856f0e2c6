"""Downgrade: a firnline table becomes a pure table of log version 1.

Pending deletes are applied to the parts, then one log file that v1 clients fully understand folds
all others. Run again after the grace it deletes what is left over: folded log files, dead parts and
the history under ``_txn/`` but the newest transaction. Stop the table's DAGs first.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from firnline.commit.base import Base, digest_of, take_base
from firnline.commit.transaction import commit_whole
from firnline.errors import (
    CommitConflictError,
    RunFailedError,
    StoreError,
)
from firnline.log import chain
from firnline.log.imports import last_listed, records_of
from firnline.log.reader import time_after
from firnline.log.txn_file import Counts, TxnHeader
from firnline.operations.downgrade.plan import DowngradePlan, plan_downgrade, v1_log
from firnline.operations.import_files.taken import write_visible
from firnline.operations.in_time import InTime
from firnline.operations.kernel_tasks import RowWork, change_of, kernel_task
from firnline.operations.operation import Work
from firnline.operations.options import DowngradeOptions
from firnline.operations.rewriting import commit_or_discard, is_nothing, run_groups
from firnline.operations.runner import Failure, Report, Runner, what_helps
from firnline.properties import record as birth
from firnline.properties.record import Properties
from firnline.state.birth import read_birth
from firnline.state.health import Transactions
from firnline.store.create import overwrite
from firnline.table import Table
from firnline.units import counted

OP = "downgrade"


class DowngradeReport(Report, frozen=True, kw_only=True):
    """Result of a downgrade."""

    table: str
    dry_run: bool
    plan: dict[str, object]
    """The last plan, as ``DowngradePlan.to_json``."""
    transactions: tuple[int, ...]
    parts_rewritten: int
    rows_deleted: int
    objects_deleted: int
    failures: tuple[Failure, ...]
    waits_until: int | None
    """Time from which another run may delete what is left over, unix ms; None when nothing is."""
    requests: dict[str, int]
    seconds: float


def preview(table: Table, options: DowngradeOptions) -> DowngradePlan:  # noqa: ARG001 - the contract
    """Read everything and plan; nothing is written but an unpublished transaction's log file."""
    base = take_base(table, everything=True)
    return plan_downgrade(base.snapshot, base.table.settings, table.clock.now_ms())


def run_downgrade(work: Work, options: DowngradeOptions) -> DowngradeReport:
    """Apply deletes, fold, and when it is time delete what is left over.

    Requests: those of ``take_base`` with all log files, per part with deletes pending one GET, at
    most one upload and two PUTs, and for the log file those of ``commit_whole``. Left-overs: DELETE
    per 1,000, one GET of the birth record, and one PUT of it unless it states all that already.

    Args:
        work: on what, and for whom.
        options: whether to do anything.

    Raises:
        UsageError: a delete is younger than ``append.ttl``.
        RunFailedError: parts that could not be rewritten; nothing was folded.
        SnapshotUnstableError: the run stood still for longer than half the grace before it deleted
            or wrote the birth record.
        CommitConflictError, CommitExpiredError, CommitUnknownError: see ``transaction.commit``.
    """
    table = work.table
    state = _Run(Runner(table, work.identity, work.engine))
    base = state.runner.take_base(everything=True)
    table = base.table
    plan = state.plan(base)
    if options.dry_run:
        return state.report(options, plan)
    if not plan.is_v1:
        state.runner.probe()
    while not plan.is_v1:
        try:
            base = state.apply_deletes(base, plan) if plan.groups else state.fold(base)
        except CommitConflictError as conflict:
            state.runner.plan_again(conflict)
            base = state.runner.take_base(everything=True)
        plan = state.plan(base)
    if plan.left_overs and plan.due <= table.clock.now_ms():
        state.delete(plan, base)
        plan = state.plan(state.runner.take_base(everything=True))
    return state.report(options, plan)


@dataclass(slots=True)
class _Run:
    runner: Runner
    transactions: list[int] = field(default_factory=list)
    checked: set[str] = field(default_factory=set)
    failures: list[Failure] = field(default_factory=list)
    rewritten: int = 0
    rows_deleted: int = 0
    deleted: int = 0

    @property
    def table(self) -> Table:
        return self.runner.table

    def plan(self, base: Base) -> DowngradePlan:
        table = base.table
        return plan_downgrade(base.snapshot, table.settings, table.clock.now_ms(), self.checked)

    def apply_deletes(self, base: Base, plan: DowngradePlan) -> Base:
        """Rewrite the parts in which rows are hidden; return the next base."""
        table, snapshot = self.table, base.snapshot
        works = [
            # A part in another form is rewritten, whether rows of it are hidden or not.
            RowWork(op=OP, only_touched=not any(map(snapshot.pending_changes, group.parts)))
            for group in plan.groups
        ]
        tasks = [
            (group, kernel_task(table, snapshot, number, group, work))
            for number, (group, work) in enumerate(zip(plan.groups, works, strict=True))
        ]
        newest = base
        for partition in run_groups(table, self.runner.engine, tasks):
            if partition is None:
                continue
            self.failures += partition.failures
            change = change_of(base.snapshot, partition.done, op=OP)
            self.checked.update(key for _, result in partition.done for key in result.unchanged)
            if is_nothing(change):
                continue
            committed = commit_or_discard(
                table, newest, change, self.runner.identity, partition.done
            )
            self.transactions.append(committed.header.seq)
            self.rewritten += committed.header.counts.parts_in
            self.rows_deleted += committed.header.counts.rows_deleted
            newest = committed.base or self.runner.take_base(since=newest, everything=True)
        if self.failures:
            raise RunFailedError(
                f"{counted(len(self.failures), 'part')} of table "
                f"{table.settings.name} could not be "
                f"rewritten, the first {self.failures[0]}",
                next_step=what_helps(self.failures, " and run it again; no log file was folded"),
            )
        return self.runner.take_base(everything=True)

    def fold(self, base: Base) -> Base:
        """Fold everything into one log file; return the next base."""
        table, snapshot = self.table, base.snapshot
        seq, txn = base.seq + 1, table.ids.uuid7(table.clock.now_ms())
        names = (item.name for item in snapshot.listing.values())
        t = time_after(names, table.clock.now_ms())
        content, log_file = v1_log(snapshot, t)
        rows = sum(m.n or 0 for m in snapshot.live.values())
        header = TxnHeader(
            seq=seq,
            txn=txn,
            op=OP,
            base=base.seq,
            t=t,
            log=table.paths.txn_log(t, seq, txn),
            run=self.runner.identity,
            counts=Counts(
                parts_in=len(snapshot.live),
                parts_out=len(snapshot.live),
                rows_in=rows,
                rows_out=rows,
                logs_folded=len(content.tombstones),
            ),
            properties=base.properties,
            appends=snapshot.not_taken_in,
        )
        last = last_listed(records_of(snapshot.other))
        if last is not None:
            write_visible(table, last.id)  # no log of version 1 has its record
        made = chain.link(header, log_file, None, digest_of(table, base), table.paths)
        commit_whole(table, made.header, log_file, base.began_ms)
        self.transactions.append(seq)
        return self.runner.take_base(everything=True)

    def delete(self, plan: DowngradePlan, base: Base) -> None:
        """Delete the left-overs. Folded log files last: they show that there is more to do.

        Raises SnapshotUnstableError after half the grace: firnline may have come back since, and
        number its transactions like those that are listed here.
        """
        table = self.table
        paths = table.paths
        time = InTime.since(base.table, base.began_ms)
        metas = list(table.store.list(paths.txn_dir, paths.birth))
        last = max(base.seq, Transactions.of(paths, metas).newest)
        # The newest stays: whoever slept cannot create its number, and what is created below it is
        # not the newest, which is all that anybody goes by.
        history = [meta.key for meta in metas if meta.key != paths.txn(last)]
        if base.properties is not None and metas:
            log = max(base.snapshot.listing.values(), key=lambda item: item.name.seq).name.key
            self._remember(base.properties, log, last, time)
        for keys in (plan.dead, history, plan.left_overs):
            time.refuse("before it could delete what is left over")
            for answer in table.store.delete_many(keys):
                if answer.error is not None:
                    raise StoreError(
                        f"{answer.key} could not be deleted: {answer.error.message}",
                        next_step="run it again when the store lets it go",
                    )
            self.deleted += len(keys)

    def _remember(self, properties: Properties, log: str, last: int, time: InTime) -> None:
        """Keep what a log of version 1 cannot hold, in case firnline comes back.

        The properties, and the last number in use: clients of version 1 may fold away the log file
        that shows it, and a process that slept may hold a transaction with one of those numbers.
        It is overwritten, since a DELETE of its key that the store carries out late would take the
        new one away.
        """
        table, key = self.table, self.table.paths.birth
        known = read_birth(table.store, table.paths)
        if known is not None and (known.properties, known.last) == (properties, last):
            return
        record = birth.Birth(log=log, t=table.clock.now_ms(), properties=properties, seq=last)
        time.refuse(f"before it could write {key}")
        overwrite(table.store, key, birth.encode(record))
        time.refuse(f"before it wrote {key}, which may state properties of long ago now")

    def report(self, options: DowngradeOptions, plan: DowngradePlan) -> DowngradeReport:
        table = self.table
        waits = bool(plan.left_overs) and not self.deleted
        return DowngradeReport(
            table=table.settings.name,
            dry_run=options.dry_run,
            plan=plan.to_json(),
            transactions=tuple(self.transactions),
            parts_rewritten=self.rewritten,
            rows_deleted=self.rows_deleted,
            objects_deleted=self.deleted,
            failures=tuple(self.failures),
            waits_until=plan.due if waits else None,
            requests=self.runner.requests,
            seconds=self.runner.seconds,
        )
