"""A stream of appends goes on over columns that change: by their names of today."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest

from firnline.errors import StreamBehindError
from firnline.read import duckdb as read
from firnline.read.offsets import Bounds, Offset
from firnline.read.plan import ReadOptions
from firnline.read.stream import AppendStream
from tests.support.evolving import at_once, lazily, merged, put
from tests.support.world import World, make_world

ALL = Bounds()
SMALL = 1 << 28


def world_of() -> World:
    return make_world(sort_by=["id"], merge={"min_inputs": 2})


def rows(world: World, stream: AppendStream, start: Offset, end: Offset) -> list[dict[str, Any]]:
    plan = stream.batch(start, end, lambda schema: ReadOptions(columns=tuple(schema)))
    with TemporaryDirectory() as spill:
        limits = read.Limits(memory=SMALL, threads=1, spill=Path(spill))
        reader = read.stream(plan.task, world.store, limits)
        return _by_id(reader)


def _by_id(reader: pa.RecordBatchReader) -> list[dict[str, Any]]:
    return sorted(reader.read_all().to_pylist(), key=lambda row: row["id"])


@pytest.mark.long
@pytest.mark.parametrize("merge", [False, True])
@pytest.mark.parametrize("at", [0, "now", None])
def test_appends_of_before_a_lazy_change_are_delivered_by_the_names_of_today(
    at: Any, merge: bool, tmp_path: Path
) -> None:
    world = world_of()
    put(world, {"id": [0], "old": [0]})
    merged(world, tmp_path)
    stream = AppendStream(world.table)
    start = stream.start(at)
    put(world, {"id": [1], "old": [10], "more": [1]})
    put(world, {"id": [2], "old": [20], "more": [1]})
    lazily(world, rename={"old": "new"}, drop=("more",))
    if merge:
        merged(world, tmp_path)
    put(world, {"id": [3], "new": [30]})
    expected = [{"id": n, "new": 10 * n} for n in range(0 if at != "now" else 1, 4)]
    assert rows(world, stream, start, stream.latest(start, ALL)) == expected


def test_one_that_is_behind_a_change_at_once_begins_anew(tmp_path: Path) -> None:
    world = world_of()
    put(world, {"id": [0], "old": [0]})
    stream = AppendStream(world.table)
    start = stream.start("now")
    put(world, {"id": [1], "old": [10]})
    at_once(world, tmp_path, rename={"old": "new"})
    with pytest.raises(StreamBehindError, match="column old, which was renamed or dropped"):
        stream.batch(start, stream.latest(start, ALL), lambda _: ReadOptions())
    anew = stream.start(None)
    assert [row["new"] for row in rows(world, stream, anew, stream.latest(anew, ALL))] == [0, 10]
