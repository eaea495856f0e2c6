"""Publishes rows that no transaction brings: the one put of an append or an import."""

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
    """Make parts visible, all at once; returns True if it has written the table's birth record.

    Requests: 1 PUT; of one that begins a table 1 LIST and 1 PUT more.

    Args:
        table: the table.
        key: of the log file.
        content: of the log file.
        began_ms: ``Clock.elapsed_ms`` from before the append read its sequence.
        attempt: says afterwards whether the log file may stand there.
        what: the word for it in errors.
        begins: there was nothing under ``_txn/`` when it began: it states the table's properties,
            looks for rivals first, which may have given it others, and puts right after that.

    Raises:
        PropertiesDifferError: see ``birth.look_again``; nothing is visible.
        AppendExpiredError: more than ``append.ttl`` since then; nothing is visible.
        CommitUnknownError: nobody can say whether it is visible.
        StoreError: the store refused it in clear words; nothing is visible.
    """
    if begins:
        own = birth.record(table.settings, content.t)
        content = msgspec.structs.replace(content, properties=[own])
    data = codec.encode(content)
    ttl, latest = _latest_ms(table, began_ms, begins=begins)
    age = table.clock.elapsed_ms() - began_ms
    if age > ttl:
        # A delete record may be gone by now that has to hide some of these rows.
        raise AppendExpiredError(
            f"the {what} took {age // 1000} s, longer than append.ttl ({ttl // 1000} s)",
            next_step=f"{what} less at once, or raise append.ttl; nothing was published",
        )
    # Once it was there it may have been folded and deleted after the grace, and must not come back.
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
        # Also when the last answer was a clear one: an earlier put may still take effect.
        said = error.message if isinstance(error, StoreError) else repr(error)
        raise CommitUnknownError(
            f"nobody can say whether the {what} was published ({said})",
            next_step=f"{what} again only if {key} does not appear; nothing was deleted",
        ) from error
    if found is not None:
        raise TransactionError(
            f"log file {key} exists and is somebody else's",
            next_step="look for a source of ids that repeats itself; nothing was published",
        )
    return begins and birth.write(table, key, content.t)


def _latest_ms(table: Table, began_ms: int, *, begins: bool) -> tuple[int, int]:
    """``append.ttl`` in ms, and until when the log file may be put by ``Clock.elapsed_ms``."""
    ttl = table.settings.append.ttl
    if not begins:
        return ttl, began_ms + ttl
    looked = table.clock.elapsed_ms()
    found = birth.look_again(table)
    ttl = min(ttl, birth.LONGEST_MS, ttl if found is None else found.append_ttl)
    return ttl, min(began_ms + ttl, looked + birth.FRESH_MS)
