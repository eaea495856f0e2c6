"""Files of deletion vectors that no version within the grace names, and their deletion.

A file of vectors is put before the version that names it first, by a process that has read the
version before that one. So the files of a version and of all later ones are those that its index
names, and younger ones.
"""

from __future__ import annotations

from firnline.mirror.delta.head import Listing, Version, position_of
from firnline.mirror.delta.vectors import index_of
from firnline.paths import TablePaths
from firnline.store.base import Store

MARGIN_MS = 600_000
"""Clocks of a store's machines differ by less."""


def newest_of(listing: Listing, limit_ms: int) -> Version | None:
    """Return the newest version that is as old as a time (unix ms); None if there is none."""
    return next((v for v in reversed(listing.versions) if v.modified_ms <= limit_ms), None)


def expire_vectors(store: Store, paths: TablePaths, oldest: Version | None) -> tuple[int, int]:
    """Delete what no version from ``oldest`` on names; return how many went and did not.

    Requests: 1 LIST per 1,000 objects; where there are any, 1 ranged GET, 1 GET and the deletes.

    Args:
        store: of the table.
        paths: of the table.
        oldest: the newest version that is as old as the grace: readers use none of the earlier
            ones. None: there is no such version, and nothing goes.
    """
    if oldest is None:
        return 0, 0
    limit = oldest.modified_ms - MARGIN_MS
    old = [meta.key for meta in store.list(paths.vectors_dir) if meta.modified_ms < limit]
    if not old:
        return 0, 0
    position = position_of(store, oldest.key)
    index = index_of(store, paths, position)
    if index is None:
        return 0, 0  # only it says which files the version names
    named = {paths.vectors(vector.file) for vector in index.values()}
    named.add(paths.vectors_index(position.vectors))
    gone = [key for key in old if paths.parse_vectors(key) and key not in named]
    answers = list(store.delete_many(gone))
    done = sum(answer.error is None for answer in answers)
    return done, len(gone) - done
