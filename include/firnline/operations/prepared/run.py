"""Commit or discard a prepared change: exactly the parts that it names, or nothing.

The order of the requests is the argument; keep it. A commit takes its base first and then reads the
statement, so that whoever removes a statement knows how long a commit that has read it may last
(``commit_ttl`` after its base). The decision comes before the transaction, and a discard reads the
table after its own decision: by then no other process can decide on a commit. After its decision a
commit looks whether the change has ended, on every base: it may have slept before it decided.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from firnline.commit.base import Base, take_base
from firnline.commit.transaction import Change, commit
from firnline.errors import (
    PreparedChangeError,
    RunFailedError,
)
from firnline.ids import uuid7_time_ms
from firnline.log.txn_file import Counts, RunIdentity, TxnHeader
from firnline.operations.deletion import Deleter
from firnline.operations.prepared import objects
from firnline.operations.prepared.evidence import Evidence
from firnline.operations.prepared.record import Decision, Prepared, refuse_changed
from firnline.operations.restore.undone import undone
from firnline.operations.runner import Report, RunMetrics, Runner
from firnline.properties.in_force import waits
from firnline.settings.ages import LONGEST_UNTOLD_MS
from firnline.state.history import history_since
from firnline.state.snapshot import Snapshot
from firnline.store.present import head_or_none
from firnline.table import Table
from firnline.units import about_duration, counted

_SEARCHED = 1_000
"""Newest transactions among which that of a prepared change is looked for."""


class CommitReport(Report, frozen=True, kw_only=True):
    """Result of a commit."""

    table: str
    id: str
    transaction: int | None
    """Sequence number; None if an earlier commit of it is not among the newest transactions."""
    transactions: tuple[int, ...]
    earlier: bool
    """It had been committed before, by an earlier try."""
    undone_by: int | None = None
    """Transaction of a restore since then, as far as it was looked for: once its statement is gone.
    The table may not have the change any more."""
    partitions: tuple[str, ...]
    counts: Counts
    requests: dict[str, int]
    seconds: float


class DiscardReport(Report, frozen=True, kw_only=True):
    """Result of a discard."""

    table: str
    id: str
    parts: int
    """Prepared parts that are deleted."""
    bytes: int
    transactions: tuple[int, ...] = ()
    requests: dict[str, int]
    seconds: float


class _MadeAlreadyError(Exception):
    """Another process has committed the change; never leaves this module."""


def why_of(change: str) -> str:
    """Return the reason in the header of a prepared change's transaction."""
    return f"as prepared: {change}"


class PreparedPlan(Report, frozen=True, kw_only=True):
    """A prepared change, before somebody decides on it."""

    table: str
    id: str
    seq: int
    partitions: tuple[str, ...]
    evidence: Evidence
    counts: Counts
    committed: int | None = None
    """Transaction by which it is committed already; None before."""

    @property
    def nothing_to_do(self) -> bool:
        """Return True if it is committed: a commit then reports what was done."""
        return self.committed is not None


def preview_commit(table: Table, change_id: str) -> PreparedPlan:
    """Return what ``commit_prepared`` would commit; refused where that would be refused now.

    Requests: those of ``take_base`` and 1 GET; for one that has ended, as for its commit. Raises
    PreparedChangeError.
    """
    base = take_base(table)
    change = objects.read(table, change_id)
    if change is None:
        return _plan_ended(table, change_id)
    if not _is_in(change, base.snapshot):
        refuse_changed(change, base.snapshot, base.table.settings)
    return _plan(table, change)


def preview_discard(table: Table, change_id: str) -> PreparedPlan:
    """Return what ``discard_prepared`` would delete, also where a commit would be refused.

    Requests: 1 GET. Raises PreparedChangeError.
    """
    change = objects.read(table, change_id)
    if change is None:
        raise _no_such(table, change_id)
    return _plan(table, change)


def _plan(table: Table, change: Prepared) -> PreparedPlan:
    return PreparedPlan(
        table=table.settings.name,
        id=change.id,
        seq=change.seq,
        partitions=change.partitions,
        evidence=change.evidence,
        counts=change.counts,
    )


def _plan_ended(table: Table, change: str) -> PreparedPlan:
    """Return the plan of a change that is committed already. Raises PreparedChangeError."""
    header, _ = _committed_by(table, change)
    return PreparedPlan(
        table=table.settings.name,
        id=change,
        seq=header.seq,
        partitions=header.partitions,
        evidence=Evidence(),
        counts=header.counts,
        committed=header.seq,
    )


