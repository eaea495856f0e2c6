"""Publish rows without a transaction: the one put of an append or an import."""

from __future__ import annotations

from typing import Literal

import msgspec

from firnline.commit import birth
from firnline.errors import AppendExpiredError, CommitUnknownError, StoreError, TransactionError
from firnline.log import codec
from firnline.log.records import LogContent
from firnline.properties.in_force import put_within
from firnline.store.create import Attempt, create
from firnline.table import Table


def publish_append(
    table: Table,
    key: str,
    content: LogContent,
    began_ms: int,
    attempt: Attempt,
    what: Literal["append", "import"] = "append",
    *,
    begins: bool,
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

    Raises:
        PropertiesDifferError: see ``birth.look_again``; nothing is visible.
        AppendExpiredError: more than ``append.ttl`` has passed since; nothing is visible.
        CommitUnknownError: it is not known whether it is visible.
        StoreError: the store refused it explicitly; nothing is visible.
    """
    if begins:
        own = birth.record(table.settings, content.t)
        content = msgspec.structs.replace(content, properties=[own])
    data = codec.encode(content)
    ttl, latest = _latest_ms(table, began_ms, begins=begins)
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
        found = create(
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
        said = error.message if isinstance(error, StoreError) else repr(error)
        raise CommitUnknownError(
            f"it is not known whether the {what} was published ({said})",
            next_step=f"{what} again only if {key} does not appear; nothing was deleted",
        ) from error
    if found is not None:
        raise TransactionError(
            f"log file {key} exists and was not written by this {what}",
            next_step="look for a source of ids that repeats ids; nothing was published",
        )
    return begins and birth.write(table, key, content.t)


def _latest_ms(table: Table, began_ms: int, *, begins: bool) -> tuple[int, int]:
    """Return ``append.ttl`` in ms, and the latest ``Clock.elapsed_ms`` to put the log file."""
    ttl = table.settings.append.ttl
    if not begins:
        return ttl, began_ms + ttl
    looked = table.clock.elapsed_ms()
    found = birth.look_again(table)
    ttl = min(ttl, birth.LONGEST_MS, ttl if found is None else found.append_ttl)
    return ttl, min(began_ms + ttl, looked + birth.FRESH_MS)
