"""Once faults stop, what somebody begins is completed within so many steps.

From each reachable state of a world all its processes are stopped for good, as if they had died,
and one new process works alone: it is not interrupted, does not sleep, and its requests are
answered. A day passes when it can do nothing. The worst number of steps is stated, days included.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from simulation.model.committer import mark, merge, steps
from simulation.model.erases import certificate
from simulation.model.others import clean_up, dead_parts, old_logs, sweep
from simulation.model.protocol import Protocol
from simulation.model.scenarios import SMALL
from simulation.model.search import reachable
from simulation.model.world import Actor, Process, State, World

MOST = 200
"""Steps after which nothing is taken to come any more."""


@dataclass(frozen=True, slots=True)
class Promise:
    """Something that is completed whatever came before."""

    what: str
    world: str
    """The world whose states it begins in."""
    actors: tuple[Actor, ...]
    """Processes that work in turn, each after the one before has ended; days pass between turns."""
    kept: Callable[[World, State, State], bool]
    """True if it is completed, of the state in the beginning and the one now."""
    k: int
    """Steps within which it is."""
    asked: Callable[[State], bool] = lambda _: True
    """States in which there is something to complete."""


@dataclass(frozen=True, slots=True)
class Measured:
    """How long it took at worst."""

    states: int
    steps: int
    seconds: float
    broken: str = ""


def measure(promise: Promise) -> Measured:
    """Let the new process work in every reachable state."""
    began = time.monotonic()
    scenario = next(s for s in SMALL if s.name == promise.world)
    actors = tuple(("the last one", act) for act in promise.actors)
    alone = replace(scenario, actors=actors, sleepers=False, lost_answers=False)
    world, begins, worst = World(alone, frozenset(), {}), set[State](), 0
    for state in reachable(Protocol(scenario)):
        begins.add(state._replace(processes=()))
    begins = {state for state in begins if promise.asked(state)}
    for state in begins:
        took = _steps(world, promise, state)
        worst = max(worst, took)
        if took > promise.k:
            said = f"not completed within {promise.k} steps from {state.txns} {state.log}"
            return Measured(len(begins), worst, time.monotonic() - began, said)
    return Measured(len(begins), worst, time.monotonic() - began)


def _steps(world: World, promise: Promise, first: State) -> int:
    """Return the number of steps until it is completed."""
    fresh = tuple(Process("begin") for _ in promise.actors)
    state, taken, turn = first._replace(processes=fresh), 0, 0
    while not promise.kept(world, first, state):
        if taken == MOST:
            return MOST
        taken += 1
        step = next(promise.actors[turn](world, state, turn), None)
        if step is not None:
            state = step[1]
        if step is None or _has_ended(state.processes[turn]):
            turn += 1
        if turn == len(promise.actors):
            state, turn = state._replace(tick=state.tick + 1, processes=fresh), 0
    return taken


def _has_ended(process: Process) -> bool:
    return process.at in ("done", "nothing", "failed", "unknown") or process == Process("begin")


def _merged(world: World, _first: State, state: State) -> bool:
    """One part is live, as after a merge, and its transaction is published."""
    live = world.read(state.log).live
    return _published(world, _first, state) and all(part.startswith("output") for part in live)


def _published(world: World, _first: State, state: State) -> bool:
    return state.txn(world.read(state.log).seq + 1) is None


def _cleaned(world: World, first: State, state: State) -> bool:
    """Nothing is left of what was dead or folded in the beginning."""
    snap = world.read(first.log, everything=True)
    later = first._replace(tick=first.tick + 9)
    there = {part for part, _ in state.parts} | {f.name for f, _ in state.log}
    return there.isdisjoint((*dead_parts(world, later, snap), *old_logs(world, later, snap)))


def _certified(_world: World, _first: State, state: State) -> bool:
    return any(p.at == "complete" for p in state.processes)


def _is_erased(state: State) -> bool:
    return any(r for f, _ in (*state.txns, *state.log) for r in f.file.records)


PROMISES = (
    Promise("a merge is published", "numbers of merges", (steps(merge),), _merged, 5),
    Promise("a commit is published", "unpublished", (steps(mark),), _published, 2),
    Promise("a clean-up deletes", "late publications", (clean_up(),), _cleaned, 9),
    Promise(
        "a certificate is complete",
        "an erase",
        (clean_up(), sweep, certificate),
        _certified,
        31,
        _is_erased,
    ),
)
