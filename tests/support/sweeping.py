"""A sweep: an operation is broken at one store call after the other, and has to come right.

After every fault the table reads as before or as afterwards; the operation runs again and comes to
the same end as a clean run; days later nothing dangles.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from firnline.errors import FirnlineError, LogLostError
from firnline.operations.operation import Work
from firnline.operations.options import VerifyOptions
from firnline.operations.verify.run import run_verify
from firnline.paths import Root, TablePaths
from firnline.state.birth import last_number
from firnline.state.history import history
from firnline.state.snapshot import Snapshot, read_snapshot
from firnline.table import Table
from tests.support.effort import sample
from tests.support.log_tables import v1_state
from tests.support.places import Place, Saved, keys_in, next_second
from tests.support.reading import newest_of_keys, rows_of, visible_by_partition
from tests.support.scenarios import DAY, Call, Ids, Scenario, advance, tidy
from tests.support.world import INTERRUPTED, INTERRUPTS, Crashed, Fault, FaultyStore

KINDS = ("before", "after", "lost")
RERUN_MORE = 14
"""Calls that a second run may need beyond a clean one: to publish what the first committed, to
read log files that it wrote, to read back a put, to take away the name that a run which died has
claimed."""
Seen = dict[str, Ids]
_rows_of = functools.lru_cache(maxsize=256)(rows_of)
"""By the file's bytes: after each fault of a sweep nearly the same parts are looked at."""


@dataclass(frozen=True)
class Start:
    """A scenario laid out in a place, and what a clean run of it does."""

    place: Place
    scenario: Scenario
    scratch: Path
    saved: Saved
    known: object
    before: Seen
    after: Seen
    calls: tuple[str, ...]
    """Store calls of the clean run."""
    data: int
    """Objects under ``_data/`` after it."""

    def creates(self, index: int) -> bool:
        """Whether a call is a put of a transaction, a log file, or a version of a mirror."""
        call, paths = self.calls[index], TablePaths(Root.parse(self.saved.settings.root).prefix)
        folders = (paths.txn_dir, paths.log_dir, paths.delta_dir)
        return call.startswith(tuple(f"put {folder}" for folder in folders))

    def may_not_fail(self, fault: Fault) -> bool:
        """A lost answer to such a put is the run's own success: it reads it back."""
        return fault.kind == "lost" and self.creates(fault.at)

    def fresh(self) -> Call:
        return Call(self.place.restored(self.saved), self.scratch, self.known)


@dataclass
class Figures:
    """What a sweep did."""

    calls: int = 0
    points: int = 0
    rerun: int = 0
    """Most calls of a second run."""
    kinds: Counter[str] = field(default_factory=Counter)


def lay_out(place: Place, scenario: Scenario, scratch: Path) -> Start:
    """Lay the table out and run the operation once, cleanly."""
    table = place.new(dict(scenario.settings))
    known = scenario.prepare(Call(table, scratch))
    saved = place.save(table)
    before = seen_of(scenario, table)
    assert every(before) == scenario.before
    call = Call(place.restored(saved), scratch, known)
    store = FaultyStore(call.table.store)
    scenario.run(through(call, store))
    after = observe(call.table)
    assert every(after) == scenario.after
    left = len(keys_in(call.table, "_data"))
    calls = tuple(store.calls)
    return Start(place, scenario, scratch, saved, known, before, after, calls, left)


def through(call: Call, store: FaultyStore) -> Call:
    """The same, through another store."""
    return replace(call, table=replace(call.table, store=store))


def hit(call: Call, operation: Callable[[Call], object], fault: Fault) -> bool:
    """Run with a fault; True when the operation came through all the same."""
    try:
        operation(through(call, FaultyStore(call.table.store, fault)))
    except (Crashed, FirnlineError, *INTERRUPTED):
        return False
    return True


def unpublished(table: Table, snapshot: Snapshot) -> dict[str, bytes]:
    """The log file of a transaction that is committed: readers see it, and v1 clients will."""
    if not snapshot.unpublished:
        return {}
    transaction = table.store.get(table.paths.txn(snapshot.seq))
    return {snapshot.unpublished: transaction.split(b"\n", 2)[2]}


