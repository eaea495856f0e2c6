"""Files that span partitions: an engine reads them, and each row lands where it belongs, once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from firnline.clock import SystemClock
from firnline.errors import KernelError, PartUnreadableError, UsageError
from firnline.kernel.local import LocalEngine
from firnline.kernel.task import KernelResult, KernelTask
from firnline.operations.import_files.progress import ImportProgress
from firnline.operations.import_files.run import (
    ImportReport,
    preview,
    run_import,
)
from firnline.operations.import_options import ImportOptions
from firnline.operations.operation import Work, untold
from firnline.operations.options import VerifyOptions
from firnline.operations.verify.run import run_verify
from firnline.parquet.part import read_pairs
from tests.support.histories import ids_of, parquet_bytes, state
from tests.support.world import World, make_world

FOLDER = "memory://bucket/lake/in"


def put(world: World, name: str, rows: pa.Table, folder: str = "lake/in") -> str:
    key = f"{folder}/{name}"
    world.store.objects[key] = (parquet_bytes(rows), world.clock.now)
    return key


def days(first: int, *day: int | None, **more: Any) -> pa.Table:
    ids = list(range(first, first + len(day)))
    return pa.table({"id": ids, "day": pa.array(day, pa.int64()), **more})


@dataclass
class Watched:
    engine: LocalEngine
    tasks: list[KernelTask] = field(default_factory=list)
    application_id: str = ""

    def run(self, tasks: Sequence[KernelTask]) -> Iterator[KernelResult | None]:
        self.tasks += tasks
        return self.engine.run(tasks)


@pytest.fixture
def engine(tmp_path: Path) -> Any:
    def make(world: World) -> Watched:
        return Watched(LocalEngine(lambda: world.store, tmp_path, world.ids, SystemClock(), 2))

    return make


def do_import(world: World, engine: Any, tell: Any = None, **options: Any) -> ImportReport:
    world.clock.advance(10)
    wanted = ImportOptions(source=FOLDER, split=True, **options)
    return run_import(Work(world.table, engine=lambda: engine, tell=tell or untold), wanted)


def by_day(**settings: Any) -> World:
    return make_world(partition_by=["day"], sort_by=["id"], **settings)


@pytest.mark.long
def test_rows_of_a_file_that_spans_partitions_land_where_they_belong(engine: Any) -> None:
    world = by_day()
    put(world, "both.parquet", days(0, 1, 2, 1, None, note=["a", None, "b", "c"]))
    put(world, "one.parquet", days(10, 2, 2))
    before = dict(world.store.objects)
    running = engine(world)
    report = do_import(world, running)
    assert before.items() <= world.store.objects.items(), "the source stays"
    assert [[source.key for source in task.inputs] for task in running.tasks] == [
        ["lake/in/both.parquet"]
    ]
    after = state(world)
    rows = {name: sum(m.n or 0 for m in found) for name, found in after.partitions.items()}
    assert rows == {"day=1": 2, "day=2": 3, "day=__null__": 1}
    assert ids_of(world) == Counter([0, 1, 2, 3, 10, 11])
    assert after.schema == {"id": "BIGINT", "day": "BIGINT", "note": "VARCHAR"}
    plan = report.plan
    assert (plan["files"], plan["rows"], plan["copies"], report.parts_written) == (2, 6, 1, 3)
    assert plan["split"] == {"files": 1, "rows": 4, "bytes": len(before["lake/in/both.parquet"][0])}
    assert run_verify(Work(world.table), VerifyOptions(deep=True)).kinds == {}


def test_a_part_that_is_written_says_which_import_it_is_of(engine: Any) -> None:
    world = by_day()
    put(world, "both.parquet", days(0, 1, 2))
    report = do_import(world, engine(world))
    assert report.log_file is not None
    for path, marker in state(world).live.items():
        footer = pq.read_metadata(pa.BufferReader(world.store.objects[path][0])).metadata
        said = read_pairs(path, footer)
        assert said is not None
        assert (said.writer, said.q, marker.q) == (f"import-{said.append}", 0, 0)
        assert said.writer in report.log_file
        assert marker.stats()["id"][2] == 0


def test_without_a_file_to_split_no_engine_starts() -> None:
    world = by_day()
    put(world, "one.parquet", days(0, 1, 1))

    def never() -> Any:
        raise AssertionError("an engine was started")

    world.clock.advance(10)
    options = ImportOptions(source=FOLDER, split=True)
    assert run_import(Work(world.table, engine=never), options).parts_written == 0
    put(world, "both.parquet", days(5, 1, 2), "lake/more")
    options = ImportOptions(source="memory://bucket/lake/more", split=True)
    with pytest.raises(
        UsageError, match="read and written anew: its rows are not known to lie in one partition"
    ):
        run_import(Work(world.table), options)


def test_a_dry_run_tells_what_would_be_split_and_starts_nothing() -> None:
    world = by_day()
    put(world, "both.parquet", days(0, 1, 2))
    before = dict(world.store.objects)
    plan = preview(world.table, ImportOptions(source=FOLDER, split=True))
    assert ([f.source for f in plan.anew], plan.files) == (["lake/in/both.parquet"], ())
    assert not plan.nothing_to_do
    assert world.store.objects == before
    with pytest.raises(UsageError, match=r"several partitions.*; add --split"):
        preview(world.table, ImportOptions(source=FOLDER))


def test_a_file_in_place_is_not_split_since_it_would_be_found_again(engine: Any) -> None:
    world = by_day()
    put(world, "day=1/both.parquet", days(0, 1, 2), "t/_data")
    options = ImportOptions(source="memory://bucket/t/_data", split=True)
    with pytest.raises(UsageError, match="move it out of t/_data/ and import that folder"):
        run_import(Work(world.table, engine=lambda: engine(world)), options)


def test_a_folder_that_was_split_is_imported_once(engine: Any) -> None:
    world = by_day()
    put(world, "both.parquet", days(0, 1, 2))
    do_import(world, engine(world))
    with pytest.raises(UsageError, match=r"was imported into this table before \(1 file\)"):
        do_import(world, engine(world))


@pytest.mark.long
def test_a_file_of_several_row_groups_goes_to_several_tasks(engine: Any) -> None:
    world = by_day(append={"part_bytes": "1MiB"})
    count = 200_000
    table = pa.table({"id": range(count), "day": [n % 2 for n in range(count)]})
    path = put(world, "large.parquet", table.slice(0, 0))
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, row_group_size=50_000, compression="none", use_dictionary=False)
    world.store.objects[path] = (sink.getvalue().to_pybytes(), world.clock.now)
    running, told = engine(world), list[ImportProgress]()
    do_import(world, running, told.append)
    assert [task.inputs[0].row_groups for task in running.tasks] == [(n,) for n in range(4)]
    assert ids_of(world) == Counter(range(count))
    assert (told[0].footers_done, told[0].footers) == (1, 1)
    assert [(one.tasks_done, one.tasks) for one in told[1:]] == [(n, 4) for n in range(1, 5)]
    assert run_verify(Work(world.table), VerifyOptions(deep=True)).kinds == {}


def test_after_a_task_that_fails_nothing_is_copied_and_no_part_stays(engine: Any) -> None:
    world = by_day()
    put(world, "both.parquet", days(0, 1, 2))
    put(world, "one.parquet", days(10, 2, 2))
    key = put(world, "broken.parquet", days(20, 1, 2))
    data, at = world.store.objects[key]
    world.store.objects[key] = (data[:4] + b"\0" * 40 + data[44:], at)
    before = dict(world.store.objects)
    with pytest.raises(PartUnreadableError, match=r"lake/in/broken\.parquet"):
        do_import(world, engine(world))
    assert world.store.objects == before


def test_a_task_that_dies_is_an_error_and_what_others_wrote_goes(engine: Any) -> None:
    world = by_day(append={"part_bytes": "1MiB"})
    put(world, "0.parquet", days(0, 1, 2))
    before = dict(world.store.objects)

    @dataclass
    class Dies(Watched):
        def run(self, tasks: Sequence[KernelTask]) -> Iterator[KernelResult | None]:
            yield from self.engine.run(tasks)
            yield KernelResult(
                group=1, error="it died", error_type="KernelError", error_next_step="see its log"
            )

    with pytest.raises(KernelError, match="it died; see its log"):
        do_import(world, Dies(engine(world).engine))
    assert world.store.objects == before


def test_of_two_rows_of_a_key_in_files_that_are_split_the_later_one_counts(engine: Any) -> None:
    world = by_day(primary_key=["id", "day"], append={"part_bytes": "1MiB"})
    put(world, "0.parquet", days(0, 1, 2, v=[1, 1]))
    put(world, "1.parquet", days(0, 1, 2, v=[2, 2]))
    running = engine(world)
    do_import(world, running)
    assert len(running.tasks) == 1
    found = [
        pq.read_table(pa.BufferReader(world.store.objects[path][0])).to_pylist()
        for path in state(world).live
    ]
    assert sorted(row["v"] for rows in found for row in rows) == [2, 2]
