"""Repair of a schema conflict: a column gets one type, or two names; no value is lost.

One transaction replaces the parts that hold the column in another type and folds the log files that
say so. Each part is rewritten by itself: its rows, its place in the order of insertion, and the
deletes that may still hide some of its rows are those of the part before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from firnline.commit import keys
from firnline.commit.base import Base, take_base
from firnline.commit.outputs import Outputs
from firnline.commit.transaction import Change, Repaired
from firnline.errors import (
    DAMAGED_PART,
    CommitConflictError,
    PartGoneError,
    PartUnreadableError,
    RunFailedError,
    UsageError,
)
from firnline.kernel.engine import running
from firnline.kernel.task import KernelInput, KernelResult, KernelTask
from firnline.log.records import Marker, marker_of
from firnline.log.txn_file import Counts
from firnline.next_steps import PLAN_ANEW
from firnline.operations.committer import Done
from firnline.operations.groups import PlannedGroup
from firnline.operations.kernel_tasks import (
    bloom_filters,
    buckets,
    digest_of,
    proof_of,
    sources_of,
)
from firnline.operations.operation import Work
from firnline.operations.options import SchemaFixOptions
from firnline.operations.rewriting import commit_or_discard
from firnline.operations.runner import Failure, Progress, Report, Runner
from firnline.operations.schema.evolution import evolved
from firnline.operations.schema.plan import SchemaFixPlan, aim, plan_schema_fix
from firnline.operations.schema.repairs import PartFix, repaired
from firnline.operations.schema.target import Target, targets_of
from firnline.parquet.footers import FooterTask, FooterWanted, many_facts
from firnline.parquet.part import PartMetadata
from firnline.rows.given import Fitting
from firnline.settings.load import TableSettings
from firnline.state.snapshot import Snapshot
from firnline.table import Table
from firnline.types.order import SortKey
from firnline.types.sql import fold_name

_UNREADABLE = (PartUnreadableError.__name__, PartGoneError.__name__)


class SchemaFixReport(Report, frozen=True, kw_only=True):
    """Result of a repair: its plan and what was done."""

    table: str
    dry_run: bool
    plan: dict[str, object]
    """The last plan, as ``SchemaFixPlan.to_json``."""
    transaction: int | None
    """Sequence number; None when nothing was committed."""
    counts: Counts
    left: tuple[Failure, ...]
    """Parts that could not be read and stay as they are, with ``leave_unreadable``."""
    failures: tuple[Failure, ...]
    """With any of them nothing was changed."""
    conflict: str | None
    """The contradiction that remains between log files, if any."""
    replans: int
    """Times that the run planned again because another run replaced parts of the plan, or added
    a wrong log file."""
    requests: dict[str, int]
    seconds: float


class SchemaFixFailedError(RunFailedError):
    """Values or parts stood in the way, and nothing was changed; carries the report."""

    def __init__(self, report: SchemaFixReport) -> None:
        first = report.failures[0]
        count = len(report.failures)
        super().__init__(
            f"nothing was changed in table {report.table}: {count} "
            f"{'part' if count == 1 else 'parts'} cannot be rewritten; the first: {first.message}",
            next_step="repair what the report names, or ask for another type or for --rename",
            causes=(failure.error for failure in report.failures),
        )
        self.report = report


def preview(table: Table, options: SchemaFixOptions) -> SchemaFixPlan:
    """Plan as ``run_schema_fix`` would; its errors.

    Requests: those of ``take_base``, and one ranged GET per live part of the log files that are
    wrong.
    """
    return _plan(take_base(table, tolerant=True), options)


def run_schema_fix(work: Work, options: SchemaFixOptions) -> SchemaFixReport:
    """Give columns one type in one transaction, all of it or nothing.

    A second run right after the first finds nothing to do.

    Requests: one LIST each of ``_log/`` and ``_txn/`` and the log reads; one ranged GET per live
    part of the log files that state a wrong type (``all_parts``: per live part; with a primary key
    also per part that was inserted in the same millisecond); a GET and an upload per part that
    holds one, and with a primary key per part of the same millisecond; four for the probe of the
    store, two PUT and a LIST.

    Args:
        work: on what, and for whom; told whenever a part has been read.
        options: which columns, and what becomes of them.

    Raises:
        UsageError: see ``target.targets_of`` and ``plan_schema_fix``.
        SchemaFixFailedError: a value that the type cannot hold exactly, or a part that cannot be
            read; nothing was changed.
        CommitConflictError, CommitExpiredError, CommitUnknownError: see ``transaction.commit``.
    """
    state = _Run(Runner(work.table, work.identity, work.engine), options, work.tell)
    plan, report = state.runner.run(
        state.plan,
        lambda base, plan: state.commit(base, plan, state.execute(base, plan)),
        ends=lambda plan: options.dry_run or plan.nothing_to_do,
        tolerant=True,
    )
    return report or state.report(state.base, plan)


def _targets(table: Table, snapshot: Snapshot, options: SchemaFixOptions) -> tuple[Target, ...]:
    """Return the target columns of a state. Raises UsageError."""
    if options.evolution is not None:
        return evolved(snapshot, table.settings, options.evolution)
    return tuple(
        targets_of(
            snapshot,
            table.settings,
            options.fixes,
            options.where_types,
            all_parts=options.all_parts,
        )
    )


def _plan(base: Base, options: SchemaFixOptions) -> SchemaFixPlan:
    snapshot, table = base.snapshot, base.table
    targets = _targets(table, snapshot, options)
    keyed = bool(table.settings.primary_key)
    planned = aim(snapshot, targets, all_parts=options.everywhere, keyed=keyed)
    known = {**snapshot.types_in_parts(), **{t.column: t.kept for t in targets if not t.gone}}
    tasks = [FooterTask(marker.p, marker.b) for marker in planned.suspects]
    wanted = FooterWanted(columns=known, form=options.all_parts)
    footers = many_facts(table.store, tasks, wanted)
    return plan_schema_fix(snapshot, planned, footers)


@dataclass
class _Run:
    """The state of one run."""

    runner: Runner
    options: SchemaFixOptions
    on_progress: Callable[[Progress], None]
    base: Base | None = None
    """The base of the last plan."""
    left: list[Failure] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    counts: Counts = field(default_factory=Counts)
    transaction: int | None = None
    conflict: str | None = None

    @property
    def table(self) -> Table:
        return self.runner.table

    def plan(self, base: Base) -> SchemaFixPlan:
        """Plan. Raises SchemaFixFailedError: a part does not read, and may not stay as it is."""
        self.base, plan = base, _plan(base, self.options)
        self._refuse_unreadable(plan)
        return plan

    def _refuse_unreadable(self, plan: SchemaFixPlan) -> None:
        unreadable = [
            Failure(
                partition=self.table.paths.parse_part(part.key).partition,
                error=PartUnreadableError.__name__,
                message=f"{part.message}; {DAMAGED_PART}",
                key=part.key,
            )
            for part in plan.unreadable
        ]
        if self.options.leave_unreadable:
            self.left = unreadable
        elif unreadable and not self.options.dry_run:
            self.failures = unreadable
            raise SchemaFixFailedError(self.report(None, plan))

    def execute(self, base: Base, plan: SchemaFixPlan) -> list[Done]:
        """Rewrite the parts. Raises SchemaFixFailedError, with the outputs deleted."""
        if not plan.rewrites:
            return []
        tasks = [
            rewrite_task(self.table, base.snapshot, n, fix, self.options.op, named_ms)
            for n, (fix, named_ms) in enumerate(zip(plan.rewrites, self._names(plan), strict=True))
        ]
        done: list[Done] = []
        with Outputs(self.table) as new:
            with running(self.runner.engine, tasks) as results:
                for result in results:
                    if result is not None:
                        new.add(*(part.key for part in result.parts))
                        self._take(plan.rewrites[result.group], result, done)
                        self._report_progress(len(tasks), len(done))
            if self.failures:
                raise SchemaFixFailedError(self.report(None, plan))
        return done

    def _names(self, plan: SchemaFixPlan) -> list[int | None]:
        """Return times for the names of the new parts; tasks end in any order."""
        if not self.table.settings.primary_key:
            return [None] * len(plan.rewrites)
        now, ranks = self.table.clock.now_ms(), keys.ranks(fix.marker for fix in plan.rewrites)
        return [now + ranks[fix.marker.p] for fix in plan.rewrites]

    def _take(self, fix: PartFix, result: KernelResult, done: list[Done]) -> None:
        self.table.store.counters.add(result.requests)
        if result.error is None:
            done.append((PlannedGroup(fix.partition, (fix.marker,)), result))
            return
        failure = Failure.of(fix.partition, result, key=fix.marker.p)
        left = self.options.leave_unreadable and failure.error in _UNREADABLE
        (self.left if left else self.failures).append(failure)

    def _report_progress(self, parts: int, read: int) -> None:
        self.on_progress(
            Progress(
                groups=parts,
                groups_done=read,
                parts_in=parts,
                parts_merged=read,
                parts_done=0,
                transactions=0,
            )
        )

    def commit(self, base: Base, plan: SchemaFixPlan, done: Sequence[Done]) -> SchemaFixReport:
        """Commit. Raises what ``commit_or_discard`` raises."""

        def repair(snapshot: Snapshot) -> Repaired:
            if snapshot.seq > base.seq:
                self._refuse_other_targets(snapshot, plan)
            return repaired(snapshot, plan.aim.targets, plan.renamed, plan.log_files)

        change = replacing(base.snapshot, done, self.options.op, repair)
        made = commit_or_discard(self.table, base, change, self.runner.identity, done)
        self.transaction, self.counts = made.header.seq, made.header.counts
        return self.report(made.base, plan)

    def _refuse_other_targets(self, snapshot: Snapshot, plan: SchemaFixPlan) -> None:
        """Raise CommitConflictError where another run changed the columns of this repair."""
        try:
            same = _targets(self.table, snapshot, self.options) == plan.aim.targets
        except UsageError:
            same = False  # as the next plan says
        if not same:
            raise CommitConflictError(
                f"somebody else changed the same columns while this {self.options.op} ran",
                next_step=PLAN_ANEW,
            )

    def report(self, base: Base | None, plan: SchemaFixPlan) -> SchemaFixReport:
        table = self.table
        conflict = None if base is None else base.snapshot.conflict
        return SchemaFixReport(
            table=table.settings.name,
            dry_run=self.options.dry_run,
            plan=plan.to_json(),
            transaction=self.transaction,
            counts=self.counts,
            left=tuple(self.left),
            failures=tuple(self.failures),
            conflict=None if conflict is None else conflict.message,
            replans=self.runner.replans,
            requests=self.runner.requests,
            seconds=self.runner.seconds,
        )


def rewrite_task(
    table: Table,
    snapshot: Snapshot,
    number: int,
    fix: PartFix,
    op: str,
    named_ms: int | None = None,
) -> KernelTask:
    """Return the task that turns a part into one part of its own, with all of its rows.

    No delete is applied and no row goes for its key: sequence and order of insertion stay, so
    readers and merges do the same to the new part as to the old. With a primary key the new names
    (``named_ms``) have to be in the order of the old ones.
    """
    settings, policy, marker = table.settings, table.settings.merge, fix.marker
    has = {fold_name(name): name for name, _ in fix.columns}
    return KernelTask(
        group=number,
        partition=fix.partition,
        inputs=(
            KernelInput(
                key=marker.p,
                bytes=marker.b,
                rows=marker.n,
                order=marker.order(),
                sources=sources_of(snapshot, marker),
                fitting=Fitting(casts=fix.anew),
                digest=digest_of(snapshot, marker),
            ),
        ),
        columns=fix.columns,
        sort_by=_sort_keys(settings, has),
        stats_columns=tuple(c for c in settings.statistics_columns if c in has.values()),
        buckets=buckets(settings, has.values()),
        metadata=PartMetadata(
            table=table.paths.prefix,
            partition=fix.partition,
            writer=op,
            q=snapshot.sequence_of(marker),
            o=marker.order(),
            d=_applied(snapshot, marker) or (),
            replaces=(table.paths.parse_part(marker.p).name,),
        ).to_pairs(),
        data_prefix=table.paths.partition_dir(fix.partition),
        named_ms=named_ms,
        memory=policy.kernel_memory,
        threads=policy.kernel_threads,
        row_group_rows=policy.row_group_rows,
        compression_level=policy.compression_level,
        bloom_filters=bloom_filters(policy),
        conversions=fix.conversions,
        dropped=fix.dropped,
        proof=proof_of(table, marker),
    )


def _sort_keys(settings: TableSettings, has: Mapping[str, str]) -> tuple[SortKey, ...]:
    return tuple(
        SortKey(has[fold_name(f.column)], f.descending)
        for f in settings.sort_by
        if fold_name(f.column) in has
    )


def _applied(snapshot: Snapshot, old: Marker) -> tuple[str, ...] | None:
    """Return the changes that the new part names as applied: its old sequence would repeat them."""
    changes = {change.id for change in snapshot.pending_changes(old)}
    return tuple(sorted(changes.union(old.d or ()))) or None


def replacing(
    snapshot: Snapshot, done: Sequence[Done], op: str, repair: Callable[[Snapshot], Repaired]
) -> Change:
    """Return the transaction that replaces old parts with new ones.

    Args:
        snapshot: what the parts were planned on.
        done: each old part with what became of it.
        op: the operation.
        repair: the schema line of the transaction, and the log files that it folds.
    """
    adds = [
        marker_of(
            part,
            q=snapshot.sequence_of(old),
            d=_applied(snapshot, old),
            o=old.order(),
            c=old.c,
            w=old.w,
        )
        for group, result in done
        for old in group.parts
        for part in result.parts
    ]
    olds = [old for group, _ in done for old in group.parts]
    counts = Counts(
        parts_in=len(olds),
        parts_out=len(adds),
        rows_in=sum(result.rows_in for _, result in done),
        rows_out=sum(part.rows for _, result in done for part in result.parts),
        bytes_in=sum(old.b for old in olds),
        bytes_out=sum(new.b for new in adds),
    )
    return Change(
        op=op,
        replaces=tuple(old.p for old in olds),
        adds=tuple(adds),
        counts=counts,
        partitions=tuple(sorted({group.partition for group, _ in done})),
        repair=repair,
    )
