"""All worlds by name: those of the protocol, and the small models of single rules."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from simulation.model.changes import Changes
from simulation.model.metadata import Metadata
from simulation.model.protocol import Protocol
from simulation.model.restores import RestoreAndErase, RestoreAndMerge
from simulation.model.scenarios import LARGE, SMALL
from simulation.model.search import Model
from simulation.model.world import Scenario


@dataclass(frozen=True, slots=True)
class World:
    """Something that can be searched."""

    name: str
    what: str
    model: Callable[[frozenset[str]], Model[Any]]
    """Makes the model with rules switched off."""


def _of(scenario: Scenario) -> World:
    return World(scenario.name, scenario.what, lambda off: Protocol(scenario, off))


EVERY_RUN = (
    *map(_of, SMALL),
    World("a feed of changes", "an append lands in a merge of a table with a key", Changes),
    World("a restore and an erase", "what was dropped is restored after an erase", RestoreAndErase),
    World(
        "a restore and a merge", "an older row of a key comes back beside a merge", RestoreAndMerge
    ),
    World("metadata of a mirror", "publishers, a sweep, a reader and a certificate", Metadata),
)
"""Worlds of every run."""

IN_FULL = tuple(map(_of, LARGE))
"""Worlds of ``--full`` besides."""

WORLDS = {world.name: world for world in (*EVERY_RUN, *IN_FULL)}