def commit_prepared(table: Table, change_id: str, run: RunIdentity) -> CommitReport:
    """Commit a prepared change in one transaction; needs no engine and reads no part.

    Requests: those of ``take_base``, 1 GET and 1 HEAD of the statement, 1 HEAD per new part, four
    for the probe of the store, 1 PUT of the decision, for each base that it is committed on 1 LIST
    of ``_prepared/``, those of ``commit`` (2 PUT and 1 LIST without a rival) and 1 DELETE of the
    statement.

    Args:
        table: the table.
        change_id: of the prepared change.
        run: who commits it, for the history.

    Raises:
        PreparedChangeError: there is no such change, it is discarded, or its partitions have
            changed; nothing was committed.
        CommitConflictError, CommitExpiredError, CommitUnknownError: see ``transaction.commit``.
    """
    runner = Runner(table, run)
    base = runner.take_base()
    change = objects.read(runner.table, change_id)
    if change is None:
        return _ended(runner, change_id)
    if _is_in(change, base.snapshot) or (not change.adds and _transaction_of(table, change.id)):
        return _report(runner, change, None)
    refuse_changed(change, base.snapshot, runner.table.settings)
    _refuse_other_objects(runner.table, base, change)
    runner.probe()
    _decide(runner.table, base, change, run)
    try:
        made = commit(runner.table, base, _change_of(change, runner), run)
    except _MadeAlreadyError:
        return _report(runner, change, None)
    return _report(runner, change, made.header)


def _change_of(change: Prepared, runner: Runner) -> Change:
    def refuse(snapshot: Snapshot) -> None:
        if _is_in(change, snapshot):
            raise _MadeAlreadyError
        # After the decision: while it stands nobody discards the change, and before it somebody may
        # have, whose decision is tidied away by now.
        _refuse_ended(runner.table, change)
        refuse_changed(change, snapshot, runner.table.settings)

    return Change(
        op=change.op,
        replaces=change.replaces,
        adds=change.adds,
        counts=change.counts,
        partitions=change.partitions,
        refuse=refuse,
        why=why_of(change.id),
    )


def _is_in(change: Prepared, snapshot: Snapshot) -> bool:
    """Return True if the log names a new part: the change is committed."""
    return any(m.p in snapshot.parts for m in change.adds)


def _refuse_ended(table: Table, change: Prepared) -> None:
    """Raise PreparedChangeError for a change that is closed, or has no statement any more."""
    found = next((e for e in objects.entries(table) if e.id == change.id), None)
    if found is None or found.statement is None or found.closed is not None:
        raise _gone(table, change.id, "its time is over")


def _decide(table: Table, base: Base, change: Prepared, run: RunIdentity) -> None:
    """Decide on the commit, unless it is decided already. Raises PreparedChangeError."""

    def in_time() -> bool:
        return table.clock.elapsed_ms() - base.began_ms <= table.settings.commit_ttl

    # One that is decided on too late is refused by ``commit``, by the same time.
    stands = objects.decide(table, change.id, "commit", run, may_put=in_time)
    if stands.verdict != "commit":
        raise _gone(table, change.id, _discarded(stands))


def _refuse_other_objects(table: Table, base: Base, change: Prepared) -> None:
    """Raise PreparedChangeError unless every new part has its object, with its size."""
    written: list[int] = []
    for marker in change.adds:
        meta = head_or_none(table.store, marker.p)
        if meta is None or meta.size != marker.b:
            found = "is gone" if meta is None else f"has {meta.size} bytes instead of {marker.b}"
            raise PreparedChangeError(
                f"prepared change {change.id} is not committed: its part {marker.p} {found}",
                next_step=f"{_discard(table, change)}; a sweep by an older firnline may have "
                "deleted the part",
            )
        written.append(meta.modified_ms)
    _refuse_late(table, base, change, written)


def _refuse_late(table: Table, base: Base, change: Prepared, written: Sequence[int]) -> None:
    """Raise PreparedChangeError if the statement landed when a sweep might take parts for orphans.

    A run that slept right before it put the statement names what a sweep may be deleting just now:
    only sweeps that begin after it can know of it. They leave alone what is younger than this.

    Args:
        table: the table.
        base: its newest state.
        change: the change.
        written: last-modified times of its parts, unix ms.
    """
    stated = head_or_none(table.store, table.paths.prepared(change.id))
    if stated is None:
        raise _gone(table, change.id, "there is no such change, or it has ended")
    others = waits(base.snapshot.properties, table.settings, table.clock.now_ms())
    late = stated.modified_ms - min(written, default=stated.modified_ms)
    if late > max(LONGEST_UNTOLD_MS, others.commit_ttl):
        raise PreparedChangeError(
            f"prepared change {change.id} is not committed: it was stated {about_duration(late)} "
            "after its first part was written, and a sweep may have taken that for an orphan",
            next_step=_discard(table, change),
        )


def _discard(table: Table, change: Prepared) -> str:
    return (
        f"discard it (`firnline rewrite {table.settings.name} --discard {change.id}`) and prepare "
        "it again"
    )


def _report(runner: Runner, change: Prepared, header: TxnHeader | None) -> CommitReport:
    """Remove the statement and report. The decision stays until a sweep finds it old."""
    table = runner.table
    earlier = header is None
    if header is None:
        header = _transaction_of(table, change.id)
    Deleter(table, 1).delete([table.paths.prepared(change.id)])
    return _commit_report(runner, change.id, header, earlier=earlier, counts=change.counts)


