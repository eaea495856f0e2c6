"""Rebuild: a table's log from its parts and its transactions, when the log was lost.

It is itself a transaction: fenced by ``_txn/``, and a crash at any call is repaired by running it
again. Writers should be stopped: an append under way may give up and take its parts back.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from firnline.commit.transaction import commit_whole
from firnline.errors import CommitUnknownError, FindingsError, UsageError
from firnline.log import chain, codec, dated, taken_back
from firnline.log.reader import time_after
from firnline.log.records import LogContent, LogTombstone, Marker, TxnMark
from firnline.log.taken_in import taken_in
from firnline.log.txn_file import Counts, RunIdentity, TxnHeader
from firnline.operations.operation import Work
from firnline.operations.options import RebuildOptions
from firnline.operations.rebuild.inventory import Inventory, read_inventory
from firnline.operations.rebuild.plan import RebuildPlan
from firnline.operations.rebuild.taking_back import copy_inputs
from firnline.operations.runner import Report, RunMetrics, refuse_unsafe_store
from firnline.properties.in_force import current, from_settings, needed
from firnline.properties.record import PropertiesRecord
from firnline.table import Table
from firnline.units import counted

__all__ = ["RebuildOptions", "RebuildReport", "preview", "run_rebuild"]

OP = "rebuild"


class RebuildReport(Report, frozen=True, kw_only=True):
    """Result of a rebuild."""

    table: str
    dry_run: bool
    transactions: tuple[int, ...]
    plan: dict[str, object]
    """As ``RebuildPlan.to_json``."""
    requests: dict[str, int]
    seconds: float


def preview(table: Table, options: RebuildOptions) -> RebuildPlan:
    """Read the remains and plan; nothing is written.

    Requests: those of ``run_rebuild`` but the puts.
    """
    return read_inventory(table, options, None).plan


def run_rebuild(work: Work, options: RebuildOptions) -> RebuildReport:
    """Write a new log of a table.

    Requests: a LIST per 1,000 objects of ``_log/``, ``_txn/`` and ``_data/``, a GET per log file,
    per transaction and per object that none of them names, those of ``read_elsewhere``, four for
    the probe of the store and those of ``commit_whole``; a copy (PUT) for each part that a merge of
    another client has to give back. A second run right after the first is refused.

    Args:
        work: on what, and for whom; told every ten footers that are read.
        options: what to do with objects that nobody names.

    Raises:
        NothingToDoError: the log is whole.
        UsageError: there is nothing to rebuild from; a glob matches nothing.
        LogCorruptError: a log file or transaction that does not read has to be moved away first.
        FindingsError: there are objects of which somebody has to decide, or transactions are lost
            and ``revive`` is not given; nothing was written.
        SchemaConflictError: two parts give one column different types.
        SnapshotUnstableError: the run stood still between its listings, again and again.
        CommitConflictError, CommitExpiredError, CommitUnknownError: see ``commit_whole``.
    """
    table = work.table
    began, metrics = table.clock.elapsed_ms(), RunMetrics(table)
    inventory = read_inventory(table, options, work.tell)
    table = table.under(current(inventory.properties))
    done: tuple[int, ...] = ()
    if not options.dry_run:
        _refuse_undecided(table, inventory, revive=options.revive)
        refuse_unsafe_store(table)
        copies = copy_inputs(table, inventory.plan)
        done = (_write(table, inventory, copies, work.identity, began),)
    return RebuildReport(
        table=table.settings.name,
        dry_run=options.dry_run,
        transactions=done,
        plan=inventory.plan.to_json(),
        requests=metrics.requests,
        seconds=metrics.seconds,
    )


def _refuse_undecided(table: Table, inventory: Inventory, *, revive: bool) -> None:
    plan = inventory.plan
    if plan.lost and not revive:
        raise FindingsError(
            f"the history of table {table.settings.name} is lost, or a part of it: {plan.lost}; "
            "what those transactions deleted, erased, dropped or replaced may come back, in up to "
            f"{counted(plan.doubtful, 'part')}",
            next_step="restore the objects of _txn/ from a backup, or take the rows back with "
            "--revive (see --dry-run); nothing was written",
        )
    # With transactions and without parts it is a table whose last part was dropped and deleted.
    if plan.nothing_to_do and not plan.undecided and not inventory.history.newest:
        raise UsageError(
            f"nothing that is left of table {table.settings.name} can be live",
            next_step="see with --dry-run why, and name parts with --include",
        )
    if plan.undecided:
        first = plan.undecided[0]
        raise FindingsError(
            f"{counted(len(plan.undecided), 'object')} of table "
            f"{table.settings.name} may be live or left "
            f"over; the first: {first.key} {first.reason}",
            next_step="decide with --include GLOB and --exclude GLOB (see --dry-run); nothing was "
            "written",
        )


def _landed(marker: Marker, t: int) -> Marker:
    """A part is in the table since ``t`` at the latest, whatever its writer's clock said.

    Else what is committed next would tombstone it before its time, and a restore take it for
    appended since. Its place in the order of insertion stays.
    """
    if marker.t <= t:
        return marker
    return msgspec.structs.replace(marker, t=t, o=marker.order())


def _dates(table: Table, inventory: Inventory, t: int) -> set[bytes]:
    """Return records of when the rebuild and what it brings took effect, where dated far ahead.

    What nobody says any more when it took effect had done so by now.
    """
    plan, history = inventory.plan, inventory.history
    earlier = dated.known(inventory.log.listing, inventory.other)
    dates = {m.t for m in (*plan.live, *plan.dead)} | {m.tmb for m in plan.dead if m.tmb}
    now = max(table.clock.now_ms(), history.newest_at)
    first_seen = {at: earlier.get(at, min(at, now)) for at in dates | {history.newest_t}}
    first_seen[t] = max(now, *(seen + 1 for seen in first_seen.values()))
    txns = {t, history.newest_t, *dated.of_transactions(inventory.log.listing, inventory.other)}
    return {dated.record(at, seen, txn=at in txns) for at, seen in first_seen.items() if at > seen}


def _write(
    table: Table, inventory: Inventory, copies: Sequence[Marker], run: RunIdentity, began: int
) -> int:
    history, plan, log = inventory.history, inventory.plan, inventory.log
    listing = log.listing
    logs = [item.name for item in listing.values()]
    base = max([history.newest, history.named, history.last, *(n.seq for n in logs)])
    t = time_after(logs, table.clock.now_ms(), history.newest_t + 1)
    seq, txn = base + 1, table.ids.uuid7(table.clock.now_ms())
    # No reader shall look for parts whose objects are gone.
    lost = [
        msgspec.structs.replace(history.parts[path], tmb=t)
        for path in (*plan.missing, *plan.buried)
    ]
    lost += [_taken_back(marker, t) for marker in plan.taken_back]
    live = [*(_landed(m, t) for m in plan.live), *(msgspec.structs.replace(m, t=t) for m in copies)]
    # When the table had rows twice, if merges are taken back.
    doubled = {taken_back.record(plan.wrong_since, t)} if plan.taken_back else set[bytes]()
    content = LogContent(
        t=t,
        schema=inventory.schema,
        markers=[*live, *plan.dead, *lost],
        tombstones=[LogTombstone(key, t) for key in sorted(listing)],
        deletes=list(inventory.deletes.values()),
        properties=_properties(table, inventory, seq, t),
        other=sorted(inventory.other | _dates(table, inventory, t) | doubled),
        x=TxnMark(seq=seq, txn=txn, op=OP, purged=plan.purged, standing=()),
    )
    header = TxnHeader(
        seq=seq,
        txn=txn,
        op=OP,
        base=base,
        t=t,
        log=table.paths.txn_log(t, seq, txn),
        run=run,
        counts=_counts(plan, len(listing)),
        properties=content.properties[-1].values,
        appends=taken_in((listing[key].name, log.contents[key]) for key in inventory.unfolded),
    )
    before = inventory.digests.get(base, "")
    made = chain.link(header, codec.encode(content), content.x, before, table.paths)
    if not commit_whole(table, made.header, made.log_file, began):
        raise CommitUnknownError(
            f"rebuild {table.paths.txn(seq)} is committed, and its log file is not published yet",
            next_step="run it again: that publishes it",
        )
    return seq


def _counts(plan: RebuildPlan, folded: int) -> Counts:
    live, rows = len(plan.live) + len(plan.copies), plan.rows or 0
    return Counts(parts_in=live, parts_out=live, rows_in=rows, rows_out=rows, logs_folded=folded)


def _properties(table: Table, inventory: Inventory, seq: int, t: int) -> list[PropertiesRecord]:
    """Return the remaining properties of the table, the newest last.

    Where nothing is, it is what the settings say.
    """
    if inventory.properties:
        return list(needed(inventory.properties, table.clock.now_ms()))
    return [PropertiesRecord(seq, t, from_settings(table.settings))]


def _taken_back(marker: Marker, t: int) -> Marker:
    """Return a tombstone for a part that has rows of dead ones, as old as the oldest of them.

    A part that counted as written after an erase would not keep its certificate waiting.
    """
    return msgspec.structs.replace(marker, tmb=t, q=0)
