"""What an append does beside others when it begins a table: rechecks, and the birth record.

Appends that begin a table at once know nothing of each other, and nothing of the table's
properties. The birth record (``_txn/`` number 0) decides which it has (docs/format.md).
"""

from __future__ import annotations

import logging

from firnline.commit.base import of_history
from firnline.errors import FirnlineError, PropertiesDifferError
from firnline.properties import birth as birth_file
from firnline.properties.in_force import IDENTITY, from_settings
from firnline.properties.record import Properties, PropertiesRecord
from firnline.settings.load import TableSettings
from firnline.store.create import create
from firnline.table import Table

_LOG = logging.getLogger(__name__)

LONGEST_MS = 23 * 3_600_000
"""How old an append may be that knows nothing of the table's ``append.ttl``: younger than anything
that a sweep by whatever settings deletes (``plan.sweep.FLOOR_MS``)."""
FRESH_MS = 30_000
"""Between the look at ``_txn/`` and the put: shorter than any ``append.ttl``."""


def said(table: Table, seq: int, *, born: bool) -> Properties | None:
    """Return what the history says of the table's properties at a transaction.

    Requests: 1 ranged GET, none for a table without history. Raises LogCorruptError.
    """
    return of_history(table, seq) if seq or born else None


def begins(table: Table, seq: int, *, born: bool) -> bool:
    """Return True if an append of this table has to write the birth record.

    A store that ignores the condition of a create-only put would keep several of them.
    """
    return not seq and not born and table.settings.locking == "fenced"


def look_again(table: Table) -> Properties | None:
    """Return the properties that somebody has given the table since the append began.

    Requests: 1 LIST, and where there is something 1 ranged GET.

    Raises PropertiesDifferError for another key or layout: the parts were written by ours.
    """
    found = [table.paths.parse_txn(meta.key) for meta in table.store.list(table.paths.txn_dir)]
    properties = said(table, max(found, default=0), born=bool(found))
    if properties is None:
        return None
    own = from_settings(table.settings)
    for name in (*IDENTITY, "partition_by", "partition"):
        if getattr(own, name) != getattr(properties, name):
            raise PropertiesDifferError(
                f"somebody began table {table.settings.name} meanwhile, with another {name} than "
                "the settings of this append say",
                next_step="correct the settings and append again; nothing was published",
            )
    return properties


def record(settings: TableSettings, t: int) -> PropertiesRecord:
    """Return what the log file of such an append says of the table."""
    return PropertiesRecord(0, t, from_settings(settings))


def write(table: Table, log_key: str, t: int) -> bool:
    """Write the birth record once the append is visible; whoever was first stays.

    Requests: 1 PUT. A failure is none of the append: the next one writes it.

    Returns True if the record is this append's own.
    """
    content = birth_file.Birth(log=log_key, t=t, properties=from_settings(table.settings))
    try:
        return create(table.store, table.paths.birth, birth_file.encode(content)) is None
    except FirnlineError as error:
        _LOG.warning("table %s has no birth record yet: %s", table.settings.name, error)
        return False
