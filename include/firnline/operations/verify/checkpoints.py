"""Verify, of checkpoints: whether they read, and agree with the log."""

from __future__ import annotations

from firnline.errors import CheckpointError, CheckpointVersionError, LogCorruptError
from firnline.log import fence
from firnline.log.reader import LogRead
from firnline.operations.verify.findings import Findings
from firnline.state.snapshot import Snapshot, build
from firnline.state.survey import LogSurvey
from firnline.store.base import ObjectMeta
from firnline.table import Table
from firnline.units import counted


def check_checkpoints(
    table: Table, findings: Findings, log: LogSurvey, replay: Snapshot | None
) -> None:
    """Compare every checkpoint that a reader could use with the replay of the log.

    Requests: 1 LIST, and a GET per checkpoint.

    Args:
        table: the table.
        findings: takes what is found.
        log: ``_log/`` as it is.
        replay: the state by every log file; None when they do not read as a whole.
    """
    metas = list(table.store.list(table.paths.checkpoint_dir))
    ours = [meta for meta in metas if table.paths.checkpoint_seq(meta.key) is not None]
    strange = [meta.key for meta in metas if meta not in ours]
    if strange:
        findings.add(
            "note", "checkpoints", strange[0],
            f"and in all {counted(len(strange), 'object')} under _ckpt/ without its kind of name",
            "delete them if no other client wrote them",
        )  # fmt: skip
    unusable = [meta for meta in ours if not _check(table, findings, meta, log, replay)]
    if unusable:
        findings.add(
            "note", "checkpoint-unused", unusable[0].key,
            f"and in all {counted(len(unusable), 'checkpoint')} of log files that are gone, "
            "without any reader", "nothing: clean-up deletes them when it writes a newer one",
        )  # fmt: skip


def _check(
    table: Table, findings: Findings, meta: ObjectMeta, log: LogSurvey, replay: Snapshot | None
) -> bool:
    """False for a checkpoint that no reader uses, since log files that it covers are gone."""
    from firnline.log import checkpoint as checkpoint_file
    from firnline.state.checkpoint import read_beside

    for _, data in table.store.get_many([meta.key]):
        if data is None:
            return True  # deleted since the listing
        try:
            checkpoint = checkpoint_file.decode(meta.key, data, table.paths)
        except CheckpointVersionError as error:
            findings.add("note", "checkpoint-newer", meta.key, error.message, error.next_step)
            return True
        except CheckpointError as error:
            findings.add(
                "warning", "checkpoint-unreadable", meta.key, error.message, error.next_step
            )
            return True
        if not all(key in log.listing for key in checkpoint.covered):
            return False
        if replay is None:
            return True
        read = read_beside(checkpoint, log.listing, log.contents)
        if fence.covers_what_came_back(read):
            return False
        different = _against(replay, read)
        if different:
            findings.add(
                "error", "checkpoint-differs", meta.key,
                f"does not say what the log says: {different}",
                "delete it, and report this with a copy of it and of the log",
            )  # fmt: skip
    return True


def _against(replay: Snapshot, log: LogRead) -> str:
    try:
        return difference(build(replay.paths, log, tolerant=True), replay)
    except LogCorruptError as error:
        return error.message


def difference(one: Snapshot, other: Snapshot) -> str:
    """Return the difference between two readings of one log, for a reader; empty if there is none.

    Dead parts that are confirmed deleted, and deletes that are over, may be forgotten by one.
    """
    for what in ("seq", "purged", "schema"):
        if getattr(one, what) != getattr(other, what):
            return f"the {what} is another"
    ours, theirs = _parts(one), _parts(other)
    if ours != theirs:
        some = sorted(set(ours.items()) ^ set(theirs.items()), key=lambda item: item[0])
        return f"{len(some)} states of parts are others, that of {some[0][0]} among them"
    return ""


def _parts(snapshot: Snapshot) -> dict[str, tuple[object, ...]]:
    return {
        path: (
            *(m.b, m.t, m.tmb, m.n, m.order(), bytes(m.s), bytes(m.h)),
            frozenset(
                d.id
                for d in snapshot.pending_deletes(m, snapshot.paths.partition_of(path))
                if m.tmb is None or d.t < m.tmb  # later, it hides nothing in any state
            ),
            frozenset(change.id for change in snapshot.pending_changes(m)),
        )
        for path, m in snapshot.parts.items()
        if m.tmb is None or m.tmb > snapshot.purged
    }
