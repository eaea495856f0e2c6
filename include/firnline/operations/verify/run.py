"""Verify: the log, the transactions and the objects of a table compared with each other.

Reads only. What is found is reported and never raised: ``refuse_findings`` does that, for the
command line and the DAG.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import msgspec

from firnline.errors import (
    FindingsError,
    FirnlineError,
    ForeignPathError,
    LogCorruptError,
    UsageError,
)
from firnline.log.reader import LogRead
from firnline.log.records import LogContent, Marker
from firnline.operations.options import VerifyOptions
from firnline.operations.prepared.expiry import held
from firnline.operations.runner import RunMetrics
from firnline.operations.verify.certificates import check_certificates, survey_certificates
from firnline.operations.verify.checkpoints import check_checkpoints
from firnline.operations.verify.history import check_chain, check_witnesses
from firnline.operations.verify.mirrors import check_mirrors
from firnline.operations.verify.plan import (
    Counted,
    Finding,
    Findings,
    FooterCheck,
    Severity,
    check_leftovers,
    check_log,
    check_lost,
    check_objects,
    check_transactions,
    check_v1,
)
from firnline.operations.verify.rows import RowsChecked, check_rows, chosen
from firnline.parquet.footers import FooterFacts, FooterTask, FooterWanted, many_facts
from firnline.properties.in_force import IDENTITY, current, differences, waits
from firnline.shown import ShownFigures
from firnline.state import health
from firnline.state.snapshot import Snapshot, build
from firnline.state.survey import LogSurvey, TxnSurvey, survey_log, survey_transactions
from firnline.state.witness import parse_certificates, parse_witnesses
from firnline.table import Table
from firnline.types.sql import fold_name

ReadFooters = Callable[[Sequence[FooterTask], FooterWanted], Iterator[FooterFacts]]
"""Reads many footers: in threads of this process, or in Spark tasks (firnline.spark.footers)."""

_TELL_EVERY = 10


class Checked(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of what was checked."""

    log_files: int = 0
    transactions: int = 0
    live_parts: int = 0
    dead_parts: int = 0
    rows: int | None = 0
    """Rows of the live parts by their markers; None when a part does not state them."""
    v1_parts: int | None = None
    """Live parts for a client of log version 1; None when the log does not read as a whole."""
    objects: int = 0
    """Objects under ``_data/``."""
    bytes: int = 0
    """Of these objects."""
    orphans: int = 0
    orphan_bytes: int = 0
    young_objects: int = 0
    """Objects that no log file names, younger than ``orphan_grace``."""
    prepared: int = 0
    """Parts of prepared changes that wait for a decision."""
    footers: int = 0
    footer_rows: int = 0
    read_parts: int = 0
    """Parts of which all rows were read."""
    read_rows: int = 0
    unstated_parts: int = 0
    """Parts that were to be read and whose markers state no digest."""


class VerifyReport(ShownFigures, msgspec.Struct, frozen=True, kw_only=True):
    """Result of a check."""

    table: str
    deep: bool
    rows: bool
    """True if rows were read."""
    seq: int
    """Newest transaction of the log."""
    findings: tuple[Finding, ...]
    """At most a hundred of a kind."""
    kinds: dict[str, int]
    """Kind -> how many there are."""
    severities: dict[str, int]
    """error, warning, note -> how many there are."""
    checked: Checked
    requests: dict[str, int]
    seconds: float

    @property
    def healthy(self) -> bool:
        """True if there are only notes."""
        return not (self.severities.get("error") or self.severities.get("warning"))

    def to_json(self) -> dict[str, object]:
        """Plain data for XCom and ``--json``."""
        plain: dict[str, object] = msgspec.to_builtins(self)
        return plain | {"healthy": self.healthy}


class VerifyProgress(msgspec.Struct, frozen=True, kw_only=True):
    """Progress of a check."""

    footers: int
    footers_done: int
    parts: int = 0
    """Parts whose rows are to be read, after the footers."""
    parts_done: int = 0


