"""Lists of imported files that a later one continues (docs/format.md, "Import")."""

from __future__ import annotations

from firnline.commit.base import Base
from firnline.log.imports import last_listed, records_of
from firnline.operations.cleanup.claims import listed_as
from firnline.properties.in_force import waits
from firnline.store.base import ObjectMeta


def continued_lists(base: Base, now_ms: int) -> list[ObjectMeta]:
    """Return the lists that may be deleted: all but the newest, once nobody can name them.

    An import that is under way names its list in its log file, within ``append.ttl``.

    Requests: none if no import has a list; else 1 LIST per 1,000 lists.

    Args:
        base: with the whole log.
        now_ms: wall clock.
    """
    table, snapshot = base.table, base.snapshot
    last = last_listed(records_of(snapshot.other))
    if last is None:
        return []
    cutoff = now_ms - waits(snapshot.properties, table.settings, now_ms).late_append
    newest = {table.paths.imported(last.id), table.paths.imported_visible(last.id)}
    return [
        meta
        for meta in listed_as(table, table.paths.imports_dir, "list of imported files")
        if meta.key not in newest and meta.modified_ms < cutoff
    ]
