"""The checks of log, transactions and objects: pure, no request."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass, field

from firnline.errors import DAMAGED_PART
from firnline.log import dated
from firnline.log.records import Marker
from firnline.next_steps import WHO_DELETED
from firnline.operations.cleanup.retention import first_kept
from firnline.operations.verify.findings import Findings, Sum
from firnline.paths import TablePaths
from firnline.state import v1_view
from firnline.state.effect import Ineffective
from firnline.state.health import unknown_parts
from firnline.state.history import by_whom
from firnline.state.snapshot import Snapshot
from firnline.state.survey import TxnSurvey
from firnline.store.base import ObjectMeta
from firnline.units import counted

SEE_REBUILD = "see what `firnline rebuild --dry-run` would bring back"


def check_transactions(
    findings: Findings,
    txns: TxnSurvey,
    snapshot: Snapshot,
    paths: TablePaths,
    now_ms: int,
    *,
    unpublished: bool,
) -> None:
    """Report transactions that do not read, gaps, and those of the future."""
    for key in txns.strange:
        findings.add(
            "warning", "txn-strange-object", key, "lies under _txn/ and is no transaction",
            "move it away",
        )  # fmt: skip
    for key, error in txns.broken.items():
        findings.add(
            "error", "txn-unreadable", key, error.message, "keep the log: this copy is lost"
        )
    for seq, header in txns.headers.items():
        if header.t > now_ms + dated.FAR_MS:
            findings.add(
                "warning", "txn-from-the-future", paths.txn(seq),
                f"is dated {(header.t - now_ms) // 1000} s from now",
                "correct the clock of the machine that committed it",
            )  # fmt: skip
    # Only what the log says is committed has to be there; nothing after a downgrade.
    marks = [c.x.seq for c in snapshot.contents.values() if c.x is not None]
    newest = max(txns.newest, max(marks, default=0))
    for seq in missing_numbers(txns.numbers, newest, rebuilt(txns)):
        findings.add(
            "warning", "txn-gap", paths.txn(seq), "is not there, and retention does not remove it",
            WHO_DELETED,
        )  # fmt: skip
    if unpublished:
        findings.add(
            "note", "txn-unpublished", paths.txn(txns.newest),
            "is committed and its log file does not stand under _log/ yet",
            "nothing: readers see it, and whoever commits next publishes it",
        )  # fmt: skip


def check_unknown(findings: Findings, txns: TxnSurvey, snapshot: Snapshot) -> None:
    """Report parts of transactions that count, which the log does not know, or has alive."""
    missing, revived = unknown_parts(snapshot.parts, txns)
    for path in missing:
        findings.add(
            "error", "log-misses-part", path, "is live by the transactions, and no log file "
            "names it: a log file was lost", SEE_REBUILD,
        )  # fmt: skip
    for path in revived:
        findings.add(
            "error", "log-misses-tombstone", path, "was replaced by a transaction, and the log "
            "has it alive: a log file was lost", SEE_REBUILD,
        )  # fmt: skip


def check_effect(
    findings: Findings, ineffective: Mapping[int, Ineffective], txns: TxnSurvey, paths: TablePaths
) -> None:
    """Report transactions that never took effect, although their runs may have said so.

    Args:
        findings: takes what is found.
        ineffective: the transactions that never took effect.
        txns: all transactions.
        paths: of the table.
    """
    for seq, one in sorted(ineffective.items()):
        header = txns.headers[seq]
        findings.add(
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


def check_v1(findings: Findings, snapshot: Snapshot) -> int:
    """Check that v1 readers see the same parts; return the number of parts that they see.

    Only of a snapshot for which every log file was read.
    """
    theirs, ours = v1_view.live_parts(snapshot.contents), snapshot.live.keys()
    for path in sorted(theirs - ours):
        findings.add(
            "error", "v1-differs", path, "is dead, and a client of log version 1 takes it for live",
            "let nobody read with such a client until the next merge has folded its log files",
        )  # fmt: skip
    for path in sorted(ours - theirs):
        findings.add(
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
        findings.add(
            "note", "v1-sees-deleted-rows", waiting[0],
            f"and in all {counted(len(waiting), 'part')} with deletes pending, which clients of "
            "log version 1 do not know: they still see those rows",
            "run `firnline merge`, or `firnline downgrade` before such clients take over",
        )  # fmt: skip
    return len(theirs)


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
    orphans: Sum = field(default_factory=Sum)
    unpurged: Sum = field(default_factory=Sum)
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
    findings: Findings,
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
        findings: takes what is found.
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
    walk = _Walk(findings, parts, purged, prepared=prepared)
    for meta in objects:
        walk.take(meta, now_ms, orphan_grace)
    gone, missing = Sum(), []
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
            findings.add("error", "part-missing", path, "is live and has no object", DAMAGED_PART)
    _tell_sums(findings, walk, gone)
    walk.counted.orphans, walk.counted.orphan_bytes = walk.orphans.count, walk.orphans.bytes
    return walk.counted


def _tell_sums(findings: Findings, walk: _Walk, gone: Sum) -> None:
    orphans, unpurged = walk.orphans, walk.unpurged
    if orphans.count:
        findings.add(
            "note", "orphans", orphans.first,
            f"and in all {counted(orphans.count, 'object')} ({counted(orphans.bytes, 'byte')}) "
            "that no log file names, older than orphan_grace",
            "see `firnline sweep`, which lists them",
        )  # fmt: skip
    if unpurged.count:
        findings.add(
            "warning", "part-not-purged", unpurged.first,
            f"and in all {counted(unpurged.count, 'dead part')} "
            f"({counted(unpurged.bytes, 'byte')}) still there, though deleted according to the log",
            "delete them by hand, once no reader needs them",
        )  # fmt: skip
    if gone.count:
        findings.add(
            "note", "part-gone-early", gone.first,
            f"and in all {counted(gone.count, 'dead part')} deleted without a word in the log yet: "
            "states of the table before that cannot be read", "run `firnline cleanup`",
        )  # fmt: skip


def check_folders(findings: Findings, markers: Iterable[str], prefix: str) -> None:
    """Tell once of the folder markers of a table, which listings leave out.

    Args:
        findings: takes what is found.
        markers: their keys, maybe also of others.
        prefix: of the table.
    """
    ours = sorted(key for key in markers if key.startswith(f"{prefix}/"))
    if ours:
        findings.add(
            "note", "folder-marker", ours[0],
            f"and in all {counted(len(ours), 'object')} of no bytes, as the console of a store "
            "makes them for folders",
            "nothing: they are passed over; delete them in the console if you like",
        )  # fmt: skip