def observe(table: Table, *, hides: bool = True) -> Seen:
    """Partition -> visible ids, once it is sure that the table is sound.

    Each row once; every live part has its object; readers that know what was folded and readers
    that read everything agree, and so do v1 clients; the history has no gap. ``hides``: live parts
    may hold rows that deletes hide.
    """
    snapshot = read_snapshot(table.store, table.paths)
    live = snapshot.live.keys()
    log_files = dict(table.store.get_many(sorted(keys_in(table, "_log"))))
    log_files |= unpublished(table, snapshot)
    assert v1_state({key: data for key, data in log_files.items() if data is not None}) == live
    if table.settings.root.startswith("memory:"):  # elsewhere every request takes its time
        assert read_snapshot(table.store, table.paths, everything=True).live.keys() == live
    # Fails for a live part that has no object.
    parts = {key: data for key, data in table.store.get_many(sorted(live)) if data is not None}
    assert parts.keys() == live
    history = keys_in(table, "_txn") - {table.paths.birth}
    numbers = sorted(map(table.paths.parse_txn, history))
    # A downgrade ends the history, and keeps its own transaction alone.
    first = min([*numbers, last_number(table.store, table.paths) or 1])
    assert numbers == list(range(first, first + len(numbers)))
    found: Seen = {}
    known = {key: _rows_of(data) for key, data in parts.items()}
    for partition, rows in visible_by_partition(table, snapshot, known).items():
        ids = Counter(row["id"] for row in newest_of_keys(table.settings, rows))
        assert set(ids.values()) <= {1}, f"doubled: {ids}"
        if ids:
            found[partition] = frozenset(ids)
    if not hides:
        stored = {row["id"] for rows in known.values() for row in rows}
        assert stored == every(found), "live parts hold more"
    return found


def seen_of(scenario: Scenario, table: Table) -> Seen:
    """``observe``; of a table whose log is lost, as before a rebuild, nothing is visible."""
    try:
        return observe(table, hides=scenario.hides)
    except LogLostError:
        assert scenario.op == "rebuild"
        return {}


def every(seen: Seen) -> Ids:
    """All of them; a row that stands in two partitions is doubled."""
    counted = Counter(n for ids in seen.values() for n in ids)
    assert set(counted.values()) <= {1}, f"doubled: {counted}"
    return frozenset(counted)


def half_way(start: Start, table: Table, *, came_through: bool) -> bool:
    """Check a table right after a fault; True when the operation has taken its whole effect."""
    scenario = start.scenario
    seen = seen_of(scenario, table)
    for partition in start.before | start.after | seen:
        ids = seen.get(partition, frozenset())
        assert ids in (start.before.get(partition, ids), start.after.get(partition, frozenset()))
    if scenario.whole:
        assert seen in (start.before, start.after)
    assert seen == start.after or not came_through
    return seen == start.after


def run_again(start: Start, call: Call, *, done: bool, came_through: bool) -> int:
    """Run it once more; how many store calls that took."""
    scenario, store = start.scenario, FaultyStore(call.table.store)
    second = replace(through(call, store), attempt=2)
    if done and not scenario.repeats:
        return 0
    if scenario.refused and came_through:
        with pytest.raises(FirnlineError, match=scenario.refused):
            scenario.run(second)
    else:
        # One that took effect and died all the same is free to finish what it can.
        _run_or(scenario, second, scenario.refused if done else "")
    return len(store.calls)


def _run_or(scenario: Scenario, call: Call, refused: str) -> None:
    try:
        scenario.run(call)
    except FirnlineError as error:
        if not refused or refused not in str(error):
            raise


def come_right(start: Start, call: Call, *, done: bool, came_through: bool) -> int:
    """After a fault: the second run ends as a clean one; its store calls."""
    scenario, table = start.scenario, call.table
    advance(table, 1000)
    calls = run_again(start, call, done=done, came_through=came_through)
    assert calls <= len(start.calls) + RERUN_MORE, calls
    if scenario.deletes:
        assert len(keys_in(table, "_data")) == start.data
    committed_once(start, table)
    return calls


