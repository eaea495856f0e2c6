"""Actors of the world: the product's own operations, with randomly chosen options."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from firnline.appends.append import Appender
from firnline.errors import (
    FirnlineError,
    InvariantError,
    RowCountMismatchError,
    SnapshotExpiredError,
)
from firnline.operations.cleanup import run as cleanup
from firnline.operations.delete import run as delete
from firnline.operations.drop import run as drop
from firnline.operations.drop import ttl
from firnline.operations.erase import run as erase
from firnline.operations.merge import run as merge
from firnline.operations.operation import Work
from firnline.operations.options import (
    CleanupOptions,
    DeleteOptions,
    DropOptions,
    EraseOptions,
    Evolution,
    LazyOptions,
    MergeOptions,
    ReplaceOptions,
    RestoreOptions,
    RewriteOptions,
    SweepOptions,
    TtlOptions,
    VerifyOptions,
)
from firnline.operations.replace import run as replace
from firnline.operations.restore import run as restore
from firnline.operations.rewrite import run as rewrite
from firnline.operations.schema.lazy import run_lazily
from firnline.operations.sweep import run as sweep
from firnline.operations.verify import run as verify
from firnline.state.snapshot import read_snapshot
from simulation import aging, holds, once, prepared, updates
from simulation.hides import Hides
from simulation.kinds import is_tombstone
from simulation.layouts import fill_statistics, move_rows
from simulation.ledger import Restores
from simulation.proofs import check_end
from simulation.settings import change_properties
from simulation.stage import Stage
from simulation.world import GRACE, KEY_STEP, TICK, TTL, Interrupted, Violation

PARTITIONS = "xy"


def append(stage: Stage) -> None:
    """Append a few rows to one or both partitions."""
    rows = _begin_append(stage)
    _appender(stage).append(stage.table_of(rows))
    stage.oracle.acknowledged.update(row["k"] for row in rows)


def append_once(stage: Stage) -> None:
    """Append a few rows with a key that others may have used, or use at the same time."""
    key = f"batch {stage.world.step // once.STEPS - stage.r.choice([0, 0, 0, 1, 4])}"
    rows = _begin_append(stage)
    stage.actor.tell(f"has the key {key}")
    result = _appender(stage).append(stage.table_of(rows), key=key)
    stage.oracle.stats["append repeated"] += result.repeated
    stage.oracle.keys.answers(key)


def _begin_append(stage: Stage) -> list[dict[str, Any]]:
    r, world = stage.r, stage.world
    rows: list[dict[str, Any]] = [
        {"k": world.next_key(), "p": r.choice(PARTITIONS), "u": r.choice(stage.kind.users)}
        for _ in range(r.randint(1, 5))
    ]
    if "d" in stage.kind.schema:
        rows = [row | {"d": is_tombstone(row["k"])} for row in rows]
    stage.actor.tell(f"begins: {len(rows)} rows")
    stage.oracle.append_begins(row["k"] for row in rows)
    return rows


def _appender(stage: Stage) -> Appender:
    known = None if stage.kind.evolves else stage.kind.schema
    return Appender(stage.table, writer="sim", known_schema=known)


def merge_parts(stage: Stage) -> None:
    """Merge one partition or all."""
    partitions = () if stage.r.random() < 0.5 else (f"p={stage.r.choice(PARTITIONS)}",)
    stage.actor.tell(f"begins: {partitions or 'all partitions'}")
    options = MergeOptions(partitions=partitions)
    merge.run_merge(Work(stage.table, stage.run, stage.engine), options)


def drop_partition(stage: Stage) -> None:
    """Drop one partition."""
    options = DropOptions(partitions=(f"p={stage.r.choice(PARTITIONS)}",))
    stage.actor.tell(f"begins: {options.partitions[0]}")
    drop.run_drop(Work(stage.table, stage.run), options)


def expire_rows(stage: Stage) -> None:
    """Run a TTL that keeps the rows from about one of the newest keys on."""
    newest = stage.world.next_id()
    first = max(0, newest - stage.r.choice([1, 5, 20, 60])) * KEY_STEP
    keep = stage.table.clock.now_ms() - aging.time_of(first)
    settings = stage.table.settings
    asked = settings.ttl or stage.world.settings.ttl
    assert asked is not None
    keeps = settings.model_copy(update={"ttl": asked.model_copy(update={"keep": keep})})
    stage.oracle.ledger.keeps[stage.run.run_id] = keep
    stage.actor.tell(f"begins: keeps rows from about {first} on")
    ttl.run_ttl(Work(stage.with_settings(keeps).table, stage.run), TtlOptions())


def delete_rows(stage: Stage) -> None:
    """Delete rows, eagerly or lazily as the table's settings say."""
    hides, sql = condition(stage)
    stage.oracle.ledger.intents[stage.run.run_id] = hides
    stage.actor.tell(f"begins: {sql}")
    options = DeleteOptions(where=sql, partitions=holds.named_partitions(stage, hides))
    delete.run_delete(Work(stage.table, stage.run, stage.engine), options)


