"""The new rows of a replace as tasks of an engine: which files go together, what is refused."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from firnline.appends.append import Appender
from firnline.clock import SystemClock
from firnline.errors import KernelError, PartUnreadableError, SchemaConflictError, UsageError
from firnline.kernel.local import LocalEngine
from firnline.kernel.task import KernelResult, KernelTask
from firnline.log.txn_file import RunIdentity
from firnline.operations.operation import Work
from firnline.operations.options import ReplaceOptions
from firnline.operations.replace.run import ReplaceReport, run_replace
from tests.support.log_tables import snapshot
from tests.support.reading import newest_of_keys, visible_by_partition, visible_ids
from tests.support.world import World, make_world

RUN = RunIdentity(run_id="r")
STAGED = "memory://bucket/staged/"
LARGE = 40_000
"""Rows of random numbers of which three make more than the smallest ``append.part_bytes``."""


def rows(ids: Sequence[int], **more: Any) -> pa.Table:
    return pa.table({"id": list(ids), "v": [1] * len(ids), **more})


def world_of(**settings: Any) -> World:
    world = make_world(sort_by=["id"], append={"part_bytes": "1MiB"}, **settings)
    world.clock.advance(10)
    Appender(world.table).append(rows(range(10)))
    return world


def stage(world: World, *tables: pa.Table) -> None:
    for number, table in enumerate(tables):
        sink = io.BytesIO()
        pq.write_table(table, sink, compression="none", use_dictionary=False)
        world.store.put_new(f"staged/{number}.parquet", sink.getvalue())


@dataclass
class Watched:
    """An engine of this process that remembers what it was given."""

    engine: LocalEngine
    tasks: list[KernelTask] = field(default_factory=list)
    results: list[KernelResult] = field(default_factory=list)
    application_id: str = "app"

    @property
    def intakes(self) -> list[KernelTask]:
        """Tasks with new rows; others rewrite the parts that the interval cuts."""
        return [task for task in self.tasks if task.intake is not None]

    def run(self, tasks: Sequence[KernelTask]) -> Iterator[KernelResult | None]:
        self.tasks += tasks
        for result in self.engine.run(tasks):
            self.results += [result] if result is not None else []
            yield result


@pytest.fixture
def engine(tmp_path: Path) -> Any:
    def make(world: World) -> Watched:
        return Watched(LocalEngine(lambda: world.store, tmp_path, world.ids, SystemClock(), 2))

    return make


def replace(world: World, engine: Watched, **more: Any) -> ReplaceReport:
    options = ReplaceOptions(column="id", start=3, end=7, files=(STAGED,), **more)
    return run_replace(Work(world.table, RUN, lambda: engine), options)


@pytest.mark.long
def test_files_that_make_a_part_or_so_go_to_one_task_and_the_engine_writes_all_rows(
    engine: Any,
) -> None:
    world = world_of()
    table = rows([4] * LARGE)
    stage(world, *[table] * 5, rows([5]))
    running = engine(world)
    report = replace(world, running)
    groups = [[source.key for source in task.inputs] for task in running.intakes]
    assert [len(keys) for keys in groups] == [1, 1, 1, 1, 2]
    assert groups[-1] == ["staged/4.parquet", "staged/5.parquet"]
    written = {part.key for result in running.results if result.columns for part in result.parts}
    new = {m.p for m in snapshot(world).live.values() if (m.q or 0) == report.transaction}
    assert (report.rows_new, new) == (5 * LARGE + 1, written)
    assert visible_ids(world.table) == Counter(
        {**dict.fromkeys([0, 1, 2, 7, 8, 9], 1), 4: 5 * LARGE, 5: 1}
    )


@pytest.mark.long
def test_a_file_larger_than_a_part_is_read_by_several_tasks(engine: Any) -> None:
    world = world_of()
    sink = io.BytesIO()
    table = rows([4] * 4 * LARGE)
    pq.write_table(table, sink, row_group_size=LARGE, compression="none", use_dictionary=False)
    world.store.put_new("staged/0.parquet", sink.getvalue())
    stage_small = io.BytesIO()
    pq.write_table(rows([5]), stage_small)
    world.store.put_new("staged/1.parquet", stage_small.getvalue())
    running = engine(world)
    report = replace(world, running)
    taken = [[(i.key, i.row_groups, i.rows) for i in task.inputs] for task in running.intakes]
    large = "staged/0.parquet"
    assert taken == [
        [(large, (0,), LARGE)],
        [(large, (1,), LARGE)],
        [(large, (2,), LARGE)],
        [(large, (3,), LARGE), ("staged/1.parquet", None, None)],
    ]
    assert report.rows_new == 4 * LARGE + 1
    assert visible_ids(world.table) == Counter(
        {**dict.fromkeys([0, 1, 2, 7, 8, 9], 1), 4: 4 * LARGE, 5: 1}
    )


def test_a_large_file_whose_footer_is_damaged_is_refused_by_its_url(engine: Any) -> None:
    world = world_of()
    world.store.put_new("staged/0.parquet", b"PAR1" + b"x" * 2**21)
    with pytest.raises(PartUnreadableError, match=r"staged/0\.parquet is"):
        replace(world, engine(world))


@pytest.mark.long
def test_with_a_primary_key_one_task_reads_all_files_and_the_later_row_counts(engine: Any) -> None:
    world = world_of(primary_key=["id"])
    stage(world, *(rows([4] * LARGE, w=[float(n)] * LARGE) for n in range(3)))
    running = engine(world)
    replace(world, running)
    assert len(running.intakes) == 1
    (seen,) = visible_by_partition(world.table).values()
    newest = {row["id"]: row.get("w") for row in newest_of_keys(world.table.settings, seen)}
    assert newest == {**dict.fromkeys([0, 1, 2, 7, 8, 9]), 4: 2.0}


@pytest.mark.long
def test_rows_land_in_the_partitions_of_the_settings(engine: Any) -> None:
    world = world_of(partition_by=["bucket(4, id)"])
    before = set(snapshot(world).partitions)
    stage(world, rows([3, 4, 5, 6]))
    report = replace(world, engine(world))
    assert set(snapshot(world).partitions) <= before
    assert report.parts_new == len({m for m in snapshot(world).partitions if _holds(world, m)})
    assert visible_ids(world.table) == Counter(range(10))


def _holds(world: World, partition: str) -> bool:
    newest = snapshot(world).seq
    return any((m.q or 0) == newest for m in snapshot(world).partitions[partition])


def keys_of(world: World) -> set[str]:
    return {key for key in world.store.objects if "/_data/" in key}


@pytest.mark.parametrize(
    ("tables", "kind", "said"),
    [
        ([rows([4]), rows([8])], UsageError, "1 of 2 new rows do not lie in id from 3 to 7"),
        ([rows([])], UsageError, "the rows to replace with are none"),
        ([pa.table({"v": [1]})], UsageError, "the new rows have no column 'id'"),
        ([rows([4], w=[1]), rows([5], w=["x"])], SchemaConflictError, "column 'w'"),
        (
            [rows([4] * LARGE, w=[1] * LARGE), rows([5] * LARGE, w=["x"] * LARGE)],
            SchemaConflictError,
            "the rows from memory://bucket/staged/0.parquet on",
        ),
    ],
)
def test_what_a_task_refuses_is_refused_in_its_words_and_nothing_changes(
    tables: list[pa.Table], kind: type[Exception], said: str, engine: Any
) -> None:
    world = world_of()
    stage(world, *tables)
    before = keys_of(world)
    with pytest.raises(kind) as raised:
        replace(world, engine(world))
    assert said in str(raised.value)
    assert keys_of(world) == before
    assert snapshot(world).seq == 0


def test_a_task_that_dies_is_an_error_and_what_others_wrote_goes(engine: Any) -> None:
    world = world_of()
    stage(world, rows([4] * LARGE), rows([5] * LARGE))
    before = keys_of(world)

    @dataclass
    class Dies(Watched):
        def run(self, tasks: Sequence[KernelTask]) -> Iterator[KernelResult | None]:
            yield from self.engine.run(tasks[:1])
            yield KernelResult(
                group=1, error="it died", error_type="KernelError", error_next_step="see its log"
            )

    with pytest.raises(KernelError, match="it died; see its log"):
        replace(world, Dies(engine(world).engine))
    assert keys_of(world) == before


@pytest.mark.long
def test_for_a_column_that_the_table_does_not_have_the_rows_are_read_here(engine: Any) -> None:
    world = make_world(sort_by=["id"])
    stage(world, rows([4]))
    running = engine(world)
    assert replace(world, running).rows_new == 1
    assert running.intakes == []
    assert visible_ids(world.table) == Counter([4])
