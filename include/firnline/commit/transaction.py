"""Maintenance transactions: the only writer of ``_txn/`` and of merged log files.

The create-only put of ``_txn/{n+1}`` is the commit: atomic, and exclusive without a lock. The
Airflow pool only keeps two runs from doing the same work twice; a killed worker may leave its
Spark driver running beside the retry, and then this put makes one of them lose.
(docs/format.md, "Transactions"; the order of the steps is the argument, keep it.)
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec

from firnline.commit import fold, invariants
from firnline.commit.base import ATTEMPTS, Base, digest_of, publish, take_base
from firnline.commit.change import (
    Change,
    Repaired,
    refuse_held,
    refuse_newer_deletes,
    refuse_other_columns,
)
from firnline.commit.happened import has_happened, not_happened
from firnline.commit.keys import refuse_beneath, refuse_between
from firnline.errors import CommitConflictError, CommitExpiredError, CommitUnknownError, StoreError
from firnline.log import chain, codec, dated, fence, txn_file
from firnline.log.erases import EraseLink, erase_record, link_after
from firnline.log.fence import Stated, fence_record
from firnline.log.reader import LogObject, list_log, time_after
from firnline.log.records import Delete, LogContent, Marker, TxnMark, marker_json
from firnline.log.schema_changes import line_now, split
from firnline.log.superseded import without_superseded
from firnline.log.taken_in import taken_in
from firnline.log.txn_file import NAMED_PARTITIONS, RunIdentity, TxnHeader
from firnline.next_steps import PLANNED_ON_CURRENT
from firnline.properties.in_force import current, disagree, from_settings, needed, waits
from firnline.properties.record import Properties, PropertiesRecord, record_line
from firnline.settings.load import TableSettings
from firnline.state.snapshot import Snapshot, combine, mark_dead
from firnline.store.create import Attempt, create
from firnline.table import Table
from firnline.types.schema import SchemaUnion, as_known

__all__ = ["Change", "Committed", "Repaired", "commit", "commit_whole"]

_LOG = logging.getLogger(__name__)
PLANNED_BY = ("primary_key", "version", "deleted", "partition_by", "cluster_by")
"""Properties that determine the content of the new parts of a change."""


@dataclass(frozen=True, slots=True)
class Committed:
    """A transaction that took effect."""

    header: TxnHeader
    base: Base | None
    """The state right after it; None if another process has to publish it first."""
    checkpoint: str | None = None
    """Key of the checkpoint that was written after it."""
    warning: str = ""
    """Reason that a due checkpoint was not written; the commit is valid without it."""

    @property
    def published(self) -> bool:
        """True if its log file exists under ``_log/`` already."""
        return self.base is not None


@dataclass(frozen=True, slots=True)
class _Draft:
    header: TxnHeader
    content: LogContent
    log_file: bytes


def commit(
    table: Table, base: Base, change: Change, run: RunIdentity, attempt: Attempt | None = None
) -> Committed:
    """Commit a change on a base; rebase if others committed meanwhile.

    Requests without a rival: one PUT under ``_txn/``, those of ``has_happened``, one PUT under
    ``_log/``; those of ``digest_of``.
    For a table of more than ``checkpoint.min_parts`` parts one LIST more, and one PUT if a
    checkpoint is due.

    Args:
        table: the table.
        base: the base on which the change was planned.
        change: the change.
        run: identity of the run, for the history.
        attempt: records, however this ends, whether ``change.adds`` may be live
            (``commit.outputs``).

    Raises:
        CommitConflictError: a part of ``change.replaces`` is no longer live: plan again.
        CommitExpiredError: more than ``commit_ttl`` has passed since the first snapshot, or it is
            behind the fence; nothing was committed.
        CommitUnknownError: it is not known whether it took effect.
        StoreError: the store refused the first put explicitly; nothing was committed.
        SchemaConflictError: log files contradict each other by now; nothing was committed.
        RowCountMismatchError, InvariantError: a defect; nothing was committed.

        Also raises what ``change.refuse`` raises; then nothing was committed.
    """
    attempt = attempt or Attempt()
    invariants.rows_are_accounted_for(change.counts)
    base.snapshot.refuse_checkpoint()
    planned, planned_by = base.snapshot, base.properties or from_settings(base.table.settings)
    txn, rival = table.ids.uuid7(table.clock.now_ms()), False
    for _ in range(ATTEMPTS):
        table = table.under(base.properties)
        _refuse_behind_fence(base, change.op, attempt, rival=rival)
        _refuse_contradiction(base.snapshot, change)
        _refuse_other_properties(base, planned_by, change)
        if change.refuse is not None:
            change.refuse(base.snapshot)
        _refuse_conflict(base.snapshot, table.settings, change, change.planned or planned)
        refuse_held(base.snapshot, change)
        refuse_other_columns(base.snapshot, change, planned.seq)
        _refuse_late_append(table, base, change)
        draft = _draft(table, base, change, run, txn)
        data = txn_file.encode(draft.header, draft.log_file)
        with table.interrupts.commit():
            read_at = _refuse_when_late(table, base.began_ms, change.op)
            logs = base.snapshot.listing.keys()
            mine = _create_transaction(table, base.began_ms, draft.header, data, attempt, logs)
            del data  # it may be as large as the whole log, and what follows takes memory, too
            committed = _committed(table, base, draft, read_at) if mine else None
        del draft
        if committed is not None:
            return _checkpointed(table, committed, change)
        # Until the next base shows that the fence is not above its beginning: a number below that
        # may have been freed and used again.
        rival = attempt.may_stand = True
        base = take_base(table, since=base, tolerant=True, doubled=True)
    _refuse_behind_fence(base, change.op, attempt, rival=rival)
    raise CommitConflictError(
        f"rivals committed {ATTEMPTS} times before this {change.op} could",
        next_step="run it again when fewer runs maintain this table at the same time",
    )


def commit_whole(table: Table, header: TxnHeader, log_file: bytes, began_ms: int) -> bool:
    """Commit a log file that replaces the whole log; return True if it exists under ``_log/``.

    For a rebuild or a downgrade, which are never rebased: their log file is the whole state. The
    caller has linked it to the transaction before (``log.chain``).

    Requests: 2 PUT, and those of ``has_happened``.

    Args:
        table: the table.
        header: header of the transaction; its number is the newest one's plus 1.
        log_file: the log file to publish.
        began_ms: ``Clock.elapsed_ms`` from before the table was read.

    Raises:
        CommitExpiredError: more than ``commit_ttl`` has passed since; nothing was committed.
        CommitConflictError: a rival has the number; nothing was committed.
        CommitUnknownError: it is not known whether it took effect.
        StoreError: the store refused the first put explicitly; nothing was committed.
    """
    data = txn_file.encode(header, log_file)
    with table.interrupts.commit():
        read_at = _refuse_when_late(table, began_ms, header.op)
        if not _create_transaction(table, began_ms, header, data, Attempt()):
            raise CommitConflictError(
                f"another process committed transaction {table.paths.txn(header.seq)} meanwhile",
                next_step="stop the table's other runs and run it again",
            )
        return _published(table, header, log_file, read_at)


def _create_transaction(
    table: Table,
    began_ms: int,
    header: TxnHeader,
    data: bytes,
    attempt: Attempt,
    logs: Collection[str] = (),
) -> bool:
    """Return True if the transaction has taken effect, False if a rival has the number.

    ``logs``: see ``has_happened``.

    Raises CommitExpiredError: it was created too late, and counts for nobody.
    """
    key, ttl = table.paths.txn(header.seq), table.settings.commit_ttl
    try:
        rival = create(
            table.store,
            key,
            data,
            may_put=lambda: _age_ms(table, began_ms) <= ttl,
            attempt=attempt,
        )
        happened = rival is not None or has_happened(table, header, data, logs)
    except CommitUnknownError:
        raise
    except Exception as error:
        if not attempt.may_stand:
            raise
        why = error.message if isinstance(error, StoreError) else repr(error)
        raise CommitUnknownError(
            f"it is not known whether transaction {key} was written ({why})",
            next_step="run it again: it finds out what became of this one; nothing was deleted",
        ) from error
    if not happened:
        attempt.may_stand = False
        raise not_happened(table, header)
    return rival is None


def _published(table: Table, header: TxnHeader, log_file: bytes, read_at_ms: int) -> bool:
    """Return True if the log file of a committed transaction exists under ``_log/`` now."""
    try:
        return publish(table, header, log_file, read_at_ms)
    except Exception as error:  # noqa: BLE001 - whatever it is, the transaction is committed
        # No error may make the caller believe otherwise: the next base publishes it.
        _LOG.warning("transaction %d is committed but not published yet: %r", header.seq, error)
        return False


def _committed(table: Table, base: Base, draft: _Draft, read_at_ms: int) -> Committed:
    header = draft.header
    if not _published(table, header, draft.log_file, read_at_ms):
        return Committed(header, None)
    name = table.paths.parse_log(header.log)
    # Only a listing shows when the store wrote it; this machine's clock may be behind.
    item = LogObject(name, len(draft.log_file), max(header.t, table.clock.now_ms()))
    after = replace(
        base,
        snapshot=base.snapshot.with_log(item, draft.content),
        table=table.under(header.properties),
        properties=header.properties,
    )
    return Committed(header, after)


def _checkpointed(table: Table, committed: Committed, change: Change) -> Committed:
    """Write a checkpoint if one is due; a failure only becomes a warning."""
    least = table.settings.checkpoint.min_parts
    base = committed.base
    if base is None or not change.checkpoint or least is None or len(base.snapshot.parts) <= least:
        return committed
    from firnline.commit import checkpoint

    written = checkpoint.write_when_due(table, base.snapshot)
    if written.warning:
        _LOG.warning("after transaction %d: %s", committed.header.seq, written.warning)
    return replace(committed, checkpoint=written.key, warning=written.warning)


def _age_ms(table: Table, began_ms: int) -> int:
    return table.clock.elapsed_ms() - began_ms


def _refuse_when_late(table: Table, began_ms: int, op: str) -> int:
    """Raise CommitExpiredError after ``commit_ttl``; return the current ``Clock.elapsed_ms``."""
    age, ttl = _age_ms(table, began_ms), table.settings.commit_ttl
    if age > ttl:
        raise CommitExpiredError(
            f"this {op} read the table {age // 1000} s ago, longer than commit_ttl "
            f"({ttl // 1000} s)",
            next_step="run it again, on less at once (max_bytes of a merge) or with a larger "
            "commit_ttl",
        )
    return table.clock.elapsed_ms()


def _refuse_behind_fence(base: Base, op: str, attempt: Attempt, *, rival: bool) -> None:
    """Raise an error if the operation began before the fence of its base.

    What it wrote may be swept by now, whatever its own clock says. And a rival that it found may
    have a number that was freed after its own put: clean-up frees numbers up to the fence.

    Raises CommitExpiredError; CommitUnknownError if it has found a rival.
    """
    fence = base.snapshot.fence.seq
    if fence <= base.began_seq:
        if rival:
            attempt.may_stand = False
        return
    why = (
        f"this {op} began on transaction {base.began_seq}, and the table takes nothing that began "
        f"before transaction {fence}"
    )
    if rival:
        raise CommitUnknownError(
            f"{why}; it is not known what became of the put that it sent before",
            next_step="see with `firnline history` whether it is there; nothing was deleted",
        )
    raise CommitExpiredError(why, next_step="run it again; nothing was committed")


def _refuse_other_properties(base: Base, planned_by: Properties, change: Change) -> None:
    """Raise CommitConflictError if a change was planned with another key or layout.

    ``planned_by`` is from the settings if the table had no properties: a rival may have set some.
    """
    now = base.properties
    if now is None:
        return
    changed = [name for name in PLANNED_BY if getattr(now, name) != getattr(planned_by, name)]
    if changed:
        raise CommitConflictError(
            f"the table's properties were changed while this {change.op} ran "
            f"({', '.join(changed)})",
            next_step="run it again: it is planned with the properties now in force",
        )


def _refuse_contradiction(snapshot: Snapshot, change: Change) -> None:
    snapshot.refuse_doubled()
    if snapshot.conflict is not None and change.repair is None:
        raise snapshot.conflict  # no single schema line could replace the contradictory ones


def _refuse_conflict(
    snapshot: Snapshot, settings: TableSettings, change: Change, planned: Snapshot
) -> None:
    # Checked against the snapshot to commit on: a check of the transactions in between would
    # leave a race with the one that comes after them.
    lost = [p for p in change.replaces if p not in snapshot.live]
    if lost:
        raise CommitConflictError(
            f"{len(lost)} of the {len(change.replaces)} parts that this {change.op} replaces "
            f"were replaced by another process, {lost[0]} among them",
            next_step=PLANNED_ON_CURRENT,
        )
    refuse_newer_deletes(snapshot, change, planned.seq)
    refuse_between(snapshot, settings, planned, frozenset(change.replaces), change.adds)
    if change.planned is not None:
        refuse_beneath(snapshot, settings, change.planned, change.replaces)


def _refuse_late_append(table: Table, base: Base, change: Change) -> None:
    """Check as ``refuse_between``, for appends that landed since the base was read.

    Appends conflict with nothing else, so no other check covers them. One LIST, and only if the
    order of insertion matters and existing rows get a new part.
    """
    spans = [m.order() for m in change.adds if m.o is not None]
    if not table.settings.primary_key or not spans:
        return
    listing, _ = list_log(table.store, table.paths)
    listed = base.snapshot.listing.keys()
    for key in listing.keys() - listed:
        at = listing[key].name.t
        if any(first <= at <= last for first, last in spans):
            raise CommitConflictError(
                f"append {key} landed late, with a time at or between those of parts that "
                f"this {change.op} combines",
                next_step=PLANNED_ON_CURRENT,
            )


def _draft(table: Table, base: Base, change: Change, run: RunIdentity, txn: str) -> _Draft:
    snapshot, now = base.snapshot, table.clock.now_ms()
    seq, t = base.seq + 1, time_after((i.name for i in snapshot.listing.values()), now)
    own = _own_markers(snapshot, change, seq, t)
    purged = snapshot.purged if change.purge is None else change.purge(snapshot)
    properties = change.properties or base.properties or from_settings(table.settings)
    records = _properties_records(base, change, _dated(properties, base, t), seq, t, now)
    erase = link_after(change.erase, snapshot.other, seq, t)
    repair = _folds(snapshot, change, (*own, *records), purged)
    # What has landed since the base was listed is unknown here, however old that is by now.
    listed_at = min(base.listed_ms, now - _age_ms(table, base.began_ms))
    others = waits(snapshot.properties, table.settings, listed_at)
    left = fence.least_unfolded(snapshot.log, repair.folds)
    passed = fence.raised(snapshot.other, snapshot.listing, listed_at, others.ended, left)
    folded = fold.fold(
        snapshot,
        repair.folds,
        t,
        own=frozenset(m.p for m in own),
        purged=purged,
        delete_cutoff=listed_at - others.late_append,
        keys_cutoff=listed_at - others.forgotten,
        fence=passed.fence,
    )
    content = LogContent(
        t=t,
        schema=dict(repair.line),
        markers=[*own, *folded.markers],
        tombstones=list(folded.tombstones),
        deletes=_records(change, folded.deletes, seq, t),
        properties=records,
        other=[*_others(folded.other, erase, passed), *_dates(snapshot, now, t)],
        x=TxnMark(seq, txn, change.op, purged, folded.standing, query=change.query),
    )
    candidate = invariants.Candidate(
        base=snapshot,
        content=content,
        replaces=frozenset(change.replaces),
        adds=frozenset(m.p for m in change.adds),
        folds=frozenset(repair.folds),
        gone=repair.gone,
    )
    invariants.check(candidate, table.paths)
    header = _header(table, base, change, run, repair.folds, content, erase)
    before = digest_of(table, base)
    made = chain.link(header, codec.encode(content), content.x, before, table.paths)
    return _Draft(made.header, msgspec.structs.replace(content, x=made.mark), made.log_file)


def _header(
    table: Table,
    base: Base,
    change: Change,
    run: RunIdentity,
    folds: Sequence[str],
    content: LogContent,
    erase: EraseLink | None,
) -> TxnHeader:
    mark, t, snapshot = content.x, content.t, base.snapshot
    assert mark is not None  # of every transaction
    return TxnHeader(
        seq=mark.seq,
        txn=mark.txn,
        op=change.op,
        base=base.seq,
        t=t,
        log=table.paths.txn_log(t, mark.seq, mark.txn),
        run=run,
        counts=msgspec.structs.replace(change.counts, logs_folded=len(folds)),
        partitions=change.partitions[:NAMED_PARTITIONS],
        why=change.why,
        properties=current(content.properties),
        erase=erase,
        appends=taken_in((snapshot.listing[key].name, snapshot.contents[key]) for key in folds),
    )


def _others(folded: Sequence[bytes], erase: EraseLink | None, passed: Stated) -> Sequence[bytes]:
    """Return the extension records that are carried along, with those of the transaction itself."""
    carried = fence.without_fences(folded)
    carried += [] if erase is None else [erase_record(erase)]
    carried += [fence_record(passed)] if passed.seq or passed.next else []
    return without_superseded(carried)


def _dated(properties: Properties, base: Base, t: int) -> Properties:
    """Return properties whose new legal holds have the time of the transaction that puts them.

    So all that died before one has an earlier time, whatever clocks say and whoever was faster.
    """
    known = () if base.properties is None else base.properties.held
    holds = (h if h in known else msgspec.structs.replace(h, t=t) for h in properties.held)
    return msgspec.structs.replace(properties, holds=tuple(holds))


def _properties_records(
    base: Base, change: Change, properties: Properties, seq: int, t: int, now: int
) -> list[PropertiesRecord]:
    """Return the properties records for the log file: all that are needed, whatever it folds.

    So the newest log file alone states them, even if a client of version 1 has folded the others.
    """
    records = base.snapshot.properties
    if change.properties is None and current(records) == properties and not disagree(records):
        return list(needed(records, now))
    if base.properties is None:
        _LOG.warning("table %s gets its properties from the settings", base.table.settings.name)
    own = PropertiesRecord(seq, t, properties)
    return [*needed(records, now), own]


def _dates(snapshot: Snapshot, now: int, t: int) -> list[bytes]:
    """Return the records of when log files dated far ahead took effect, where there is none yet.

    The transaction itself is included: it took effect after everything that it is dated after,
    even if this machine's clock is behind.
    """
    recorded = dated.recorded(snapshot.other)
    dates = {at: seen for at, seen in snapshot.dated.items() if recorded.get(at) != seen}
    names = (item.name.t for item in snapshot.listing.values())
    after = max((snapshot.dated.get(at, at) + 1 for at in names), default=0)
    if t > max(now, after) + dated.FAR_MS:
        dates[t] = max(now, after)
    if not dates:
        return []
    used = snapshot.dates_used()
    txns = dated.of_transactions(snapshot.listing, snapshot.other) | {t}
    lines = (dated.record(at, seen, txn=at in txns) for at, seen in sorted(dates.items()))
    return [line for line in lines if not dated.is_over(line, snapshot.purged, used)]


def _records(change: Change, folded: Iterable[Delete], seq: int, t: int) -> list[Delete]:
    """Return the records of the change, of folded log files, and those it keeps, each once."""
    own = [msgspec.structs.replace(delete, seq=seq, t=t) for delete in change.deletes]
    return list({d.id: d for d in (*own, *folded, *change.keeps)}.values())


def _folds(
    snapshot: Snapshot, change: Change, own: Iterable[Marker | PropertiesRecord], purged: int
) -> Repaired:
    """Choose the log files to fold, and the schema line that replaces theirs."""
    if change.repair is not None:
        return change.repair(snapshot)
    own_bytes = sum(len(marker_json(m)) for m in own if isinstance(m, Marker))
    head = sum(len(record_line(r)) for r in own if isinstance(r, PropertiesRecord))
    head += chain.MARK_BYTES
    return Repaired(fold.choose(snapshot, own_bytes, purged, head), _line(snapshot, change))


def _line(snapshot: Snapshot, change: Change) -> Mapping[str, str]:
    if change.columns is None:
        # For a change of the schema this is the first line that shows it.
        return line_now(split(change.deletes)[1], snapshot.schema, -1)
    union = SchemaUnion()
    union.add("the table", snapshot.schema)
    step = "run it again: it checks the rows again"  # an append added the column first
    columns = as_known(change.columns, union.columns)
    union.add(f"the rows of this {change.op}", columns, next_step=step)
    return union.columns


def _own_markers(snapshot: Snapshot, change: Change, seq: int, t: int) -> list[Marker]:
    """Return the markers of new and restated parts, alive, and of the replaced ones, dead."""
    new = [msgspec.structs.replace(m, t=t, q=seq if m.q is None else m.q) for m in change.adds]
    applied = {d.id for d in change.deletes}
    clean = [
        msgspec.structs.replace(
            m, q=snapshot.sequence_of(m), d=(*sorted(applied | {*(m.d or ())}),)
        )
        for m in (snapshot.live[p] for p in change.clean if p in snapshot.live)
    ]
    more = [
        fold.with_sequence(snapshot, combine(snapshot.live[m.p], m))
        for m in change.states
        if m.p in snapshot.live
    ]
    gone = (fold.with_sequence(snapshot, snapshot.parts[p]) for p in change.replaces)
    return [*new, *clean, *more, *(mark_dead(marker, t) for marker in gone)]
