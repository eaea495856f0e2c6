"""Fill in what markers of parts lack: no part is written, only markers are restated.

Bounds and sort orders come from footers, hash ranges from the columns that are hashed. A part never
changes, so what it says of itself is true for ever: a restated marker is united with the one that
the log has by then, and with nothing if a rival has replaced the part meanwhile.
Each transaction restates the markers of ``BATCH`` parts, so a run that is stopped has done what it
has committed, and the next one reads the other footers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from firnline.commit.base import Base, take_base
from firnline.commit.change import Change
from firnline.commit.transaction import commit
from firnline.errors import DAMAGED_PART, CommitConflictError, RunFailedError
from firnline.log.records import NO_STATS, Marker, hashes_json, sort_json, stats_json
from firnline.log.txn_file import Counts
from firnline.operations.analyze.plan import AnalyzePlan, Lacking, plan_analyze
from firnline.operations.operation import Work
from firnline.operations.options import AnalyzeOptions
from firnline.operations.runner import Failure, Report, Runner, what_helps
from firnline.parquet.footers import FooterFacts, FooterTask, FooterWanted, many_facts
from firnline.state.snapshot import Snapshot
from firnline.table import Table
from firnline.units import counted

if TYPE_CHECKING:
    from firnline.operations.analyze.hashes import Counted

OP = "analyze"
BATCH = 5_000
"""Parts of a transaction: its markers have about 2 MB."""
_NAMED = 100
"""Maximum failures that a report lists."""
_TELL_EVERY = 10

OnProgress = Callable[[int, int], None]
"""Callback that takes the number of parts read and their total; one whose footer and columns are
read counts twice."""


class AnalyzeReport(Report, frozen=True, kw_only=True):
    """Report of an analyze."""

    table: str
    dry_run: bool
    plan: dict[str, object]
    transactions: tuple[int, ...]
    parts: int
    """Parts whose markers state more now."""
    parts_without: int
    """Parts that say no more: footers without these bounds, columns of types without hashes."""
    parts_gone: int
    """Parts that a rival replaced meanwhile; what replaces them has its own statistics."""
    failed: int
    failures: tuple[Failure, ...]
    """Parts that could not be read, the first hundred."""
    requests: dict[str, int]
    seconds: float


class AnalyzeFailedError(RunFailedError):
    """Some parts could not be read; the others are done."""

    def __init__(self, report: AnalyzeReport) -> None:
        super().__init__(
            f"{report.failed} of the parts of table {report.table} could not be analyzed, "
            f"{report.parts} were; the first, {report.failures[0]}",
            next_step=what_helps(
                report.failures, "; `firnline verify --deep` lists all damaged ones"
            ),
            causes=(failure.error for failure in report.failures),
        )
        self.report = report


def preview(table: Table, options: AnalyzeOptions) -> AnalyzePlan:
    """Plan as ``run_analyze`` would. Requests: those of ``take_base``; errors of the planner."""
    return _plan(take_base(table), options)


def run_analyze(work: Work, options: AnalyzeOptions) -> AnalyzeReport:
    """State the bounds of the columns ``statistics_columns`` where a footer has them.

    Of a table with ``sort_by`` also what rows are sorted by, of parts that do not state it, and
    with ``hashes`` the ranges of hashes, of parts that state none.

    Requests: those of ``take_base``; per part that lacks bounds or its order one ranged GET,
    two if its footer has more than 64 KiB; those of ``counted_ranges``; four for the probe of the
    store, and a commit (two PUT and a LIST) per ``BATCH`` parts.

    Memory: that of a snapshot, and the footers of 64 parts; with ``hashes`` 8 times the columns of
    a row group.

    Args:
        work: on what, and for whom; told every ten parts.
        options: which partitions.

    Raises:
        UsageError: a glob matches no partition.
        AnalyzeFailedError: parts could not be read; all others are done.
        CommitConflictError, CommitExpiredError, CommitUnknownError: see ``transaction.commit``.
    """
    runner = Runner(work.table, work.identity)
    base = runner.take_base()
    plan = _plan(base, options)
    state = _Run(runner, base, work.tell)
    if not options.dry_run and not plan.nothing_to_do:
        runner.probe()
        state.execute(plan)
    report = AnalyzeReport(
        table=work.table.settings.name,
        dry_run=options.dry_run,
        plan=plan.to_json(),
        transactions=tuple(state.transactions),
        parts=state.stated,
        parts_without=state.without,
        parts_gone=state.gone,
        failed=state.failed,
        failures=tuple(state.failures),
        requests=runner.requests,
        seconds=runner.seconds,
    )
    if state.failed:
        raise AnalyzeFailedError(report)
    return report


def _plan(base: Base, options: AnalyzeOptions) -> AnalyzePlan:
    table = base.table
    return plan_analyze(
        base.snapshot,
        table.settings,
        stated=table.wanted,
        partitions=options.partitions,
        hashes=options.hashes,
    )


@dataclass
class _Run:
    """The state of one run."""

    runner: Runner
    base: Base
    tell: OnProgress
    transactions: list[int] = field(default_factory=list)
    stated: int = 0
    without: int = 0
    gone: int = 0
    failures: list[Failure] = field(default_factory=list)
    _bad: set[str] = field(default_factory=set)

    @property
    def failed(self) -> int:
        """Return the number of parts that could not be read."""
        return len(self._bad)

    def execute(self, plan: AnalyzePlan) -> None:
        done = 0
        for start in range(0, len(plan.lacking), BATCH):
            batch = plan.lacking[start : start + BATCH]
            restated: dict[str, tuple[str, Marker]] = {}
            markers = [part.marker for part in batch]
            for part, marker in self._read(batch):
                if marker is not None:
                    _, bounds = restated.get(marker.p, ("", marker))
                    restated[marker.p] = part.partition, replace(bounds, h=marker.h)
                done += 1
                if done % _TELL_EVERY == 0 or done == plan.steps:
                    self.tell(done, plan.steps)
            self.without += sum(m.p not in restated and m.p not in self._bad for m in markers)
            self._commit(list(restated.values()), plan.named)

    def _read(self, batch: Sequence[Lacking]) -> Iterator[tuple[Lacking, Marker | None]]:
        """Yield what is to be restated, for every footer and for every part that is hashed."""
        for part, facts in self._footers([part for part in batch if part.of_footer]):
            yield part, self._restated(part, facts)
        to_hash = [part for part in batch if part.hashed]
        if to_hash:
            from firnline.operations.analyze.hashes import counted_ranges

            for part, ranges in counted_ranges(self.base.table.store, to_hash):
                yield part, self._hashed(part, ranges)

    def _footers(self, batch: Sequence[Lacking]) -> Iterator[tuple[Lacking, FooterFacts]]:
        table = self.base.table
        names = sorted({name for part in batch for name in part.columns.values()})
        wanted = FooterWanted(columns=self.base.snapshot.types_in_parts(), stats=tuple(names))
        tasks = [FooterTask(part.marker.p, part.marker.b) for part in batch]
        yield from zip(batch, many_facts(table.store, tasks, wanted), strict=True)

    def _restated(self, part: Lacking, facts: FooterFacts) -> Marker | None:
        """Return the marker with what the footer states; None if that is nothing."""
        if facts.error is not None:
            self._fail(part, facts.error, facts.next_step)
            return None
        stats = part.stats_from(facts)
        order = facts.sorted_by if part.order else ()
        if not self._has_rows(part, facts.rows) or not (stats or order):
            return None
        s = stats_json(stats) if stats else NO_STATS
        return _marker(part, facts.rows, s=s, k=sort_json(order))

    def _hashed(self, part: Lacking, counted: Counted) -> Marker | None:
        """Return the marker with the ranges that were counted; None if there are none."""
        if counted.error is not None:
            self._fail(part, counted.error.message, counted.error.next_step)
            return None
        if not self._has_rows(part, counted.rows) or not counted.ranges:
            return None
        return _marker(part, counted.rows, h=hashes_json(counted.ranges))

    def _has_rows(self, part: Lacking, rows: int) -> bool:
        """Return True if a part has as many rows as the log says; else it has failed."""
        marker = part.marker
        if marker.n in (None, rows):
            return True
        self._fail(
            part,
            f"{marker.p} has {counted(rows, 'row')}, and the log says {marker.n}",
            DAMAGED_PART,
        )
        return False

    def _fail(self, part: Lacking, message: str, next_step: str) -> None:
        if part.marker.p in self._bad:
            return  # its footer could not be read, nor could its columns
        self._bad.add(part.marker.p)
        if len(self.failures) < _NAMED:
            failure = Failure(
                partition=part.partition,
                error="PartUnreadableError",
                message=f"{message}; {next_step}",
                key=part.marker.p,
            )
            self.failures.append(failure)

    def _commit(self, restated: Sequence[tuple[str, Marker]], named: str) -> None:
        """Restate the markers of the parts that are still live, in one transaction."""
        while restated:
            self._renew_base()
            live = [(name, m) for name, m in restated if m.p in self.base.snapshot.live]
            self.gone += len(restated) - len(live)
            restated = live
            if not restated:
                return
            try:
                committed = commit(
                    self.base.table, self.base, _change(restated, named), self.runner.identity
                )
            except CommitConflictError as conflict:
                self.runner.plan_again(conflict)
                self.base = self.runner.take_base()
                continue
            self.transactions.append(committed.header.seq)
            self.base = committed.base or self.runner.take_base()
            stated = sum(marker.p in self.base.snapshot.live for _, marker in restated)
            self.stated, self.gone = self.stated + stated, self.gone + len(restated) - stated
            return

    def _renew_base(self) -> None:
        """Take a new base where the old one would soon be too old to commit on."""
        table = self.base.table
        if table.clock.elapsed_ms() - self.base.began_ms > table.settings.commit_ttl // 2:
            self.base = self.runner.take_base()


def _marker(
    part: Lacking,
    rows: int,
    s: msgspec.Raw = NO_STATS,
    h: msgspec.Raw = NO_STATS,
    k: msgspec.Raw = NO_STATS,
) -> Marker:
    known = part.marker
    return Marker(p=known.p, b=known.b, t=known.t, n=rows, s=s, h=h, k=k)


def _change(restated: Sequence[tuple[str, Marker]], named: str) -> Change:
    by_key: Mapping[str, Marker] = {marker.p: marker for _, marker in restated}

    def refuse(snapshot: Snapshot) -> None:
        if not any(path in snapshot.live for path in by_key):
            raise CommitConflictError(
                "rivals replaced all parts that this analyze has read",
                next_step="nothing is to be done: what replaces them has its own statistics",
            )

    return Change(
        op=OP,
        replaces=(),
        adds=(),
        counts=Counts(),
        partitions=tuple(sorted({partition for partition, _ in restated})),
        states=tuple(by_key.values()),
        refuse=refuse,
        why=f"{named} for {counted(len(by_key), 'part')}",
    )
