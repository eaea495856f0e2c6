"""A table that was partitioned by the column of the keys before it got another layout."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from firnline.operations.erase.run import run_erase
from firnline.operations.merge.run import run_merge
from firnline.operations.operation import Work
from firnline.operations.options import EraseOptions, MergeOptions, RepartitionOptions
from firnline.operations.properties.run import run_apply
from firnline.operations.repartition.run import run_repartition
from firnline.parquet.io import read_footer
from firnline.settings.load import TableSettings
from tests.support.log_tables import snapshot
from tests.support.world import World, make_world
from tests.unit.operations.erase.test_completion import (
    DAY,
    KEY,
    RUN,
    append,
    beside_the_log,
    certify,
    engine,
    tidy,
)


def by(world: World, *layout: str) -> None:
    """The table gets another layout, and its rows move there."""
    plain = world.settings.model_dump(exclude_unset=True) | {"partition_by": list(layout)}
    wanted = TableSettings.model_validate(plain)
    world.table = replace(world.table, settings=wanted)
    run_apply(world.table, RUN)


def inputs_named(world: World) -> str:
    """What the footers of all objects say that they were made from."""
    footers = [
        read_footer(world.store, meta.key, meta.size)
        for meta in world.store.list(world.table.paths.data_dir)
    ]
    return " ".join(str((each.metadata or {}).get(b"firnline.replaces")) for each in footers)


@pytest.mark.long
@pytest.mark.parametrize("merged", [False, True])
def test_no_footer_names_the_folder_of_a_key_when_its_rows_are_erased(
    merged: bool, tmp_path: Path
) -> None:
    """A repartition makes outputs of one partition at a time: those of a key's hold its rows."""
    world = make_world(partition_by=["c"], merge={"min_inputs": 2})
    append(world, c=[KEY, KEY, "z"], p=["a", "b", "a"], k=[1, 2, 3])
    append(world, c=[KEY, "z", "y"], p=["a", "b", "a"], k=[4, 5, 6])
    by(world, "p")
    run_repartition(Work(world.table, RUN, engine(world, tmp_path)), RepartitionOptions())
    assert f"/c={KEY}/" in inputs_named(world)
    if merged:
        run_merge(Work(world.table, RUN, engine(world, tmp_path)), MergeOptions())
    asked = EraseOptions(columns=("c",), keys=((KEY,),))
    report = run_erase(Work(world.table, RUN, engine(world, tmp_path)), asked)
    for _ in range(3):
        world.clock.advance(3 * DAY)
        tidy(world)
    assert certify(world, report).status == "complete"
    assert len(snapshot(world).live) >= 2
    assert KEY not in inputs_named(world)
    assert beside_the_log(world) == {}
