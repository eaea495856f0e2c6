"""Restore: undo transactions in some partitions, as a new transaction.

For a partition that was dropped, or a rewrite that went wrong, as long as clean-up has not deleted
the parts. They are copied within the store under fresh names (a dead part never comes back); what
stands in their place is tombstoned in the same transaction.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing

import msgspec

from firnline.commit.base import Base, take_base
from firnline.commit.outputs import Outputs
from firnline.commit.transaction import Change, commit
from firnline.errors import CommitConflictError, ObjectNotFoundError, SnapshotExpiredError
from firnline.log.records import Marker
from firnline.log.txn_file import Counts
from firnline.operations.operation import Work
from firnline.operations.options import RestoreOptions
from firnline.operations.restore.plan import RestorePlan, plan_restore, refuse_newer
from firnline.operations.restore.since import read_since
from firnline.operations.restore.undone import OP, why
from firnline.operations.runner import Runner, TransactionReport
from firnline.state.snapshot import Snapshot
from firnline.store.transfer import each
from firnline.table import Table

_TELL_EVERY = 10


class RestoreProgress(msgspec.Struct, frozen=True, kw_only=True):
    """Progress of a restore."""

    parts: int
    parts_done: int


def preview(table: Table, options: RestoreOptions) -> RestorePlan:
    """Plan as ``run_restore`` would; nothing is written. Errors of ``plan_restore``."""
    return _plan(take_base(table), options)


def run_restore(work: Work, options: RestoreOptions) -> TransactionReport:
    """Restore partitions.

    Requests: a base, 1 GET for each transaction that is undone and 1 for the one before them, a
    copy (PUT) for each part, the probe of the store, 2 PUT and 1 LIST. No byte of a part passes
    this machine.

    Args:
        work: on what, and for whom; told every ten copies.
        options: what to restore.

    Raises:
        SnapshotExpiredError: parts of that state are deleted; names partition and horizon.
        UsageError: see ``plan_restore`` and ``refuse_newer``.
        CommitConflictError: rivals changed the partitions more than ``merge.max_replans`` times.
        CommitUnknownError: nobody can say whether it took effect; the copies stay.

    After any error but the last one the table is as it was, and no copy stays. Of an interrupt
    ``commit.outputs`` says what stays.
    """
    runner = Runner(work.table, work.identity)

    def act(base: Base, plan: RestorePlan) -> int:
        table = base.table
        markers = _markers(table, base.snapshot, plan)
        with Outputs(table, (marker.p for marker in markers)) as new:
            _copy(table, base.snapshot, plan, markers, work.tell)
            committed = commit(table, base, _change(plan, markers), work.identity, new.attempt)
            return committed.header.seq

    plan, seq = runner.run(
        lambda base: _plan(base, options),
        act,
        ends=lambda plan: options.dry_run or plan.nothing_to_do,
    )
    return TransactionReport(
        table=work.table.settings.name,
        dry_run=options.dry_run,
        plan=plan.to_json(),
        transaction=seq,
        replans=runner.replans,
        requests=runner.requests,
        seconds=runner.seconds,
    )


def _plan(base: Base, options: RestoreOptions) -> RestorePlan:
    table = base.table
    since = read_since(table, options.to, base.seq)
    plan = plan_restore(
        base.snapshot,
        since,
        options.partitions,
        exact=options.exact,
        ordered=bool(table.settings.primary_key),
    )
    refuse_newer(plan, options.newest)
    return plan


def _markers(table: Table, snapshot: Snapshot, plan: RestorePlan) -> list[Marker]:
    """Return markers of the copies, in plan order; their names are in the order of the old ones.

    Where several parts were inserted at one time, only that tells which of them came later.
    """
    now, seen = table.clock.now_ms(), Counter[tuple[int, int]]()
    keys: dict[str, str] = {}
    for copied in sorted(plan.copies, key=lambda c: c.source.p.rpartition("/")[2]):
        order = copied.source.order()
        name = table.ids.uuid7(now + seen[order])
        seen[order] += 1
        keys[copied.source.p] = table.paths.data_part(copied.partition, name)
    return [copied.marker(snapshot, keys[copied.source.p]) for copied in plan.copies]


def _copy(
    table: Table,
    snapshot: Snapshot,
    plan: RestorePlan,
    markers: Sequence[Marker],
    tell: Callable[[RestoreProgress], None],
) -> None:
    names = {copied.source.p: marker.p for copied, marker in zip(plan.copies, markers, strict=True)}
    folders = {copied.source.p: copied.partition for copied in plan.copies}

    def one(source: str) -> None:
        try:
            table.store.copy(source, names[source])
        except ObjectNotFoundError as error:
            raise SnapshotExpiredError(
                f"part {source} of partition {folders[source] or '-'} is deleted already: the "
                f"purge horizon is {snapshot.purged} ms, and a clean-up beyond it has begun",
                next_step="restore the other partitions, or this one from a backup",
            ) from error

    # Closed before anybody deletes the copies: what is under way would land after that.
    with closing(each(list(names), one)) as copied:
        for done, _ in enumerate(copied, start=1):
            if done % _TELL_EVERY == 0 or done == len(names):
                tell(RestoreProgress(parts=len(names), parts_done=done))


def _change(plan: RestorePlan, markers: Sequence[Marker]) -> Change:
    rows_in, rows_out = (sum(m.n or 0 for m in some) for some in (plan.removes, markers))

    def refuse(snapshot: Snapshot) -> None:
        lost = next((path for path in plan.keeps if path not in snapshot.live), None)
        if lost is not None:
            # Else the partition would be a mix of this state and another run's.
            raise CommitConflictError(
                f"part {lost}, which stays, was replaced by somebody else meanwhile",
                next_step="run it again when no other run maintains these partitions",
            )
        brought = _brought_since(snapshot, plan)
        if brought is not None:
            # Another restore may have brought back the very rows that this one does.
            raise CommitConflictError(
                f"part {brought} was brought by somebody else meanwhile",
                next_step="run it again when no other run maintains these partitions",
            )

    return Change(
        op=OP,
        replaces=tuple(marker.p for marker in plan.removes),
        adds=tuple(markers),
        counts=Counts(
            parts_in=len(plan.removes),
            parts_out=len(markers),
            rows_in=rows_in,
            rows_out=rows_out,
            rows_removed=rows_in - rows_out,
            bytes_in=sum(m.b for m in plan.removes),
            bytes_out=sum(m.b for m in markers),
        ),
        partitions=plan.partitions,
        keeps=plan.needs,
        refuse=refuse,
        why=why(plan.to),
    )


def _brought_since(snapshot: Snapshot, plan: RestorePlan) -> str | None:
    """Return a live part that a transaction after the base has added to a restored partition."""
    times = snapshot.times_after(plan.seq)
    if not times:
        return None
    parts = (
        m for name, markers in snapshot.partitions.items() if plan.concerns(name) for m in markers
    )
    return next((m.p for m in parts if m.t in times), None)
