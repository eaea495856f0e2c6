"""Parts that were inserted in one millisecond keep their order when each is replaced by itself."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firnline.appends.append import Appender
from firnline.clock import SystemClock
from firnline.errors import SchemaConflictError
from firnline.kernel.local import LocalEngine
from firnline.kernel.task import KernelResult, KernelTask
from firnline.log.txn_file import RunIdentity
from firnline.operations.downgrade.run import run_downgrade
from firnline.operations.operation import Work
from firnline.operations.options import (
    ColumnFix,
    DowngradeOptions,
    Evolution,
    LazyOptions,
    SchemaFixOptions,
)
from firnline.operations.schema.lazy import run_lazily
from firnline.operations.schema.run import run_schema_fix
from tests.support.effort import examples
from tests.support.log_tables import snapshot
from tests.support.updates import stored, visible
from tests.support.world import World, make_world

RUN = RunIdentity(run_id="r")
Part = dict[int, int]
"""Key -> value, of one append."""


@dataclass
class Shuffled:
    """Runs tasks in any order, as the executors of a cluster do."""

    world: World
    scratch: Path
    seed: int
    application_id: str = "app"

    def run(self, tasks: Sequence[KernelTask]) -> Iterator[KernelResult | None]:
        world = self.world
        one = LocalEngine(lambda: world.store, self.scratch, world.ids, SystemClock())
        for task in random.Random(self.seed).sample(tasks, len(tasks)):
            world.clock.advance(1)
            yield from one.run([task])


def appended(world: World, part: Part, value: pa.DataType, *, late: bool = False) -> None:
    """One append in the very millisecond of the others."""
    columns = {"k": list(part), "v": pa.array(list(part.values()), value)}
    if late:
        columns["late"] = list(part)
    Appender(world.table).append(pa.table(columns))


PARTS = st.lists(
    st.tuples(st.dictionaries(st.integers(0, 2), st.integers(0, 99), min_size=1), st.booleans()),
    min_size=2,
    max_size=5,
)


@pytest.mark.long
@examples(4, 200)
@given(PARTS, st.integers(0, 9))
def test_an_evolve_shows_the_same_rows_of_every_key(
    parts: list[tuple[Part, bool]], seed: int
) -> None:
    world = make_world(primary_key=["k"])
    for part, late in parts:
        appended(world, part, pa.int32(), late=late)
    before = {key: row["v"] for key, row in visible(world).items()}
    rows = [len(found) for _, _, found in stored(world)]
    with tempfile.TemporaryDirectory() as folder:
        # Only some of the parts hold the column that goes.
        gone = {"drop": ("late",)} if any(late for _, late in parts) else {"widen": {"v": "BIGINT"}}
        options = SchemaFixOptions(evolution=Evolution(**gone))
        engine = Shuffled(world, Path(folder), seed)
        run_schema_fix(Work(world.table, RUN, lambda: engine), options)
    assert {key: row["v"] for key, row in visible(world).items()} == before
    assert [len(found) for _, _, found in stored(world)] == rows


@pytest.mark.long
@pytest.mark.parametrize("seed", range(6))
def test_a_repair_of_the_schema_shows_the_same_rows_of_every_key(seed: int, tmp_path: Path) -> None:
    world = make_world(primary_key=["k"])
    appended(world, {1: 1, 2: 1}, pa.int32())
    known = {"k": "BIGINT", "v": "VARCHAR"}
    for value in (2, 3):
        rows = pa.table({"k": [1, 2], "v": [str(value)] * 2})
        Appender(world.table, known_schema=known).append(rows)
    with pytest.raises(SchemaConflictError):
        snapshot(world)
    options = SchemaFixOptions(fixes=(ColumnFix(column="v", type="VARCHAR"),))
    engine = Shuffled(world, tmp_path, seed)
    run_schema_fix(Work(world.table, RUN, lambda: engine), options)
    assert [row["v"] for row in visible(world).values()] == ["3", "3"]


@pytest.mark.long
def test_a_part_that_nothing_is_wrong_with_goes_along_only_with_those_of_its_millisecond(
    tmp_path: Path,
) -> None:
    world = make_world(primary_key=["k"])
    appended(world, {1: 1}, pa.int32(), late=True)
    appended(world, {1: 2}, pa.int32())
    world.clock.advance(10)
    appended(world, {1: 3}, pa.int32())
    options = SchemaFixOptions(evolution=Evolution(drop=("late",)))
    report = run_schema_fix(Work(world.table, RUN, lambda: Shuffled(world, tmp_path, 0)), options)
    assert (report.counts.parts_in, report.counts.parts_out) == (2, 2)
    plain = make_world()
    appended(plain, {1: 1}, pa.int32(), late=True)
    appended(plain, {1: 2}, pa.int32())
    report = run_schema_fix(Work(plain.table, RUN, lambda: Shuffled(plain, tmp_path, 0)), options)
    assert report.counts.parts_in == 1


@pytest.mark.long
def test_a_downgrade_keeps_the_order_too(tmp_path: Path) -> None:
    world = make_world(primary_key=["k"])
    appended(world, {1: 1, 2: 1}, pa.int32(), late=True)
    run_lazily(Work(world.table, RUN), LazyOptions(evolution=Evolution(drop=("late",))))
    then = snapshot(world)
    born = next(iter(then.live.values())).order()[0]
    world.clock.now = born
    appended(world, {1: 2, 2: 2}, pa.int32())
    orders = {marker.order() for marker in snapshot(world).live.values()}
    assert len(orders) == 1
    world.clock.advance(30 * 86_400_000)
    engine = Shuffled(world, tmp_path, 0)
    run_downgrade(Work(world.table, RUN, lambda: engine), DowngradeOptions())
    assert [row["v"] for row in visible(world).values()] == [2, 2]
