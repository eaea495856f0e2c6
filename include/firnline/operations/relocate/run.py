"""Relocate: rewrites the log of a table that was copied or renamed, for its present place.

Log files, transactions and certificates name the objects of the table by whole keys, those of the
place where they were written. Each is rewritten with the keys of this place, under its name,
everything else as it was. A run that dies is run again: what names this place already stays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import msgspec

from firnline.errors import (
    NothingToDoError,
    ObjectNotFoundError,
    SnapshotUnstableError,
    StoreError,
    UsageError,
)
from firnline.log import relocation
from firnline.log.reader import LogObject, list_log, newest_seq
from firnline.operations.in_time import InTime, looked
from firnline.operations.operation import Work
from firnline.operations.options import RelocateOptions
from firnline.operations.relocate.plan import (
    RelocationPlan,
    Seen,
    in_order,
    is_of,
    refuse_missing,
    refuse_without,
)
from firnline.operations.relocate.slashes import move_parts
from firnline.operations.runner import Report, RunMetrics
from firnline.paths import Root, TablePaths
from firnline.properties.in_force import put_within
from firnline.state.health import no_table
from firnline.store.create import overwrite
from firnline.store.transfer import each
from firnline.table import Table

_TELL_EVERY = 10
Named = Callable[[str, bytes], relocation.Named]
Move = Callable[[str, bytes, TablePaths, TablePaths], bytes]


class RelocateProgress(msgspec.Struct, frozen=True, kw_only=True):
    """Progress of a relocation."""

    objects: int
    objects_done: int


class RelocateReport(Report, frozen=True, kw_only=True):
    """Result of a relocation."""

    table: str
    dry_run: bool
    plan: dict[str, object]
    """As ``RelocationPlan.to_json``."""
    moved: int = 0
    """Parts whose objects had an empty segment in their keys, and were moved."""
    requests: dict[str, int]
    seconds: float


def run_relocate(work: Work, options: RelocateOptions) -> RelocateReport:
    """Rewrite the log of a table for the place where it lies.

    Requests: a LIST per 1,000 objects of ``_log/``, ``_txn/``, ``_erase/``, ``_ckpt/`` and
    ``_data/``, a GET that asks for an unfinished clone, a GET per log file and transaction; for
    each that names another place, and each certificate, one GET and one PUT besides; one DELETE
    when there are checkpoints; those of ``move_parts``.

    Args:
        work: on what, and for whom; told every ten objects.
        options: where it was.

    Raises:
        NothingToDoError: it names this place already.
        UsageError: there is no table, parts are missing, or it names objects of two places.
            Nothing was written.
        LogCorruptError: a log file or transaction does not read. Nothing was written.
        StoreError: the store failed. Run again, it goes on where it was.
    """
    table = work.table
    metrics = RunMetrics(table)
    refuse_unfinished(table)
    moved, plan = looked(table, lambda time: _moved(table, options, time))
    if plan is None and moved:
        plan = RelocationPlan.of_nothing(table.paths.prefix)
    if plan is None:
        raise NothingToDoError(
            f"the log of table {table.settings.name} names objects of {table.settings.root} "
            "already: there is nothing to do",
            next_step="see it with `firnline verify`",
        )
    if not options.dry_run:
        execute(table, plan, work.tell)
    return RelocateReport(
        table=table.settings.name,
        dry_run=options.dry_run,
        plan=plan.to_json(),
        moved=moved,
        requests=metrics.requests,
        seconds=metrics.seconds,
    )


def _moved(
    table: Table, options: RelocateOptions, time: InTime
) -> tuple[int, RelocationPlan | None]:
    """Move the parts that only some stores can name; return how many, and the plan."""
    names = read_names(table, options, time)
    seen = names.seen
    moved = move_parts(table, seen.spelled, seen.spelled_dead, dry_run=options.dry_run)
    return moved, _plan(table, names)


def refuse_unfinished(table: Table) -> None:
    """Raise UsageError while a clone to this place has not copied everything yet. 1 GET."""
    try:
        table.store.get(table.paths.clone_plan)
    except ObjectNotFoundError:
        return
    raise UsageError(
        f"{table.settings.root} is being cloned, and not everything is copied yet",
        next_step="run the same clone again",
    )


def plan_relocation(table: Table, options: RelocateOptions) -> RelocationPlan | None:
    """Read everything that names keys, and decide; nothing is written. Raises as the run.

    None when no object names another place. Read again where it took longer than half the grace:
    another run may have relocated the table, and its clean-up have deleted parts that were live.
    """
    return looked(table, lambda time: _plan(table, read_names(table, options, time)))


@dataclass(frozen=True, slots=True)
class Names:
    """Everything that names keys."""

    seen: Seen
    logs: dict[str, LogObject]
    txns: Sequence[str]


def read_names(table: Table, options: RelocateOptions, time: InTime) -> Names:
    """Read everything that names keys. Raises as the run."""
    store, paths = table.store, table.paths
    logs, _ = list_log(store, paths)
    txns = {paths.parse_txn(meta.key): meta.key for meta in store.list(paths.txn_dir)}
    if not logs and not txns:
        raise no_table(table)
    seen = Seen(paths, _prefix(options.old))
    _read(table, list(logs), seen, relocation.named_by_log)
    refuse_without(seen.newest, txns.values(), paths, "copy the whole table")
    published = newest_seq(logs)
    newest = [txns[seq] for seq in (max(txns, default=0),) if seq > published]
    _read(table, newest, seen, relocation.named_by_txn)
    older = [key for key in txns.values() if key not in newest]
    # Parts live right after an older transaction may be deleted by now: no reader needs them.
    _read(table, older, seen, relocation.named_by_txn, parts=False)
    time.under(table.settings, seen.grace)
    return Names(seen, logs, sorted(txns.values()))


def _plan(table: Table, names: Names) -> RelocationPlan | None:
    seen, store, paths = names.seen, table.store, table.paths
    if not seen.foreign:
        return None
    old = TablePaths(seen.old())
    live = seen.live(old)
    objects = {meta.key: meta.size for meta in store.list(paths.data_dir)}
    refuse_missing(live, objects, paths, "copy the whole table")
    foreign = set(seen.foreign)
    erases = [m.key for m in store.list(paths.erase_dir) if m.key.endswith(".json")]
    checkpoints = [meta.key for meta in store.list(paths.checkpoint_dir)]
    return RelocationPlan(
        old=old.prefix,
        new=paths.prefix,
        erases=tuple(erases),
        transactions=tuple(key for key in names.txns if key in foreign),
        logs=in_order({key: item.name for key, item in names.logs.items()}, seen),
        checkpoints=tuple(k for k in checkpoints if paths.checkpoint_seq(k) is not None),
        parts=len(live),
        bytes=sum(live.values()),
        grace=seen.grace,
    )


def _prefix(old: str | None) -> str | None:
    if old is None:
        return None
    return Root.parse(old).prefix if "://" in old else old.strip("/")


def _read(
    table: Table,
    keys: Sequence[str],
    seen: Seen,
    named: Named,
    *,
    parts: bool = True,
) -> None:
    for key, data in table.store.get_many(keys):
        if data is None:
            raise SnapshotUnstableError(
                f"{key} was deleted while the table was read",
                next_step="stop the runs that maintain it, and run it again",
            )
        seen.take(key, named(key, data), parts=parts)


def execute(table: Table, plan: RelocationPlan, tell: Callable[[RelocateProgress], None]) -> None:
    """Write the objects of a plan in their order. Raises as ``run_relocate``."""
    if plan.checkpoints:
        for answer in table.store.delete_many(plan.checkpoints):
            if answer.error is not None:
                raise StoreError(
                    f"checkpoint {answer.key} could not be deleted: {answer.error.message}",
                    next_step="run it again; nothing depends on a checkpoint",
                )
    old = TablePaths(plan.old)
    half = put_within(table.settings, plan.grace)
    total = len(plan.erases) + len(plan.transactions) + len(plan.logs)
    log, txn = (
        (relocation.named_by_log, relocation.move_log),
        (
            relocation.named_by_txn,
            relocation.move_txn,
        ),
    )
    steps: tuple[tuple[Sequence[str], tuple[Named, Move]], ...] = (
        (plan.transactions, txn),
        (plan.logs[:-1], log),
        (plan.logs[-1:], log),
    )
    done = 0

    def one_more() -> None:
        nonlocal done
        done += 1
        if done % _TELL_EVERY == 0 or done == total:
            tell(RelocateProgress(objects=total, objects_done=done))

    for _ in each(plan.erases, partial(_rewrite, table, relocation.move_certificate, old, half)):
        one_more()
    for keys, (named, move) in steps:
        for _ in each(keys, partial(_rewrite, table, move, old, half, named=named)):
            one_more()


def _rewrite(
    table: Table, move: Move, old: TablePaths, within: int, key: str, *, named: Named | None = None
) -> None:
    """Fetch one object, and write it for the new place unless another run was quicker.

    Raises SnapshotUnstableError: it would be written later than ``within`` ms after it was fetched,
    or was.
    """
    time = InTime(table.clock, table.clock.elapsed_ms(), within)
    try:
        data = table.store.get(key)
    except ObjectNotFoundError as error:
        raise SnapshotUnstableError(
            f"{key} was deleted while the table was relocated",
            next_step="stop the runs that maintain the table, and run it again",
        ) from error
    if named is not None and not is_of(named(key, data), old, table.paths):
        return
    moved = move(key, data, old, table.paths)
    if moved == data:
        return
    # Another run may have done all of it since, and clean-up deleted the object.
    time.refuse(f"before it could write {key}")
    overwrite(table.store, key, moved)
    time.refuse(f"before it wrote {key}, which may be back although clean-up had deleted it")
