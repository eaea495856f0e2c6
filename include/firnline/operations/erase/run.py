"""Erase: removes the rows of a set of keys from every part, with a certificate of the result.

The keys travel as an object that kernels join with, never as SQL. One transaction replaces every
part that held a key and commits delete records for appends that are under way. Parts that cannot
be read are a listed remainder: the others go all the same, and the run ends failed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

import msgspec

from firnline.commit.base import Base, take_base
from firnline.commit.outputs import Outputs
from firnline.commit.transaction import commit
from firnline.errors import CommitConflictError, FirnlineError, RunFailedError, UsageError
from firnline.ids import uuid7_time_ms
from firnline.log import chain
from firnline.log.erases import PlannedErase
from firnline.log.records import Delete
from firnline.log.txn_file import Counts, TxnHeader
from firnline.operations.committer import outputs_of
from firnline.operations.delete.plan import ErasePlan, plan_erase
from firnline.operations.erase.certificate import (
    OP,
    Certificate,
    ErasedPart,
    Replaced,
    forget,
    write,
)
from firnline.operations.erase.completion import Settled, settle
from firnline.operations.erase.digests import plan_digest, sealed
from firnline.operations.erase.held import refuse_held_keys
from firnline.operations.erase.key_files import read_asked, read_keys
from firnline.operations.erase.keys import KeySet, key_set
from firnline.operations.erase.known import digests_text, named
from firnline.operations.hidden import shown_failure
from firnline.operations.kernel_tasks import RowWork
from firnline.operations.operation import Work
from firnline.operations.options import EraseOptions
from firnline.operations.prepared.expiry import discard_changed
from firnline.operations.rewriting import RewriteResult, change, execute
from firnline.operations.runner import Failure, Progress, Report, Runner, what_helps
from firnline.state.history import Head
from firnline.state.snapshot import Snapshot
from firnline.table import Table
from firnline.units import counted

_LOG = logging.getLogger(__name__)
OUTSIDE = (
    "folders and files that rows were imported or appended from",
    "versions and snapshots that the bucket keeps, and backups",
    "copies and clones of the table, and what readers of it and of its mirrors have stored",
    "logs, notes and results of queries that show rows",
)
"""What may hold rows of the keys beside the table's objects (docs/removal.md)."""


class EraseReport(Report, frozen=True, kw_only=True):
    """Result of an erase: its plan and what was done. Holds no key."""

    table: str
    dry_run: bool
    columns: tuple[str, ...]
    keys: int
    """Distinct keys."""
    digest: str | None
    """HMAC-SHA256 of the keys with ``secret``, as the certificate states it."""
    secret: str | None
    """With it and the keys anybody can show that the certificate is theirs, and without it nobody
    can guess the keys. It is told here and stored nowhere. None for a run of a DAG, whose reports
    are stored and shown, and for one that has committed nothing."""
    certificate: str | None
    """Id for `firnline certificate`; None when nothing was committed."""
    transaction: int | None
    deletes: int
    """Delete records, 99,999 keys of one column each."""
    parts_read: int
    parts_rewritten: int
    parts_excluded: int
    """Statistics prove that they hold no key."""
    parts_failed: int
    """Parts that may still hold keys."""
    counts: Counts
    failures: tuple[Failure, ...]
    settled: tuple[str, ...]
    """Certificates of earlier runs that had died before they wrote them."""
    replans: int
    """Times that the run planned again because another run replaced parts of the plan."""
    requests: dict[str, int]
    seconds: float
    outside: tuple[str, ...] = OUTSIDE
    """Places that no certificate speaks of, in words."""


class EraseFailedError(RunFailedError):
    """Some parts could not be read and may hold keys still; carries the report."""

    def __init__(self, report: EraseReport) -> None:
        super().__init__(
            f"{counted(report.parts_failed, 'part')} of table {report.table} may hold keys still, "
            f"{report.parts_rewritten} are erased; the first failure, {report.failures[0]}",
            next_step=what_helps(report.failures, " and erase again"),
        )
        self.report = report


def preview(table: Table, options: EraseOptions) -> ErasePlan:
    """Plan as ``run_erase`` would; requests of ``take_base``, and a GET for a file of keys.

    Raises UsageError as ``run_erase`` does.
    """
    base = take_base(table)
    keys = load_keys(base.table, base.snapshot, options)
    refuse_held_keys(base.table.settings.name, base.snapshot, keys)
    return plan_erase(base.snapshot, base.table.settings, keys.planned(), len(keys.keys))