def run_verify(
    table: Table,
    options: VerifyOptions,
    footers: ReadFooters | None = None,
    on_progress: Callable[[VerifyProgress], None] | None = None,
) -> VerifyReport:
    """Check a table; works on a damaged one as far as it can be read.

    Requests: a LIST per 1,000 objects of ``_log/``, ``_txn/``, ``_data/``, ``_prepared/``,
    ``_ckpt/`` and ``_erase/``, a GET per log file, transaction, checkpoint, prepared change, plan
    and certificate of an erase; deep: a GET per
    live part besides; of rows: a GET for each part that is read. Where the log lacks the newest
    transaction 1 GET more; where it looks lost, those of ``read_snapshot``. Of a table with mirrors
    those of ``check_mirrors``.

    Args:
        table: the table.
        options: how deep.
        footers: reads footers elsewhere; None: in threads of this process.
        on_progress: called every ten footers, and for each part whose rows were read.

    Raises:
        StoreError, SnapshotUnstableError: a store that does not answer is not a finding.
        UsageError: there is no table at the root, or no witness of it in ``options.witness``; a
            sample without ``rows``.
    """
    refuse_lone_sample(options)
    name = table.settings.name
    witnesses = parse_witnesses(options.witness, name) if options.witness else ()
    run = _Run(table, RunMetrics(table), Findings())
    certificates = survey_certificates(table, parse_certificates(options.witness, name))
    log = survey_log(table.store, table.paths)
    published = LogRead(log.listing, log.contents)
    snapshot = run.read(published)
    run.table = run.in_force(snapshot)
    txns = survey_transactions(table.store, table.paths, upto=snapshot.seq)
    now = table.clock.now_ms()
    check_log(run.found, log, snapshot.log_tombstones, now)
    others = waits(snapshot.properties, run.table.settings, now)
    check_leftovers(run.found, snapshot, others.grace, now)
    newest = _judge(table, run, log, txns).unpublished
    check_transactions(run.found, txns, snapshot, table.paths, now, unpublished=newest is not None)
    check_chain(run.found, txns, log, table.paths)
    check_witnesses(run.found, txns, witnesses, table.paths)
    check_certificates(run.found, certificates, txns, snapshot, now - others.commit_ttl)
    v1_parts = check_v1(run.found, snapshot) if (whole := not log.broken and run.readable) else None
    check_checkpoints(table, run.found, log, snapshot if whole else None)
    if newest is not None and run.readable:
        # The parts that readers see: each has to exist.
        snapshot = run.read(health.with_newest(table.paths, published, newest))
    check_mirrors(run.table, run.found, snapshot if whole and run.readable else None)
    counted = run.check_parts(snapshot, now, others.orphan_grace)
    deep = run.footer_check(snapshot)
    tell = on_progress or (lambda _: None)
    if options.deep:
        _read_footers(deep, footers or partial(many_facts, table.store), tell)
    rows = _read_rows(table, run.found, snapshot, options, now, tell)
    return run.report(
        options, snapshot, len(log.listing), len(txns.numbers), v1_parts, counted, deep, rows
    )


def refuse_lone_sample(options: VerifyOptions) -> None:
    """Raise UsageError for a sample of rows that are not read."""
    if options.sample != 1 and not options.rows:
        raise UsageError(
            "a sample is one of the rows of parts, which this check does not read",
            next_step="give rows too (--rows), or leave the sample out",
        )


def _judge(table: Table, run: _Run, log: LogSurvey, txns: TxnSurvey) -> health.Health:
    """Judge the log, and report one that is lost. Raises UsageError where there never was one."""
    try:
        found = health.of_survey(table, log, txns)
    except (LogCorruptError, ForeignPathError) as error:
        # The transaction without a log file does not read: that has been reported already.
        check_lost(run.found, table.paths, f"{error.message}, and its log file is not there")
        return health.Health("lost", error.message)
    if found.state == "never written" and not log.strange:
        lost = health.old_objects(table)
        if not lost:
            raise health.no_table(table)
    else:
        lost = health.confirmed_lost(table, found)
    check_lost(run.found, table.paths, lost)
    return health.Health("lost", lost) if lost else found


class UnhealthyTableError(FindingsError):
    """A check that found more than notes; carries the report."""

    def __init__(self, report: VerifyReport) -> None:
        counts = {level: report.severities.get(level, 0) for level in ("error", "warning")}
        told = [f"{n} {level}{'' if n == 1 else 's'}" for level, n in counts.items() if n]
        worst = "error" if counts["error"] else "warning"
        first = next(f for f in report.findings if f.severity == worst)
        super().__init__(
            f"table {report.table} has {' and '.join(told)}; the first: "
            f"{first.object} {first.sentence}",
            next_step=first.next_step,
        )
        self.report = report


def refuse_findings(report: VerifyReport) -> None:
    """Raise UnhealthyTableError unless there are only notes."""
    if not report.healthy:
        raise UnhealthyTableError(report)


