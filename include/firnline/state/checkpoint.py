"""Find a checkpoint that a reader can use; ``commit.checkpoint`` writes them.

A checkpoint is the union of some log files, and a union may be repeated: as long as every covered
log file still exists, the checkpoint and the other log files together are the union of all of them.
A missing log file may have been removed on purpose (its parts deleted, its deletes finished), so a
checkpoint that covers a missing log file is not used. A checkpoint only saves time: one that cannot
be read is logged and skipped.
"""

from __future__ import annotations

import logging
from collections.abc import Container, Mapping

from firnline.errors import CheckpointError, StoreError
from firnline.log import checkpoint as checkpoint_file
from firnline.log.checkpoint import Checkpoint
from firnline.log.reader import LogObject, LogRead
from firnline.log.records import LogContent
from firnline.log.schema_lines import folded_by_ours
from firnline.paths import TablePaths
from firnline.store.base import ObjectMeta, Store

_LOG = logging.getLogger(__name__)
TRIED = 2
"""Number of checkpoints that a reader fetches before it reads the log alone."""


def listed(store: Store, paths: TablePaths) -> list[ObjectMeta]:
    """Return the checkpoints, newest first; other objects are skipped. Requests: 1 LIST."""
    metas = store.list(paths.checkpoint_dir)
    checkpoints = [meta for meta in metas if paths.checkpoint_seq(meta.key) is not None]
    return sorted(checkpoints, key=lambda meta: meta.key, reverse=True)


def newest_usable(
    store: Store, paths: TablePaths, listing: Container[str], found: list[Checkpoint]
) -> Checkpoint | None:
    """Return the newest checkpoint whose covered log files are all in a listing.

    Requests: 1 LIST, and a GET for each of at most ``TRIED`` checkpoints.

    Args:
        store: store of the table.
        paths: paths of the table.
        listing: keys of the log files.
        found: checkpoints that an earlier attempt has fetched; reused, and extended.
    """
    by_key = {checkpoint.key: checkpoint for checkpoint in found}
    try:
        for meta in listed(store, paths)[:TRIED]:
            checkpoint = by_key.get(meta.key) or fetch(store, paths, meta.key)
            if checkpoint is None:
                continue
            found.append(checkpoint)
            if is_usable(checkpoint, listing):
                return checkpoint
    except StoreError as error:
        _LOG.warning("no checkpoint under %s is used: %s", paths.checkpoint_dir, error)
    return None


def is_usable(checkpoint: Checkpoint, listing: Container[str]) -> bool:
    """Return True if every log file that the checkpoint covers is in the listing."""
    return all(key in listing for key in checkpoint.covered)


def read_beside(
    checkpoint: Checkpoint, listing: Mapping[str, LogObject], contents: Mapping[str, LogContent]
) -> LogRead:
    """Return what a reader has read by a checkpoint, of log files that were all read.

    As ``read_log`` it leaves out what the checkpoint covers, or it or a transaction has folded. One
    that is back since, of a writer that slept, lists parts that are dead by now.
    """
    known = checkpoint.covered | checkpoint.folded
    rest = {key: content for key, content in contents.items() if key not in known}
    folded = folded_by_ours(LogRead(listing, rest))
    rest = {key: content for key, content in rest.items() if key not in folded}
    return LogRead(listing, rest, (), checkpoint)


def fetch(store: Store, paths: TablePaths, key: str) -> Checkpoint | None:
    """Fetch a checkpoint with one GET; return None if it is gone or, with a warning, unreadable."""
    for _, data in store.get_many([key]):
        if data is None:
            return None
        try:
            return checkpoint_file.decode(key, data, paths)
        except CheckpointError as error:
            _LOG.warning("%s (the log is read instead)", error)
    return None