def load_keys(table: Table, snapshot: Snapshot, options: EraseOptions) -> KeySet:
    """Return the keys of the options: inline, of their file or requests. Raises UsageError."""
    if sum((options.keys_file is not None, bool(options.keys), bool(options.requests))) != 1:
        raise UsageError(
            "an erase takes keys or a file of keys, one of them", next_step="give exactly one"
        )
    if options.requests:
        return read_asked(table, options.columns, snapshot.schema, options.requests)
    if options.keys_file is not None:
        return read_keys(table, options.columns, snapshot.schema, options.keys_file)
    return key_set(options.columns, options.keys, snapshot.schema, "the list of keys")


def run_erase(work: Work, options: EraseOptions) -> EraseReport:
    """Erase keys in one transaction: all parts that could be read, the others listed.

    Before the commit it writes what it is about to do (``_erase/{id}.plan.json``, without keys),
    after it the certificate (``{id}.json``); should it die in between, the next run or `firnline
    certificate` writes it. The object with the keys is deleted when the run ends.

    Requests: one LIST each of ``_log/``, ``_txn/`` and ``_erase/`` and the log reads, where the log
    does not name the newest erase one GET per certificate, one GET per part that statistics do not
    exclude and one GET of the keys per group, the outputs, four for the probe of the store, five
    PUT and one DELETE; one LIST of ``_prepared/``, and for each prepared change there those of
    ``prepared.expiry.discard_changed``.

    Args:
        work: on what, and for whom; told whenever a group has been read.
        options: which keys.

    Raises:
        UsageError: a column or key that cannot be, a file that does not read.
        EraseFailedError: some parts could not be read; what could is committed.
        CommitConflictError, CommitExpiredError, CommitUnknownError: see ``transaction.commit``.
    """
    state = _Run(Runner(work.table, work.identity, work.engine), options, work.tell)
    plan, found = state.runner.run(state.plan, state.attempt, ends=lambda _: options.dry_run)
    report = state.report(plan, found or RewriteResult())
    if report.failures:
        raise EraseFailedError(report)
    return report