@dataclass(slots=True)
class _Run:
    table: Table
    metrics: RunMetrics
    found: Findings
    readable: bool = True
    """True if the log files that read give one state."""

    def read(self, log: LogRead) -> Snapshot:
        """Return the state that the readable log files give, without contradicting entries."""
        contents = log.contents
        while True:
            try:
                found = build(self.table.paths, replace(log, contents=contents), tolerant=True)
            except LogCorruptError as error:
                self._contradiction("log-conflict", error)
                contents = _first_only(contents)
            else:
                if found.conflict is not None:
                    self._contradiction("schema-conflict", found.conflict)
                return found

    def _contradiction(self, kind: str, error: FirnlineError) -> None:
        self.readable = False
        self.found.add(
            "error", kind, self.table.paths.log_dir, f"does not read as a whole: {error.message}",
            error.next_step,
        )  # fmt: skip

    def in_force(self, snapshot: Snapshot) -> Table:
        """Return the table under its own properties; settings that differ are findings."""
        said = current(snapshot.properties)
        if said is None:
            return self.table
        settings, where = self.table.settings, self.table.paths.log_dir
        other = differences(settings, said)
        levels: tuple[Severity, ...] = ("error", "note")
        for level in levels:
            said_so = [
                f"{one.name}: {one.table}, and the settings say {one.wanted}"
                for one in other
                if (one.name in IDENTITY) is (level == "error")
            ]
            if said_so:
                self.found.add(
                    level, "settings-differ", where, f"says {'; '.join(said_so)}",
                    f"see `firnline properties {settings.name}`; correct the settings, or run "
                    f"`firnline properties apply {settings.name}`",
                )  # fmt: skip
        if any(one.name in IDENTITY for one in other):
            return self.table
        return self.table.under(said)

    def check_parts(self, snapshot: Snapshot, now_ms: int, orphan_grace: int) -> Counted:
        table = self.table
        return check_objects(
            self.found,
            snapshot.parts,
            snapshot.purged,
            table.store.list(table.paths.data_dir),
            now_ms,
            orphan_grace,
            self._prepared(),
        )

    def _prepared(self) -> frozenset[str]:
        """Return the parts of prepared changes; a statement that does not read is a finding."""
        try:
            return held(self.table).parts
        except LogCorruptError as error:
            self.found.add(
                "warning", "prepared-unreadable", self.table.paths.prepared_dir, error.message,
                error.next_step,
            )  # fmt: skip
            return frozenset()

    def footer_check(self, snapshot: Snapshot) -> FooterCheck:
        return FooterCheck(
            self.found,
            self.table.paths,
            snapshot.live,
            self.table.settings.name,
            snapshot.schema,
            _disputed(snapshot),
            snapshot.columns_of,
            snapshot.types_in_parts(),
        )

    def report(
        self,
        options: VerifyOptions,
        snapshot: Snapshot,
        log_files: int,
        transactions: int,
        v1_parts: int | None,
        counted: Counted,
        deep: FooterCheck,
        read: RowsChecked,
    ) -> VerifyReport:
        live = snapshot.live
        rows = [m.n for m in live.values()]
        return VerifyReport(
            table=self.table.settings.name,
            deep=options.deep,
            rows=options.rows,
            seq=snapshot.seq,
            findings=tuple(_in_order(self.found.listed)),
            kinds=dict(self.found.counts),
            severities={str(level): n for level, n in self.found.severities.items()},
            checked=Checked(
                log_files=log_files,
                transactions=transactions,
                live_parts=len(live),
                dead_parts=len(snapshot.parts) - len(live),
                rows=None if None in rows else sum(n for n in rows if n is not None),
                v1_parts=v1_parts,
                objects=counted.objects,
                bytes=counted.bytes,
                orphans=counted.orphans,
                orphan_bytes=counted.orphan_bytes,
                young_objects=counted.young,
                prepared=counted.prepared,
                footers=deep.count,
                footer_rows=deep.rows,
                read_parts=read.parts,
                read_rows=read.rows,
                unstated_parts=read.unstated,
            ),
            requests=self.metrics.requests,
            seconds=self.metrics.seconds,
        )


def _disputed(snapshot: Snapshot) -> frozenset[str]:
    named = {fold_name(n) for key in snapshot.contents for n in snapshot.line(key)}
    return frozenset(named - {fold_name(n) for n in snapshot.schema})


def _first_only(contents: Mapping[str, LogContent]) -> dict[str, LogContent]:
    """Return log files without the later markers of a part on which two of them disagree."""
    known: dict[str, Marker] = {}
    found: dict[str, LogContent] = {}
    for key in sorted(contents):
        markers = []
        for marker in contents[key].markers:
            first = known.setdefault(marker.p, marker)
            same = first.b == marker.b and (None in (first.n, marker.n) or first.n == marker.n)
            if same:
                markers.append(marker)
        found[key] = msgspec.structs.replace(contents[key], markers=markers)
    return found


def _in_order(findings: Sequence[Finding]) -> list[Finding]:
    ranks = {"error": 0, "warning": 1, "note": 2}
    return sorted(findings, key=lambda f: (ranks[f.severity], f.kind))


def _read_footers(
    check: FooterCheck, read: ReadFooters, tell: Callable[[VerifyProgress], None]
) -> None:
    tasks = [FooterTask(marker.p, marker.b) for marker in check.live.values()]
    for facts in read(tasks, FooterWanted(columns=dict(check.types))):
        check.take(facts)
        if check.count % _TELL_EVERY == 0 or check.count == len(tasks):
            tell(VerifyProgress(footers=len(tasks), footers_done=check.count))
    check.finish()


def _read_rows(
    table: Table,
    found: Findings,
    snapshot: Snapshot,
    options: VerifyOptions,
    now_ms: int,
    tell: Callable[[VerifyProgress], None],
) -> RowsChecked:
    if not options.rows:
        return RowsChecked()
    parts = chosen(snapshot.live, options.sample, now_ms)

    def each(done: int, total: int) -> None:
        tell(VerifyProgress(footers=0, footers_done=0, parts=total, parts_done=done))

    return check_rows(table.store, found, parts, each)