def erase_users(stage: Stage) -> None:
    """Erase all rows of some users."""
    users = stage.r.choice(["u", "v", "uv"])
    stage.actor.tell(f"begins: users {users}")
    stage.oracle.ledger.intents[stage.run.run_id] = Hides(frozenset(PARTITIONS), frozenset(users))
    options = EraseOptions(columns=("u",), keys=tuple((user,) for user in users))
    erase.run_erase(Work(stage.table, stage.run, stage.engine), options)


def rewrite_rows(stage: Stage) -> None:
    """Rewrite partitions, keeping rows for which a condition is not true."""
    hides, sql = condition(stage)
    stage.oracle.ledger.intents[stage.run.run_id] = hides
    stage.actor.tell(f"begins: without {sql}")
    options = RewriteOptions(where=f"NOT ({sql})", force=True)
    rewrite.run_rewrite(Work(stage.table, stage.run, stage.engine), options)


def update_rows(stage: Stage) -> None:
    """Give rows new values: see ``simulation.updates``."""
    change = prepared.prepare_update if prepared.is_prepared(stage) else updates.update_rows
    change(stage, *condition(stage))


def prepare_rewrite(stage: Stage) -> None:
    """Prepare a rewrite: see ``simulation.prepared``."""
    hides, sql = condition(stage)
    stage.oracle.ledger.intents[stage.run.run_id] = hides
    stage.actor.tell(f"begins: without {sql}")
    prepared.prepare_rewrite(stage, sql)


def replace_interval(stage: Stage) -> None:
    """Replace an interval of keys by other rows or none, sometimes for one user only."""
    r, world = stage.r, stage.world
    newest = world.next_id()
    first = r.randint(max(0, newest - 40), newest)
    keys = range(first * KEY_STEP, (first + r.choice([1, 8, 40])) * KEY_STEP)
    user = r.choice([*stage.kind.users, None])
    # Keys between those of appends that no other replace uses.
    names = [keys.start + world.next_id() for _ in range(r.randint(0, 3))]
    users = stage.kind.users
    rows = [{"k": k, "p": r.choice(PARTITIONS), "u": user or r.choice(users)} for k in names]
    stage.oracle.ledger.brought.update(names)
    hides = Hides(frozenset(PARTITIONS), frozenset(user or users), keys)
    stage.oracle.ledger.intents[stage.run.run_id] = hides
    stage.actor.tell(f"begins: keys {keys.start} to {keys.stop} of {user or 'all'}, new {names}")
    options = ReplaceOptions(
        column="k",
        start=keys.start,
        end=keys.stop,
        equal={"u": user} if user else {},
        nothing=not rows,
    )
    data = stage.table_of(rows) if rows else None
    replace.run_replace(Work(stage.table, stage.run, stage.engine), options, data=data)


