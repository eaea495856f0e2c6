"""Settings of processes: those of the table, none, or others; and changes of its properties."""

from __future__ import annotations

from typing import Any

from firnline.operations.properties.run import run_apply
from firnline.settings.load import TableSettings
from simulation.kinds import settings_of
from simulation.layouts import change_layout
from simulation.stage import Stage
from simulation.world import GRACE, TTL, Actor, World

_FACTORS = (0.5, 1, 2)


def wanted_by(world: World, actor: Actor) -> TableSettings:
    """Return the settings of a process; differences from the table's own must not matter.

    Only for an existing table: the first append determines its properties.
    """
    there = any(key.startswith(world.paths.txn_dir) for key in world.objects)
    roll = world.chance.roll(actor.number, 4731)
    if not there or roll >= world.mix.differ:
        return world.settings
    keyed = bool(world.settings.primary_key)
    return (_root_alone, _in_a_hurry, _of_another_key if keyed else _in_a_hurry)[
        int(roll / world.mix.differ * 3)
    ](world)


def _root_alone(world: World) -> TableSettings:
    """Return the settings of a bare root URL: how to write parts, but no table properties."""
    known = world.settings
    found = TableSettings.model_validate({"name": "t", "root": known.root})
    return found.model_copy(update={"merge": known.merge, "rewrite": known.rewrite})


def _in_a_hurry(world: World) -> TableSettings:
    """Return settings with times to live too short to wait for any other process."""
    return settings_of(world.mix, ttl=TTL // 16, grace=GRACE // 16)


def _of_another_key(world: World) -> TableSettings:
    found: dict[str, Any] = {"primary_key": ("k",), "version": None, "deleted": None}
    return world.settings.model_copy(update=found | {"deleted_keep": None})


def change_properties(stage: Stage) -> None:
    """Change the table's times to live while other processes still use the former ones."""
    if stage.kind.moves:
        return change_layout(stage)
    r, world = stage.r, stage.world
    ttl, grace = int(r.choice(_FACTORS) * TTL), int(r.choice((0.25, 1, 2)) * GRACE)
    stage.actor.tell(f"begins: append.ttl and commit_ttl {ttl} ms, grace {grace} ms")
    wants = settings_of(world.mix, ttl=ttl, grace=grace)
    run_apply(stage.with_settings(wants).table, stage.run)
    return None
