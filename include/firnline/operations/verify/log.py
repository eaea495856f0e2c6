"""What a check of a table looks for in its log and its transactions: pure, no request.

Every finding names one object, says what is wrong in a sentence, and what to do about it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

import msgspec

from firnline.log import dated
from firnline.log.reader import LogObject
from firnline.log.records import LogContent
from firnline.paths import TablePaths
from firnline.state import v1_view
from firnline.state.health import unknown_parts
from firnline.state.snapshot import Snapshot
from firnline.state.survey import LogSurvey, TxnSurvey

Severity = Literal["error", "warning", "note"]
"""error: rows are missing, doubled or wrong, or will be. warning: a rule is broken and somebody
should look. note: worth knowing; nothing is wrong."""

TXN_KEPT = 100
"""Transactions that retention never removes (docs/format.md, "Clean-up")."""
SHOWN = 100
"""Findings of one kind that are listed one by one."""
_REBUILD = "see what `firnline rebuild --dry-run` would bring back"


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is not as it should be, or worth knowing."""

    kind: str
    severity: Severity
    object: str
    """Key; of several of one kind the first."""
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


def check_log(found: Findings, log: LogSurvey, folded: Mapping[str, int], now_ms: int) -> None:
    """Log files that do not read, are misnamed, or come from the future.

    Args:
        found: takes what is found.
        log: ``_log/`` as it is.
        folded: log files that a readable one carries -> since when.
        now_ms: wall clock.
    """
    for key in log.strange:
        parsed = key.endswith(".jsonl")
        found.add(
            "error" if parsed else "warning",
            "log-strange-object",
            key,
            "lies under _log/ and is no log file"
            + (": readers stop at its name" if parsed else "; other clients fail on its name"),
            "move it out of _log/: nothing but log files may live there",
        )
    for key, error in log.broken.items():
        found.add(
            "warning" if key in folded else "error",
            "log-unreadable",
            key,
            error.message + ("; another log file carries it" if key in folded else ""),
            error.next_step,
        )
    for key, content in log.contents.items():
        _check_names(found, log.listing[key], content)
    for key, item in log.listing.items():
        if item.name.t > now_ms + dated.FAR_MS:
            found.add(
                "warning",
                "log-from-the-future",
                key,
                f"is dated {(item.name.t - now_ms) // 1000} s from now",
                "correct the clock of its writer: every later transaction is dated after it, and "
                "with a primary key its rows win; nothing waits for that date",
            )


def _check_names(found: Findings, item: LogObject, content: LogContent) -> None:
    name, x = item.name, content.x
    if content.t != name.t:
        found.add(
            "warning",
            "log-time-mismatch",
            name.key,
            f"states the time {content.t}, and its name {name.t}",
            "find the client that renamed or copied it",
        )
    if name.seq and x is not None and (x.seq, x.txn) != (name.seq, name.txn):
        found.add(
            "error",
            "log-misnamed",
            name.key,
            f"holds transaction {x.seq} ({x.txn}) under the name of {name.seq} ({name.txn})",
            "restore it from its copy under _txn/",
        )


def check_leftovers(found: Findings, snapshot: Snapshot, grace: int, now_ms: int) -> None:
    """Folded log files that still exist past the grace (one note for all of them)."""
    seen: dict[str, int] = {}
    for carrier, content in snapshot.contents.items():
        modified = snapshot.listing[carrier].modified_ms
        for stone in content.tombstones:
            seen[stone.p] = min(modified, seen.get(stone.p, modified))
    due = sorted(
        key
        for key, t in snapshot.log_tombstones.items()
        if key in snapshot.listing and dated.since(t, seen[key], now_ms) + grace < now_ms
    )
    if due:
        size = sum(snapshot.listing[key].size for key in due)
        found.add(
            "note",
            "log-clean-up-due",
            due[0],
            f"and in all {len(due)} folded log files ({size} bytes) are past the grace",
            "run `firnline cleanup`",
        )


def check_lost(found: Findings, paths: TablePaths, lost: str) -> None:
    """A log that is lost, or a part of it: nobody reads, appends or commits then.

    Args:
        found: takes what is found.
        paths: of the table.
        lost: what says so (``state.health``); empty where nothing does.
    """
    if lost:
        found.add(
            "error", "log-lost", paths.log_dir, f"is lost, or a part of it: {lost}",
            "run `firnline rebuild`; " + _REBUILD,
        )  # fmt: skip


def check_transactions(
    found: Findings,
    txns: TxnSurvey,
    snapshot: Snapshot,
    paths: TablePaths,
    now_ms: int,
    *,
    unpublished: bool,
) -> None:
    """Transactions that do not read, gaps, and what the log does not know of them."""
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
    newest = max(txns.newest, _history_of(snapshot))
    for seq in missing_numbers(txns.numbers, newest, rebuilt(txns)):
        found.add(
            "warning", "txn-gap", paths.txn(seq), "is not there, and retention does not remove it",
            "find out who deleted it; a rebuild of the log would lack what it holds",
        )  # fmt: skip
    if unpublished:
        found.add(
            "note", "txn-unpublished", paths.txn(txns.newest),
            "is committed and its log file does not stand under _log/ yet",
            "nothing: readers see it, and whoever commits next publishes it",
        )  # fmt: skip
    _check_known(found, txns, snapshot)


def _check_known(found: Findings, txns: TxnSurvey, snapshot: Snapshot) -> None:
    missing, revived = unknown_parts(snapshot.parts, txns)
    for path in missing:
        found.add(
            "error", "log-misses-part", path, "is live by the transactions, and no log file "
            "names it: a log file was lost", _REBUILD,
        )  # fmt: skip
    for path in revived:
        found.add(
            "error", "log-misses-tombstone", path, "was replaced by a transaction, and the log "
            "has it alive: a log file was lost", _REBUILD,
        )  # fmt: skip


def rebuilt(txns: TxnSurvey) -> frozenset[int]:
    """Transactions that began the history anew: what is missing right before them is no gap."""
    return frozenset(seq for seq, header in txns.headers.items() if header.op == "rebuild")


def _history_of(snapshot: Snapshot) -> int:
    """Newest transaction whose file must be there; 0 after a downgrade, which removes them."""
    marks = [c.x.seq for c in snapshot.contents.values() if c.x is not None]
    return max(marks, default=0)


def missing_numbers(
    numbers: Iterable[int], newest: int, restarts: frozenset[int] = frozenset()
) -> list[int]:
    """Numbers that must be there by retention and are not, ascending.

    Retention removes from the oldest end and leaves the newest hundred, so there are no gaps
    among those.

    Args:
        numbers: of the listing.
        newest: highest number in use.
        restarts: numbers before which there need be nothing.
    """
    there = set(numbers)
    first = max([min(there, default=newest), newest - TXN_KEPT + 1, *restarts])
    return [seq for seq in range(max(1, first), newest + 1) if seq not in there]


def check_v1(found: Findings, snapshot: Snapshot) -> int:
    """Whether v1 readers see the same parts; returns the number of parts that they do.

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
            f"and in all {len(waiting)} parts have deletes pending, which clients of log version 1 "
            "do not know: they still see those rows",
            "run `firnline merge`, or `firnline downgrade` before such clients take over",
        )  # fmt: skip
    return len(theirs)
