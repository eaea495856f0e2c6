"""The hazard of plans whose time grows with the square of the table (docs/guarantees.md)."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from functools import partial

from firnline.operations.cleanup import run as cleanup
from firnline.operations.delete import run as delete
from firnline.operations.drop import run as drop
from firnline.operations.merge import run as merging
from firnline.operations.operation import Work
from firnline.operations.options import (
    CleanupOptions,
    DeleteOptions,
    DropOptions,
    MergeOptions,
    SweepOptions,
)
from firnline.operations.sweep import run as sweep
from firnline.state.snapshot import read_snapshot
from tests.support.cleanups import GRACE, RUN
from tests.support.engines import CountingEngine
from tests.support.log_tables import put_append
from tests.support.world import World, make_world

FEW, MANY = 100, 1_600
Step = Callable[[World], object]


def appended(count: int) -> World:
    """So many log files, each with parts of two partitions."""
    world = make_world(merge={"min_inputs": 2})
    for number in range(count):
        put_append(world, "d=1", f"e={number % (count // 8)}")
    return world


def merge(world: World) -> None:
    merging.run_merge(Work(world.table, RUN, lambda: CountingEngine(world)), MergeOptions())


def drop_half(world: World) -> None:
    found = [p.partition for p in drop.list_partitions(world.table)]
    drop.run_drop(Work(world.table, RUN), DropOptions(partitions=tuple(found[::2])))


def clean(world: World) -> None:
    world.clock.advance(2 * GRACE)
    cleanup.run_cleanup(Work(world.table, RUN), CleanupOptions())


STEPS: dict[str, Step] = {
    "read": lambda world: read_snapshot(world.store, world.table.paths, everything=True).partitions,
    "delete": lambda world: delete.preview(world.table, DeleteOptions(where="v = 1")),
    "merge": merge,
    "drop": drop_half,
    "clean-up": clean,
    "sweep": lambda world: sweep.preview(world.table, SweepOptions()),
}


def count_call(counter: Counter[str], _frame: object, event: str, _arg: object) -> None:
    """For ``sys.setprofile``."""
    counter[event] += 1


def calls(count: int) -> dict[str, int]:
    """How many functions are called in each step of a table's life."""
    world, made = appended(count), {}
    for name, step in STEPS.items():
        counter = Counter[str]()
        sys.setprofile(partial(count_call, counter))
        try:
            step(world)
        finally:
            sys.setprofile(None)
        made[name] = counter["call"] + counter["c_call"]
    return made


def test_hazard_19_no_plan_takes_time_that_grows_with_the_square_of_the_table() -> None:
    """Sixteen times the log files and parts: about that in calls, not 256 times.

    Calls, since seconds depend on what else the machine does; a search through a list within
    built-in code is not seen by it.
    """
    few, many = calls(FEW), calls(MANY)
    for name in STEPS:
        assert many[name] < 20 * few[name], (name, many[name] / few[name])
