"""What a table's settings say of bloom filters holds for every part that a kernel writes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from firnline.appends.append import Appender
from firnline.clock import SystemClock
from firnline.kernel.local import LocalEngine
from firnline.log.txn_file import RunIdentity
from firnline.operations.delete.run import run_delete
from firnline.operations.merge.run import run_merge
from firnline.operations.operation import Work
from firnline.operations.options import (
    DeleteOptions,
    Evolution,
    MergeOptions,
    RewriteOptions,
    SchemaFixOptions,
)
from firnline.operations.rewrite.run import run_rewrite
from firnline.operations.schema.run import run_schema_fix
from tests.support.log_tables import snapshot
from tests.support.world import World, make_world

RUN = RunIdentity(run_id="r")
ROWS = 4_000
SETTINGS = {
    "false": (False, set[str]()),
    "default": (True, {"few"}),
    "max_distinct": ({"max_distinct": 2_048}, {"few", "own"}),
}


def world_of(filters: object, appends: int = 2) -> World:
    world = make_world(
        merge={"min_inputs": 2, "row_group_rows": 2_048, "bloom_filters": filters}, sort_by=["own"]
    )
    for number in range(appends):
        own = range(number * ROWS, (number + 1) * ROWS)
        world.clock.advance(10)
        Appender(world.table).append(pa.table({"few": [n % 40 for n in own], "own": list(own)}))
    return world


def with_filters(world: World, scratch: Path) -> set[str]:
    """Columns with a filter in every row group of the newest part."""
    live = snapshot(world).live
    (scratch / "read").mkdir()
    path = scratch / "read" / "part.parquet"
    path.write_bytes(world.store.objects[max(live, key=lambda key: live[key].t)][0])
    found = duckdb.execute(
        "SELECT path_in_schema FROM parquet_metadata(?) GROUP BY 1"
        " HAVING bool_and(bloom_filter_length IS NOT NULL)",
        [str(path)],
    ).fetchall()
    return {name for (name,) in found}


def merge(world: World, scratch: Path) -> None:
    run_merge(Work(world.table, RUN, lambda: engine_of(world, scratch)), MergeOptions())


def delete(world: World, scratch: Path) -> None:
    run_delete(
        Work(world.table, RUN, lambda: engine_of(world, scratch)), DeleteOptions(where="own = 7")
    )


def rewrite(world: World, scratch: Path) -> None:
    options = RewriteOptions(where="own != 7")
    run_rewrite(Work(world.table, RUN, lambda: engine_of(world, scratch)), options)


def evolve(world: World, scratch: Path) -> None:
    options = SchemaFixOptions(evolution=Evolution(rename={"few": "scarce"}))
    run_schema_fix(Work(world.table, RUN, lambda: engine_of(world, scratch)), options)


def engine_of(world: World, scratch: Path) -> LocalEngine:
    return LocalEngine(lambda: world.store, scratch / "kernel", world.ids, SystemClock())


@pytest.mark.long
@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("operate", [merge, delete, rewrite, evolve])
def test_every_operation_writes_the_filters_that_are_set(
    tmp_path: Path, operate: Callable[[World, Path], None], setting: str
) -> None:
    filters, expected = SETTINGS[setting]
    world = world_of(filters)
    before = set(snapshot(world).live)
    operate(world, tmp_path)
    assert set(snapshot(world).live) - before
    found = {"few" if name == "scarce" else name for name in with_filters(world, tmp_path)}
    assert found == expected


def test_appends_write_none(tmp_path: Path) -> None:
    assert with_filters(world_of({"max_distinct": 2_048}, appends=1), tmp_path) == set()
