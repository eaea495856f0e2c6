"""Types of columns where clients of log version 1 write beside us (docs/v1-clients.md)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from firnline.appends.append import Appender
from firnline.clock import SystemClock
from firnline.errors import SchemaConflictError, StreamBehindError
from firnline.kernel.local import LocalEngine
from firnline.log.txn_file import RunIdentity
from firnline.operations.cleanup.run import preview
from firnline.operations.merge.run import run_merge
from firnline.operations.operation import Work
from firnline.operations.options import (
    CleanupOptions,
    ColumnFix,
    Evolution,
    MergeOptions,
    SchemaFixOptions,
)
from firnline.operations.schema.run import run_schema_fix
from firnline.read.offsets import Bounds
from firnline.read.plan import ReadOptions
from firnline.read.stream import AppendStream
from firnline.state.snapshot import read_snapshot
from tests.support.beside import Watched
from tests.support.cleanups import GRACE, clean_up
from tests.support.reading import visible_ids
from tests.support.v1_client import V1Client
from tests.support.world import World, make_world

RUN = RunIdentity(run_id="r")


def engine_of(world: World, scratch: Path) -> Any:
    return lambda: LocalEngine(lambda: world.store, scratch, world.ids, SystemClock())


def ours(world: World, *ids: int) -> None:
    world.clock.advance(10)
    Appender(world.table).append(pa.table({"id": pa.array(ids, pa.int32())}), partition="d=1")


def theirs(client: V1Client, *ids: int) -> None:
    """Python ints are BIGINT for DuckDB, and so for a client that asks it."""
    client.world.clock.advance(10)
    client.append_rows("d=1", pa.table({"id": pa.array(ids, pa.int64())}), {"id": "BIGINT"})


def fix(world: World, scratch: Path) -> None:
    world.clock.advance(10)
    wide = SchemaFixOptions(fixes=(ColumnFix(column="id", type="BIGINT"),))
    run_schema_fix(Work(world.table, RUN, engine_of(world, scratch)), wide)


def test_python_ints_contradict_an_integer_column_and_schema_fix_is_the_cure(
    tmp_path: Path,
) -> None:
    world = make_world()
    client = V1Client(world)
    ours(world, 1, 2)
    theirs(client, 3)
    with pytest.raises(SchemaConflictError, match=r"INTEGER.*BIGINT|BIGINT.*INTEGER") as refused:
        read_snapshot(world.store, world.table.paths)
    assert "firnline schema fix" in refused.value.next_step
    fix(world, tmp_path)
    assert sorted(visible_ids(world.table)) == [1, 2, 3]
    theirs(client, 4)
    assert sorted(visible_ids(world.table)) == [1, 2, 3, 4], "what they write goes with it now"


@pytest.mark.parametrize("how", ["schema fix", "evolve"])
def test_a_wider_type_stops_version_1_until_clean_up_unless_old_types_go_at_once(
    tmp_path: Path, how: str
) -> None:
    world = make_world()
    client = V1Client(world)
    ours(world, 1, 2)
    world.clock.advance(GRACE)
    if how == "schema fix":
        theirs(client, 3)
        fix(world, tmp_path)
    else:
        ours(world, 3)
        world.clock.advance(GRACE)
        wide = SchemaFixOptions(evolution=Evolution(widen={"id": "BIGINT"}))
        run_schema_fix(Work(world.table, RUN, engine_of(world, tmp_path)), wide)
    with pytest.raises(ValueError, match="id: INTEGER and BIGINT"):
        client.schema()
    parts = {k for k in world.store.objects if "/_data/" in k}
    assert preview(world.table, CleanupOptions()).logs == (), "the grace is not over"
    done = clean_up(world, old_types=True)
    assert (done.log_files, done.parts) == (1 if how == "schema fix" else 2, 0)
    assert client.schema() == {"id": "BIGINT"}
    assert parts <= world.store.objects.keys(), "parts stay for their readers"
    assert client.live() == set(read_snapshot(world.store, world.table.paths).live)
    assert sorted(visible_ids(world.table)) == [1, 2, 3]
    assert clean_up(world, old_types=True).log_files == 0, "there is nothing left to do"


def test_a_reader_that_listed_an_old_type_before_it_goes_lists_again(tmp_path: Path) -> None:
    world = make_world()
    ours(world, 1)
    world.clock.advance(GRACE)
    theirs(V1Client(world), 2)
    fix(world, tmp_path)
    before = read_snapshot(world.store, world.table.paths)
    hurried: list[str] = []

    def meanwhile() -> None:
        if not hurried:
            hurried.append("done")
            clean_up(world, old_types=True)

    watched = Watched(world.store, look=meanwhile)
    found = read_snapshot(watched, world.table.paths, everything=True)
    assert hurried
    assert found.live.keys() == before.live.keys()


def test_a_stream_that_has_not_read_an_old_type_is_told_that_it_is_behind(tmp_path: Path) -> None:
    world = make_world()
    ours(world, 1)
    stream = AppendStream(world.table)
    offset = stream.start("now")
    ours(world, 2)
    world.clock.advance(GRACE)
    theirs(V1Client(world), 3)
    fix(world, tmp_path)
    clean_up(world, old_types=True)
    later = AppendStream(world.table)
    with pytest.raises(StreamBehindError):
        later.batch(offset, later.latest(offset, Bounds()), lambda _: ReadOptions())


def test_what_version_1_appends_and_merges_is_the_table_of_both(tmp_path: Path) -> None:
    world = make_world(merge={"min_inputs": 2})
    client = V1Client(world)
    for number in range(3):
        theirs(client, number)
    client.merge_rows("d=1")
    theirs(client, 7)
    run_merge(Work(world.table, RUN, engine_of(world, tmp_path)), MergeOptions())
    theirs(client, 8)
    client.merge_rows("d=1")
    assert sorted(visible_ids(world.table)) == [0, 1, 2, 7, 8]
    assert client.live() == set(read_snapshot(world.store, world.table.paths).live)
    world.clock.advance(GRACE + 10)
    clean_up(world)
    assert sorted(visible_ids(world.table)) == [0, 1, 2, 7, 8]
