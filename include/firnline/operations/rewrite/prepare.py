"""Prepare a rewrite: all but the commit, with evidence of what it would change.

The new parts are written and named by a statement (``operations.prepared``), so that a person or a
program can look at the difference and then commit exactly those parts, in one transaction for all
partitions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import msgspec

from firnline.commit.base import Base
from firnline.commit.change import Change
from firnline.commit.outputs import Outputs
from firnline.errors import CommitExpiredError
from firnline.log.txn_file import Counts, RunIdentity
from firnline.operations.committer import outputs_of
from firnline.operations.kernel_tasks import RowWork
from firnline.operations.operation import Work
from firnline.operations.options import RewriteOptions
from firnline.operations.prepare_options import Preparable
from firnline.operations.prepared import objects
from firnline.operations.prepared.compare import comparison, evidence
from firnline.operations.prepared.evidence import Evidence
from firnline.operations.prepared.record import KEEP_MS, Prepared, plain, planned_by, standing
from firnline.operations.prepared.run import discard_prepared
from firnline.operations.prepared.waiting import WaitingChange, of_run
from firnline.operations.rewrite.plan import (
    OP,
    PlannedPartition,
    RewritePlan,
    asked_evidence,
    make_plan,
    make_work,
)
from firnline.operations.rewrite.report import (
    PartitionRewrite,
    RewriteFailedError,
    RewriteRefusedError,
    RewriteReport,
    change,
    too_much,
)
from firnline.operations.rewrite.run import run_rewrite
from firnline.operations.rewriting import RewriteResult, execute, is_nothing
from firnline.operations.runner import Failure, Progress, Report, Runner
from firnline.state.history import add_counts
from firnline.state.snapshot import Snapshot
from firnline.table import Table

_ASKED = ("dry_run", "prepare", "first_try")
"""Fields of the options that do not say what the rewrite does."""
_NAMED = 1_000
OptionsT = TypeVar("OptionsT", bound=Preparable)


class PrepareReport(Report, frozen=True, kw_only=True):
    """Result of a prepare: what waits to be committed."""

    table: str
    id: str | None
    """Of the prepared change; None when nothing would change, and nothing was written."""
    seq: int
    """Newest transaction of the state that it was made from."""
    partition_count: int
    """Partitions that would change."""
    partitions: tuple[PartitionRewrite, ...]
    """The first 1,000 of them."""
    evidence: Evidence
    bytes: int
    """Bytes of the new parts."""
    keep: int
    """Milliseconds for which sweeps leave it alone."""
    earlier: bool = False
    """An earlier try of this run had prepared it."""
    transactions: tuple[int, ...] = ()
    requests: dict[str, int]
    seconds: float


@dataclass(frozen=True, slots=True)
class Way(Generic[OptionsT]):
    """An operation that replaces parts, as far as it differs from others when it is prepared."""

    op: str
    plan: Callable[[Table, Snapshot, OptionsT], RewritePlan]
    work: Callable[[Table, Snapshot, OptionsT], RowWork]
    most: Callable[[Table, OptionsT], float]
    """Fraction of a partition's rows that may vanish."""


def _plan(table: Table, snapshot: Snapshot, options: RewriteOptions) -> RewritePlan:
    return make_plan(table, snapshot, options, None)


def _most(table: Table, options: RewriteOptions) -> float:
    return 1.0 if options.force else table.settings.rewrite.max_removed_fraction


REWRITING = Way(op=OP, plan=_plan, work=make_work, most=_most)


def run_either(work: Work, options: RewriteOptions) -> RewriteReport | PrepareReport:
    """Rewrite, or prepare a rewrite, as the options say. Raises as either."""
    if options.prepare:
        return run_prepare(work, options)
    return run_rewrite(work, options)


def run_prepare(work: Work, options: RewriteOptions) -> PrepareReport:
    """Prepare a rewrite; see ``prepare_by``."""
    return prepare_by(REWRITING, work, options)


