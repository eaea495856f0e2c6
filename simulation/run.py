"""Runs one seed: actors start, interleave at their requests and end; the oracle checks."""

from __future__ import annotations

import logging
import random
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import ModuleType

import greenlet

from firnline.commit import fold
from firnline.operations.analyze import run as analyze
from firnline.operations.erase import run as erase
from firnline.operations.merge import slices
from firnline.operations.prepared import expiry
from firnline.operations.rebuild import inventory
from firnline.operations.replace import rows as replace_rows
from firnline.operations.restore import run as restore
from firnline.operations.rewrite import prepare
from firnline.operations.schema import lazy as evolve
from firnline.operations.update import plan as update_plan
from firnline.rows import parts as part_rows
from firnline.store.probe import forget
from simulation import aging, holds, once, prepared, rows, updates
from simulation.actors import DRAWN_LATER, OPERATIONS, find_nothing, playing, wait_for_nothing
from simulation.aging import AGING
from simulation.chance import Chance, Event
from simulation.changes import Followers
from simulation.disaster import (
    FORGETFUL,
    HISTORY_LOST,
    clear_the_place,
    is_refused,
    lose_a_part,
    lose_the_history,
    lose_the_log,
    read_footers,
    try_to_rebuild,
)
from simulation.holds import HOLDING
from simulation.kinds import KINDS, settings_of
from simulation.layouts import footers_with_bounds
from simulation.mirrors import IN_CATALOG, MIRRORED, VECTORED, DeltaPublishers, Publishers
from simulation.mix import Mix
from simulation.oracle import Oracle
from simulation.prepared import PREPARING
from simulation.proofs import FAULTY, WEIGHTS, kind_of
from simulation.settings import wanted_by
from simulation.sleepers import SLEEP, SLEEPING, weights_of
from simulation.stage import Stage, stage_of
from simulation.streams import Audience
from simulation.updates import UPDATING
from simulation.world import AHEAD, TICK, Actor, Violation, World, resume

_SKEWS: dict[str, tuple[int, ...]] = {
    "append": (0, 0, -200 * TICK, 150 * TICK),
    "cleanup": (0,),
    "sweep": (0,),
}
"""Clock skews in ms by operation: only processes that delete need a correct clock."""
_OTHER_SKEWS = (0, 0, 0, -1000 * TICK, AHEAD)
_YEARS = 10 * 365 * 86_400_000
_MEMORY = Path("/dev/shm")  # noqa: S108 - a folder that is made and removed, not a name to guess
"""Memory file system for the scratch folders of appends: a busy disk would dominate the time."""
_TRIES = 12
"""Maximum tries of a rebuild; the last one is without faults."""


@dataclass(frozen=True)
class Finding:
    """A violation found in a seed."""

    seed: int
    step: int
    what: str


@dataclass
class Played:
    """The result of a seed."""

    finding: Finding | None
    trace: list[str]
    stats: Counter[str]
    events: tuple[Event, ...] = ()
    """Random events that happened."""


def play_seed(seed: int, kept: frozenset[Event] | None = None) -> Played:
    """Run one seed to its end or first violation, with only the events in ``kept``."""
    chance = Chance(seed, kept)
    r = chance.stream(0)
    mix = Mix.of(r, [name for name in OPERATIONS if name not in DRAWN_LATER])
    mix = replace(
        mix,
        mirror=seed in MIRRORED or seed in VECTORED or seed in IN_CATALOG,
        vectors=seed in VECTORED,
        catalog=seed in IN_CATALOG,
    )
    if seed in FAULTY:
        mix = replace(mix, kind=kind_of(seed), weights=mix.weights | WEIGHTS)
    if seed in SLEEPING:
        mix = replace(
            mix, sleep=SLEEP, jump=0.02, weights=weights_of(mix), lost_log=0.0, lost_part=0.0
        )
    if seed in once.KEYED:
        weights = once.weights_of(mix)
        # Half of them have sleepers, too. A rebuild knows no keys of appends that nobody folded.
        sleep = SLEEP if seed % 2 else 0.0
        # Without sleepers time is short: who is paused goes on before its append is too old.
        jump = 0.02 if seed % 2 else 0.002
        mix = replace(mix, sleep=sleep, jump=jump, weights=weights, lost_log=0.0, lost_part=0.0)
        mix = replace(mix, once_ms=once.ONCE_MS, pause=0.1, busy=7, crash=0.01)
    if seed in FORGETFUL:
        mix = replace(mix, lost_history=HISTORY_LOST, lost_log=0.0, lost_part=0.0)
    if seed in AGING:
        mix = replace(mix, kind="aging", deletes=True, weights=mix.weights | aging.WEIGHTS)
    if seed in PREPARING:
        mix = replace(mix, weights=mix.weights | prepared.WEIGHTS)
    if seed in HOLDING:
        mix = holds.mix_of(mix, seed)
    if seed in UPDATING:
        mix = updates.mix_of(mix, seed)
    world = World(chance, mix, settings_of(mix))
    oracle = Oracle(world)
    world.on_put = oracle.on_put
    try:
        with _light(mix), _catalog(world):
            _play(world, oracle)
        finding = None
    except Violation as violation:
        finding = Finding(seed, world.step, str(violation))
    return Played(finding, world.trace, oracle.stats, tuple(chance.events))


