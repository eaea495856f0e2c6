"""Processes in few steps: of a sleeper only the requests before and after its sleep are steps.

They keep worlds small in which others have to do much. What they leave out, the worlds with whole
processes have (``committer``, ``others``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from simulation.model.committer import Plan, unpublished
from simulation.model.drafts import Change, draft
from simulation.model.files import Ref, Snap
from simulation.model.others import (
    appended,
    dead_parts,
    free_parts,
    named_parts,
    old_logs,
    old_transactions,
)
from simulation.model.world import Process, State, Step, World

Act = Callable[[World, State, int], Iterator[Step]]


def dying(plan: Plan) -> Act:
    """Return a committer that may sleep before its put, and dies right after it."""

    def act(world: World, state: State, number: int) -> Iterator[Step]:
        p, who = state.processes[number], world.name(number)
        if p.at == "put" and p.file is not None and state.txn(p.file.seq) is None:
            after = state.put_txn(p.file).now(number, Process("dead"))
            yield f"{who} wakes, puts {p.file} and dies", after
        if p.at != "begin":
            return
        snap = world.read(state.log)
        change = plan(world, snap, who)
        if unpublished(state, snap.seq) is not None or change is None:
            return
        made = draft(world.base(state, snap), change, who, state.tick)
        for marker in change.adds:
            state = state.put_part(marker.part)
        ready = Process("put", snap.seq, state.tick, made)
        yield f"{who} uploads its outputs and prepares {made}", state.now(number, ready)

    return act


def echo(which: Callable[[State], Ref | None]) -> Act:
    """Return a process whose put of a log file that others have created takes effect late."""

    def act(world: World, state: State, number: int) -> Iterator[Step]:
        p, who = state.processes[number], world.name(number)
        if p.at == "begin":
            file = which(state)
            if file is not None:
                ready = state.now(number, Process("put again", file.seq, state.tick, file))
                yield f"{who} is about to put {file} again, and sleeps", ready
        elif p.at == "put again" and p.file is not None:
            after = state.put_log(p.file).now(number, Process("dead"))
            yield f"{who} wakes and puts {p.file}", after

    return act


def an_append(state: State) -> Ref | None:
    """Return the log file of an append, if one is there."""
    return next((f for f, _ in state.log if not f.seq), None)


def a_commit(state: State) -> Ref | None:
    """Return the log file of transaction 2, if it is there."""
    return next((f for f, _ in state.log if f.seq == 2), None)


def appends_at_once(world: World, state: State, number: int) -> Iterator[Step]:
    """Append a part, in one step."""
    p, who = state.processes[number], world.name(number)
    if p.at == "begin":
        begun = appended(world, state, who)
        assert begun.out is not None
        assert begun.file is not None
        after = state.put_part(begun.out.part).put_log(begun.file)
        yield (
            f"{who} appends {begun.out.part}",
            after.now(number, begun._replace(at="acknowledged")),
        )


def late_append(world: World, state: State, number: int) -> Iterator[Step]:
    """Upload a part, sleep, put its log file too late, and die."""
    p, who = state.processes[number], world.name(number)
    if p.at == "begin":
        begun = appended(world, state, who)
        assert begun.out is not None
        after = state.put_part(begun.out.part).now(number, begun._replace(at="put"))
        yield f"{who} uploads {begun.out.part}", after
    elif p.at == "put" and p.file is not None and world.late(state, p):
        yield (
            f"{who} wakes and puts its log file",
            state.put_log(p.file).now(number, Process("dead")),
        )


def sweeper(world: World, state: State, number: int) -> Iterator[Step]:
    """Sweep in one step, as far as the fence reaches."""
    p, who = state.processes[number], world.name(number)
    if p.at != "begin":
        return
    state, snap = _published(world, state)
    free = free_parts(world, state, named_parts(world, snap), snap.fence, state.tick)
    if free:
        after = state.without(frozenset(free)).now(number, Process("done"))
        yield f"{who} deletes {', '.join(free)}", after


def _published(world: World, state: State) -> tuple[State, Snap]:
    """Return the state, and what is read, after whoever takes a base has published."""
    waiting = unpublished(state, world.read(state.log).seq)
    state = state if waiting is None else state.put_log(waiting)
    return state, world.read(state.log, everything=True)


def cleaner(times: int, *, publishes: bool = False) -> Act:
    """Return a clean-up, each time in one step; what it confirms a rival's commit forgets."""

    def act(world: World, state: State, number: int) -> Iterator[Step]:
        p, who = state.processes[number], world.name(number)
        if publishes:
            state, _ = _published(world, state)
        snap = world.read(state.log, everything=True)
        if p.left == times or unpublished(state, snap.seq) is not None:
            return
        logs, parts = old_logs(world, state, snap), dead_parts(world, state, snap)
        old = old_transactions(world, state, snap)
        going = (*logs, *parts)
        if not going and not old:
            return
        after = state.without(frozenset(going))._replace(
            txns=tuple(item for item in state.txns if item[0].name not in old)
        )
        if parts:
            left = world.read(after.log, everything=True)
            change = Change(confirmed=frozenset(parts), everything=True)
            tiers = world.scenario.tiers
            made = draft(world.base(after, left), change, who, state.tick, keep_old=tiers)
            if after.txn(made.seq) is None:
                after = after.put_txn(made).put_log(made)
        said = ", ".join((*going, *(f"{name} under _txn/" for name in old)))
        yield f"{who} deletes {said}", after.now(number, p._replace(left=p.left + 1))

    return act


def torn(world: World, state: State, number: int) -> Iterator[Step]:
    """Commit on a listing of two pages: log files of appends are on the first."""
    p, who = state.processes[number], world.name(number)
    if p.at == "begin":
        page = tuple(item for item in state.log if not item[0].seq)
        ready = Process("second page", began=state.tick, listing=page)
        yield f"{who} lists the first page of _log/", state.now(number, ready)
    elif p.at == "second page":
        listing = (*p.listing, *(item for item in state.log if item[0].seq))
        snap = world.read(listing)
        base = replace(world.base(state, snap), listing=listing)
        made = draft(base, Change(), who, state.tick)
        if state.txn(made.seq) is None:
            after = state.put_txn(made).put_log(made).now(number, Process("dead"))
            yield f"{who} lists the second page and commits {made}", after