def prepare_by(way: Way[OptionsT], work: Work, options: OptionsT) -> PrepareReport:
    """Write the new parts of a rewrite and a statement that names them; commit nothing.

    A run that is tried again returns what an earlier try has prepared, if it was asked for the same
    and nobody has decided on it.

    Requests: those of ``run_rewrite`` without the commits; those of ``prepared.compare.evidence``;
    1 PUT of the statement; for a run with an id 1 LIST of ``_prepared/``, and 1 GET for each change
    that waits.

    Args:
        way: what is prepared.
        work: on what, and for whom; told whenever a group is read, then whenever partitions are
            compared.
        options: as for ``run_rewrite``, with what the evidence is to show.

    Raises:
        UsageError, RewriteFailedError, RewriteRefusedError: as ``run_rewrite``; of all partitions
            nothing is prepared then.
        EnvironmentFaultError: the engine's workers cannot compare rows; nothing was written.
        AssertionFailedError: an assertion does not hold; the new parts are deleted.
        CommitExpiredError: it took longer than ``commit_ttl``; the new parts are deleted, and what
            was stated in the end is discarded.
        OutcomeUnknownError: nobody can say whether the statement was stored; nothing is deleted.
    """
    table = work.table
    runner = Runner(table, work.identity, work.engine)
    base = runner.take_base()
    table = runner.table
    asked = asked_evidence(table, base.snapshot, options)
    plan = way.plan(table, base.snapshot, options)
    earlier = _earlier(table, options, work.identity)
    if earlier is not None:
        return _report(runner, earlier, (), earlier=True)
    if plan.nothing_to_do or options.dry_run:
        return _nothing(runner, base)
    runner.probe()
    compare = comparison(lambda: runner.engine)
    tell = work.tell
    result = _execute(runner, base, plan, way.work(table, base.snapshot, options), tell)
    with Outputs(table, outputs_of(result.done)) as new:
        whole, partitions = _changes(runner, base, plan, result, way.op, way.most(table, options))
        if is_nothing(whole):
            return _nothing(runner, base)
        heard = _comparisons(whole, tell)
        shown = evidence(table, base.snapshot, whole, asked, compare, heard)
        made = _statement(runner, base, whole, options, shown)
        _refuse_late(table, base)
        objects.state(table, made, new.attempt, lambda: _age_ms(table, base) <= _ttl(table))
    # Stated too late: its parts may be gone, or about to go.
    try:
        _refuse_late(table, base)
    except CommitExpiredError:
        discard_prepared(table, made.id, work.identity, "it was stated too late")
        raise
    return _report(runner, made, partitions)


def _earlier(table: Table, options: Preparable, run: RunIdentity) -> WaitingChange | None:
    """Return what an earlier try has prepared; discard what it was asked for otherwise."""
    if not run.dag_id:
        return None
    for change_made in of_run(table, run):
        if change_made.begun:
            continue
        if change_made.options == _plain(options):
            return change_made
        discard_prepared(table, change_made.id, run, "the run prepared another change")
    return None


def _plain(options: Preparable) -> dict[str, object]:
    asked = {name: getattr(options, name) for name in options.__struct_fields__}
    return plain({name: value for name, value in asked.items() if name not in _ASKED})


def _execute(
    runner: Runner,
    base: Base,
    plan: RewritePlan,
    work: RowWork,
    tell: Callable[[Progress], None],
) -> RewriteResult:
    """Write the new parts of all partitions. Raises RewriteFailedError if one cannot be made."""
    if not plan.groups:
        return RewriteResult()
    result = execute(
        runner.table, base.snapshot, runner.engine, plan.groups, work, tell, go_on=False
    )
    if result.failures:
        result.discard(runner.table)
        raise RewriteFailedError(_failed(runner, plan, result.failures))
    return result


def _changes(
    runner: Runner,
    base: Base,
    plan: RewritePlan,
    result: RewriteResult,
    op: str,
    most: float,
) -> tuple[Change, tuple[PartitionRewrite, ...]]:
    """Return one change for all partitions. Raises RewriteRefusedError if one loses too much."""
    made: list[tuple[PlannedPartition, Change, int]] = []
    refused: list[Failure] = []
    for planned in plan.partitions:
        done = [each for each in result.done if each[0].partition == planned.partition]
        done.sort(key=lambda each: each[1].group)
        of_partition = change(base.snapshot, planned, done, op)
        problem = too_much(planned, of_partition, done, most)
        refused += [] if problem is None else [problem]
        if not is_nothing(of_partition):
            made.append((planned, of_partition, sum(len(r.unchanged) for _, r in done)))
    if refused:
        raise RewriteRefusedError(_failed(runner, plan, refused))
    partitions = tuple(
        PartitionRewrite.of(planned.partition, of_partition.counts, unchanged, None)
        for planned, of_partition, unchanged in made
    )
    changes = [of_partition for _, of_partition, _ in made]
    together = Change(
        op=op,
        replaces=tuple(key for each in changes for key in each.replaces),
        adds=tuple(marker for each in changes for marker in each.adds),
        counts=add_counts([each.counts for each in changes]),
        partitions=tuple(sorted({name for each in changes for name in each.partitions})),
    )
    return together, partitions


