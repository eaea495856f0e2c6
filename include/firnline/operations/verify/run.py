"""Verify: the log, the transactions and the objects of a table compared with each other.

Reads only. What is found is reported and never raised: ``refuse_findings`` does that, for the
command line and the DAG. A run that stood still between its listings looks again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import msgspec

from firnline.errors import (
    FindingsError,
    FirnlineError,
    ForeignPathError,
    LogCorruptError,
    LogLostError,
    UsageError,
)
from firnline.log.reader import LogRead
from firnline.log.records import LogContent, Marker
from firnline.operations.in_time import InTime, looked
from firnline.operations.operation import Work
from firnline.operations.options import VerifyOptions
from firnline.operations.prepared.expiry import held
from firnline.operations.runner import RunMetrics
from firnline.operations.verify.attempt import try_merge
from firnline.operations.verify.certificates import check_certificates, survey_certificates
from firnline.operations.verify.checkpoints import check_checkpoints
from firnline.operations.verify.findings import Finding, Findings, Severity
from firnline.operations.verify.footers import FooterCheck
from firnline.operations.verify.foreign import (
    check_columns,
    check_doubled,
    merged_parts,
    rows_of_inputs,
)
from firnline.operations.verify.history import check_chain, check_witnesses
from firnline.operations.verify.logs import check_behind, check_leftovers, check_log, check_lost
from firnline.operations.verify.mirrors import check_mirrors
from firnline.operations.verify.plan import (
    Counted,
    check_effect,
    check_folders,
    check_objects,
    check_transactions,
    check_unknown,
    check_v1,
)
from firnline.operations.verify.rows import RowsChecked, check_rows, chosen
from firnline.parquet.footers import FooterFacts, FooterTask, FooterWanted, many_facts
from firnline.properties.in_force import IDENTITY, current, differences, waits
from firnline.shown import ShownFigures
from firnline.state import effect, health
from firnline.state.snapshot import Snapshot, build, read_snapshot
from firnline.state.survey import LogSurvey, TxnSurvey, survey_log, survey_transactions
from firnline.state.witness import (
    CertificateWitness,
    Witness,
    parse_certificates,
    parse_witnesses,
)
from firnline.store.listing import passed_over
from firnline.table import Table
from firnline.types.sql import fold_name
from firnline.units import counted

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
    """Those of them whose markers state no digest, and whose rows were compared with nothing."""


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

    @property
    def text(self) -> str:
        """Return it in words: footers, then the rows of parts."""
        text = f"{self.footers_done:,} of {counted(self.footers, 'footer')} read"
        if self.parts:
            text += f", rows of {self.parts_done:,} of {counted(self.parts, 'part')}"
        return text


def run_verify(work: Work, options: VerifyOptions) -> VerifyReport:
    """Check a table; works on a damaged one as far as it can be read.

    Requests: a LIST per 1,000 objects of ``_log/``, ``_txn/``, ``_data/``, ``_prepared/``,
    ``_ckpt/`` and ``_erase/``, a GET per log file, transaction, checkpoint, prepared change, plan
    and certificate of an erase; deep: a GET per
    live part besides, and those of ``check_columns``; of rows: a GET for each part that is read.
    Where the log lacks the newest transaction 1 GET more; where it looks lost, or a live part has
    no object, those of ``read_snapshot``. Of a table with mirrors those of ``check_mirrors``.

    Args:
        work: on what, and for whom; told every ten footers, and for each part whose rows were read.
        options: how deep.

    Raises:
        StoreError, SnapshotUnstableError: a store that does not answer is not a finding, nor is
            what a run sees that stood still between its listings.
        UsageError: there is no table at the root, or no witness of it in ``options.witness``; a
            sample without ``rows``.
    """
    table = work.table
    refuse_lone_sample(options)
    name = table.settings.name
    seen = _Witnesses(
        parse_witnesses(options.witness, name) if options.witness else (),
        parse_certificates(options.witness, name),
    )
    metrics = RunMetrics(table)
    look = looked(table, lambda time: _look(_Run(table, metrics, Findings()), seen, time))
    run, snapshot = look.run, look.snapshot
    deep = run.footer_check(snapshot)
    tell = work.tell
    if options.deep:
        _read_footers(deep, snapshot, work.footers or partial(many_facts, table.store), tell)
    rows = _read_rows(run, snapshot, options, look.now_ms, tell, deep.unlike)
    return run.report(options, look, deep, rows)


@dataclass(frozen=True, slots=True)
class _Witnesses:
    """What somebody has seen of the table before."""

    transactions: tuple[Witness, ...]
    certificates: tuple[CertificateWitness, ...]


@dataclass(frozen=True, slots=True)
class _Look:
    """All listings of a table, compared with each other."""

    run: _Run
    snapshot: Snapshot
    """With the newest transaction, whether it is published or not."""
    log_files: int
    transactions: int
    v1_parts: int | None
    counted: Counted
    now_ms: int


def _look(run: _Run, seen: _Witnesses, time: InTime) -> _Look:
    """List and compare everything but the contents of parts."""
    table, findings = run.table, run.findings
    began = table.clock.now_ms()
    certificates = survey_certificates(table, seen.certificates)
    log = survey_log(table.store, table.paths)
    published = LogRead(log.listing, log.contents)
    snapshot = run.read(published)
    run.table, run.seq = run.in_force(snapshot, time), snapshot.seq
    every = survey_transactions(table.store, table.paths, upto=snapshot.seq)
    ineffective = effect.ineffective(log, every, table.paths)
    never = effect.never_effective(ineffective)
    txns = run.without(every, never)
    now = table.clock.now_ms()
    check_log(findings, log, snapshot.log_tombstones, now)
    others = waits(snapshot.properties, run.table.settings, now)
    check_leftovers(findings, snapshot, others.grace, now)
    check_behind(findings, snapshot)
    newest = _judge(table, run, log, txns).unpublished
    check_transactions(findings, txns, snapshot, table.paths, now, unpublished=newest is not None)
    check_unknown(findings, run.without(every, ineffective), snapshot)
    check_effect(findings, never, every, table.paths)
    check_chain(findings, every, log, table.paths)
    check_witnesses(findings, every, seen.transactions, table.paths)
    check_certificates(findings, certificates, txns, snapshot, began - others.commit_ttl)
    v1_parts = check_v1(findings, snapshot) if (whole := not log.broken and run.readable) else None
    check_doubled(findings, snapshot, table.settings.name)
    check_checkpoints(table, findings, log, snapshot if whole else None)
    if newest is not None and run.readable:
        # The parts that readers see: each has to exist.
        snapshot = run.read(health.with_newest(table.paths, published, newest))
    check_mirrors(run.table, findings, snapshot if whole and run.readable else None)
    counted = run.check_parts(snapshot, now, others.orphan_grace)
    check_folders(findings, passed_over(table.store), table.paths.prefix)
    return _Look(run, snapshot, len(log.listing), len(txns.numbers), v1_parts, counted, now)


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
        judged = health.of_survey(table, log, txns)
    except (LogCorruptError, ForeignPathError) as error:
        # The transaction without a log file does not read: that has been reported already.
        check_lost(run.findings, table.paths, f"{error.message}, and its log file is not there")
        return health.Health("lost", error.message)
    if judged.state == "never written" and not log.strange:
        lost = health.old_objects(table)
        if not lost:
            raise health.no_table(table)
    else:
        lost = health.confirmed_lost(table, judged)
    check_lost(run.findings, table.paths, lost)
    return health.Health("lost", lost) if lost else judged


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
    findings: Findings
    seq: int = 0
    """Newest transaction of the log."""
    readable: bool = True
    """True if the log files that read give one state."""

    def read(self, log: LogRead) -> Snapshot:
        """Return the state that the readable log files give, without contradicting entries."""
        contents = log.contents
        while True:
            try:
                snapshot = build(self.table.paths, replace(log, contents=contents), tolerant=True)
            except LogCorruptError as error:
                self._contradiction("log-conflict", error)
                contents = _first_only(contents)
            else:
                if snapshot.conflict is not None:
                    self._contradiction("schema-conflict", snapshot.conflict)
                return snapshot

    def _contradiction(self, kind: str, error: FirnlineError) -> None:
        self.readable = False
        self.findings.add(
            "error", kind, self.table.paths.log_dir, f"does not read as a whole: {error.message}",
            error.next_step,
        )  # fmt: skip

    def without(self, txns: TxnSurvey, ineffective: Collection[int]) -> TxnSurvey:
        """Return the transactions without those of some numbers; reads them again if there are."""
        if not ineffective:
            return txns
        store, paths = self.table.store, self.table.paths
        return survey_transactions(store, paths, upto=self.seq, without=frozenset(ineffective))

    def in_force(self, snapshot: Snapshot, time: InTime) -> Table:
        """Return the table under its own properties; settings that differ are findings."""
        stated = current(snapshot.properties)
        if stated is None:
            return self.table
        time.under(self.table.settings, stated.grace)
        settings, where = self.table.settings, self.table.paths.log_dir
        other = differences(settings, stated)
        levels: tuple[Severity, ...] = ("error", "note")
        for level in levels:
            said_so = [
                f"{one.name}: {one.table}, and the settings say {one.wanted}"
                for one in other
                if (one.name in IDENTITY) is (level == "error")
            ]
            if said_so:
                self.findings.add(
                    level, "settings-differ", where, f"says {'; '.join(said_so)}",
                    f"see `firnline properties {settings.name}`; correct the settings, or run "
                    f"`firnline properties apply {settings.name}`",
                )  # fmt: skip
        if any(one.name in IDENTITY for one in other):
            return self.table
        return self.table.under(stated)

    def check_parts(self, snapshot: Snapshot, now_ms: int, orphan_grace: int) -> Counted:
        table = self.table
        return check_objects(
            self.findings,
            snapshot.parts,
            snapshot.purged,
            table.store.list(table.paths.data_dir),
            now_ms,
            orphan_grace,
            self._prepared(),
            partial(_live_now, table, snapshot),
        )

    def _prepared(self) -> frozenset[str]:
        """Return the parts of prepared changes; a statement that does not read is a finding."""
        try:
            return held(self.table).parts
        except LogCorruptError as error:
            self.findings.add(
                "warning", "prepared-unreadable", self.table.paths.prepared_dir, error.message,
                error.next_step,
            )  # fmt: skip
            return frozenset()

    def footer_check(self, snapshot: Snapshot) -> FooterCheck:
        return FooterCheck(
            self.findings,
            self.table.paths,
            snapshot.live,
            self.table.settings.name,
            snapshot.schema,
            _disputed(snapshot),
            snapshot.columns_of,
            snapshot.types_in_parts(),
        )

    def report(
        self, options: VerifyOptions, look: _Look, deep: FooterCheck, read: RowsChecked
    ) -> VerifyReport:
        snapshot, counted = look.snapshot, look.counted
        live = snapshot.live
        rows = [m.n for m in live.values()]
        return VerifyReport(
            table=self.table.settings.name,
            deep=options.deep,
            rows=options.rows,
            seq=snapshot.seq,
            findings=tuple(_in_order(self.findings.listed)),
            kinds=dict(self.findings.counts),
            severities={str(level): n for level, n in self.findings.severities.items()},
            checked=Checked(
                log_files=look.log_files,
                transactions=look.transactions,
                live_parts=len(live),
                dead_parts=len(snapshot.parts) - len(live),
                rows=None if None in rows else sum(n for n in rows if n is not None),
                v1_parts=look.v1_parts,
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


def _live_now(table: Table, before: Snapshot) -> Container[str]:
    """Return the parts that are live by now; those of before, of a log that does not read."""
    try:
        return read_snapshot(table.store, table.paths, tolerant=True).live
    except (LogCorruptError, LogLostError, ForeignPathError):
        return before.live  # a finding of the log's own check


def _disputed(snapshot: Snapshot) -> frozenset[str]:
    named = {fold_name(n) for key in snapshot.contents for n in snapshot.line(key)}
    return frozenset(named - {fold_name(n) for n in snapshot.schema})


def _first_only(contents: Mapping[str, LogContent]) -> dict[str, LogContent]:
    """Return log files without the later markers of a part on which two of them disagree."""
    first_markers: dict[str, Marker] = {}
    cleaned: dict[str, LogContent] = {}
    for key in sorted(contents):
        markers = []
        for marker in contents[key].markers:
            first = first_markers.setdefault(marker.p, marker)
            same = first.b == marker.b and (None in (first.n, marker.n) or first.n == marker.n)
            if same:
                markers.append(marker)
        cleaned[key] = msgspec.structs.replace(contents[key], markers=markers)
    return cleaned


def _in_order(findings: Sequence[Finding]) -> list[Finding]:
    ranks = {"error": 0, "warning": 1, "note": 2}
    return sorted(findings, key=lambda f: (ranks[f.severity], f.kind))


def _read_footers(
    check: FooterCheck,
    snapshot: Snapshot,
    read: ReadFooters,
    tell: Callable[[VerifyProgress], None],
) -> None:
    merges = merged_parts(snapshot)
    check.merged = frozenset(merges)
    tasks = [FooterTask(marker.p, marker.b) for marker in check.live.values()]
    for facts in read(tasks, FooterWanted(columns=dict(check.types), form=True)):
        check.take(facts)
        if check.count % _TELL_EVERY == 0 or check.count == len(tasks):
            tell(VerifyProgress(footers=len(tasks), footers_done=check.count))
    check.finish()
    wanted = FooterWanted(columns=dict(check.types))
    check_columns(check.findings, snapshot, merges, check.held, lambda parts: read(parts, wanted))


def _read_rows(
    run: _Run,
    snapshot: Snapshot,
    options: VerifyOptions,
    now_ms: int,
    tell: Callable[[VerifyProgress], None],
    unlike: Collection[str],
) -> RowsChecked:
    """Read rows; ``unlike``: parts of which it was told that they have other columns."""
    if not options.rows:
        return RowsChecked()
    parts = chosen(snapshot.live, options.sample, now_ms)

    def each(done: int, total: int) -> None:
        tell(VerifyProgress(footers=0, footers_done=0, parts=total, parts_done=done))

    inputs = rows_of_inputs(snapshot, merged_parts(snapshot))
    attempt = partial(try_merge, run.table, snapshot, told=unlike)
    return check_rows(run.table.store, run.findings, parts, each, inputs, attempt)
