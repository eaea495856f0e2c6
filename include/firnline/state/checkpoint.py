"""Checkpoints: finding one that a reader can use, writing them, and which of them stay.

A checkpoint is the union of some log files, and a union may be repeated: as long as every log file
that it covers still exists, checkpoint and the other log files together are the union of all of
them. A covered log file that is gone may have been forgotten with reason (its parts deleted, its
deletes over), so a checkpoint that covers one is not used. Nothing ever depends on a checkpoint but
time: what does not read is told of and left out.
"""

from __future__ import annotations

import logging
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from firnline.errors import CheckpointError, CheckpointVersionError, FirnlineError, StoreError
from firnline.log import checkpoint as checkpoint_file
from firnline.log import checkpoint_encode
from firnline.log.checkpoint import Checkpoint, CheckpointHead, Covered, Stone
from firnline.log.reader import LogObject, LogRead
from firnline.paths import TablePaths
from firnline.state.snapshot import Snapshot, standing
from firnline.store.base import ObjectMeta, Store

if TYPE_CHECKING:
    from firnline.table import Table  # a reader need not wait for the settings' model

_LOG = logging.getLogger(__name__)
TRIED = 2
"""Checkpoints that a reader fetches before it reads the log alone."""
KEPT = 2
"""Newest usable checkpoints that stay: a reader whose listing is older than the newest needs the
one before it."""


def listed(store: Store, paths: TablePaths) -> list[ObjectMeta]:
    """One LIST: the checkpoints, newest first; what else lies there is left out."""
    found = [m for m in store.list(paths.checkpoint_dir) if paths.checkpoint_seq(m.key) is not None]
    return sorted(found, key=lambda meta: meta.key, reverse=True)


def newest_usable(
    store: Store, paths: TablePaths, listing: Container[str], found: list[Checkpoint]
) -> Checkpoint | None:
    """The newest checkpoint whose covered log files are all in a listing.

    Requests: 1 LIST, and a GET for each of at most ``TRIED`` checkpoints.

    Args:
        store: of the table.
        paths: of the table.
        listing: keys of the log files.
        found: checkpoints that an earlier attempt has fetched; taken, and added to.
    """
    known = {checkpoint.key: checkpoint for checkpoint in found}
    try:
        for meta in listed(store, paths)[:TRIED]:
            checkpoint = known.get(meta.key) or fetch(store, paths, meta.key)
            if checkpoint is None:
                continue
            found.append(checkpoint)
            if is_usable(checkpoint, listing):
                return checkpoint
    except StoreError as error:
        _LOG.warning("no checkpoint under %s is used: %s", paths.checkpoint_dir, error)
    return None


def is_usable(checkpoint: Checkpoint, listing: Container[str]) -> bool:
    """Whether every log file that it covers is in the listing."""
    return all(key in listing for key in checkpoint.covered)


def fetch(store: Store, paths: TablePaths, key: str) -> Checkpoint | None:
    """One GET; None, with a warning, for a checkpoint that does not read or is gone."""
    for _, data in store.get_many([key]):
        if data is None:
            return None
        try:
            return checkpoint_file.decode(key, data, paths)
        except CheckpointError as error:
            _LOG.warning("%s (the log is read instead)", error)
    return None


@dataclass(frozen=True, slots=True)
class Written:
    """What became of writing a checkpoint."""

    key: str | None = None
    deleted: int = 0
    """Older ones that were deleted."""
    warning: str = ""
    """Why it failed, or an older one stayed; empty when nothing went wrong."""


def write_when_due(table: Table, snapshot: Snapshot) -> Written:
    """Write a checkpoint of a state when enough has changed since the last.

    Requests: none for a table of at most ``checkpoint.min_parts`` parts, dead ones included; else
    1 LIST, and 1 PUT when log files with more than that many markers are younger than the newest.

    Never raises FirnlineError: a table is none the worse for the lack of one.
    """
    least = table.settings.checkpoint.min_parts
    if least is None or len(snapshot.parts) <= least or snapshot.conflict is not None:
        return Written()
    try:
        newest = next(iter(listed(table.store, table.paths)), None)
        since = newest.modified_ms if newest is not None else -1
        younger = (k for k in snapshot.contents if snapshot.listing[k].modified_ms > since)
        if sum(len(snapshot.contents[key].markers) for key in younger) <= least:
            return Written()
        return Written(write(table, snapshot))
    except FirnlineError as error:
        return Written(warning=f"no checkpoint was written: {error}")


def renew(table: Table, snapshot: Snapshot) -> Written:
    """Write a checkpoint, and delete those that nobody needs any more; of a clean-up.

    Whatever has changed: log files that the newest one covers may be gone now. The newest usable
    two stay, and what a later version of firnline wrote since the older of them.

    Requests: none for a table of at most ``checkpoint.min_parts`` parts; else 1 LIST, 1 PUT, a GET
    for each checkpoint down to the second usable one, and 1 batch delete when any is to go.

    Never raises FirnlineError.
    """
    least = table.settings.checkpoint.min_parts
    if least is None or len(snapshot.parts) <= least or snapshot.conflict is not None:
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
    told = f"checkpoint {failed[0].key} stays: {failed[0].error}" if failed else ""
    return Written(key, len(gone) - len(failed), told)


def _superfluous(
    table: Table, old: Sequence[ObjectMeta], listing: Mapping[str, LogObject]
) -> Iterator[str]:
    """Those of ``old`` (newest first) that may go, now that there is a newer one."""
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
    """Write a checkpoint of a state whose log files were all read; returns its key.

    Requests: 1 PUT. Raises CheckpointError, StoreError.
    """
    name = table.ids.uuid7(table.clock.now_ms())
    key = table.paths.checkpoint(snapshot.seq, name)
    data = checkpoint_encode.encode(head_of(snapshot), snapshot.parts.values(), table.paths)
    table.store.put_new(key, data)
    return key


def head_of(snapshot: Snapshot) -> CheckpointHead:
    """What a checkpoint says besides the parts.

    It covers those log files that no transaction of ours has folded: folded ones are deleted
    first, and a checkpoint that covered them would be of no use from then on.
    """
    log = LogRead(snapshot.listing, snapshot.contents)
    keys = standing(log)
    lines: dict[tuple[tuple[str, str], ...], int] = {}
    covered = [
        Covered(key, lines.setdefault(tuple(snapshot.line(key).items()), len(lines)))
        for key in keys
    ]
    ours = snapshot.log_tombstones.keys() - _folded_by_others(snapshot)
    return CheckpointHead(
        seq=snapshot.seq,
        parts=len(snapshot.parts),
        covered=covered,
        schemas=[dict(line) for line in lines],
        stones=[Stone(k, t, k in ours) for k, t in sorted(snapshot.log_tombstones.items())],
        deletes=list(snapshot.records.values()),
        properties=list(snapshot.properties),
        other=sorted(line.decode() for line in snapshot.other),
        mark=log.mark,
    )


def _folded_by_others(snapshot: Snapshot) -> set[str]:
    """Log files that only clients of version 1 have folded: their folds are not trusted."""
    ours: set[str] = set()
    theirs: set[str] = set()
    for key, content in snapshot.contents.items():
        (ours if snapshot.listing[key].name.seq else theirs).update(s.p for s in content.tombstones)
    return theirs - ours
