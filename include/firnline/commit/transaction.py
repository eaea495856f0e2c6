"""Maintenance transactions: the only writer of ``_txn/`` and of merged log files.

The create-only put of ``_txn/{n+1}`` is the commit: atomic, and exclusive without any lock. The
Airflow pool only keeps two runs from doing the same work twice; a killed worker may leave its
Spark driver alive beside the retry, and then this is what makes one of them lose.
(docs/format.md, "Transactions"; the order of the steps is the argument, keep it.)
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import msgspec

from firnline.commit import fold, invariants
from firnline.commit.base import ATTEMPTS, Base, publish, take_base
from firnline.commit.change import Change, Mended, refuse_other_columns
from firnline.commit.keys import refuse_beneath, refuse_between
from firnline.errors import CommitConflictError, CommitExpiredError, CommitUnknownError, StoreError
from firnline.log import codec, dated, txn_file
from firnline.log.reader import LogObject, list_log, time_after
from firnline.log.records import Delete, LogContent, Marker, TxnMark, marker_json
from firnline.log.schema_changes import line_now, split
from firnline.log.txn_file import Counts, RunIdentity, TxnHeader
from firnline.properties.in_force import current, disagree, from_settings, needed, waits
from firnline.properties.record import Properties, PropertiesRecord, record_line
from firnline.settings.load import TableSettings
from firnline.state.snapshot import Snapshot, bury
from firnline.store.create import Attempt, create
from firnline.table import Table
from firnline.types.schema import SchemaUnion
from firnline.types.widening import as_known

__all__ = ["Change", "Committed", "Mended", "commit", "commit_whole"]

_LOG = logging.getLogger(__name__)
_NAMED_PARTITIONS = 1000
PLANNED_BY = ("primary_key", "version", "deleted", "partition_by", "cluster_by")
"""Properties that decide what the new parts of a change hold."""


@dataclass(frozen=True, slots=True)
class Committed:
    """A transaction that took effect."""

    header: TxnHeader
    base: Base | None
    """The state right after it; None when somebody else has to publish it first."""
    checkpoint: str | None = None
    """Key of the checkpoint that was written after it."""
    warning: str = ""
    """Why there is no checkpoint although one was due; the commit is none the worse for it."""

    @property
    def published(self) -> bool:
        """Whether its log file stands under ``_log/`` already."""
        return self.base is not None


@dataclass(frozen=True, slots=True)
class _Draft:
    header: TxnHeader
    content: LogContent
    log_file: bytes


def commit(
    table: Table, base: Base, change: Change, run: RunIdentity, attempt: Attempt | None = None
) -> Committed:
    """Commit a change on a base, rebasing where others committed meanwhile.

    Requests without a rival: one PUT under ``_txn/``, one under ``_log/``. Of a table of more than
    ``checkpoint.min_parts`` parts one LIST besides, and one PUT when a checkpoint is due.

    Args:
        table: the table.
        base: what the change was planned on.
        change: what to do.
        run: who does it, for the history.
        attempt: says, whatever ends this, whether ``change.adds`` may be live
            (``commit.outputs``).

    Raises:
        CommitConflictError: a part of ``change.replaces`` is no longer live: plan again.
        CommitExpiredError: more than ``commit_ttl`` since the first snapshot.
        CommitUnknownError: nobody can say whether it took effect.
        StoreError: the store refused the first put in clear words; nothing was committed.
        SchemaConflictError: log files contradict each other by now; nothing was committed.
        RowCountMismatchError, InvariantError: a defect; nothing was committed.

    Raises what ``change.refuse`` raises besides; then nothing was committed.
    """
    told = attempt or Attempt()
    invariants.rows_are_accounted_for(change.counts)
    planned, planned_by = base.snapshot, base.properties or from_settings(base.table.settings)
    txn = table.ids.uuid7(table.clock.now_ms())
    for _ in range(ATTEMPTS):
        table = table.under(base.properties)
        _refuse_other_properties(base, planned_by, change)
        if change.refuse is not None:
            change.refuse(base.snapshot)
        _refuse_conflict(base.snapshot, table.settings, change, change.planned or planned)
        refuse_other_columns(base.snapshot, change, planned.seq)
        _refuse_late_append(table, base, change)
        draft = _draft(table, base, change, run, txn)
        data = txn_file.encode(draft.header, draft.log_file)
        read_at = _refuse_when_late(table, base.began_ms, change.op)
        if _create_transaction(table, base.began_ms, draft.header, data, told):
            return _checkpointed(table, _committed(table, base, draft, read_at), change)
        base = take_base(table, began_ms=base.began_ms, tolerant=change.mend is not None)
    raise CommitConflictError(
        f"rivals committed {ATTEMPTS} times before this {change.op} could",
        next_step="run it again when fewer runs maintain this table at once",
    )


def commit_whole(table: Table, header: TxnHeader, log_file: bytes, began_ms: int) -> bool:
    """Commit a log file that stands for the whole table; True when it stands under ``_log/``.

    Of a rebuild or a downgrade, which rebase on nothing: their log file says all there is.

    Requests: 2 PUT.

    Args:
        table: the table.
        header: of the transaction; its number is the newest one's plus 1.
        log_file: what it publishes.
        began_ms: ``Clock.elapsed_ms`` from before the table was read.

    Raises:
        CommitExpiredError: more than ``commit_ttl`` since then; nothing was committed.
        CommitConflictError: a rival has the number; nothing was committed.
        CommitUnknownError: nobody can say whether it took effect.
        StoreError: the store refused the first put in clear words; nothing was committed.
    """
    data = txn_file.encode(header, log_file)
    read_at = _refuse_when_late(table, began_ms, header.op)
    if not _create_transaction(table, began_ms, header, data, Attempt()):
        raise CommitConflictError(
            f"somebody else committed transaction {table.paths.txn(header.seq)} meanwhile",
            next_step="stop the table's other runs and run it again",
        )
    return _published(table, header, log_file, read_at)


def _create_transaction(
    table: Table, began_ms: int, header: TxnHeader, data: bytes, attempt: Attempt
) -> bool:
    """True when the object is ours, False when a rival has the number."""
    key, ttl = table.paths.txn(header.seq), table.settings.commit_ttl
    try:
        rival = create(
            table.store,
            key,
            data,
            may_put=lambda: _age_ms(table, began_ms) <= ttl,
            attempt=attempt,
        )
    except Exception as error:
        if not attempt.may_stand:
            raise
        said = error.message if isinstance(error, StoreError) else repr(error)
        raise CommitUnknownError(
            f"nobody can say whether transaction {key} was written ({said})",
            next_step="run it again: it sees what became of this one; nothing was deleted",
        ) from error
    return rival is None


def _published(table: Table, header: TxnHeader, log_file: bytes, read_at_ms: int) -> bool:
    """Whether the log file of a committed transaction stands under ``_log/`` now."""
    try:
        return publish(table, header, log_file, read_at_ms)
    except Exception as error:  # noqa: BLE001 - whatever it is, the transaction is committed
        # No error may make the caller believe otherwise: whoever takes the next base publishes it.
        _LOG.warning("transaction %d is committed but not published yet: %r", header.seq, error)
        return False


def _committed(table: Table, base: Base, draft: _Draft, read_at_ms: int) -> Committed:
    header = draft.header
    if not _published(table, header, draft.log_file, read_at_ms):
        return Committed(header, None)
    name = table.paths.parse_log(header.log)
    # When the store wrote it, only a listing says; this machine's clock may be behind.
    item = LogObject(name, len(draft.log_file), max(header.t, table.clock.now_ms()))
    after = replace(
        base,
        snapshot=base.snapshot.with_log(item, draft.content),
        table=table.under(header.properties),
        properties=header.properties,
    )
    return Committed(header, after)


def _checkpointed(table: Table, committed: Committed, change: Change) -> Committed:
    """Write a checkpoint when one is due; its failure is told of and nothing else."""
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
    """Raise CommitExpiredError past ``commit_ttl``; returns ``Clock.elapsed_ms`` of now."""
    age, ttl = _age_ms(table, began_ms), table.settings.commit_ttl
    if age > ttl:
        raise CommitExpiredError(
            f"this {op} read the table {age // 1000} s ago, longer than commit_ttl "
            f"({ttl // 1000} s)",
            next_step="run it again, on less at once (max_bytes of a merge) or with a larger "
            "commit_ttl",
        )
    return table.clock.elapsed_ms()


def _refuse_other_properties(base: Base, planned_by: Properties, change: Change) -> None:
    """Raise CommitConflictError when a change was planned by another key or layout.

    ``planned_by`` are the settings' where the table said nothing then: a rival may have stated one.
    """
    found = base.properties
    if found is None:
        return
    changed = [name for name in PLANNED_BY if getattr(found, name) != getattr(planned_by, name)]
    if changed:
        raise CommitConflictError(
            f"the table's properties were changed while this {change.op} ran "
            f"({', '.join(changed)})",
            next_step="run it again: it plans by those that are in force now",
        )


def _refuse_conflict(
    snapshot: Snapshot, settings: TableSettings, change: Change, planned: Snapshot
) -> None:
    if snapshot.conflict is not None and change.mend is None:
        raise snapshot.conflict  # no one schema line could state what the folded ones do
    # Against the snapshot that is committed on: looking at the transactions in between instead
    # leaves a race with the one that comes after them.
    lost = [p for p in change.replaces if p not in snapshot.live]
    if lost:
        raise CommitConflictError(
            f"{len(lost)} of the {len(change.replaces)} parts that this {change.op} replaces "
            f"were replaced by somebody else, {lost[0]} among them",
            next_step="run it again: it plans on what is there now",
        )
    refuse_between(snapshot, settings, planned, frozenset(change.replaces), change.adds)
    if change.planned is not None:
        refuse_beneath(snapshot, settings, change.planned, change.replaces)


def _refuse_late_append(table: Table, base: Base, change: Change) -> None:
    """As ``refuse_between``, for appends that landed since the base was read.

    They conflict with nothing else, so nobody has looked. One LIST, and only where the order of
    insertion counts and rows of before get a new part.
    """
    spans = [m.order() for m in change.adds if m.o is not None]
    if not table.settings.primary_key or not spans:
        return
    listing, _ = list_log(table.store, table.paths)
    known = base.snapshot.listing.keys()
    for key in listing.keys() - known:
        at = listing[key].name.t
        if any(first <= at <= last for first, last in spans):
            raise CommitConflictError(
                f"append {key} landed late, with a time at or between those of parts that "
                f"this {change.op} puts together",
                next_step="run it again: it plans on what is there now",
            )


def _draft(table: Table, base: Base, change: Change, run: RunIdentity, txn: str) -> _Draft:
    snapshot = base.snapshot
    now = table.clock.now_ms()
    seq, t = snapshot.seq + 1, time_after((i.name for i in snapshot.listing.values()), now)
    own = _own_markers(snapshot, change, seq, t)
    purged = snapshot.purged if change.purge is None else change.purge(snapshot)
    properties = change.properties or base.properties or from_settings(table.settings)
    said = _said(base, change, properties, seq, t, now)
    mended = _folds(snapshot, change, (*own, *said), purged)
    keys = mended.folds
    others = waits(snapshot.properties, table.settings, now)
    folded = fold.fold(
        snapshot,
        keys,
        t,
        own=frozenset(m.p for m in own),
        purged=purged,
        delete_cutoff=now - others.late_append,
        stone_cutoff=now - _age_ms(table, base.began_ms) - others.grace,
    )
    content = LogContent(
        t=t,
        schema=dict(mended.line),
        markers=[*own, *folded.markers],
        tombstones=list(folded.tombstones),
        deletes=_records(change, folded.deletes, seq, t),
        properties=said,
        other=[*folded.other, *_dates(snapshot, now, t)],
        x=TxnMark(seq, txn, change.op, purged, folded.standing),
    )
    _check(table, base, change, content, mended)
    counts = msgspec.structs.replace(change.counts, logs_folded=len(keys))
    header = _header(table, base, change, run, counts, content)
    return _Draft(header, content, codec.encode(content))


def _header(
    table: Table, base: Base, change: Change, run: RunIdentity, counts: Counts, content: LogContent
) -> TxnHeader:
    mark, t = content.x, content.t
    assert mark is not None  # of every transaction
    return TxnHeader(
        seq=mark.seq,
        txn=mark.txn,
        op=change.op,
        base=base.seq,
        t=t,
        log=table.paths.txn_log(t, mark.seq, mark.txn),
        run=run,
        counts=counts,
        partitions=change.partitions[:_NAMED_PARTITIONS],
        why=change.why,
        properties=current(content.properties),
    )


def _said(
    base: Base, change: Change, properties: Properties, seq: int, t: int, now: int
) -> list[PropertiesRecord]:
    """What the log file says of the table: all that is needed, whatever it folds.

    So the newest log file alone says it, also where a client of version 1 has folded the others.
    """
    known = base.snapshot.properties
    if change.properties is None and current(known) == properties and not disagree(known):
        return list(needed(known, now))
    if base.properties is None:
        _LOG.warning("table %s gets its properties from the settings", base.table.settings.name)
    own = PropertiesRecord(seq, t, properties)
    return [*needed(known, now), own]


def _dates(snapshot: Snapshot, now: int, t: int) -> list[bytes]:
    """Return when log files took effect that are dated far ahead and of which no record says it.

    The transaction itself is among them: it took effect after everything that it is dated after,
    also where this machine's clock is behind.
    """
    known = dated.recorded(snapshot.other)
    found = {at: seen for at, seen in snapshot.dated.items() if known.get(at) != seen}
    names = (item.name.t for item in snapshot.listing.values())
    after = max((snapshot.dated.get(at, at) + 1 for at in names), default=0)
    if t > max(now, after) + dated.FAR_MS:
        found[t] = max(now, after)
    if not found:
        return []
    used = snapshot.dates_used()
    txns = dated.of_transactions(snapshot.listing, snapshot.other) | {t}
    lines = (dated.record(at, seen, txn=at in txns) for at, seen in sorted(found.items()))
    return [line for line in lines if not dated.is_over(line, snapshot.purged, used)]


def _records(change: Change, folded: Iterable[Delete], seq: int, t: int) -> list[Delete]:
    """The change's own, then those of folded log files and those that it keeps, each once."""
    own = [msgspec.structs.replace(delete, seq=seq, t=t) for delete in change.deletes]
    return list({d.id: d for d in (*own, *folded, *change.keeps)}.values())


