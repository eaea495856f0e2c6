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

from firnline import fold, invariants
from firnline.base import ATTEMPTS, Base, publish, take_base
from firnline.change import Change, Mended, refuse_other_columns
from firnline.errors import (
    CommitConflictError,
    CommitExpiredError,
    CommitUnknownError,
    FirnlineError,
    OutcomeUnknownError,
    StoreUnavailableError,
)
from firnline.log import codec, dated, txn_file
from firnline.log.reader import LogObject, list_log, time_after
from firnline.log.records import Delete, LogContent, Marker, TxnMark, marker_json
from firnline.log.schema_changes import line_now, split
from firnline.log.txn_file import RunIdentity, TxnHeader
from firnline.plan.keys import refuse_beneath, refuse_between
from firnline.schema import SchemaUnion
from firnline.settings import TableSettings
from firnline.snapshot import Snapshot, bury
from firnline.store.create import create
from firnline.table import Table
from firnline.widening import as_known

__all__ = ["Change", "Committed", "Mended", "commit"]

_LOG = logging.getLogger(__name__)
_NAMED_PARTITIONS = 1000


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


def commit(table: Table, base: Base, change: Change, run: RunIdentity) -> Committed:
    """Commit a change on a base, rebasing where others committed meanwhile.

    Requests without a rival: one PUT under ``_txn/``, one under ``_log/``. Of a table of more than
    ``checkpoint.min_parts`` parts one LIST besides, and one PUT when a checkpoint is due.

    Raises:
        CommitConflictError: a part of ``change.replaces`` is no longer live. Delete the new
            parts and plan again.
        CommitExpiredError: more than ``commit_ttl`` since the first snapshot. Likewise.
        CommitUnknownError: nobody can say whether it took effect. Delete nothing.
        SchemaConflictError: log files contradict each other by now; nothing was committed.
        RowCountMismatchError, InvariantError: a defect; nothing was committed.

    Raises what ``change.refuse`` raises besides; then nothing was committed.
    """
    invariants.rows_are_accounted_for(change.counts)
    planned = base.snapshot
    txn = table.ids.uuid7(table.clock.now_ms())
    for _ in range(ATTEMPTS):
        if change.refuse is not None:
            change.refuse(base.snapshot)
        _refuse_conflict(base.snapshot, table.settings, change, change.planned or planned)
        refuse_other_columns(base.snapshot, change, planned.seq)
        _refuse_late_append(table, base, change)
        draft = _draft(table, base, change, run, txn)
        data = txn_file.encode(draft.header, draft.log_file)
        _refuse_when_late(table, base)
        read_at = table.clock.elapsed_ms()
        if _create_transaction(table, base, draft.header, data):
            return _checkpointed(table, _committed(table, base, draft, read_at), change)
        base = take_base(table, began_ms=base.began_ms, tolerant=change.mend is not None)
    raise CommitConflictError(
        f"rivals committed {ATTEMPTS} times before this {change.op} could",
        next_step="run it again when fewer runs maintain this table at once",
    )


def _create_transaction(table: Table, base: Base, header: TxnHeader, data: bytes) -> bool:
    """True when the object is ours, False when a rival has the number."""
    key = table.paths.txn(header.seq)
    ttl = table.settings.commit_ttl
    try:
        return create(table.store, key, data, may_put=lambda: _age_ms(table, base) <= ttl) is None
    except (OutcomeUnknownError, StoreUnavailableError) as error:
        raise CommitUnknownError(
            f"nobody can say whether transaction {key} was written ({error.message})",
            next_step="run it again: it sees what became of this one; nothing was deleted",
        ) from error


def _committed(table: Table, base: Base, draft: _Draft, read_at_ms: int) -> Committed:
    header = draft.header
    try:
        published = publish(table, header, draft.log_file, read_at_ms)
    except FirnlineError as error:
        # Committed it is, and no error may make the caller believe otherwise and delete the new
        # parts: whoever takes the next base publishes it.
        _LOG.warning("transaction %d is committed but not published yet: %s", header.seq, error)
        published = False
    if not published:
        return Committed(header, None)
    name = table.paths.parse_log(header.log)
    # When the store wrote it, only a listing says; this machine's clock may be behind.
    item = LogObject(name, len(draft.log_file), max(header.t, table.clock.now_ms()))
    return Committed(header, replace(base, snapshot=base.snapshot.with_log(item, draft.content)))