def _commit_report(
    runner: Runner, change: str, header: TxnHeader | None, *, earlier: bool, counts: Counts
) -> CommitReport:
    return CommitReport(
        table=runner.table.settings.name,
        id=change,
        transaction=None if header is None else header.seq,
        transactions=() if header is None else (header.seq,),
        earlier=earlier,
        partitions=() if header is None else header.partitions,
        counts=counts if header is None else header.counts,
        requests=runner.requests,
        seconds=runner.seconds,
    )


def _ended(runner: Runner, change: str) -> CommitReport:
    """Report a change without a statement that was committed. Raises PreparedChangeError."""
    header, undone_by = _committed_by(runner.table, change)
    report = _commit_report(runner, change, header, earlier=True, counts=header.counts)
    return msgspec.structs.replace(report, undone_by=undone_by)


def _committed_by(table: Table, change: str) -> tuple[TxnHeader, int | None]:
    """Return the transaction of a change without a statement, and that of a restore since then.

    Raises PreparedChangeError: it was not committed.
    """
    decision = objects.read_decision(table, change)
    if decision is not None and decision.verdict == "commit":
        newest = _since(table, change)
        header = _among(newest, change)
        if header is not None:
            restore = undone(newest).get(header.seq)
            return header, None if restore is None else restore.by
    raise _gone(table, change, _discarded(decision))


def _transaction_of(table: Table, change: str) -> TxnHeader | None:
    return _among(_since(table, change), change)


def _since(table: Table, change: str) -> list[TxnHeader]:
    """Return the transactions since a change was prepared, newest first."""
    return history_since(table, uuid7_time_ms(change), _SEARCHED)


def _among(headers: Sequence[TxnHeader], change: str) -> TxnHeader | None:
    wanted = why_of(change)
    return next((header for header in headers if header.why == wanted), None)


def _discarded(decision: Decision | None) -> str:
    if decision is None or decision.verdict != "discard":
        return "there is no such change, or it has ended"
    return f"it was discarded{f' ({decision.why})' if decision.why else ''}"


def _gone(table: Table, change: str, why: str) -> PreparedChangeError:
    return PreparedChangeError(
        f"prepared change {change} of table {table.settings.name} cannot be committed: {why}",
        next_step=f"see `firnline rewrite {table.settings.name} --prepared`, or prepare it again",
    )


def _no_such(table: Table, change: str) -> PreparedChangeError:
    return PreparedChangeError(
        f"table {table.settings.name} has no prepared change {change}",
        next_step=f"see `firnline rewrite {table.settings.name} --prepared`",
    )


def discard_prepared(
    table: Table, change_id: str, run: RunIdentity, why: str = ""
) -> DiscardReport:
    """Discard a prepared change and delete its parts at once; a run that dies is run again.

    Requests: 1 GET of the statement, 1 PUT of the decision, those of ``take_base``, 1 DELETE per
    1,000 parts and 1 of the statement.

    Args:
        table: the table.
        change_id: of the prepared change.
        run: who discards it.
        why: reason, for whoever asks for it later.

    Raises:
        PreparedChangeError: there is no such change, or its commit has begun; nothing was deleted.
        RunFailedError: some parts could not be deleted.
    """
    metrics = RunMetrics(table)
    change = objects.read(table, change_id)
    if change is None:
        raise _no_such(table, change_id)
    stands = objects.decide(table, change_id, "discard", run, why=why)
    if stands.verdict != "discard":
        raise PreparedChangeError(
            f"prepared change {change_id} of table {table.settings.name} is not discarded: its "
            "commit has begun",
            next_step=f"end it with `firnline rewrite {table.settings.name} --commit {change_id}`; "
            "if that is refused, the sweep deletes its parts later",
        )
    deleted = remove(table, take_base(table, everything=True).snapshot, change)
    return DiscardReport(
        table=table.settings.name,
        id=change_id,
        parts=deleted,
        bytes=change.bytes,
        requests=metrics.requests,
        seconds=metrics.seconds,
    )


def remove(table: Table, snapshot: Snapshot, change: Prepared) -> int:
    """Delete the parts of a change that nobody can commit any more, then its statement.

    Args:
        table: the table.
        snapshot: read, with everything, after it became certain that nobody can.
        change: the change.

    Returns the number of parts. Raises PreparedChangeError if the log names one of them, and
    RunFailedError if some could not be deleted.
    """
    named = [m.p for m in change.adds if m.p in snapshot.parts]
    if named:
        raise PreparedChangeError(
            f"prepared change {change.id} of table {table.settings.name} is committed: the log "
            f"names its part {named[0]}",
            next_step="see `firnline history`; a restore undoes it",
        )
    keys = [m.p for m in change.adds]
    deleter = Deleter(table, len(keys) + 1)
    deleter.delete(keys)
    if deleter.failed:
        first = deleter.failures[0]
        raise RunFailedError(
            f"{deleter.failed} of {counted(len(keys), 'part')} of prepared change {change.id} not "
            f"deleted; the first, {first.key}: {first.message}",
            next_step="see that the credentials may delete there and discard it again",
        )
    deleter.delete([table.paths.prepared(change.id)])
    return len(keys)
