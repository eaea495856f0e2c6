"""Tables in which somebody gave a column another type: real parts, a foreign log file."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from firnline.append import Appender
from firnline.arrow_types import from_arrow
from firnline.clock import SystemClock
from firnline.kernel.local import LocalEngine
from firnline.log.txn_file import RunIdentity
from firnline.operations.schema_fix import SchemaFixOptions, SchemaFixReport, run_schema_fix
from firnline.plan.schema_target import ColumnFix
from firnline.snapshot import read_snapshot
from tests.support.reading import part_rows
from tests.support.v1_client import V1Client
from tests.support.world import World, make_world

RUN = RunIdentity(run_id="r")
SETTINGS: dict[str, Any] = {"partition_by": ["day"], "sort_by": ["v", "id"]}


def conflicting(*texts: str, appends: int = 2, **settings: Any) -> World:
    """Numbers 1 to 4 a day in ``v`` by appends of ours; texts of day 0 by a foreign client."""
    world = make_world(**{**SETTINGS, **settings})
    appender = Appender(world.table)
    for first in range(0, 4 * appends, 4):
        world.clock.advance(10)
        ids = list(range(first, first + 4))
        rows = {"id": ids, "day": [i % 2 for i in ids], "v": [i % 4 + 1 for i in ids]}
        appender.append(pa.table(rows))
    foreign_append(world, texts or ("7", "05", "6"))
    return world


def foreign_append(
    world: World,
    texts: tuple[Any, ...],
    *,
    states: str = "VARCHAR",
    column: str = "v",
    host: str = "old-job",
    kind: pa.DataType | None = None,
    **more: Any,
) -> str:
    """A part with these values and a log file of version 1 for it; returns the part's key.

    Args:
        world: the table.
        texts: values of the column.
        states: the type that the log file states.
        column: its name.
        host: of the client.
        kind: the type in the part; None for that of the values.
        more: more columns; their types are stated as they are.
    """
    count = len(texts)
    first = 100 + 10 * sum("/_log/" in key for key in world.store.objects)
    rows = {
        "id": list(range(first, first + count)),
        "day": [0] * count,
        column: pa.array(texts, kind),
        **more,
    }
    table = pa.table(rows)
    sink = io.BytesIO()
    pq.write_table(table, sink)
    world.clock.advance(10)
    t = world.clock.now
    key = world.table.paths.data_part("day=0", world.ids.uuid7(t))
    world.store.objects[key] = (sink.getvalue(), t)
    columns = {**from_arrow(table.schema), column: states}
    marker = {"p": key, "b": len(sink.getvalue()), "t": t}
    V1Client(world)._write(f"{t}_{host}.jsonl", columns, [], [marker])
    return key


def engine(world: World, scratch: Path, store: Any = None) -> LocalEngine:
    """Kernels on the world's store."""
    return LocalEngine(lambda: store or world.store, scratch, world.ids, SystemClock())


def fix(world: World, scratch: Path, **given: Any) -> SchemaFixReport:
    """Repair one column (``column``, ``type``, ``rename``) or what ``fixes`` say."""
    column = {name: given.pop(name) for name in ("column", "type", "rename") if name in given}
    fixes = given.pop("fixes", None) or (ColumnFix(**{"column": "v", **column}),)
    options = SchemaFixOptions(fixes=fixes, **given)
    return run_schema_fix(world.table, lambda: engine(world, scratch), options, RUN)


def values(world: World, column: str = "v") -> list[Any]:
    """Values of a column in all live parts, by ``id``; a part without it has nulls."""
    live = read_snapshot(world.store, world.table.paths).live
    rows = [row for key in live for row in part_rows(world.table, key)]
    return [row.get(column) for row in sorted(rows, key=lambda row: row["id"])]
