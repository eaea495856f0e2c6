"""The log is lost, and somebody rebuilds it: everything stands still until it is done."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from firnline.errors import FindingsError, FirnlineError
from firnline.footers import FooterFacts, FooterTask, FooterWanted
from firnline.operations import rebuild
from firnline.part_metadata import read_pairs
from firnline.store.base import Store
from firnline_dev.simulate.oracle import Oracle
from firnline_dev.simulate.stage import Stage
from firnline_dev.simulate.world import Violation, World


def lose_the_log(world: World, oracle: Oracle) -> frozenset[str]:
    """Take away every log file. Returns the parts that were live."""
    live = frozenset(oracle.snapshot().live)
    world.late.clear()  # nobody rebuilds a table while requests to it are under way
    for key in [k for k in world.objects if k.startswith(world.paths.log_dir)]:
        world.remove(key)
    world.tell(f"THE LOG IS LOST; {len(live)} parts were live")
    oracle.forgive_past(world.now)
    return live


def rebuild_log(stage: Stage, live: frozenset[str]) -> None:
    """As an operator who knows which of the parts that are asked about were live."""
    table = stage.table
    asked = rebuild.preview(table, rebuild.RebuildOptions(dry_run=True)).undecided
    options = rebuild.RebuildOptions(
        include=tuple(j.key for j in asked if j.key in live),
        exclude=tuple(j.key for j in asked if j.key not in live),
    )
    rebuild.run_rebuild(table, options, stage.run)


def try_to_rebuild(stage: Stage, live: frozenset[str]) -> None:
    """One try; what it may fail of is no violation."""
    stage.actor.tell("begins")
    try:
        rebuild_log(stage, live)
    except FindingsError as error:
        raise Violation(f"rebuild asked again: {error}") from error
    except FirnlineError as error:
        stage.oracle.stats[f"rebuild: {type(error).__name__}"] += 1
        stage.actor.tell(f"ends: {error}")
    else:
        stage.actor.tell("is done")


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
