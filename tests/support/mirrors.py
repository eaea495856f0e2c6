"""The mirror of a table, read by this module alone, and tables that have one."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import unquote

from firnline.commit.base import take_base
from firnline.commit.change import Change
from firnline.commit.transaction import commit
from firnline.log.txn_file import Counts, RunIdentity
from firnline.properties.in_force import from_settings
from tests.support.world import World, make_world

RUN = RunIdentity(run_id="r")


def mirrored_world(**settings: Any) -> World:
    """A table of log files alone whose properties say that it has a Delta mirror."""
    world = make_world(**{"mirror": ["delta"], **settings})
    change = Change(
        op="properties",
        replaces=(),
        adds=(),
        counts=Counts(),
        properties=from_settings(world.settings),
    )
    commit(world.table, take_base(world.table), change, RUN)
    return world


def versions(world: World) -> list[list[dict[str, Any]]]:
    """The actions of every version, from 0 on without a gap."""
    folder = f"{world.table.paths.prefix}/_delta_log/"
    keys = sorted(k for k in world.store.objects if k.startswith(folder) and k.endswith(".json"))
    assert keys == [f"{folder}{number:020d}.json" for number in range(len(keys))]
    return [[json.loads(line) for line in world.store.objects[k][0].splitlines()] for k in keys]


def states(world: World) -> list[set[str]]:
    """The keys of the parts that each version shows."""
    shown: set[str] = set()
    found: list[set[str]] = []
    for actions in versions(world):
        for action in actions:
            if "add" in action:
                assert action["add"]["path"] not in shown, "a file is added once"
                shown.add(action["add"]["path"])
            if "remove" in action:
                shown.remove(action["remove"]["path"])
        found.append({f"{world.table.paths.prefix}/{unquote(path)}" for path in shown})
    return found
