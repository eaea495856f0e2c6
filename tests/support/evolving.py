"""A table whose columns change while parts with the old ones stay."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import firnline
from firnline.appends.append import Appender
from firnline.log.txn_file import RunIdentity
from firnline.operations.merge.run import MergeReport, run_merge
from firnline.operations.operation import Work
from firnline.operations.options import Evolution, LazyOptions, MergeOptions, SchemaFixOptions
from firnline.operations.runner import TransactionReport
from firnline.operations.schema.lazy import run_lazily
from firnline.operations.schema.run import SchemaFixReport, run_schema_fix
from firnline.state.snapshot import read_snapshot
from tests.support.effort import sample
from tests.support.scenarios import Sequential
from tests.support.visible import paths_of, tally
from tests.support.world import World, make_world

RUN = RunIdentity(run_id="r")
DAY = 86_400_000
Rows = dict[str, Any]
CHANGED: dict[str, Any] = {
    "widen": {"id": "BIGINT"},
    "rename": {"note": "remark"},
    "drop": ("gone",),
}
"""A change of every column of ``columns_of``."""
AFTER = {"id": "BIGINT", "remark": "VARCHAR"}
"""The columns then."""


def world_of(appends: int = 2, **given: Any) -> World:
    """A table of ``appends`` appends of a row each."""
    world = make_world(**{"sort_by": ["id"], "merge": {"min_inputs": 2}, **given})
    for n in range(appends):
        put(world, columns_of(n))
    return world


def columns_of(n: int) -> Rows:
    """Row ``n`` as it was appended."""
    return {"id": pa.array([n], pa.int32()), "note": [f"n{n}"], "gone": [n]}


def rows_of(count: int, name: str = "remark") -> list[Rows]:
    """The first ``count`` rows after ``CHANGED``."""
    return [{"id": n, name: f"n{n}"} for n in range(count)]


def put(world: World, columns: Rows, beside: Callable[[], object] | None = None) -> None:
    """One append; ``beside`` happens after it began and before it lands."""
    world.clock.advance(10)

    def batches() -> Iterator[pa.RecordBatch]:
        yield from pa.table(columns).to_batches()
        if beside is not None:
            beside()

    Appender(world.table).append(batches())


def engine(world: World, scratch: Path) -> Callable[[], Sequential]:
    return lambda: Sequential(world.table, scratch)


def lazily(world: World, **asked: Any) -> TransactionReport:
    world.clock.advance(10)
    return run_lazily(Work(world.table, RUN), LazyOptions(evolution=Evolution(**asked)))


def at_once(world: World, scratch: Path, **asked: Any) -> SchemaFixReport:
    world.clock.advance(10)
    options = SchemaFixOptions(evolution=Evolution(**asked))
    return run_schema_fix(Work(world.table, RUN, engine(world, scratch)), options)


def merged(world: World, scratch: Path) -> MergeReport:
    world.clock.advance(10)
    return run_merge(Work(world.table, RUN, engine(world, scratch)), MergeOptions())


def rows_are(world: World, expected: list[Rows], **asked: Any) -> None:
    """By the paths of a reader: two of them in `make test`, others the next time."""
    paths = paths_of(firnline.scan(world.table, **asked))
    test = os.environ.get("PYTEST_CURRENT_TEST")
    for path in sample(list(paths), 2, test, world.clock.now_ms(), asked):
        assert tally(paths[path]()) == tally(expected), path


def columns_in_parts(world: World) -> set[tuple[str, str]]:
    """(column, Arrow type) of the live parts, as their files have them."""
    state = read_snapshot(world.store, world.table.paths)
    schemas = [pq.read_schema(io.BytesIO(world.store.get(key))) for key in state.live]
    return {(field.name, str(field.type)) for schema in schemas for field in schema}


def schema_of(world: World) -> dict[str, str]:
    """As readers see it, and writers."""
    found = dict(read_snapshot(world.store, world.table.paths).schema)
    assert found == Appender(world.table).knowing()[1].columns
    return found
