"""Since when the mirror lacks something that the table has, decided without reading the mirror."""

from __future__ import annotations

from collections.abc import Iterator

from firnline.mirror.changes import unfolded
from firnline.mirror.delta.head import list_versions, position_of
from firnline.mirror.position import Position
from firnline.properties.in_force import put_within
from firnline.state.snapshot import Snapshot
from firnline.table import Table


def behind_since(table: Table, snapshot: Snapshot) -> int | None:
    """Return when the oldest change landed that the mirror does not show, unix ms.

    None if it shows the state; 0 if there is no version yet.

    Requests: 1 LIST (see ``head.list_versions``), and 1 ranged GET unless nothing has landed since
    half a grace before the newest version: a publisher puts its version within this time after it
    has read the table, so that version shows everything.

    Args:
        table: the table, with the settings in force.
        snapshot: its state.

    Raises MirrorDamagedError.
    """
    versions = list_versions(table.store, table.paths).versions
    if not versions:
        return 0
    newest = versions[-1]
    landed = max((item.modified_ms for item in snapshot.listing.values()), default=0)
    if not snapshot.unpublished and landed < newest.modified_ms - put_within(table.settings):
        return None
    return min(_unseen(snapshot, position_of(table.store, newest.key)), default=None)


def _unseen(snapshot: Snapshot, position: Position) -> Iterator[int]:
    """Yield when each transaction, append and merge of version 1 landed that a version lacks."""
    for t, seq in snapshot.times:
        if seq > position.seq:
            yield snapshot.effective(t)
    seen = frozenset(position.seen.split())
    paths = snapshot.paths
    for key in unfolded(snapshot):
        if paths.append_name(key) not in seen:
            yield snapshot.listing[key].modified_ms
    for item in snapshot.listing.values():
        # It hides the appends that it has folded from the loop above.
        if item.name.kind == "foreign-merge" and item.modified_ms >= position.at:
            yield item.modified_ms
