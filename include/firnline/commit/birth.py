"""The first append of a table: recheck for rivals, and write the birth record.

Appends that begin a table at the same time do not know of each other, nor of the table's
properties. The birth record (``_txn/`` number 0) decides which properties it has (docs/format.md).
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
"""Maximum age in ms of an append that does not know the table's ``append.ttl``: less than the age
of anything that a sweep may delete, whatever the settings (``plan.sweep.FLOOR_MS``)."""
FRESH_MS = 30_000
"""Longest time in ms from listing ``_txn/`` to the put: shorter than any ``append.ttl``."""


def said(table: Table, seq: int, *, born: bool) -> Properties | None:
    """Return the table's properties as of a transaction, according to its history.

    Requests: 1 ranged GET; none for a table without history. Raises LogCorruptError.
    """
    return of_history(table, seq) if seq or born else None


def begins(table: Table, seq: int, *, born: bool) -> bool:
    """Return True if an append of this table must write the birth record.

    Not on a store that ignores the condition of a create-only put: it would keep several of them.
    """
    return not seq and not born and table.settings.locking == "fenced"


def look_again(table: Table) -> Properties | None:
    """Return the properties that the table was given since the append began; None without any.

    Requests: 1 LIST, and 1 ranged GET if there is a transaction or birth record.

    Raises PropertiesDifferError for another key or layout: the parts were written by this one's.
    """
    found = [table.paths.parse_txn(meta.key) for meta in table.store.list(table.paths.txn_dir)]
    properties = said(table, max(found, default=0), born=bool(found))
    if properties is None:
        return None
    own = from_settings(table.settings)
    for name in (*IDENTITY, "partition_by", "partition"):
        if getattr(own, name) != getattr(properties, name):
            raise PropertiesDifferError(
                f"another writer created table {table.settings.name} meanwhile, with another "
                f"{name} than in the settings of this append",
                next_step="correct the settings and append again; nothing was published",
            )
    return properties


def record(settings: TableSettings, t: int) -> PropertiesRecord:
    """Return the properties record for the log file of such an append."""
    return PropertiesRecord(0, t, from_settings(settings))


def write(table: Table, log_key: str, t: int) -> bool:
    """Write the birth record once the append is visible; the first writer's record stays.

    Requests: 1 PUT. A failure does not fail the append: the next one writes the record.

    Returns True if the record is this append's own.
    """
    content = birth_file.Birth(log=log_key, t=t, properties=from_settings(table.settings))
    try:
        return create(table.store, table.paths.birth, birth_file.encode(content)) is None
    except FirnlineError as error:
        _LOG.warning("table %s has no birth record yet: %s", table.settings.name, error)
        return False