def committed_once(start: Start, table: Table) -> None:
    """No more transactions than there may be."""
    if start.scenario.transactions:
        ran = [header for header in history(table) if header.op == start.scenario.op]
        assert len(ran) in start.scenario.transactions


def days_later(start: Start, call: Call) -> None:
    """What was run to its end stays so, and nothing dangles."""
    scenario, table = start.scenario, call.table
    if start.place.kind == "memory":  # in the end it is looked at everywhere
        assert observe(table) == start.after
    if scenario.idle:
        idle = FaultyStore(table.store)
        scenario.run(through(call, idle))
        assert not [c for c in idle.calls if c.startswith(("put", "delete"))], idle.calls
    scenario.settled(call)
    for _ in range(2):  # of an idle table the first sweep only marks what the second deletes
        advance(table, 4 * DAY)
        next_second(table)
        (scenario.later or tidy)(replace(call, attempt=3))
    nothing_dangles(start, table)


def nothing_dangles(start: Start, table: Table) -> None:
    """Every object is a live part's or of the log, and a check finds nothing."""
    assert observe(table) == start.after
    assert keys_in(table, "_data") == read_snapshot(table.store, table.paths).live.keys()
    assert keys_in(table, "_probe") == set()
    report = run_verify(Work(table), VerifyOptions())
    assert report.healthy, report.findings
    assert list(start.scratch.glob("*")) == [], "scratch is cleaned"


def every_point(calls: Sequence[str]) -> list[Fault]:
    """Every call in every way in which a process or an answer is lost."""
    return [Fault(index, kind) for index in range(len(calls)) for kind in KINDS]


def every_interrupt(calls: Sequence[str]) -> list[Fault]:
    """Every call, before its effect and after it, in every way in which a run is interrupted."""
    return [
        Fault(index, kind, interrupt)
        for index in range(len(calls))
        for kind in ("before", "after")
        for interrupt in INTERRUPTS
    ]


def each_interrupt(calls: Sequence[str]) -> list[Fault]:
    """Every call, before its effect and after it, in one of the ways in turn."""
    every = every_interrupt(calls)
    return [every[at * len(INTERRUPTS) + at % len(INTERRUPTS)] for at in range(2 * len(calls))]


def some_deaths(calls: Sequence[str], commits: Callable[[int], bool], *what: str) -> list[Fault]:
    """Return most calls in one of the ways, and what commits in all; all in `make test-full`.

    Args:
        calls: store calls of a clean run.
        commits: whether a call commits or publishes, by its number.
        what: names the sample, which chooses the way.
    """
    every = every_point(calls)
    # Every fifth: neither always the same call of some nor always the same way.
    chosen = set(sample(range(len(every)), len(every) // 5, "deaths", *what))
    return [fault for n, fault in enumerate(every) if n in chosen or commits(fault.at)]


def some_points(
    points: Sequence[Fault], commits: Callable[[int], bool], count: int, *what: str
) -> list[Fault]:
    """Return a sample of them, and beside it one of what commits; all in `make test-full`.

    Args:
        points: all there are.
        commits: whether a call commits or publishes, by its number.
        count: points in the sample.
        what: names the sample.
    """
    committing = [fault for fault in points if commits(fault.at)]
    chosen = sample(points, count, *what) + sample(committing, 1, "commits", *what)
    return [fault for fault in points if fault in chosen]


def sweep(start: Start, points: Sequence[Fault]) -> Figures:
    """Break the operation at each of these points."""
    figures = Figures(calls=len(start.calls))
    for fault in points:
        call = start.fresh()
        try:
            came_through = hit(call, start.scenario.run, fault)
            assert came_through or not start.may_not_fail(fault), "its own put was not recognised"
            done = half_way(start, call.table, came_through=came_through)
            start.scenario.sound(call)
            again = come_right(start, call, done=done, came_through=came_through)
            days_later(start, call)
        except Exception as error:
            where = f"{start.scenario.name} on {start.place.kind}: {fault}"
            error.add_note(f"{where}, call {start.calls[fault.at]}")
            raise
        figures.points += 1
        figures.kinds["interrupted" if fault.interrupt else fault.kind] += 1
        figures.rerun = max(figures.rerun, again)
    return figures
