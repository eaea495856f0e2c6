"""The checks of log, transactions, objects and footers: pure, no request."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

import msgspec

from firnline.errors import DAMAGED_PART
from firnline.log import dated
from firnline.log.records import Marker
from firnline.log.schema_changes import AS_IT_IS, PartColumns
from firnline.next_steps import WHO_DELETED
from firnline.operations.cleanup.retention import first_kept
from firnline.parquet.footers import FooterFacts
from firnline.parquet.words import odd_in_words
from firnline.paths import TablePaths, path_columns
from firnline.state import v1_view
from firnline.state.effect import Ineffective
from firnline.state.health import unknown_parts
from firnline.state.history import by_whom
from firnline.state.snapshot import Snapshot
from firnline.state.survey import TxnSurvey
from firnline.store.base import ObjectMeta
from firnline.types.order import order_text
from firnline.types.schema import normalise, widens
from firnline.types.sql import fold_name
from firnline.units import counted

Severity = Literal["error", "warning", "note"]
"""error: rows are missing, doubled or wrong, or will be. warning: a rule is broken and somebody
should look. note: worth knowing; nothing is wrong."""

SHOWN = 100
"""Findings of one kind that are listed one by one."""
_ALL_ROWS = "select * from _rows"
SEE_REBUILD = "see what `firnline rebuild --dry-run` would bring back"
_NULL = '"NULL"'
"""Type of a column that holds only nulls."""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """An irregularity, or a fact worth knowing."""

    kind: str
    severity: Severity
    object: str
    """Key; of several objects of one kind the first."""
    sentence: str
    next_step: str


@dataclass(slots=True)
class Findings:
    """Collects findings; of each kind the first hundred are kept, the rest counted."""

    listed: list[Finding] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    severities: Counter[Severity] = field(default_factory=Counter)

    def add(self, severity: Severity, kind: str, key: str, sentence: str, next_step: str) -> None:
        """Take one finding in."""
        self.counts[kind] += 1
        self.severities[severity] += 1
        if self.counts[kind] <= SHOWN:
            self.listed.append(
                Finding(
                    kind=kind, severity=severity, object=key, sentence=sentence, next_step=next_step
                )
            )


def check_transactions(
    found: Findings,
    txns: TxnSurvey,
    snapshot: Snapshot,
    paths: TablePaths,
    now_ms: int,
    *,
    unpublished: bool,
) -> None:
    """Report transactions that do not read, gaps, and those of the future."""
    for key in txns.strange:
        found.add(
            "warning", "txn-strange-object", key, "lies under _txn/ and is no transaction",
            "move it away",
        )  # fmt: skip
    for key, error in txns.broken.items():
        found.add("error", "txn-unreadable", key, error.message, "keep the log: this copy is lost")
    for seq, header in txns.headers.items():
        if header.t > now_ms + dated.FAR_MS:
            found.add(
                "warning", "txn-from-the-future", paths.txn(seq),
                f"is dated {(header.t - now_ms) // 1000} s from now",
                "correct the clock of the machine that committed it",
            )  # fmt: skip
    # Only what the log says is committed has to be there; nothing after a downgrade.
    marks = [c.x.seq for c in snapshot.contents.values() if c.x is not None]
    newest = max(txns.newest, max(marks, default=0))
    for seq in missing_numbers(txns.numbers, newest, rebuilt(txns)):
        found.add(
            "warning", "txn-gap", paths.txn(seq), "is not there, and retention does not remove it",
            WHO_DELETED,
        )  # fmt: skip
    if unpublished:
        found.add(
            "note", "txn-unpublished", paths.txn(txns.newest),
            "is committed and its log file does not stand under _log/ yet",
            "nothing: readers see it, and whoever commits next publishes it",
        )  # fmt: skip


def check_unknown(found: Findings, txns: TxnSurvey, snapshot: Snapshot) -> None:
    """Report parts of transactions that count, which the log does not know, or has alive."""
    missing, revived = unknown_parts(snapshot.parts, txns)
    for path in missing:
        found.add(
            "error", "log-misses-part", path, "is live by the transactions, and no log file "
            "names it: a log file was lost", SEE_REBUILD,
        )  # fmt: skip
    for path in revived:
        found.add(
            "error", "log-misses-tombstone", path, "was replaced by a transaction, and the log "
            "has it alive: a log file was lost", SEE_REBUILD,
        )  # fmt: skip


def check_effect(
    found: Findings, ineffective: Mapping[int, Ineffective], txns: TxnSurvey, paths: TablePaths
) -> None:
    """Report transactions that never took effect, although their runs may have said so.

    Args:
        found: takes what is found.
        ineffective: the transactions that never took effect.
        txns: all transactions.
        paths: of the table.
    """
    for seq, one in sorted(ineffective.items()):
        header = txns.headers[seq]
        found.add(
            "warning", "txn-without-effect", paths.txn(seq), one.reason,
            f"nothing of it is in the table and no rebuild takes it in; its run was to "
            f"{header.op} ({by_whom(header.run)}): look whether it has to run again, and then move "
            "the object away",
        )  # fmt: skip


def rebuilt(txns: TxnSurvey) -> frozenset[int]:
    """Return numbers at which the history begins anew: a gap right before them is normal."""
    after = frozenset({txns.last + 1} if txns.last else ())
    return after.union(seq for seq, header in txns.headers.items() if header.op == "rebuild")


def missing_numbers(
    numbers: Iterable[int], newest: int, restarts: frozenset[int] = frozenset()
) -> list[int]:
    """Return numbers that must exist by retention and do not, ascending.

    Retention removes from the oldest end and leaves the newest hundred, so there are no gaps
    among those.

    Args:
        numbers: of the listing.
        newest: highest number in use.
        restarts: numbers before which there need be nothing.
    """
    there = set(numbers)
    first = max([min(there, default=newest), first_kept(newest), *restarts])
    return [seq for seq in range(max(1, first), newest + 1) if seq not in there]


def check_v1(found: Findings, snapshot: Snapshot) -> int:
    """Check that v1 readers see the same parts; return the number of parts that they see.

    Only of a snapshot for which every log file was read.
    """
    theirs, ours = v1_view.live_parts(snapshot.contents), snapshot.live.keys()
    for path in sorted(theirs - ours):
        found.add(
            "error", "v1-differs", path, "is dead, and a client of log version 1 takes it for live",
            "let nobody read with such a client until the next merge has folded its log files",
        )  # fmt: skip
    for path in sorted(ours - theirs):
        found.add(
            "error", "v1-differs", path, "is live, and a client of log version 1 takes it for dead",
            "look for a log file that was copied or written with another clock",
        )  # fmt: skip
    waiting = [
        m.p
        for partition, markers in snapshot.partitions.items()
        for m in markers
        if snapshot.pending_deletes(m, partition)
    ]
    if waiting:
        found.add(
            "note", "v1-sees-deleted-rows", waiting[0],
            f"and in all {counted(len(waiting), 'part')} with deletes pending, which clients of "
            "log version 1 do not know: they still see those rows",
            "run `firnline merge`, or `firnline downgrade` before such clients take over",
        )  # fmt: skip
    return len(theirs)


@dataclass(slots=True)
class _Sum:
    """Objects that are reported together."""

    first: str = ""
    count: int = 0
    bytes: int = 0

    def add(self, key: str, size: int) -> None:
        self.first = self.first or key
        self.count += 1
        self.bytes += size


@dataclass(slots=True)
class Counted:
    """Counts of the objects that were checked."""

    objects: int = 0
    bytes: int = 0
    orphans: int = 0
    """Orphans past ``orphan_grace``."""
    orphan_bytes: int = 0
    young: int = 0
    """Objects that nobody names and that may belong to a run still under way."""
    prepared: int = 0
    """Parts of prepared changes that wait for a decision."""


@dataclass(slots=True)
class _Walk:
    found: Findings
    parts: Mapping[str, Marker]
    purged: int
    counted: Counted = field(default_factory=Counted)
    orphans: _Sum = field(default_factory=_Sum)
    unpurged: _Sum = field(default_factory=_Sum)
    seen: set[str] = field(default_factory=set)
    prepared: frozenset[str] = frozenset()

    def take(self, meta: ObjectMeta, now_ms: int, orphan_grace: int) -> None:
        self.counted.objects += 1
        self.counted.bytes += meta.size
        marker = self.parts.get(meta.key)
        if marker is None and meta.key in self.prepared:
            self.counted.prepared += 1
            return
        if marker is None:
            since = dated.written_since(meta.key, meta.modified_ms, now_ms)
            if since < now_ms - orphan_grace:
                self.orphans.add(meta.key, meta.size)
            else:
                self.counted.young += 1
            return
        self.seen.add(marker.p)
        if marker.tmb is not None:
            if marker.tmb <= self.purged:
                self.unpurged.add(meta.key, meta.size)
        elif marker.b != meta.size:
            self.found.add(
                "error", "part-size", meta.key,
                f"has {meta.size} bytes, and the log states {marker.b}", DAMAGED_PART,
            )  # fmt: skip


def check_objects(
    found: Findings,
    parts: Mapping[str, Marker],
    purged: int,
    objects: Iterable[ObjectMeta],
    now_ms: int,
    orphan_grace: int,
    prepared: frozenset[str] = frozenset(),
    live_now: Callable[[], Container[str]] | None = None,
) -> Counted:
    """Compare every object under ``_data/`` with the parts, in one pass over the listing.

    Args:
        found: takes what is found.
        parts: all parts of the log, dead ones included.
        purged: horizon up to which dead parts are confirmed deleted.
        objects: listing of ``_data/``, begun after the log was read.
        now_ms: wall clock.
        orphan_grace: objects that nobody names count as left over when they are older, in ms.
        prepared: parts of prepared changes, which wait for a decision.
        live_now: reads the parts that are live after the listing; called if one has no object. One
            that is dead by now was deleted by a clean-up, however long the run stood still and
            whatever its clock says of that. None: all that were live are.
    """
    walk = _Walk(found, parts, purged, prepared=prepared)
    for meta in objects:
        walk.take(meta, now_ms, orphan_grace)
    gone, missing = _Sum(), []
    for path, marker in parts.items():
        if path in walk.seen:
            continue
        if marker.tmb is None:
            missing.append(path)
        elif marker.tmb > purged:
            gone.add(path, marker.b)
    live = live_now() if missing and live_now is not None else parts
    for path in missing:
        if path in live:
            found.add("error", "part-missing", path, "is live and has no object", DAMAGED_PART)
    _tell_sums(found, walk, gone)
    walk.counted.orphans, walk.counted.orphan_bytes = walk.orphans.count, walk.orphans.bytes
    return walk.counted


def _tell_sums(found: Findings, walk: _Walk, gone: _Sum) -> None:
    orphans, unpurged = walk.orphans, walk.unpurged
    if orphans.count:
        found.add(
            "note", "orphans", orphans.first,
            f"and in all {counted(orphans.count, 'object')} ({counted(orphans.bytes, 'byte')}) "
            "that no log file names, older than orphan_grace",
            "see `firnline sweep`, which lists them",
        )  # fmt: skip
    if unpurged.count:
        found.add(
            "warning", "part-not-purged", unpurged.first,
            f"and in all {counted(unpurged.count, 'dead part')} "
            f"({counted(unpurged.bytes, 'byte')}) still there, though deleted according to the log",
            "delete them by hand, once no reader needs them",
        )  # fmt: skip
    if gone.count:
        found.add(
            "note", "part-gone-early", gone.first,
            f"and in all {counted(gone.count, 'dead part')} deleted without a word in the log yet: "
            "states of the table before that cannot be read", "run `firnline cleanup`",
        )  # fmt: skip


def check_folders(found: Findings, markers: Iterable[str], prefix: str) -> None:
    """Tell once of the folder markers of a table, which listings leave out.

    Args:
        found: takes what is found.
        markers: their keys, maybe also of others.
        prefix: of the table.
    """
    ours = sorted(key for key in markers if key.startswith(f"{prefix}/"))
    if ours:
        found.add(
            "note", "folder-marker", ours[0],
            f"and in all {counted(len(ours), 'object')} of no bytes, as the console of a store "
            "makes them for folders",
            "nothing: they are passed over; delete them in the console if you like",
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class ColumnOtherwise:
    """A column of a part that differs from the table's."""

    name: str
    kind: str
    """SQL type in the part."""
    known: str | None
    """SQL type in the table; None if it has no such column."""

    @property
    def wanted(self) -> str:
        """The type that holds the values of both, if one of them does; else the table's."""
        return self.kind if self.known is None or widens(self.known, self.kind) else self.known

    def __str__(self) -> str:
        """Return the difference, for a sentence."""
        if self.known is None:
            return f"a column {self.name!r} ({self.kind}) that the table does not have"
        return f"column {self.name!r} as {self.kind} where the table has {self.known}"