@dataclass
class _Run:
    """The state of one run."""

    runner: Runner
    options: EraseOptions
    on_progress: Callable[[Progress], None]
    keys: KeySet = field(init=False)
    settled: Settled | None = None
    """Certificates of earlier runs that this one wrote; None before it looked."""
    certificate: Certificate | None = None
    transaction: int | None = None
    counts: Counts = field(default_factory=Counts)
    secret: str = field(init=False)

    def __post_init__(self) -> None:
        self.secret = self.table.ids.secret()

    @property
    def table(self) -> Table:
        return self.runner.table

    def plan(self, base: Base) -> ErasePlan:
        """Plan the erase. Raises UsageError for invalid keys."""
        if not self.runner.replans:
            self.keys = load_keys(self.table, base.snapshot, self.options)
        refuse_held_keys(self.table.settings.name, base.snapshot, self.keys)
        return plan_erase(
            base.snapshot, self.table.settings, self.keys.planned(), len(self.keys.keys)
        )

    def attempt(self, base: Base, plan: ErasePlan) -> RewriteResult | None:
        """Try once; None when another run replaced parts of the plan."""
        table = self.table
        if self.settled is None:
            self.settled = settle(table, base.snapshot)
        erase = table.ids.uuid7(table.clock.now_ms())
        now = table.clock.now_ms()
        deletes = [Delete(table.ids.uuid7(now), 0, 0, where) for where in self.keys.predicates()]
        result = self._execute(base, plan, erase)
        planned = self._certificate(base, plan, result, erase, deletes)
        place = PlannedErase(planned.id, plan_digest(planned, table.paths), self.settled.last)
        erasure = replace(change(base.snapshot, result, plan, deletes, OP), erase=place)
        try:
            with Outputs(table, outputs_of(result.done)) as new:
                write(table, table.paths.erase_plan(erase), planned)
                committed = commit(table, base, erasure, self.runner.identity, new.attempt)
        except CommitConflictError:
            forget(table, table.paths.erase_plan(erase))
            return None
        header = committed.header
        self.transaction, self.counts = header.seq, header.counts
        self.certificate = _committed(table, planned, header)
        try:
            write(table, table.paths.certificate(erase), self.certificate)
        except FirnlineError as error:
            # It is committed: `firnline certificate` and the next erase write it from the plan.
            _LOG.warning("certificate %s is not written yet: %s", erase, error)
        self._discard_prepared(committed.base or base)
        return result

    def _discard_prepared(self, base: Base) -> None:
        """Delete prepared parts with rows that are erased; their commit would be refused anyway."""
        try:
            discard_changed(self.table, base, self.runner.identity, "rows of it were erased")
        except FirnlineError as error:
            # The certificate is not complete as long as these objects exist.
            _LOG.warning("prepared changes with erased rows are not discarded yet: %s", error)

    def _execute(self, base: Base, plan: ErasePlan, erase: str) -> RewriteResult:
        if not plan.groups:
            return RewriteResult()
        engine = self.runner.engine
        key = self.table.paths.erase_keys(erase)
        try:
            work = RowWork(op=OP, keys=self.keys.upload(self.table, key), only_touched=True)
            return execute(
                self.table,
                base.snapshot,
                engine,
                plan.groups,
                work,
                self.on_progress,
                go_on=True,
            )
        finally:
            forget(self.table, key)

    def _certificate(
        self,
        base: Base,
        plan: ErasePlan,
        result: RewriteResult,
        erase: str,
        deletes: Sequence[Delete],
    ) -> Certificate:
        return Certificate(
            id=erase,
            status="planned",
            table=self.table.settings.name,
            root=self.table.settings.root,
            columns=self.keys.columns,
            keys=len(self.keys.keys),
            digest=self.keys.digest(self.secret),
            run=self.runner.identity,
            planned_ms=uuid7_time_ms(erase),
            deletes=tuple(delete.id for delete in deletes),
            parts=tuple(
                ErasedPart(key=named(marker.p), rows=rows, bytes=marker.b)
                for _, marker, rows in result.rewritten
            ),
            checked=tuple(filter(None, map(named, result.unchanged))),
            failed=tuple(map(named, result.failed)),
            clean=digests_text(self.table.paths, _clean(base.snapshot, plan, result)),
            covers=_same_records(base.snapshot, deletes),
            requests=tuple(each.asked for each in self.options.requests),
        )

    @property
    def _is_shown(self) -> bool:
        """Return True if the report goes to Airflow, which stores it and shows it to many."""
        return bool(self.runner.identity.dag_id)

    def report(self, plan: ErasePlan, result: RewriteResult) -> EraseReport:
        folder = self.table.paths.data_dir
        return EraseReport(
            table=self.table.settings.name,
            dry_run=self.options.dry_run,
            columns=self.keys.columns,
            keys=len(self.keys.keys),
            digest=None if self.certificate is None else self.certificate.digest,
            secret=None if self._is_shown or self.certificate is None else self.secret,
            certificate=None if self.certificate is None else self.certificate.id,
            transaction=self.transaction,
            deletes=0 if self.certificate is None else len(self.certificate.deletes),
            parts_read=plan.parts_in,
            parts_rewritten=len(result.rewritten),
            parts_excluded=plan.excluded,
            parts_failed=len(result.failed),
            counts=self.counts,
            failures=tuple(
                shown_failure(each, folder, self.keys.columns) for each in result.failures
            ),
            settled=() if self.settled is None else self.settled.written,
            replans=self.runner.replans,
            requests=self.runner.requests,
            seconds=self.runner.seconds,
        )


def _clean(snapshot: Snapshot, plan: ErasePlan, result: RewriteResult) -> Iterable[str]:
    """Return the live parts that hold no key: read, or not to be read by their statistics."""
    read = {marker.p for group in plan.groups for marker in group.parts}
    return {*result.unchanged, *(snapshot.live.keys() - read)}


def _same_records(snapshot: Snapshot, deletes: Sequence[Delete]) -> tuple[str, ...]:
    """Return the ids of records in the log that hide the very rows that these hide."""
    asked = {bytes(delete.where) for delete in deletes}
    same = (d.id for d in snapshot.deletes.values() if bytes(d.where) in asked and not d.partitions)
    return tuple(sorted(same))


def _committed(table: Table, planned: Certificate, header: TxnHeader) -> Certificate:
    digest = chain.header_digest(table.paths.txn(header.seq), msgspec.json.encode(header))
    waiting = msgspec.structs.replace(
        planned,
        status="waiting",
        replaced=Replaced(header.seq, header.t),
        link=header.erase,
        head=Head(header.seq, digest),
    )
    return sealed(waiting, table.paths)
