"""Read the birth record of a table (``properties.record``, docs/format.md, "Properties").

After a downgrade only it and the newest transaction are left of the history. Once clients of
version 1 have folded the log it states which numbers are used up. What is committed under one of
them, by a process that slept through all this, has not happened.
"""

from __future__ import annotations

from firnline.errors import ObjectNotFoundError
from firnline.paths import TablePaths
from firnline.properties import record
from firnline.properties.record import Birth
from firnline.store.base import Store


def read_birth(store: Store, paths: TablePaths) -> Birth | None:
    """Return the birth record; None if there is none. Requests: 1 GET. Raises LogCorruptError."""
    try:
        data = store.get(paths.birth)
    except ObjectNotFoundError:
        return None
    return record.decode(paths.birth, data)


def last_number(store: Store, paths: TablePaths) -> int:
    """Return the last number that a downgrade found in use; 0 for none. Requests: 1 GET.

    Raises LogCorruptError.
    """
    birth = read_birth(store, paths)
    return 0 if birth is None else birth.last
