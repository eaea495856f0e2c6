"""Put parts that a client of log version 1 has named with empty segments where firnline reads them.

``T/_data//x.parquet`` is the part ``T/_data/x.parquet`` (docs/v1-clients.md, "Where they put a
part"). Folders have it there; S3 keeps both slashes.
"""

from __future__ import annotations

from collections.abc import Mapping, Set

from firnline.store.present import head_or_none
from firnline.store.slashes import open_slashes
from firnline.table import Table


def move_parts(table: Table, spelled: Mapping[str, str], dead: Set[str], *, dry_run: bool) -> int:
    """Move the objects that are not under the keys of their parts; return how many are, or will be.

    Requests: a HEAD for each part that is spelled with an empty segment; a copy (PUT) and a DELETE
    for each whose object is elsewhere.

    Args:
        table: the table.
        spelled: key of a part -> the key that its marker spells.
        dead: the dead ones among them, which may be deleted.
        dry_run: move nothing, and count the live ones.

    Raises StoreError. Run it again, it goes on where it was.
    """
    mover = open_slashes(table.settings.root, table.access, table.store) if spelled else None
    if mover is None:
        return 0
    wanted = spelled.keys() - dead if dry_run else spelled.keys()
    away = [key for key in sorted(wanted) if head_or_none(table.store, key) is None]
    return len(away) if dry_run else sum(mover.move(spelled[key], key) for key in away)
