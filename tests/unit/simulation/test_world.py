"""Time in the simulated worlds: it passes for everybody who waits, and nobody waits for ever."""

from __future__ import annotations

import random
from typing import NoReturn

import greenlet
import pytest

from simulation.actors import OPERATIONS
from simulation.chance import Chance
from simulation.kinds import settings_of
from simulation.mix import Mix
from simulation.world import Actor, SimClock, Violation, World


def alone() -> Actor:
    """A process of a world in which nobody else is."""
    mix = Mix.of(random.Random(1), list(OPERATIONS))
    world = World(Chance(1), mix, settings_of(mix), calm=True)
    return Actor(world, "verify", 1, 0, greenlet.getcurrent(), random.Random(1))


def test_time_passes_for_one_who_sleeps_alone() -> None:
    actor = alone()
    clock, before = SimClock(actor), actor.world.now
    for _ in range(10):
        clock.sleep(0.5)
    assert actor.world.now - before == 5_000


def test_a_process_that_does_not_end_is_a_finding() -> None:
    clock = SimClock(alone())

    def wait_for_ever() -> NoReturn:
        while True:
            clock.sleep(0)

    with pytest.raises(Violation, match="verify does not end: request 100,001 is sleep 0"):
        wait_for_ever()
