"""Write checkpoints, and delete superfluous ones; ``state.checkpoint`` finds them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from firnline.errors import CheckpointError, CheckpointVersionError, FirnlineError
from firnline.log import checkpoint as checkpoint_file
from firnline.log.checkpoint import CheckpointHead, Covered, Tombstone
from firnline.log.reader import LogObject
from firnline.log.records import Marker
from firnline.log.schema_lines import standing
from firnline.log.union import union_parts
from firnline.state.checkpoint import is_usable, listed
from firnline.state.snapshot import Snapshot
from firnline.store.base import ObjectMeta
from firnline.table import Table

KEPT = 2
"""Number of newest usable checkpoints to keep: a reader whose listing is older than the newest one
needs the one before it."""


@dataclass(frozen=True, slots=True)
class Written:
    """The result of writing a checkpoint."""

    key: str | None = None
    deleted: int = 0
    """Number of older checkpoints deleted."""
    warning: str = ""
    """Reason for a failure, or for an older one that was not deleted; empty without either."""


def write_when_due(table: Table, snapshot: Snapshot) -> Written:
    """Write a checkpoint of a state if enough has changed since the last one.

    Requests: none for a table of at most ``checkpoint.min_parts`` parts, dead ones included; else
    1 LIST, and 1 PUT if log files with more markers than that are younger than the newest one, or
    that is of no use since a clean-up ended before it wrote its own.

    Never raises FirnlineError: a table works without a checkpoint.
    """
    least = table.settings.checkpoint.min_parts
    if least is None or len(snapshot.parts) <= least or not _is_right(snapshot):
        return Written()
    try:
        newest = next(iter(listed(table.store, table.paths)), None)
        since = newest.modified_ms if newest is not None else -1
        younger = (k for k in snapshot.contents if snapshot.listing[k].modified_ms > since)
        few = sum(len(snapshot.contents[key].markers) for key in younger) <= least
        if few and since >= _purged_since(snapshot):
            return Written()
        return Written(write(table, snapshot))
    except FirnlineError as error:
        return Written(warning=f"no checkpoint was written: {error}")


def _purged_since(snapshot: Snapshot) -> int:
    """Return since when the log is known to have its purge horizon, unix ms by the store's clock.

    Nobody uses a checkpoint from before (``fence.covers_what_came_back``).
    """
    marks = ((key, content.x) for key, content in snapshot.contents.items())
    known = [key for key, x in marks if x is not None and x.purged == snapshot.purged]
    return min((snapshot.listing[k].modified_ms for k in known), default=-1)


def renew(table: Table, snapshot: Snapshot) -> Written:
    """Write a checkpoint, and delete superfluous ones; for clean-up.

    It is always written: log files that the newest one covers may be gone now. The newest two
    usable ones are kept, and those that a later version of firnline wrote since the older of them.

    Requests: none for a table of at most ``checkpoint.min_parts`` parts; else 1 LIST, 1 PUT, a GET
    for each checkpoint down to the second usable one, and 1 batch delete if any is to be deleted.

    Never raises FirnlineError.
    """
    least = table.settings.checkpoint.min_parts
    if least is None or len(snapshot.parts) <= least or not _is_right(snapshot):
        return Written()
    key = None
    try:
        old = listed(table.store, table.paths)
        key = write(table, snapshot)
        gone = list(_superfluous(table, old, snapshot.listing))
        failed = [a for a in table.store.delete_many(gone) if a.error is not None] if gone else []
    except FirnlineError as error:
        what = "older checkpoints stay" if key else "no checkpoint was written"
        return Written(key, warning=f"{what}: {error}")
    warning = f"checkpoint {failed[0].key} stays: {failed[0].error}" if failed else ""
    return Written(key, len(gone) - len(failed), warning)


def _is_right(snapshot: Snapshot) -> bool:
    """Return False for a state that somebody has to repair first."""
    return snapshot.conflict is None and not snapshot.doubled


def _superfluous(
    table: Table, old: Sequence[ObjectMeta], listing: Mapping[str, LogObject]
) -> Iterator[str]:
    """Yield those of ``old`` (newest first) that may be deleted, now that there is a newer one."""
    kept = 1
    for meta in old:
        if kept >= KEPT:
            yield meta.key
            continue
        try:
            checkpoint = checkpoint_file.decode(meta.key, table.store.get(meta.key), table.paths)
        except CheckpointVersionError:
            continue
        except CheckpointError:
            yield meta.key
            continue
        if is_usable(checkpoint, listing):
            kept += 1
        else:
            yield meta.key


def write(table: Table, snapshot: Snapshot) -> str:
    """Write a checkpoint of a state whose log files were all read; return its key.

    Requests: 1 PUT. Raises CheckpointError, StoreError.
    """
    name = table.ids.uuid7(table.clock.now_ms())
    key = table.paths.checkpoint(snapshot.seq, name)
    table.store.put_new(key, encode(snapshot))
    return key


def encode(snapshot: Snapshot) -> bytes:
    """Return a checkpoint of a state whose log files were all read. Raises CheckpointError."""
    parts = parts_of(snapshot)
    return checkpoint_file.encode(head_of(snapshot, len(parts)), parts.values(), snapshot.paths)


def parts_of(snapshot: Snapshot) -> Mapping[str, Marker]:
    """Return the parts of a checkpoint: those of the log files that it covers.

    What only log files list that a transaction has folded is deleted and forgotten: most of a log
    after a clean-up.
    """
    keys = standing(snapshot.log)
    if len(keys) == len(snapshot.contents):
        return snapshot.parts
    return union_parts(snapshot.contents[key] for key in keys)


def head_of(snapshot: Snapshot, parts: int) -> CheckpointHead:
    """Return the content of a checkpoint besides the parts, of which there are so many.

    It covers the log files that no transaction has folded: folded ones are deleted first, and a
    checkpoint that covered them would become unusable then.
    """
    log = snapshot.log
    keys = standing(log)
    lines: dict[tuple[tuple[str, str], ...], int] = {}
    covered = [
        Covered(key, lines.setdefault(tuple(snapshot.line(key).items()), len(lines)))
        for key in keys
    ]
    ours = snapshot.log_tombstones.keys() - _folded_by_others(snapshot)
    return CheckpointHead(
        seq=snapshot.seq,
        parts=parts,
        covered=covered,
        schemas=[dict(line) for line in lines],
        stones=[Tombstone(k, t, k in ours) for k, t in sorted(snapshot.log_tombstones.items())],
        deletes=list(snapshot.records.values()),
        properties=list(snapshot.properties),
        other=sorted(line.decode() for line in snapshot.other),
        mark=log.mark,
    )


def _folded_by_others(snapshot: Snapshot) -> set[str]:
    """Return the log files that only clients of version 1 have folded: not trusted."""
    ours: set[str] = set()
    theirs: set[str] = set()
    for key, content in snapshot.contents.items():
        (ours if snapshot.listing[key].name.seq else theirs).update(s.p for s in content.tombstones)
    return theirs - ours
