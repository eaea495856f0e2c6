"""Find the dead parts that readers of the Delta mirror may still use.

Which version is as old as the grace follows from the listing, and what it shows from the state that
it states; parts that died before version 0 were never shown.
"""

from __future__ import annotations

from firnline.mirror.delta.expiry import newest_of
from firnline.mirror.delta.head import list_versions, position_of
from firnline.mirror.retention import NONE, Readers
from firnline.paths import TablePaths
from firnline.store.base import Store


def readers_of(store: Store, paths: TablePaths, grace: int, now_ms: int) -> Readers | None:
    """Return what readers of the mirror may use; None for a table without a mirror.

    Requests: a LIST per 1,000 versions, and 1 or 2 ranged GET.

    Raises MirrorDamagedError.
    """
    listing = list_versions(store, paths, whole=True)
    versions = listing.versions
    if not versions:
        return None
    newest = position_of(store, versions[-1].key)
    old = newest_of(listing, now_ms - grace)
    if old is None and versions[0].number == 0:
        old = versions[0]
    if old is None:
        return Readers(NONE, newest.seq, newest.at)
    shown = newest if old is versions[-1] else position_of(store, old.key)
    return Readers(shown.t, newest.seq, newest.at)
