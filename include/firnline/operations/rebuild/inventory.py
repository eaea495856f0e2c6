"""The remains of a table whose log was lost, read once; refuses those that cannot be rebuilt."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

import msgspec

from firnline.errors import ForeignPathError, LogCorruptError, UsageError
from firnline.log import dated, fence, foreign_merges
from firnline.log.reader import LogObject, LogRead
from firnline.log.records import Delete, LogContent, Marker
from firnline.log.schema_changes import PartColumns, SchemaChange, line_now, split
from firnline.operations.in_time import InTime, looked
from firnline.operations.options import RebuildOptions
from firnline.operations.rebuild.elsewhere import Elsewhere, read_elsewhere
from firnline.operations.rebuild.gone import Newest, lost_history
from firnline.operations.rebuild.judge import Choice, History
from firnline.operations.rebuild.names import names_of
from firnline.operations.rebuild.plan import RebuildPlan, plan_rebuild
from firnline.operations.rebuild.taking_back import Remains, without_doubled
from firnline.parquet.footers import FooterFacts, FooterTask, FooterWanted, many_facts
from firnline.paths import TablePaths, path_columns
from firnline.properties.in_force import current, in_force, lengthened, waits
from firnline.properties.record import PropertiesRecord, union
from firnline.state.effect import Ineffective, counting, first_of_run, survey_effective
from firnline.state.health import refuse_whole
from firnline.state.snapshot import StateColumns, combine, standing
from firnline.state.survey import LogSurvey, TxnSurvey, survey_log
from firnline.store.base import ObjectMeta
from firnline.table import Table
from firnline.types import schema as schemas
from firnline.types.schema import as_known
from firnline.types.sql import fold_name
from firnline.units import counted

_TELL_EVERY = 10
_LEAVE_OUT = "leave the wrong part out with --exclude, and append its rows with the right type"


@dataclass(frozen=True, slots=True)
class Inventory:
    """The remains of a table, and the plan of its rebuild."""

    log: LogSurvey
    history: History
    schema: dict[str, str]
    deletes: dict[str, Delete]
    other: frozenset[bytes]
    properties: tuple[PropertiesRecord, ...]
    """Properties of the table in log and transactions, oldest first."""
    plan: RebuildPlan
    digests: dict[int, str]
    """Digests of the transactions (``log.chain``) by number, as far as they are known."""
    ineffective: Mapping[int, Ineffective]
    """Transactions that are left out, by number."""
    unfolded: tuple[str, ...]
    """Log files that no transaction has folded, as far as log and transactions say."""


class RebuildProgress(msgspec.Struct, frozen=True, kw_only=True):
    """Progress of a rebuild: footers of parts that no transaction names."""

    footers: int
    footers_done: int


@dataclass(frozen=True, slots=True)
class _Left:
    """What is left of a table, by listings that are compared with each other."""

    log: LogSurvey
    txns: TxnSurvey
    history: History
    objects: Mapping[str, ObjectMeta]
    ineffective: Mapping[int, Ineffective]
    elsewhere: Elsewhere
    merges: foreign_merges.ForeignMerges
    doubled: tuple[foreign_merges.Doubled, ...]


def _listed(table: Table, options: RebuildOptions, time: InTime) -> _Left:
    log = survey_log(table.store, table.paths)
    txns, ineffective = survey_effective(table.store, table.paths, log)
    _refuse_broken(log, txns)
    stated = current(_properties(log, txns))
    time.under(table.settings, None if stated is None else stated.grace)
    merges = foreign_merges.find(log.listing, log.contents, [txns.parts])
    doubled = merges.doubled(_history(log, txns, table.clock.now_ms()).parts)
    if log.listing and not options.force and not doubled:
        refuse_whole(table, log, txns, ineffective)
    # For clients of version 1 every log file counts, as long as it is there.
    alive = frozenset(
        m.p for content in log.contents.values() for m in content.markers if m.tmb is None
    )
    log = counting(log, txns, ineffective)
    history = replace(_history(log, txns, table.clock.now_ms()), listed_alive=alive)
    objects = {meta.key: meta for meta in table.store.list(table.paths.data_dir)}
    _refuse_nothing(table, objects, history)
    elsewhere = read_elsewhere(table, since_ms=min(txns.modified.values(), default=0))
    return _Left(log, txns, history, objects, ineffective, elsewhere, merges, doubled)


def read_inventory(
    table: Table, options: RebuildOptions, on_progress: Callable[[RebuildProgress], None] | None
) -> Inventory:
    """Read log, transactions, the listing, and the footers of what nobody names.

    Raises UsageError, LogCorruptError, SchemaConflictError, SnapshotUnstableError: see
    ``run_rebuild``.
    """
    left = looked(table, lambda time: _listed(table, options, time))
    log, txns, history, objects = left.log, left.txns, left.history, left.objects
    deletes = txns.deletes | {d.id: d for c in log.contents.values() for d in c.deletes}
    other = frozenset(txns.other.union(*(c.other for c in log.contents.values())))
    state = _State.of(log, txns, deletes, other)
    unfolded = _unfolded(log, txns)
    columns = _columns(txns, unfolded, state, table.paths)
    unnamed = [FooterTask(k, meta.size) for k, meta in objects.items() if k not in history.parts]
    state.schema = columns.columns
    records = _properties(log, txns)
    settings = in_force(table.settings, current(records))
    wanted = FooterWanted(columns=state.types_in_parts(), stats=settings.statistics_columns)
    footers = _footers(table, unnamed, wanted, on_progress)
    choice = Choice(options.include, options.exclude)
    choice.refuse_idle(objects.keys() | history.parts.keys())
    # An object may have been written at any time, under properties that are no longer in use.
    settings = lengthened(settings, waits(records, settings, now_ms=0))
    elsewhere = left.elsewhere
    remains = (log, txns, elsewhere)
    history = _named(history, remains, deletes, other, footers, table.paths, objects)
    plan = plan_rebuild(history, objects, footers, table.paths, settings, choice, elsewhere)
    given = Remains(left.merges, history.parts, objects, choice, state.sequence_of)
    plan = without_doubled(plan, left.doubled, given)
    _add_columns(columns, footers, {m.p: m for m in plan.live}, state, table.paths)
    return Inventory(
        log=log,
        history=history,
        schema=columns.columns,
        deletes=deletes,
        other=other,
        properties=records,
        plan=plan,
        digests=_digests(log, txns),
        ineffective=left.ineffective,
        unfolded=unfolded,
    )


def _add_columns(
    columns: schemas.SchemaUnion,
    footers: Sequence[FooterFacts],
    live: Mapping[str, Marker],
    state: _State,
    paths: TablePaths,
) -> None:
    """Add the columns of live parts to those of the table. Raises SchemaConflictError."""
    # Parts of ours first: they tell which columns of other clients' parts only their path has.
    for facts in sorted(footers, key=lambda facts: facts.part is None):
        if facts.key in live:
            stated = state.shown(live[facts.key], _data_columns(facts, paths, columns))
            columns.add(f"part {facts.key}", stated, next_step=_LEAVE_OUT)


def _named(
    history: History,
    remains: tuple[LogSurvey, TxnSurvey, Elsewhere],
    deletes: Mapping[str, Delete],
    other: Collection[bytes],
    footers: Sequence[FooterFacts],
    paths: TablePaths,
    objects: Mapping[str, ObjectMeta],
) -> History:
    """Add the newest transaction that anything names, and whether others are lost."""
    log, txns, elsewhere = remains
    names = names_of(paths, footers, [objects, history.parts])
    owned = [(facts.key, part) for facts in footers if (part := names.own(facts)) is not None]
    stated = [
        *((part.q, f"part {key}") for key, part in owned),
        *((m.q or 0, f"part {m.p}") for m in history.parts.values()),
        *((d.seq, f"delete record {d.id}") for d in deletes.values()),
    ]
    newest = Newest.of(log, txns, elsewhere, stated)
    lost = lost_history(log, txns, newest, paths, unborn=bool(owned))
    return replace(
        history,
        named=newest.seq,
        lost=lost,
        deletes=frozenset(deletes),
        fence=fence.fence_of(other, newest.seq).seq,
    )


def _digests(log: LogSurvey, txns: TxnSurvey) -> dict[int, str]:
    marks = (content.x for content in log.contents.values())
    stated = {mark.seq: mark.digest for mark in marks if mark is not None and mark.digest}
    return stated | {seq: link.digest for seq, link in txns.links.items()}


def _properties(log: LogSurvey, txns: TxnSurvey) -> tuple[PropertiesRecord, ...]:
    """Return all properties of the table; its birth record decides where first appends disagree."""
    found = [*txns.properties, *(r for c in log.contents.values() for r in c.properties)]
    born = [r for r in txns.properties if not r.seq]
    return union(r for r in found if r.seq or not born or r.values == born[0].values)


def _data_columns(
    facts: FooterFacts, paths: TablePaths, known: schemas.SchemaUnion
) -> dict[str, str]:
    """Return a part's columns without those of its path that a version 1 client wrote into it.

    Where nobody else says which columns the table has, all of them count.
    """
    if facts.part is not None or not known.columns:
        return facts.columns
    table = {fold_name(name) for name in known.columns}
    path = {fold_name(name) for name in path_columns(paths.parse_part(facts.key).partition)} - table
    return {name: kind for name, kind in facts.columns.items() if fold_name(name) not in path}


@dataclass
class _State(StateColumns):
    """The columns that parts hold, by log and transactions."""

    listing: Mapping[str, LogObject]
    contents: Mapping[str, LogContent]
    schema: Mapping[str, str]
    deletes: Mapping[str, Delete]
    changes: tuple[SchemaChange, ...]
    times: tuple[tuple[int, int], ...]
    dated: Mapping[int, int]
    _columns: dict[tuple[str, ...], PartColumns] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        log: LogSurvey,
        txns: TxnSurvey,
        records: Mapping[str, Delete],
        other: frozenset[bytes],
    ) -> Self:
        """Make it without the columns, which follow from it."""
        names = (item.name for item in log.listing.values())
        times = {(name.t, name.seq) for name in names if name.seq}
        times |= {(header.t, header.seq) for header in txns.headers.values()}
        # As in a snapshot: a record outlives log file and object of its transaction.
        times |= {(record.t, record.seq) for record in records.values()}
        rows, changes = split(records.values())
        ahead = dated.known(log.listing, other)
        return cls(log.listing, log.contents, {}, rows, changes, tuple(sorted(times)), ahead)

    def shown(self, marker: Marker, columns: Mapping[str, str]) -> dict[str, str]:
        """Return the columns of a footer as the table has them."""
        held = self.columns_of(marker)
        named = {held.column(name): kind for name, kind in columns.items()}
        return as_known({n: kind for n, kind in named.items() if n is not None}, self.schema)


def _unfolded(log: LogSurvey, txns: TxnSurvey) -> tuple[str, ...]:
    there = standing(LogRead(log.listing, log.contents))
    return tuple(key for key in there if key not in txns.folded)


def _columns(
    txns: TxnSurvey, unfolded: Sequence[str], state: _State, paths: TablePaths
) -> schemas.SchemaUnion:
    """Return the columns that are known. Raises SchemaConflictError.

    Of two transactions the newer one counts, and a log file that any has folded does not: a repair
    of the schema may have corrected what they say.
    """
    lines: dict[str, str] = {}
    for key, stated in sorted(txns.schemas, reverse=True):
        line = line_now(state.changes, stated, paths.parse_txn(key))
        known = {fold_name(name) for name in lines}
        lines |= {name: kind for name, kind in line.items() if fold_name(name) not in known}
    columns = schemas.SchemaUnion()
    columns.add("the transactions", lines)
    for key in unfolded:
        columns.add(f"log file {key}", state.line(key))
    return columns


def _footers(
    table: Table,
    tasks: list[FooterTask],
    wanted: FooterWanted,
    on_progress: Callable[[RebuildProgress], None] | None,
) -> list[FooterFacts]:
    footers: list[FooterFacts] = []
    for facts in many_facts(table.store, tasks, wanted):
        footers.append(facts)
        due = len(footers) % _TELL_EVERY == 0 or len(footers) == len(tasks)
        if on_progress is not None and due:
            on_progress(RebuildProgress(footers=len(tasks), footers_done=len(footers)))
    return footers


def _refuse_nothing(table: Table, objects: Mapping[str, ObjectMeta], history: History) -> None:
    if not objects and not history.parts and not history.newest:
        raise UsageError(
            f"there is nothing at {table.settings.root} to rebuild a table from",
            next_step="correct the name or the root",
        )


def _refuse_broken(log: LogSurvey, txns: TxnSurvey) -> None:
    strange = [key for key in log.strange if key.endswith(".jsonl")]
    broken = [*log.broken, *txns.broken, *strange]
    if broken:
        error = next(iter([*log.broken.values(), *txns.broken.values()]), None)
        elsewhere = isinstance(error, ForeignPathError)
        raise LogCorruptError(
            f"{counted(len(broken), 'file')} cannot be read, the first {broken[0]}"
            + (f" ({error.message})" if error is not None else ""),
            next_step="if the table was copied or renamed, run `firnline relocate`"
            if elsewhere
            else "move them out of _log/ and _txn/ and run it again: a rebuild does without "
            "them, and firnline deletes nothing that it cannot read",
        )


def _history(log: LogSurvey, txns: TxnSurvey, now_ms: int) -> History:
    parts = dict(txns.parts)
    for key in sorted(log.contents):
        for marker in log.contents[key].markers:
            known = parts.get(marker.p)
            parts[marker.p] = marker if known is None else combine(known, marker)
    marks = [c.x.purged for c in log.contents.values() if c.x is not None]
    first = first_of_run(txns.headers) or None
    newest_t = max((h.t for h in txns.headers.values()), default=0)
    seen = txns.modified.get(txns.newest, newest_t)
    ahead = dated.recorded(txns.other).get(newest_t)
    return History(
        parts=parts,
        newest=txns.newest,
        newest_t=newest_t,
        newest_at=min(newest_t, dated.since(newest_t, seen, now_ms)) if ahead is None else ahead,
        first=first,
        first_t=txns.headers[first].t if first is not None else 0,
        purged=max([txns.purged, *marks]),
        now_ms=now_ms,
        last=txns.last,
    )