def _folds(
    snapshot: Snapshot, change: Change, own: Iterable[Marker | PropertiesRecord], purged: int
) -> Mended:
    """Which log files to fold, and the schema line that stands for theirs."""
    if change.mend is not None:
        return change.mend(snapshot)
    own_bytes = sum(len(marker_json(m)) for m in own if isinstance(m, Marker))
    head = sum(len(record_line(r)) for r in own if isinstance(r, PropertiesRecord))
    return Mended(fold.choose(snapshot, own_bytes, purged, head), _line(snapshot, change))


def _line(snapshot: Snapshot, change: Change) -> Mapping[str, str]:
    if change.columns is None:
        # Of a change of the schema it is the first line that shows it.
        return line_now(split(change.deletes)[1], snapshot.schema, -1)
    known = SchemaUnion()
    known.add("the table", snapshot.schema)
    step = "run it again: it looks at the rows anew"  # an append was quicker to name the column
    columns = as_known(change.columns, known.columns)
    known.add(f"the rows of this {change.op}", columns, next_step=step)
    return known.columns


def _own_markers(snapshot: Snapshot, change: Change, seq: int, t: int) -> list[Marker]:
    """The new parts, alive, and the replaced ones, dead."""
    new = [msgspec.structs.replace(m, t=t, q=seq if m.q is None else m.q) for m in change.adds]
    applied = {d.id for d in change.deletes}
    clean = [
        msgspec.structs.replace(
            m, q=snapshot.sequence_of(m), d=(*sorted(applied | {*(m.d or ())}),)
        )
        for m in (snapshot.live[p] for p in change.clean if p in snapshot.live)
    ]
    gone = (fold.with_sequence(snapshot, snapshot.parts[p]) for p in change.replaces)
    return [*new, *clean, *(bury(marker, t) for marker in gone)]


def _check(table: Table, base: Base, change: Change, content: LogContent, mended: Mended) -> None:
    candidate = invariants.Candidate(
        base=base.snapshot,
        content=content,
        replaces=frozenset(change.replaces),
        adds=frozenset(m.p for m in change.adds),
        folds=frozenset(mended.folds),
        gone=mended.gone,
    )
    invariants.check(candidate, table.paths)
