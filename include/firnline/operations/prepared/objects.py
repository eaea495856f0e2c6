"""The objects of prepared changes: list, read, decide, remove.

Deciding is one create-only put of ``{id}.decision.json``: of a commit and a discard at the same
time one is first, and the other sees it. A commit is decided on before its transaction is put, and
parts are deleted only after a decision to discard, or once nobody can commit them any more
(``prepared.expiry``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import msgspec

from firnline.errors import ObjectNotFoundError, PreparedChangeError, UsageError
from firnline.ids import UUID7
from firnline.log.txn_file import RunIdentity
from firnline.operations.prepared.record import (
    Decision,
    Prepared,
    Verdict,
    decode,
    decode_decision,
    is_elsewhere,
)
from firnline.paths import PreparedKind
from firnline.store.base import ObjectMeta
from firnline.store.create import Attempt, create
from firnline.table import Table


@dataclass(frozen=True, slots=True)
class Entry:
    """The objects of one prepared change that exist."""

    id: str
    statement: ObjectMeta | None = None
    decision: ObjectMeta | None = None
    closed: ObjectMeta | None = None

    @property
    def objects(self) -> list[ObjectMeta]:
        """Return those that exist, the statement last: it is what the others are about."""
        metas = (self.decision, self.closed, self.statement)
        return [meta for meta in metas if meta is not None]

    @property
    def waits(self) -> bool:
        """Return True if nobody has decided yet."""
        return self.statement is not None and self.decision is None and self.closed is None


def entries(table: Table) -> list[Entry]:
    """Return the prepared changes of which an object exists, oldest first. Requests: 1 LIST."""
    by_id: dict[str, Entry] = {}
    for meta in table.store.list(table.paths.prepared_dir):
        parsed = table.paths.parse_prepared(meta.key)
        if parsed is not None:
            change, kind = parsed
            by_id[change] = _with(by_id.get(change, Entry(change)), kind, meta)
    return [by_id[change] for change in sorted(by_id)]


def _with(entry: Entry, kind: PreparedKind, meta: ObjectMeta) -> Entry:
    if kind == "statement":
        return replace(entry, statement=meta)
    if kind == "decision":
        return replace(entry, decision=meta)
    return replace(entry, closed=meta)


def statements(table: Table, found: Iterable[Entry]) -> dict[str, Prepared]:
    """Return the statements by id, without those that were removed since the listing.

    Statements that came with a copied table are left out: they name parts of another place.

    Requests: 1 GET for each. Raises LogCorruptError.
    """
    keys = [entry.statement.key for entry in found if entry.statement is not None]
    if not keys:
        return {}
    read = table.store.get_many(keys)
    decoded = (decode(key, data) for key, data in read if data is not None)
    return {change.id: change for change in decoded if not is_elsewhere(change, table.paths)}


def made_before(table: Table, seq: int) -> tuple[str, ...]:
    """Return the keys of statements that were made from a state before a transaction.

    Also of those that came with a copied table: the rows that they show are of its history.

    Requests: 1 LIST, and 1 GET for each. Raises LogCorruptError.
    """
    keys = [entry.statement.key for entry in entries(table) if entry.statement is not None]
    read = table.store.get_many(keys) if keys else ()
    return tuple(key for key, data in read if data is not None and decode(key, data).seq < seq)


def read(table: Table, change: str) -> Prepared | None:
    """Return a statement; None if there is none (any more).

    Requests: 1 GET. Raises UsageError for text that is no id, PreparedChangeError for a change
    that was prepared in another place, LogCorruptError.
    """
    if UUID7.fullmatch(change) is None:
        raise UsageError(
            f"{change!r} is not the id of a prepared change",
            next_step=f"see `firnline rewrite {table.settings.name} --prepared`",
        )
    key = table.paths.prepared(change)
    try:
        statement = decode(key, table.store.get(key))
    except ObjectNotFoundError:
        return None
    if is_elsewhere(statement, table.paths):
        raise PreparedChangeError(
            f"prepared change {change} names parts of another place: the table was copied or "
            "renamed since",
            next_step="prepare it again; the orphan sweep deletes what is left of this one",
        )
    return statement


def read_decision(table: Table, change: str, kind: PreparedKind = "decision") -> Decision | None:
    """Return the decision, or the closing; None if there is none. Requests: 1 GET."""
    key = table.paths.prepared(change, kind)
    try:
        return decode_decision(key, table.store.get(key))
    except ObjectNotFoundError:
        return None


def state(table: Table, change: Prepared, attempt: Attempt, may_put: Callable[[], bool]) -> None:
    """Create a statement, which names parts that nobody knows of before. Requests: 1 PUT.

    Raises OutcomeUnknownError: it may exist, now or later.
    """
    key = table.paths.prepared(change.id)
    create(table.store, key, msgspec.json.encode(change), may_put=may_put, attempt=attempt)


def decide(
    table: Table,
    change: str,
    verdict: Verdict,
    run: RunIdentity,
    *,
    why: str = "",
    kind: PreparedKind = "decision",
    may_put: Callable[[], bool] = lambda: True,
) -> Decision:
    """Return the decision that stands: this one, or that of whoever was first.

    Requests: 1 PUT; 1 GET if there is one already. Raises OutcomeUnknownError.
    """
    now = table.clock.now_ms()
    decision = Decision(id=table.ids.uuid7(now), t=now, verdict=verdict, run=run, why=why)
    key = table.paths.prepared(change, kind)
    other = create(table.store, key, msgspec.json.encode(decision), may_put=may_put)
    return decision if other is None else decode_decision(key, other)
