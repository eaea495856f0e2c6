"""The log is lost, or a part of it, and somebody rebuilds it: all else stands still meanwhile."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable, Iterator

from firnline.append.append import Appender
from firnline.commit.base import take_base
from firnline.errors import FindingsError, FirnlineError, LogLostError, UsageError
from firnline.log.txn_file import folded_by
from firnline.operations.rebuild import run as rebuild
from firnline.operations.verify import run as verify
from firnline.parquet.footers import FooterFacts, FooterTask, FooterWanted
from firnline.parquet.part import read_pairs
from firnline.read.stream import AppendStream
from firnline.state.health import OLD_MS
from firnline.state.snapshot import read_snapshot
from firnline.store.base import Store
from simulation.oracle import Oracle
from simulation.stage import Stage
from simulation.world import TICK, Violation, World

_SKEW = 200 * TICK
"""How far a clock may be ahead of that of who deletes."""


def lose_the_log(world: World, oracle: Oracle) -> frozenset[str]:
    """Take away every log file. Returns the parts that were live."""
    live = frozenset(oracle.snapshot().live)
    world.late.clear()  # nobody rebuilds a table while requests to it are under way
    for key in [k for k in world.objects if k.startswith(world.paths.log_dir)]:
        world.remove(key)
    world.tell(f"THE LOG IS LOST; {len(live)} parts were live")
    oracle.forgive_past(world.now)
    return live


_QUESTIONS = 3


def clear_the_place(world: World, oracle: Oracle) -> None:
    """Before there is a table, somebody deletes what dead appends have left long ago.

    They look like what is left of a table whose log was lost, and everybody else refuses.
    """
    if oracle.landed:
        return
    old = world.now - OLD_MS + _SKEW
    for key in [k for k, item in world.objects.items() if item.at < old]:
        if key.startswith(world.paths.data_dir):
            world.remove(key)


def lose_a_part(world: World, oracle: Oracle, r: random.Random) -> frozenset[str] | None:
    """Take away log files of transactions: the newest, with what it folded, one, or as version 1.

    Returns the parts that were live; None where there was nothing to take.
    """
    ours = sorted(key for key in oracle.committed if key in world.objects)
    if not ours:
        return None
    live = frozenset(oracle.snapshot().live)
    world.late.clear()
    # Such a client would state old names of columns besides those of now.
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
        # Readers and committers take it for one that is not published yet, if they can.
        oracle.published.discard(key if key == max(oracle.committed) else "")
    world.tell(f"LOG FILES ARE LOST ({what}): {' '.join(gone)}")
    return live


def _fold_as_v1(world: World, oracle: Oracle, ours: list[str]) -> list[str]:
    """Fold what transactions of ours hold as a client of version 1 does; returns what it deletes.

    Its log file knows path, size and times of parts, and no more. What appended since then landed
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
    """Whether a log is lost for everybody; who reads it sees the right rows, or is refused.

    Raises Violation where one is refused and another is not.
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
    if refused and "log-lost" not in verify.run_verify(table, verify.VerifyOptions()).kinds:
        raise Violation("a log is lost, and verify does not say so")
    return refused


def rebuild_log(stage: Stage, live: frozenset[str]) -> None:
    """As an operator who knows which of the parts that are asked about were live.

    What is dated ahead may come due while the question is answered: then there is another one.
    """
    for _ in range(_QUESTIONS):
        try:
            return _answer(stage, live)
        except FindingsError:
            continue
    return _answer(stage, live)


def _answer(stage: Stage, live: frozenset[str]) -> None:
    table = stage.table
    asked = rebuild.preview(table, rebuild.RebuildOptions(dry_run=True)).undecided
    options = rebuild.RebuildOptions(
        include=tuple(j.key for j in asked if j.key in live),
        exclude=tuple(j.key for j in asked if j.key not in live),
    )
    rebuild.run_rebuild(table, options, stage.run)


def try_to_rebuild(stage: Stage, live: frozenset[str], done: list[bool]) -> None:
    """One try; what it may fail of is no violation. Adds to ``done`` when it was done."""
    stage.actor.tell("begins")
    try:
        rebuild_log(stage, live)
    except FindingsError as error:
        raise Violation(f"rebuild asked again: {error}") from error
    except UsageError as error:  # one whose answer was lost has done it
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
    wanted: FooterWanted,  # noqa: ARG001 - all of it lies in one place here
) -> Iterator[FooterFacts]:
    """In place of ``footers.many_facts``, which uses threads; see ``rows.encode``."""
    for task in tasks:
        part = json.loads(store.get(task.key))
        pairs = {key.encode(): value.encode() for key, value in part["meta"].items()}
        yield FooterFacts(
            key=task.key,
            bytes=task.bytes,
            rows=len(part["rows"]),
            columns=part["columns"],
            part=read_pairs(task.key, pairs),
        )