def _checkpointed(table: Table, committed: Committed, change: Change) -> Committed:
    """Write a checkpoint when one is due; its failure is told of and nothing else."""
    least = table.settings.checkpoint.min_parts
    base = committed.base
    if base is None or not change.checkpoint or least is None or len(base.snapshot.parts) <= least:
        return committed
    from firnline import checkpoint  # it needs Arrow, and few transactions need it

    written = checkpoint.write_when_due(table, base.snapshot)
    if written.warning:
        _LOG.warning("after transaction %d: %s", committed.header.seq, written.warning)
    return replace(committed, checkpoint=written.key, warning=written.warning)


def _age_ms(table: Table, base: Base) -> int:
    return table.clock.elapsed_ms() - base.began_ms


def _refuse_when_late(table: Table, base: Base) -> None:
    age = _age_ms(table, base)
    if age > table.settings.commit_ttl:
        raise CommitExpiredError(
            f"this run read the table {age // 1000} s ago, longer than commit_ttl "
            f"({table.settings.commit_ttl // 1000} s)",
            next_step="run it again, with a smaller max_bytes or a larger commit_ttl",
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
    mended = _folds(snapshot, change, own, purged)
    keys = mended.folds
    folded = fold.fold(
        snapshot,
        keys,
        t,
        own=frozenset(m.p for m in own),
        purged=purged,
        delete_cutoff=now - table.settings.append.ttl - table.settings.cleanup.grace,
        stone_cutoff=now - _age_ms(table, base) - table.settings.cleanup.grace,
    )
    content = LogContent(
        t=t,
        schema=dict(mended.line),
        markers=[*own, *folded.markers],
        tombstones=list(folded.tombstones),
        deletes=_records(change, folded.deletes, seq, t),
        other=[*folded.other, *_dates(snapshot, now, t)],
        x=TxnMark(seq, txn, change.op, purged, folded.standing),
    )
    _check(table, base, change, content, mended)
    counts = msgspec.structs.replace(change.counts, logs_folded=len(keys))
    header = TxnHeader(
        seq=seq,
        txn=txn,
        op=change.op,
        base=snapshot.seq,
        t=t,
        log=table.paths.txn_log(t, seq, txn),
        run=run,
        counts=counts,
        partitions=change.partitions[:_NAMED_PARTITIONS],
        why=change.why,
    )
    return _Draft(header, content, codec.encode(content))


def _dates(snapshot: Snapshot, now: int, t: int) -> list[bytes]:
    """Return when log files took effect that are dated far ahead and of which no record says it.

    The transaction itself is among them: it took effect after everything that it is dated after,
    also where this machine's clock is behind.
    """
    known = dated.recorded(snapshot.other)
    found = {at: seen for at, seen in snapshot.dated.items() if at not in known}
    names = (item.name.t for item in snapshot.listing.values())
    after = max((snapshot.dated.get(at, at) + 1 for at in names), default=0)
    if t > max(now, after) + dated.FAR_MS:
        found[t] = max(now, after)
    used = snapshot.dates_used() if found else frozenset()
    lines = (dated.record(at, seen) for at, seen in sorted(found.items()))
    return [line for line in lines if not dated.is_over(line, snapshot.purged, used)]


def _records(change: Change, folded: Iterable[Delete], seq: int, t: int) -> list[Delete]:
    """The change's own, then those of folded log files and those that it keeps, each once."""
    own = [msgspec.structs.replace(delete, seq=seq, t=t) for delete in change.deletes]
    return list({d.id: d for d in (*own, *folded, *change.keeps)}.values())


def _folds(snapshot: Snapshot, change: Change, own: list[Marker], purged: int) -> Mended:
    """Which log files to fold, and the schema line that stands for theirs."""
    if change.mend is not None:
        return change.mend(snapshot)
    own_bytes = sum(len(marker_json(m)) for m in own)
    return Mended(fold.choose(snapshot, own_bytes, purged), _line(snapshot, change))


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