def _comparisons(change: Change, tell: Callable[[Progress], None]) -> Callable[[int], None]:
    """Return what tells how many partitions are compared, from the first one on."""
    number = len(change.partitions)
    nothing = Progress(
        groups=0, groups_done=0, parts_in=0, parts_merged=0, parts_done=0, transactions=0
    )

    def heard(compared: int) -> None:
        tell(msgspec.structs.replace(nothing, partitions=number, partitions_compared=compared))

    heard(0)
    return heard


def _statement(
    runner: Runner, base: Base, change: Change, options: Preparable, shown: Evidence
) -> Prepared:
    table, now = runner.table, runner.table.clock.now_ms()
    return Prepared(
        id=table.ids.uuid7(now),
        t=now,
        op=change.op,
        seq=base.seq,
        keep=KEEP_MS if options.keep is None else options.keep,
        run=runner.identity,
        options=_plain(options),
        replaces=change.replaces,
        adds=change.adds,
        counts=_counts(change, shown),
        partitions=change.partitions,
        base=standing(base.snapshot, change.partitions),
        properties=planned_by(table.settings),
        evidence=shown,
    )


def _counts(change: Change, shown: Evidence) -> Counts:
    """Return the counts of a change: an update has counted its rows, of a rewrite the evidence."""
    if change.counts.rows_changed:
        return change.counts
    return msgspec.structs.replace(change.counts, rows_changed=shown.changed)


def _age_ms(table: Table, base: Base) -> int:
    return table.clock.elapsed_ms() - base.began_ms


def _ttl(table: Table) -> int:
    return table.settings.commit_ttl


def _refuse_late(table: Table, base: Base) -> None:
    """Raise CommitExpiredError after ``commit_ttl``: a sweep may take the parts for leftovers."""
    age, ttl = _age_ms(table, base), _ttl(table)
    if age > ttl:
        raise CommitExpiredError(
            f"this rewrite read the table {age // 1000} s ago, longer than commit_ttl "
            f"({ttl // 1000} s)",
            next_step="prepare fewer partitions at once, or with a larger commit_ttl",
        )


def _report(
    runner: Runner,
    made: Prepared | WaitingChange,
    partitions: tuple[PartitionRewrite, ...],
    *,
    earlier: bool = False,
) -> PrepareReport:
    return PrepareReport(
        table=runner.table.settings.name,
        id=made.id,
        seq=made.seq,
        partition_count=len(made.partitions),
        partitions=partitions[:_NAMED],
        evidence=made.evidence,
        bytes=made.bytes,
        keep=made.keep,
        earlier=earlier,
        requests=runner.requests,
        seconds=runner.seconds,
    )


def _nothing(runner: Runner, base: Base) -> PrepareReport:
    return PrepareReport(
        table=runner.table.settings.name,
        id=None,
        seq=base.seq,
        partition_count=0,
        partitions=(),
        evidence=Evidence(),
        bytes=0,
        keep=0,
        requests=runner.requests,
        seconds=runner.seconds,
    )


def _failed(runner: Runner, plan: RewritePlan, failures: Sequence[Failure]) -> RewriteReport:
    """Return the report for an error of ``run_rewrite``: no partition is done."""
    return RewriteReport(
        table=runner.table.settings.name,
        dry_run=False,
        partitions=(),
        partition_count=len(plan.partitions),
        partitions_changed=0,
        transactions=(),
        counts=add_counts([]),
        parts_untouched=0,
        failures=tuple(failures),
        replans=0,
        requests=runner.requests,
        seconds=runner.seconds,
    )