@contextmanager
def _light(mix: Mix) -> Iterator[None]:
    """Use JSON instead of Parquet, which takes milliseconds and is not part of the protocol."""
    put: list[tuple[ModuleType, str, object]] = [
        (part_rows, "write_part", rows.write_part),
        (inventory, "many_facts", read_footers),
        (analyze, "many_facts", footers_with_bounds),
        (slices, "many_facts", read_footers),
        (replace_rows, "row_check", rows.unchecked),
        (restore, "each", rows.one_by_one),
        (prepare, "evidence", prepared.no_evidence),
        (update_plan, "check", updates.no_check),
        (fold, "TIER", mix.tier),
        # An older firnline changes columns lazily: then the mirror has to wait.
        (evolve, "refuse_to_hold", lambda *_: None),
    ]
    if not mix.weights.get("prepare"):  # no request for what no actor prepares
        put += [
            (expiry, "held", prepared.nothing_held),
            (erase, "discard_changed", prepared.nothing),
        ]
    real = [(module, name, module.__dict__[name]) for module, name, _ in put]
    folder, level = tempfile.gettempdir(), logging.root.manager.disable
    for module, name, other in put:
        module.__dict__[name] = other
    tempfile.tempdir = str(_MEMORY) if _MEMORY.is_dir() else folder
    forget()  # every world has its own store
    logging.disable(logging.CRITICAL)  # thousands of runs that fail as they must
    try:
        yield
    finally:
        for module, name, own in real:
            module.__dict__[name] = own
        tempfile.tempdir = folder
        logging.disable(level)


def _catalog(world: World) -> AbstractContextManager[None]:
    """Return the catalog of a world's Iceberg mirror, whose library takes a second to load."""
    if world.settings.iceberg is None:
        return nullcontext()
    from simulation.catalog import in_world

    return in_world(world)


def _publishers(world: World, oracle: Oracle) -> Publishers:
    if world.settings.iceberg is None:
        return DeltaPublishers(world, oracle)
    from simulation.snapshots import CatalogPublishers

    return CatalogPublishers(world, oracle)


def play_seeds(first: int, count: int) -> Finding | Counter[str]:
    """Run several seeds; return the first finding, or the statistics of all."""
    total: Counter[str] = Counter()
    for seed in range(first, first + count):
        played = play_seed(seed)
        if played.finding is not None:
            return played.finding
        total.update(played.stats)
    return total


