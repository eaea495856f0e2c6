"""Dead parts, and which of them have no object any more."""

from __future__ import annotations

from collections.abc import Mapping

from firnline.log.records import Marker
from firnline.state.snapshot import Snapshot
from firnline.store.base import Store


def unpurged(snapshot: Snapshot) -> Mapping[str, Marker]:
    """Return the dead parts whose deletion the log does not confirm, by path.

    Some may be deleted all the same: by a clean-up that was bounded or broke off, or by the
    completion of an erase's certificate.
    """
    return {
        p: m for p, m in snapshot.parts.items() if m.tmb is not None and m.tmb > snapshot.purged
    }


def without_object(store: Store, snapshot: Snapshot) -> frozenset[str]:
    """Return those of ``unpurged`` that have no object: only the store tells.

    Requests: 1 LIST for each 1,000 objects of ``_data/``.
    """
    gone = set(unpurged(snapshot))
    for meta in store.list(snapshot.paths.data_dir):
        gone.discard(meta.key)
    return frozenset(gone)
