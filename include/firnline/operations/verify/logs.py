"""The checks of log files: pure, no request."""

from __future__ import annotations

from collections.abc import Mapping

from firnline.log import dated
from firnline.log.reader import LogObject
from firnline.log.records import LogContent
from firnline.operations.verify.findings import Findings
from firnline.operations.verify.plan import SEE_REBUILD
from firnline.paths import TablePaths
from firnline.state.snapshot import Snapshot
from firnline.state.survey import LogSurvey
from firnline.units import counted


def check_log(findings: Findings, log: LogSurvey, folded: Mapping[str, int], now_ms: int) -> None:
    """Report log files that do not read, are misnamed, or come from the future.

    Args:
        findings: takes what is found.
        log: ``_log/`` as it is.
        folded: log files that a readable one carries -> since when.
        now_ms: wall clock.
    """
    for key in log.strange:
        parsed = key.endswith(".jsonl")
        findings.add(
            "error" if parsed else "warning",
            "log-strange-object",
            key,
            "lies under _log/ and is no log file"
            + (": readers stop at its name" if parsed else "; other clients fail on its name"),
            "move it out of _log/: nothing but log files may live there",
        )
    for key, error in log.broken.items():
        findings.add(
            "warning" if key in folded else "error",
            "log-unreadable",
            key,
            error.message + ("; another log file carries it" if key in folded else ""),
            error.next_step,
        )
    for key, content in log.contents.items():
        _check_names(findings, log.listing[key], content)
    for key, item in log.listing.items():
        if item.name.t > now_ms + dated.FAR_MS:
            findings.add(
                "warning",
                "log-from-the-future",
                key,
                f"is dated {(item.name.t - now_ms) // 1000} s from now",
                "correct the clock of its writer: every later transaction is dated after it, and "
                "with a primary key its rows win; nothing waits for that date",
            )


def _check_names(findings: Findings, item: LogObject, content: LogContent) -> None:
    name, x = item.name, content.x
    if content.t != name.t:
        findings.add(
            "warning",
            "log-time-mismatch",
            name.key,
            f"states the time {content.t}, and its name {name.t}",
            "find the client that renamed or copied it",
        )
    if name.seq and x is not None and (x.seq, x.txn) != (name.seq, name.txn):
        findings.add(
            "error",
            "log-misnamed",
            name.key,
            f"holds transaction {x.seq} ({x.txn}) under the name of {name.seq} ({name.txn})",
            "restore it from its copy under _txn/",
        )


def check_leftovers(findings: Findings, snapshot: Snapshot, grace: int, now_ms: int) -> None:
    """Report folded log files that still exist past the grace (one note for all of them)."""
    seen: dict[str, int] = {}
    for carrier, content in snapshot.contents.items():
        modified = snapshot.listing[carrier].modified_ms
        for tombstone in content.tombstones:
            seen[tombstone.p] = min(modified, seen.get(tombstone.p, modified))
    due = sorted(
        key
        for key, t in snapshot.log_tombstones.items()
        if key in snapshot.listing and dated.since(t, seen[key], now_ms) + grace < now_ms
    )
    if due:
        size = sum(snapshot.listing[key].size for key in due)
        findings.add(
            "note",
            "log-clean-up-due",
            due[0],
            f"and in all {counted(len(due), 'folded log file')} ({counted(size, 'byte')}) past the "
            "grace",
            "run `firnline cleanup`",
        )


def check_behind(findings: Findings, snapshot: Snapshot) -> None:
    """Report log files that count for nobody (``log.fence``), each with what became of it."""
    for key, item in snapshot.behind.items():
        why = (
            "is of a transaction whose log file was folded and deleted: a process that slept has "
            "created it once more"
            if item.name.seq
            else "is of an append that landed after its append.ttl, because its process slept"
        )
        findings.add(
            "note", "log-behind-fence", key, f"{why}; it counts for nobody",
            "nothing: clean-up deletes it after the grace, and the orphan sweep its parts",
        )  # fmt: skip


def check_lost(findings: Findings, paths: TablePaths, lost: str) -> None:
    """Report a log that is lost, or a part of it: nobody reads, appends or commits then.

    Args:
        findings: takes what is found.
        paths: of the table.
        lost: what says so (``state.health``); empty where nothing does.
    """
    if lost:
        findings.add(
            "error", "log-lost", paths.log_dir, f"is lost, or a part of it: {lost}",
            "run `firnline rebuild`; " + SEE_REBUILD,
        )  # fmt: skip
