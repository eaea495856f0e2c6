"""One seed: actors come, act between each other's requests, and go; the oracle looks on."""

from __future__ import annotations

import logging
import random
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import greenlet

from firnline import append_run
from firnline.settings import TableSettings
from firnline_dev.simulate import rows
from firnline_dev.simulate.actors import OPERATIONS, playing, stage_of
from firnline_dev.simulate.oracle import Oracle
from firnline_dev.simulate.world import (
    GRACE,
    ROOT,
    TICK,
    TTL,
    Actor,
    Crashed,
    Mix,
    Violation,
    World,
)

_SKEWS = (0, 0, -200 * TICK, 150 * TICK)
"""Of the clocks of appenders; maintenance runs on one machine's."""


@dataclass(frozen=True)
class Finding:
    """A promise that did not hold in a seed."""

    seed: int
    step: int
    what: str


@dataclass
class Played:
    """What became of a seed."""

    finding: Finding | None
    trace: list[str]
    stats: Counter[str]


def settings_of(mix: Mix) -> TableSettings:
    """The table's settings in a seed."""
    return TableSettings.model_validate(
        {
            "name": "t",
            "root": ROOT,
            "partition_by": ["p"],
            "sort_by": ["u", "k"],
            "deletes": "lazy" if mix.lazy else "eager",
            "append": {"ttl": f"{TTL}ms"},
            "commit_ttl": f"{TTL}ms",
            "cleanup": {"grace": f"{GRACE}ms"},
            "orphan_grace": "24h",
            "merge": {"min_inputs": 2, "commit_every": "0s", "max_parts_per_group": 4},
            "rewrite": {"max_removed_fraction": 1},
        }
    )


def play_seed(seed: int) -> Played:
    """Run one seed to its end or its first violation."""
    r = random.Random(seed)
    mix = Mix.of(r, list(OPERATIONS))
    world = World(r, mix, settings_of(mix))
    oracle = Oracle(world)
    world.on_put = oracle.on_put
    try:
        with _light():
            _play(world, oracle)
        finding = None
    except Violation as violation:
        finding = Finding(seed, world.step, str(violation))
    return Played(finding, world.trace, oracle.stats)


@contextmanager
def _light() -> Iterator[None]:
    """JSON instead of Parquet (milliseconds for each part, and nothing of the protocol in it)."""
    real, level = append_run.__dict__["write_part"], logging.root.manager.disable
    append_run.__dict__["write_part"] = rows.write_part
    logging.disable(logging.CRITICAL)  # thousands of runs that fail as they must
    try:
        yield
    finally:
        append_run.__dict__["write_part"] = real
        logging.disable(level)


def play_seeds(first: int, count: int) -> Finding | Counter[str]:
    """Several seeds; the first finding, or what happened in all of them."""
    total: Counter[str] = Counter()
    for seed in range(first, first + count):
        played = play_seed(seed)
        if played.finding is not None:
            return played.finding
        total.update(played.stats)
    return total


def _play(world: World, oracle: Oracle) -> None:
    r, mix = world.r, world.mix
    hub = greenlet.getcurrent()
    actors: list[tuple[Actor, greenlet.greenlet]] = []
    frozen: dict[str, int] = {}
    names, weights = list(mix.weights), list(mix.weights.values())
    for world.step in range(r.randint(200, 900)):
        _pass_time(world)
        world.land_late_puts()
        if len(actors) < mix.busy and r.random() < 0.3:
            name = r.choices(names, weights)[0]
            skew = r.choice(_SKEWS) if name == "append" else 0
            actor = Actor(world, f"{name}-{world.next_id()}", skew, hub)
            play = playing(name, stage_of(world, oracle, actor))
            actors.append((actor, greenlet.greenlet(play)))
        if actors:
            _act(world, oracle, actors, frozen)
        oracle.check()
    for actor, thread in actors:
        actor.dead = True
        _resume(thread)


def _pass_time(world: World) -> None:
    r = world.r
    if r.random() > world.mix.jump:
        world.now += r.choice([0, 1, 1, 2, 5]) * TICK
    else:
        world.now += r.choice([150, 250, 600]) * TICK


def _act(
    world: World,
    oracle: Oracle,
    actors: list[tuple[Actor, greenlet.greenlet]],
    frozen: dict[str, int],
) -> None:
    """One actor goes on to its next request, unless it is paused."""
    r = world.r
    index = r.randrange(len(actors))
    actor, thread = actors[index]
    if r.random() < world.mix.pause:
        # Stopped, swapped out, or cut off from the network; long enough to be a zombie.
        frozen[actor.name] = world.step + r.randint(30, 400)
    if frozen.get(actor.name, 0) > world.step:
        return
    if not _resume(thread):
        if actor.dead:
            oracle.stats["crash"] += 1
        actors.pop(index)


def _resume(thread: greenlet.greenlet) -> bool:
    """Let an actor run to its next request; False when it has ended."""
    try:
        thread.switch()
    except Crashed:
        return False
    return not thread.dead
