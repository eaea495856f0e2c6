"""Records of completed runs of Airflow: objects under ``_runs/``, one for each completion.

A transaction's header names the run that committed it, but not whether the run had more to commit;
a run that completed without a transaction leaves none; and transactions are kept for days, runs of
Airflow for years. So a run whose work must not be done twice leaves a record once it is complete:
created once, never changed, never deleted. (docs/format.md, "Runs that completed")
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from firnline.errors import LogCorruptError
from firnline.log.codec import UNREADABLE
from firnline.log.txn_file import RunIdentity
from firnline.next_steps import UPGRADE_TO_TOUCH
from firnline.store.create import create
from firnline.table import Table

VERSION = 1


class RunRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One completion of a run."""

    version: int = VERSION
    id: str
    """UUIDv7 of this record."""
    t: int
    """Unix milliseconds."""
    run: RunIdentity
    again: str = ""
    """The ``again`` parameter of the run; empty for a run without it."""
    transactions: tuple[int, ...] = ()
    """Transactions committed over all tries; empty where there was nothing to do."""


def completed(table: Table, run: RunIdentity) -> tuple[RunRecord, ...]:
    """Return the times that a run completed, oldest first.

    Requests: 1 LIST, and 1 GET for each of them.

    Raises:
        LogCorruptError: a record does not read.
    """
    keys = [meta.key for meta in table.store.list(table.paths.run_dir(run.key))]
    found = [(key, _decode(key, data)) for key, data in table.store.get_many(keys) if data]
    return tuple(record for _, record in sorted(found, key=lambda each: each[0]))


def newest_transaction(table: Table, since_ms: int) -> tuple[int, str]:
    """Return the newest transaction that a record names, and the record; (0, "") without any.

    Requests: 1 LIST per 1,000 records, and 1 GET for each that is not older than ``since_ms``
    (unix ms, by the store's clock).

    Raises LogCorruptError.
    """
    listing = table.store.list(table.paths.runs_dir)
    keys = [meta.key for meta in listing if meta.modified_ms >= since_ms]
    named = [
        (max(_decode(key, data).transactions, default=0), f"record {key}")
        for key, data in table.store.get_many(keys)
        if data
    ]
    return max(named, default=(0, ""))


def record_completed(
    table: Table, run: RunIdentity, again: str, transactions: Sequence[int], earlier: int
) -> RunRecord:
    """Record that a run completed. Returns the record that stands.

    Requests: 1 PUT; 1 GET and 1 PUT besides for each record that another try wrote meanwhile.

    Args:
        table: on which it worked.
        run: which run.
        again: the word that it was told.
        transactions: what it committed.
        earlier: how often it had completed before.

    Raises:
        OutcomeUnknownError: nobody can say whether it was stored.
    """
    now = table.clock.now_ms()
    record = RunRecord(
        id=table.ids.uuid7(now), t=now, run=run, again=again, transactions=tuple(transactions)
    )
    data = msgspec.json.encode(record)
    number = earlier
    while True:
        number += 1
        key = table.paths.run_record(run.key, number)
        other = create(table.store, key, data)
        if other is None:
            return record
        # Another try of the run, which had been given up, has ended at the same time.
        theirs = _decode(key, other)
        if theirs.again == again:
            return theirs


def _decode(key: str, data: bytes) -> RunRecord:
    try:
        record = msgspec.json.decode(data, type=RunRecord)
    except UNREADABLE as error:
        raise LogCorruptError(
            f"the record {key} of a run that completed does not read: {error}",
            next_step="restore the object from a backup, or delete it: then the run counts as "
            "one that was never completed",
        ) from None
    if record.version != VERSION:
        raise LogCorruptError(
            f"the record {key} of a run has format version {record.version}, this firnline reads "
            f"version {VERSION}",
            next_step=UPGRADE_TO_TOUCH,
        )
    return record