def restore_partitions(stage: Stage) -> None:
    """Restore one partition or all to the state after one of the newest transactions."""
    r, world = stage.r, stage.world
    newest = max((header.seq for header, _ in stage.oracle.committed.values()), default=0)
    to = max(0, newest - r.choice([1, 1, 2, 3, 6]))
    partitions = frozenset(r.choice([*PARTITIONS, PARTITIONS]))
    wanted = Restores(to, partitions, r.random() < 0.2, world.step)
    stage.oracle.ledger.restores[stage.run.run_id] = wanted
    stage.actor.tell(f"begins: {' '.join(sorted(partitions))} as after transaction {to}")
    options = RestoreOptions(
        to=to, partitions=tuple(f"p={p}" for p in sorted(partitions)), exact=wanted.exact
    )
    restore.run_restore(Work(stage.table, stage.run), options)


def evolve_columns(stage: Stage) -> None:
    """Rename, drop or widen the changing column; no part is rewritten."""
    columns = stage.oracle.columns
    number = 0 if columns is None else columns.newest
    name = f"c{number}"
    what = stage.r.choice(["rename", "rename", "drop", "widen"])
    asked = {
        "rename": Evolution(rename={name: f"c{number + 1}"}),
        "drop": Evolution(drop=(name,)),
        "widen": Evolution(widen={name: "BIGINT"}),
    }[what]
    stage.actor.tell(f"begins: {what} {name}")
    run_lazily(Work(stage.table, stage.run), LazyOptions(evolution=asked))


def clean_up(stage: Stage) -> None:
    """Run a tombstone clean-up, sometimes with a limit."""
    limit = stage.r.choice([None, None, 1, 4])
    stage.actor.tell(f"begins: at most {limit} deletes" if limit else "begins")
    cleanup.run_cleanup(Work(stage.table, stage.run), CleanupOptions(max_deletes=limit))


def sweep_orphans(stage: Stage) -> None:
    """Run an orphan sweep."""
    sweep.run_sweep(Work(stage.table, stage.run), SweepOptions())


def read(stage: Stage) -> None:
    """Read the table; the rows must be those of some moment during the read."""
    began, listed_at = stage.world.step, stage.world.now
    grace = stage.oracle.times.grace
    snapshot = read_snapshot(stage.table.store, stage.table.paths)
    gone = not snapshot.live.keys() <= stage.world.objects.keys()
    if gone and stage.world.now - listed_at >= grace:
        return  # it slept longer than its parts are kept, and gets an error
    seen = stage.oracle.rows_of(snapshot)
    if len(seen) != len(set(seen)):
        raise Violation("a reader saw rows twice")
    if not stage.oracle.was_true(set(seen), began):
        raise Violation(f"a reader saw rows {sorted(seen)}, which the table never had since")


def read_past(stage: Stage) -> None:
    """Read a former state; the result must be complete or a clear refusal.

    The oracle has every log file that ever existed.
    """
    began = stage.world.step
    newest = max(stage.oracle.past_from, stage.world.now + TICK)
    time_ms = stage.r.randint(stage.oracle.past_from, newest)
    stage.actor.tell(f"begins: as of {time_ms}")
    past = read_snapshot(stage.table.store, stage.table.paths).at(time_ms)
    if not past.live.keys() <= stage.world.objects.keys():
        return  # a reader of the first of those parts gets an error
    seen = set(stage.oracle.shown_by(past))
    right = stage.oracle.past_rows(time_ms, began)
    young = stage.oracle.young(began)
    if all(seen - young != rows - young for rows in right):
        raise Violation(
            f"a reader as of {time_ms} saw rows {sorted(seen)}, and they were {sorted(right[0])}"
        )


def find_nothing(stage: Stage) -> None:
    """Run `verify` on an idle table; it may report notes on left-overs, and nothing else."""
    if not stage.oracle.landed:
        return  # there is no table
    report = verify.run_verify(Work(stage.table), VerifyOptions())
    # Some writers' clocks are wrong; a change of columns may hold the mirror until a merge.
    expected = {"log-from-the-future", "txn-from-the-future", "mirror-behind"}
    if stage.world.mix.lost_history:
        # The certificate of an erase that died has its place from its transaction.
        expected |= {"txn-gap", "certificate-missing", "certificate-changed"}
    if any(f.kind == "mirror-behind" for f in report.findings):
        # Held for longer than clean-up waits (``mirror.retention``), it shows what is gone by now.
        expected.add("mirror-unknown-part")
    bad = [f for f in report.findings if f.severity != "note" and f.kind not in expected]
    if bad:
        raise Violation(f"verify found {bad[0]}")