def _also(parts: _Sum) -> str:
    others = parts.count - 1
    if not others:
        return ""
    return f", and so {'has' if others == 1 else 'have'} {counted(others, 'other part')}"


def columns_held(own: PartColumns, facts: FooterFacts) -> frozenset[str]:
    """Return the table's columns that a part holds, by ``fold_name``."""
    named = (own.column(name) for name in facts.columns)
    return frozenset(fold_name(name) for name in named if name is not None)


@dataclass(slots=True)
class FooterCheck:
    """Compares footers with markers, one after the other, then the parts with each other."""

    found: Findings
    paths: TablePaths
    live: Mapping[str, Marker]
    table: str
    """Name of the table, for commands."""
    columns: Mapping[str, str]
    """The table's, column -> SQL type."""
    disputed: frozenset[str] = frozenset()
    """Columns, by ``fold_name``, of which log files contradict each other: nobody can say which
    part is right."""
    columns_of: Callable[[Marker], PartColumns] = lambda _: AS_IT_IS
    """Maps a part to the conversion of its columns to the table's."""
    types: Mapping[str, str] = field(default_factory=dict)
    """Of columns, by the names that they may have in parts."""
    merged: frozenset[str] = frozenset()
    """Parts that clients of version 1 have merged."""
    held: dict[str, frozenset[str]] = field(default_factory=dict)
    """The table's columns that those have, by ``fold_name``."""
    unlike: set[str] = field(default_factory=set)
    """Parts with columns otherwise than the table."""
    count: int = 0
    rows: int = 0
    _replaced: dict[str, str] = field(default_factory=dict)
    """Key of a part -> the live part that was made from it."""
    _otherwise: dict[tuple[ColumnOtherwise, ...], _Sum] = field(default_factory=dict)
    """Columns that a part has otherwise than the table -> the parts of which that is so."""
    _odd: dict[tuple[tuple[str, str], ...], _Sum] = field(default_factory=dict)
    """The table's columns in another form than that of parts, and what differs -> the parts."""

    def take(self, facts: FooterFacts) -> None:
        """Check one live part's footer."""
        self.count += 1
        if facts.gone:
            return  # reported by check_objects
        if facts.error is not None:
            # What it says to do is for somebody's file, which is no part yet.
            why = facts.error.removeprefix(f"{facts.key} ")
            self._add("error", "footer-unreadable", facts.key, why, DAMAGED_PART)
            return
        self.rows += facts.rows
        marker = self.live[facts.key]
        if marker.n is not None and marker.n != facts.rows:
            self._add(
                "error", "footer-rows", facts.key,
                f"has {counted(facts.rows, 'row')}, and the log states {marker.n}", DAMAGED_PART,
            )  # fmt: skip
        self._check_form(facts, self._check_columns(facts))
        self._check_order(facts)
        self._check_origin(facts)

    def finish(self) -> None:
        """Report columns, and parts that are live beside a part made from them."""
        self._tell_columns()
        for old, new in sorted(self._replaced.items()):
            if old in self.live:
                self._add(
                    "error", "part-twice", old,
                    f"is live, and so is {new}, which was made from it: its rows are there twice",
                    "report this with `firnline history`; a drop of its partition takes out both",
                )  # fmt: skip

    def _check_columns(self, facts: FooterFacts) -> list[ColumnOtherwise]:
        """Return the columns that differ from the table's, which are told of at the end."""
        table = {fold_name(name): kind for name, kind in self.columns.items()}
        held = self.columns_of(self.live[facts.key])
        if facts.key in self.merged:
            self.held[facts.key] = columns_held(held, facts)
        path = {fold_name(n) for n in path_columns(self.paths.parse_part(facts.key).partition)}
        found = []
        for raw, kind in facts.columns.items():
            name = held.column(raw)
            if name is None or fold_name(name) in self.disputed:
                continue
            known = table.get(fold_name(name))
            if known is None and fold_name(name) in path:
                continue  # a client of version 1 wrote it; merges leave it out
            same = known is not None and normalise(known) == normalise(kind)
            if known is None or not (same or widens(kind, known) or kind == _NULL):
                found.append(ColumnOtherwise(name, kind, known))
        if found:
            self.unlike.add(facts.key)
            parts = self._otherwise.setdefault(tuple(found), _Sum())
            parts.add(facts.key, self.live[facts.key].b)
        return found

    def _check_form(self, facts: FooterFacts, told: Iterable[ColumnOtherwise]) -> None:
        """Look for columns of others that readers understand differently, or not at all.

        Not for those that have another type than the table's, which is ``told`` of them.
        """
        if facts.part is not None:
            return
        held = self.columns_of(self.live[facts.key])
        table = {fold_name(name): name for name in self.columns}
        known = {column.name for column in told}
        odd = [(table.get(fold_name(held.column(n) or "")), why) for n, why in facts.odd.items()]
        found = tuple((n, why) for n, why in odd if n is not None and n not in known)
        if found:
            self._odd.setdefault(found, _Sum()).add(facts.key, self.live[facts.key].b)

    def _check_order(self, facts: FooterFacts) -> None:
        """Compare what marker and footer state that the rows are sorted by; either may say nothing.

        A footer that says more than its marker is of an older version: analyze reads it. That of a
        file that no version of firnline has written has no order that counts.
        """
        stated = self.live[facts.key].sorted_by()
        if facts.part is None or not stated or stated == facts.sorted_by:
            return
        footer = order_text(facts.sorted_by) or "nothing"
        name = self.paths.parse_part(facts.key).partition
        only = f" --partitions {shlex.quote(name)}" if name else ""
        self._add(
            "warning", "footer-order", facts.key,
            f"is sorted by {footer} as its footer states, and by {order_text(stated)} by the log",
            f"its rows are right, and are read right; `firnline rewrite {self.table}{only}"
            f" --sql '{_ALL_ROWS}'` sorts them and states it again",
        )  # fmt: skip

    def _tell_columns(self) -> None:
        """Report one finding for all parts that differ in the same columns, and one call for all.

        Another column each would be another rewrite of the same parts.
        """
        step = self._repair()
        for found, parts in self._otherwise.items():
            self._add(
                "error", "footer-schema", parts.first,
                f"has {'; '.join(map(str, found))}{_also(parts)}", step,
            )  # fmt: skip
        for odd, parts in self._odd.items():
            self._add(
                "warning", "part-form", parts.first,
                f"has {odd_in_words(dict(odd))}{_also(parts)}: readers may read different "
                "values there, and merges may refuse it", step,
            )  # fmt: skip

    def _repair(self) -> str:
        wanted = {name: self.columns[name] for odd in self._odd for name, _ in odd}
        wanted |= {column.name: column.wanted for found in self._otherwise for column in found}
        asked = " ".join(
            f"--column {shlex.quote(name)} --type {shlex.quote(kind)}"
            for name, kind in sorted(wanted.items())
        )
        step = f"`firnline schema fix {self.table} {asked} --all-parts` repairs it"
        if len(self._otherwise) + len(self._odd) > 1:
            step += ", together with the other parts"
        return f"{step}; look with --dry-run first"

    def _check_origin(self, facts: FooterFacts) -> None:
        part = facts.part
        if part is None:
            return
        name = self.paths.parse_part(facts.key)
        for old in facts.inputs:
            self._replaced[old] = facts.key
        if part.table == self.paths.prefix and part.partition != name.partition:
            self._add(
                "warning", "part-moved", facts.key,
                f"was written for partition {part.partition!r}", "move it back or rewrite it",
            )  # fmt: skip

    def _add(self, severity: Severity, kind: str, key: str, sentence: str, next_step: str) -> None:
        self.found.add(severity, kind, key, sentence, next_step)
