"""Loss of the log or a part of it, and its rebuild while all other actors stand still."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Collection, Iterable, Iterator

from firnline.appends.append import Appender
from firnline.commit.base import take_base
from firnline.errors import FindingsError, FirnlineError, LogLostError, UsageError
from firnline.log import dated
from firnline.log.txn_file import folded_by
from firnline.operations.operation import Work
from firnline.operations.options import RebuildOptions, VerifyOptions
from firnline.operations.rebuild import run as rebuild
from firnline.operations.verify import run as verify
from firnline.parquet.footers import FooterFacts, FooterTask, FooterWanted, RowGroupFacts
from firnline.parquet.part import read_pairs
from firnline.read.stream import AppendStream
from firnline.settings.ages import LEAST_ORPHAN_MS
from firnline.state.snapshot import read_snapshot
from firnline.store.base import Store
from simulation.oracle import Oracle
from simulation.stage import Stage
from simulation.world import GRACE, TICK, Violation, World

_SKEW = 200 * TICK
"""Milliseconds by which a clock may be ahead of that of a process that deletes."""


def lose_the_log(world: World, oracle: Oracle) -> frozenset[str]:
    """Delete every log file. Returns the parts that were live."""
    live = frozenset(oracle.snapshot().live)
    world.late.clear()  # a rebuild requires that no requests are in flight
    for key in [k for k in world.objects if k.startswith(world.paths.log_dir)]:
        world.remove(key)
    world.tell(f"THE LOG IS LOST; {len(live)} parts were live")
    oracle.forgive_past(world.now)
    return live


_QUESTIONS = 3


def clear_the_place(world: World, oracle: Oracle, under_way: Collection[str]) -> None:
    """Delete the remains of dead appends before the table exists.

    They look like the remains of a table whose log was lost, which all operations refuse. Whoever
    deletes them has made sure that their append is over, by ``under_way``, the names of actors, and
    that its log file is not in flight.
    """
    if oracle.landed or world.asleep:
        return
    old = world.now - LEAST_ORPHAN_MS + _SKEW
    begun = {k: dated.begun_by(k, item.at, world.now) for k, item in world.objects.items()}
    for key in [k for k, at in begun.items() if at < old]:
        alive = world.uploaded.get(key) in under_way
        in_flight = any(key.encode() in put.data for put in world.late)
        if key.startswith(world.paths.data_dir) and not (alive or in_flight):
            world.remove(key)


def lose_a_part(world: World, oracle: Oracle, r: random.Random) -> frozenset[str] | None:
    """Delete log files: the newest with those it folded, one, or as a version 1 client does.

    Returns the parts that were live; None if there was nothing to delete.
    """
    ours = sorted(key for key in oracle.committed if key in world.objects)
    if not ours:
        return None
    live = frozenset(oracle.snapshot().live)
    world.late.clear()
    # Such a client would state former names of columns besides the current ones.
    v1 = "one" if oracle.columns is not None else "v1"
    what = r.choice(["newest", "newest", "base", "one", v1])
    if what == "v1":
        gone = _fold_as_v1(world, oracle, ours)
    elif what == "newest":
        gone = ours[-r.choice([1, 1, 2, 3]) :]
    elif what == "base":
        folded = folded_by(oracle.contents[ours[-1]])
        gone = [ours[-1], *sorted(key for key in folded if key in world.objects)]
    else:
        gone = [r.choice(ours)]
    for key in gone:
        world.remove(key)
        # Readers and committers treat it as not yet published, if they can.
        oracle.published.discard(key if key == max(oracle.committed) else "")
    world.tell(f"LOG FILES ARE LOST ({what}): {' '.join(gone)}")
    return live


FORGETFUL = range(19_000, 20_000)
"""Seeds in which ``_txn/`` loses objects."""
HISTORY_LOST = 0.01


def lose_the_history(world: World, oracle: Oracle, r: random.Random) -> bool:
    """Delete objects under ``_txn/`` that are older than the grace, as a rule of a bucket does.

    What is committed and not published yet stands nowhere else, and who began to read before it was
    published looks for it there. False if there is nothing to lose.
    """
    paths = world.paths
    old = world.now - GRACE
    items = world.objects.items()
    there = sorted(key for key, item in items if key.startswith(paths.txn_dir) and item.at < old)
    logs = [key for key in world.objects if key.startswith(paths.log_dir)]
    newest = max((paths.parse_log(key).seq for key in logs), default=0)
    known = [key for key in there if paths.parse_txn(key) <= newest]
    gone = r.choice([known, known[-1:], known[-2:-1], known[: len(known) // 2]])
    world.late.clear()
    for key in gone:
        world.remove(key)
    if gone:
        world.tell(f"TRANSACTIONS ARE LOST: {' '.join(gone)}")
        oracle.stats["history lost"] += 1
    return bool(gone)


def _fold_as_v1(world: World, oracle: Oracle, ours: list[str]) -> list[str]:
    """Fold firnline's log files as a version 1 client does; returns the files that it deletes.

    Its log file has only path, size and times of parts. Appends since then landed
    behind its listing.
    """
    snapshot = oracle.snapshot()
    there = [key for key in world.objects if key.startswith(world.paths.log_dir)]
    names = {key: world.paths.parse_log(key) for key in there}
    gone = [k for k in there if k in snapshot.log_tombstones or names[k].kind != "append"]
    t = max(world.now, 1 + max(name.t for name in names.values()))
    paths = dict.fromkeys(m.p for key in gone for m in oracle.contents[key].markers)
    markers = [
        {"p": m.p, "b": m.b, "t": m.t} | ({} if m.tmb is None else {"tmb": m.tmb})
        for m in (snapshot.parts[path] for path in paths)
    ]
    lines: list[object] = [
        {"v": "1", "t": t, "sch": 1, "tmb": 2, "f": 2 + len(gone)},
        dict(snapshot.schema),
        *({"p": key, "t": t} for key in gone),
        *markers,
    ]
    if not markers or not set(ours) <= set(gone):
        return []
    world.put(
        f"{world.paths.log_dir}{t:013d}_m_host.jsonl", "\n".join(map(json.dumps, lines)).encode()
    )
    return gone


def is_refused(stage: Stage) -> bool:
    """Return True if all refuse a lost log; readers see the right rows or are refused.

    Raises Violation if one is refused and another is not.
    """
    table, oracle = stage.table, stage.oracle
    doings: list[Callable[[], object]] = [
        lambda: read_snapshot(table.store, table.paths, everything=True),
        lambda: AppendStream(table).start(None),
        lambda: Appender(table, writer="sim").knowing(),
        lambda: take_base(table),
    ]
    try:
        seen = oracle.rows_of(read_snapshot(table.store, table.paths))
    except LogLostError as error:
        stage.actor.tell(f"is told: {error}")
        refused = True
    else:
        refused = False
        if sorted(seen) != sorted(oracle.ledger.expected()):
            wrong = sorted(set(seen) ^ oracle.ledger.expected())
            raise Violation(f"who reads a log that lost files sees other rows: {wrong[:5]}")
    for doing in doings:
        try:
            doing()
        except LogLostError:
            if not refused:
                raise Violation("a log is lost, and a reader was not told so") from None
        else:
            if refused:
                raise Violation("a log is lost, and somebody goes on all the same")
    if refused and "log-lost" not in verify.run_verify(Work(table), VerifyOptions()).kinds:
        raise Violation("a log is lost, and verify does not say so")
    return refused


def rebuild_log(stage: Stage, live: frozenset[str]) -> None:
    """Rebuild the log as an operator who knows which of the undecided parts were live.

    Parts dated ahead may take effect while a question is answered: then another one follows.
    """
    for _ in range(_QUESTIONS):
        try:
            return _answer(stage, live)
        except FindingsError:
            continue
    return _answer(stage, live)


def _answer(stage: Stage, live: frozenset[str]) -> None:
    """Answer what is undecided, and what is undecided by the answers, then rebuild."""
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    # A first append may have died before the birth record. The operator knows that no transaction
    # was ever committed: nothing can come back.
    revive = not stage.oracle.committed
    for _ in range(_QUESTIONS):
        options = RebuildOptions(include=include, exclude=exclude, revive=revive)
        asked = rebuild.preview(stage.table, options).undecided
        if not asked:
            break
        include += tuple(j.key for j in asked if j.key in live)
        exclude += tuple(j.key for j in asked if j.key not in live)
    options = RebuildOptions(include=include, exclude=exclude, revive=revive)
    rebuild.run_rebuild(Work(stage.table, stage.run), options)


def try_to_rebuild(stage: Stage, live: frozenset[str], done: list[bool]) -> None:
    """Try once; permitted errors are not violations. Appends to ``done`` on success."""
    stage.actor.tell("begins")
    try:
        rebuild_log(stage, live)
    except FindingsError as error:
        raise Violation(f"rebuild asked again: {error}") from error
    except UsageError as error:  # an earlier try whose answer was lost has succeeded
        stage.actor.tell(f"ends: {error}")
        done.append(True)
    except FirnlineError as error:
        stage.oracle.stats[f"rebuild: {type(error).__name__}"] += 1
        stage.actor.tell(f"ends: {error}")
    else:
        stage.actor.tell("is done")
        done.append(True)


def read_footers(
    store: Store,
    tasks: Iterable[FooterTask],
    wanted: FooterWanted,
) -> Iterator[FooterFacts]:
    """Replace ``footers.many_facts``, which uses threads; see ``rows.encode``."""
    for task in tasks:
        part = json.loads(store.get(task.key))
        pairs = {key.encode(): value.encode() for key, value in part["meta"].items()}
        yield FooterFacts(
            key=task.key,
            bytes=task.bytes,
            rows=len(part["rows"]),
            columns=part["columns"],
            bounds=(RowGroupFacts(len(part["rows"]), task.bytes, (None,) * len(wanted.groups_by)),),
            part=read_pairs(task.key, pairs),
        )