def wait_for_nothing(stage: Stage) -> None:
    """Check that after the grace clean-up waits for nothing, and that now is the newest state."""
    if not stage.oracle.landed:
        return  # there is no table
    world, table = stage.world, stage.table
    cleanup.run_cleanup(Work(table, stage.run), CleanupOptions())  # publishes what is committed
    # Processes that began with other properties may use them for a while.
    world.now += 2 * GRACE if world.mix.weights["properties"] == 0 else 8 * (GRACE + TTL)
    report = cleanup.run_cleanup(Work(table, stage.run), CleanupOptions())
    # A change of columns that no merge has reached holds the mirror, and that what it shows.
    waiting = [w for w in report.waiting if w.what == "parts" and "mirror" not in w.reason]
    if waiting:
        raise Violation(f"clean-up waits although the grace is over: {waiting[0]}")
    snapshot = read_snapshot(table.store, table.paths)
    try:
        now = snapshot.at(world.now)
    except SnapshotExpiredError as error:
        raise Violation(f"the state as of now is refused: {error}") from error
    if now.live != snapshot.live:
        raise Violation("the state as of now is not the newest state")


def condition(stage: Stage) -> tuple[Hides, str]:
    """Return a condition on users and partitions, and the same as SQL."""
    r = stage.r
    partitions = frozenset(r.choice(["x", "y", "xy"]))
    users = frozenset(r.choice(["u", "v", "uv"]))
    names = ", ".join(f"'{user}'" for user in sorted(users))
    sql = f"u IN ({names})"
    if len(partitions) == 1:
        sql += f" AND p = '{min(partitions)}'"
    if not stage.oracle.keyed or r.random() < 0.6:
        return Hides(partitions, users), sql
    keys = range((stage.world.next_id() - r.choice([0, 8, 30])) * KEY_STEP)
    return Hides(partitions, users, keys), f"{sql} AND k < {keys.stop}"


OPERATIONS: dict[str, Callable[[Stage], None]] = {
    "append": append,
    once.OPERATION: append_once,
    "merge": merge_parts,
    "drop": drop_partition,
    "expire": expire_rows,
    "delete": delete_rows,
    "erase": erase_users,
    "rewrite": rewrite_rows,
    "replace": replace_interval,
    "restore": restore_partitions,
    "evolve": evolve_columns,
    "properties": change_properties,
    "cleanup": clean_up,
    "sweep": sweep_orphans,
    "read": read,
    "read_past": read_past,
    "repartition": move_rows,
    "analyze": fill_statistics,
    "prepare": prepare_rewrite,
    "decide": prepared.decide,
    "hold": holds.put_hold,
    "update": update_rows,
    "end_hold": holds.end_hold,
}
DRAWN_LATER = (
    *("evolve", "properties", "repartition", "analyze", "prepare", "decide", "expire"),
    *("hold", "end_hold", "update"),
    once.OPERATION,
)
"""Operations whose weights are not drawn like the others."""


def play(name: str, stage: Stage) -> None:
    """Run one operation; permitted errors are not violations."""
    try:
        OPERATIONS[name](stage)
    except (InvariantError, RowCountMismatchError) as error:
        raise Violation(f"{name} caught itself: {error}") from error
    except FirnlineError as error:
        stage.oracle.stats[f"{name}: {type(error).__name__}"] += 1
        stage.oracle.stats.update(["refused by a hold"] if "legal hold" in error.message else [])
        stage.actor.tell(f"ends: {error}")
        check_end(stage, error)
    except Interrupted:
        stage.oracle.stats["interrupt"] += 1
        stage.actor.tell("ends: it was interrupted")
    else:
        stage.actor.tell("is done")
        check_end(stage, None)


def playing(name: str, stage: Stage) -> Callable[[], None]:
    """Return ``play`` without arguments, for a greenlet."""
    return partial(play, name, stage)