@dataclass
class _Cast:
    """The running actors."""

    world: World
    oracle: Oracle
    names: list[str] = field(default_factory=list)
    weights: list[float] = field(default_factory=list)
    actors: list[tuple[Actor, greenlet.greenlet]] = field(default_factory=list)

    def enter(self) -> None:
        """Start a new actor at random."""
        world = self.world
        full = len(self.awake()) >= world.mix.busy and world.chance.kept is None
        if full or not world.chance.happens("spawn", world.step, 0, 0.3):
            return
        r = world.chance.stream(world.step, 1)
        name = r.choices(self.names, self.weights)[0] if self.oracle.landed else "append"
        skew = r.choice(_SKEWS.get(name, _OTHER_SKEWS))
        if name == "append" and world.chance.happens("ahead", world.step, 0, world.mix.ahead):
            skew = _YEARS
        self.start(name, skew, r)

    def start(self, name: str, skew: int, r: random.Random) -> Actor:
        """Start an actor and run it to before its first request."""
        world = self.world
        hub = greenlet.getcurrent()
        actor = Actor(world, f"{name}-{world.step}", world.step, skew, hub, r)
        settings = wanted_by(world, actor)
        play = playing(name, stage_of(world, self.oracle, actor, settings))
        self.actors.append((actor, greenlet.greenlet(play)))
        return actor

    def under_way(self) -> frozenset[str]:
        """Return the names of the actors that have not ended."""
        return frozenset(actor.name for actor, _ in self.actors)

    def awake(self) -> list[tuple[Actor, greenlet.greenlet]]:
        """Return the actors that are not paused."""
        step = self.world.step
        return [one for one in self.actors if one[0].frozen_until <= step]

    def act(self) -> None:
        """Run one actor to its next request, unless it is paused."""
        step, chance = self.world.step, self.world.chance
        awake = self.awake()
        if not awake:
            return
        chosen = min(awake, key=lambda one: chance.roll(step, one[0].number))
        actor, thread = chosen
        if chance.happens("pause", step, actor.number, self.world.mix.pause):
            actor.stand_still(chance.stream(step, actor.number).randint(30, 400))
        elif not resume(thread):
            if actor.dead:
                self.oracle.stats["crash"] += 1
            self.actors.remove(chosen)

    def survive_losses(self) -> None:
        """Lose what this step loses."""
        world = self.world
        if world.chance.happens("lost log", world.step, 0, world.mix.lost_log):
            self.survive_a_lost_log()
        if world.chance.happens("lost part", world.step, 0, world.mix.lost_part):
            self.survive_a_lost_part()
        if world.chance.happens("lost history", world.step, 0, world.mix.lost_history):
            self.survive_a_lost_history()

    def survive_a_lost_log(self) -> None:
        """Stop all actors, lose the log, and rebuild it with as many tries as needed."""
        world, oracle = self.world, self.oracle
        self.leave()
        live = lose_the_log(world, oracle)
        if any(key.startswith(world.paths.txn_dir) for key in world.objects):
            self._is_refused(2)  # or sees the right rows
        elif not live:
            return
        self._rebuild(live)

    def survive_a_lost_part(self) -> None:
        """Stop all actors, lose log files, and rebuild the log if any operation refuses it."""
        world, oracle = self.world, self.oracle
        self.leave()
        live = lose_a_part(world, oracle, world.chance.stream(world.step, 4720))
        if live is None or not self._is_refused(0):
            return
        oracle.forgive_past(world.now)
        oracle.stats["log lost in part"] += 1
        self._rebuild(live)
        if self._is_refused(1):
            raise Violation("a rebuild does not repair a log that is lost in part")

    def survive_a_lost_history(self) -> None:
        """Stop all actors and lose transactions: everybody goes on, and rows stay as they are."""
        self.leave()
        world = self.world
        if lose_the_history(world, self.oracle, world.chance.stream(world.step, 4721)):
            self.oracle.forgive_past(world.now)

    def _is_refused(self, number: int) -> bool:
        """Return True if the log is refused, checked by all operations without faults."""
        world, found = self.world, list[bool]()
        world.calm = True
        number += 3 * (world.mix.steps * (_TRIES + 2) + world.step)
        r = world.chance.stream(number)
        actor = Actor(world, "looks", number, 0, greenlet.getcurrent(), r)
        stage = stage_of(world, self.oracle, actor)
        thread = greenlet.greenlet(lambda: found.append(is_refused(stage)))
        while resume(thread):
            pass
        world.calm = False
        return found[0]

    def _rebuild(self, live: frozenset[str]) -> None:
        """Rebuild the log with as many tries as needed."""
        world, oracle, done = self.world, self.oracle, list[bool]()
        for tries in range(_TRIES):
            world.calm = tries == _TRIES - 1
            number = world.mix.steps * (tries + 1) + world.step
            r = world.chance.stream(number)
            actor = Actor(world, f"rebuild-{tries}", number, 0, greenlet.getcurrent(), r)
            thread = greenlet.greenlet(
                partial(try_to_rebuild, stage_of(world, oracle, actor), live, done)
            )
            while resume(thread):
                world.now += TICK
            if done:
                break
        world.calm = False
        oracle.adopt()

    def leave(self) -> None:
        """End all actors where they are."""
        for actor, thread in self.actors:
            actor.dead = True
            resume(thread)
        self.actors.clear()


def _play(world: World, oracle: Oracle) -> None:
    left_out = KINDS[world.mix.kind].without
    weights = {name: w for name, w in world.mix.weights.items() if name not in left_out}
    cast = _Cast(world, oracle, list(weights), list(weights.values()))
    audience = Audience(world, oracle)
    publishers = _publishers(world, oracle)
    followers = Followers(world, oracle)
    try:
        steps = range(world.mix.steps)
        for world.step in steps:
            _pass_time(world)
            world.land_late_puts()
            clear_the_place(world, oracle, cast.under_way())
            cast.enter()
            cast.act()
            audience.act()
            publishers.act()
            followers.act()
            cast.survive_losses()
            oracle.check()
    finally:
        cast.leave()
        audience.leave()
        publishers.leave()
        followers.leave()
    world.calm = True
    audience.finish()
    publishers.finish()
    followers.finish()
    _at_the_end(world, oracle, find_nothing)
    if held := world.mix.weights.get("hold") and oracle.landed:
        _at_the_end(world, oracle, holds.end_all)
    if world.mix.ahead or held:
        _at_the_end(world, oracle, wait_for_nothing)
    if world.mix.weights.get("prepare") and oracle.landed:
        _at_the_end(world, oracle, prepared.leave_nothing)
    if world.settings.iceberg is not None and oracle.landed:
        from simulation.snapshots import leave_nothing

        _at_the_end(world, oracle, leave_nothing)


def _at_the_end(world: World, oracle: Oracle, looks: Callable[[Stage], None]) -> None:
    """Run a check of the table after all actors have ended."""
    hub = greenlet.getcurrent()
    actor = Actor(world, "verify", world.mix.steps, 0, hub, world.chance.stream(world.mix.steps))
    thread = greenlet.greenlet(partial(looks, stage_of(world, oracle, actor)))
    while resume(thread):
        pass


def _pass_time(world: World) -> None:
    if world.chance.happens("leap", world.step, 0, world.mix.jump):
        ticks = (150, 250, 600)[int(world.chance.roll(world.step, 2) * 3)]
        world.tell(f"{ticks * TICK / 3_600_000:.1f} hours pass")
    else:
        ticks = (0, 1, 1, 2, 5)[int(world.chance.roll(world.step, 3) * 5)]
    world.now += ticks * TICK
