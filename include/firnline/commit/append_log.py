"""Publish rows without a transaction: the one put of an append or an import.

Appends that begin a table at the same time do not know of each other, nor of the table's
properties. The birth record (``_txn/`` number 0) decides which properties it has (docs/format.md).
"""

from __future__ import annotations

import logging
from typing import Literal

import msgspec

from firnline.commit.base import of_history
from firnline.errors import (
    AppendExpiredError,
    CommitUnknownError,
    FirnlineError,
    PropertiesDifferError,
    StoreError,
    TransactionError,
)
from firnline.log import codec
from firnline.log.records import LogContent
from firnline.properties import record as birth_file
from firnline.properties.in_force import IDENTITY, from_settings, put_within
from firnline.properties.record import Properties, PropertiesRecord
from firnline.settings.ages import LONGEST_UNTOLD_MS
from firnline.settings.load import TableSettings
from firnline.store.create import Attempt, create
from firnline.table import Table

_LOG = logging.getLogger(__name__)

FRESH_MS = 30_000
"""Longest time in ms from listing ``_txn/`` to the put: shorter than any ``append.ttl``."""


class LogFileTakenError(TransactionError):
    """Another writer has the name of a log file; nothing was published."""


def publish_append(
    table: Table,
    key: str,
    content: LogContent,
    began_ms: int,
    attempt: Attempt,
    what: Literal["append", "import"] = "append",
    *,
    begins: bool,
    stated: bool,
) -> bool:
    """Make parts visible, all at once; return True if the table's birth record was written.

    Requests: 1 PUT; for an append that begins a table 1 LIST and 1 PUT more.

    Args:
        table: the table.
        key: key of the log file.
        content: content of the log file.
        began_ms: ``Clock.elapsed_ms`` from before the append read its sequence.
        attempt: records whether the log file may exist.
        what: the operation, for errors.
        begins: nothing existed under ``_txn/`` when it began: it states the table's properties, and
            checks right before the put for rivals, which may have given the table others.
        stated: the table states properties, and ``append.ttl`` with them.

    Raises:
        PropertiesDifferError: see ``look_again``; nothing is visible.
        AppendExpiredError: more than ``append.ttl`` has passed since; nothing is visible.
        CommitUnknownError: it is not known whether it is visible, or it landed after ``append.ttl``
            and may become invisible (``log.fence``).
        LogFileTakenError: another writer has the name; nothing is visible.
        StoreError: the store refused it explicitly; nothing is visible.
    """
    if begins:
        own = record(table.settings, content.t)
        content = msgspec.structs.replace(content, properties=[own])
    data = codec.encode(content)
    ttl, latest = _latest_ms(table, began_ms, begins=begins, stated=stated)
    age = table.clock.elapsed_ms() - began_ms
    if age > ttl:
        # The delete records that hide some of these rows may be gone by now.
        raise AppendExpiredError(
            f"the {what} took {age // 1000} s, longer than append.ttl ({ttl // 1000} s)",
            next_step=f"{what} less at once, or raise append.ttl; nothing was published",
        )
    # Once it was visible it may be folded and deleted after the grace, and must not come back.
    latest = min(latest, table.clock.elapsed_ms() + put_within(table.settings))
    try:
        rival = create(
            table.store,
            key,
            data,
            may_put=lambda: table.clock.elapsed_ms() <= latest,
            attempt=attempt,
        )
    except Exception as error:
        if not attempt.may_stand:
            raise
        # Also if the last answer was definite: an earlier put may still take effect.
        why = error.message if isinstance(error, StoreError) else repr(error)
        raise CommitUnknownError(
            f"it is not known whether the {what} was published ({why})",
            next_step=f"{what} again only if {key} does not appear; nothing was deleted",
        ) from error
    if rival is not None:
        raise LogFileTakenError(
            f"log file {key} exists and was not written by this {what}",
            next_step="look for a source of ids that repeats ids; nothing was published",
        )
    _refuse_late(table, key, began_ms + ttl, what)
    return begins and write(table, key, content.t)


def _refuse_late(table: Table, key: str, latest: int, what: str) -> None:
    """Raise CommitUnknownError if a log file may have landed too late to count.

    A process may sleep right before the put. What lands behind the fence counts for nobody, and
    what lands before it counts as any append does (docs/format.md, "The fence").
    """
    late = table.clock.elapsed_ms() - latest
    if late > 0:
        raise CommitUnknownError(
            f"the {what} was published {late // 1000} s after append.ttl was over, and may count "
            "for nobody",
            next_step=f"{what} again only the rows that a reader does not see; {key} stays",
        )


def _latest_ms(table: Table, began_ms: int, *, begins: bool, stated: bool) -> tuple[int, int]:
    """Return ``append.ttl`` in ms, and the latest ``Clock.elapsed_ms`` to put the log file."""
    ttl = table.settings.append.ttl
    if not stated:
        ttl = min(ttl, LONGEST_UNTOLD_MS)  # it may be longer than what the table will say
    if not begins:
        return ttl, began_ms + ttl
    looked = table.clock.elapsed_ms()
    told = look_again(table)
    ttl = min(ttl, LONGEST_UNTOLD_MS, ttl if told is None else told.append_ttl)
    return ttl, min(began_ms + ttl, looked + FRESH_MS)


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
    numbers = [table.paths.parse_txn(meta.key) for meta in table.store.list(table.paths.txn_dir)]
    properties = said(table, max(numbers, default=0), born=bool(numbers))
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
