"""Tables in which somebody gave a column another type: real parts, a foreign log file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa

from firnline.appends.append import Appender
from firnline.clock import SystemClock
from firnline.kernel.local import LocalEngine
from firnline.log.txn_file import RunIdentity
from firnline.operations.operation import Work
from firnline.operations.options import ColumnFix, SchemaFixOptions
from firnline.operations.schema.run import SchemaFixReport, run_schema_fix
from firnline.state.snapshot import read_snapshot
from firnline.table import Table
from firnline.types.arrow import from_arrow
from tests.support.histories import parquet_bytes
from tests.support.reading import part_rows
from tests.support.world import SetClock, World, make_world

RUN = RunIdentity(run_id="r")
SETTINGS: dict[str, Any] = {"partition_by": ["day"], "sort_by": ["v", "id"]}


def conflicting(*texts: str, appends: int = 2, **settings: Any) -> World:
    """Numbers 1 to 4 in ``v`` by each append of ours, then texts by a foreign client."""
    world = make_world(**{**SETTINGS, **settings})
    append_numbers(world.table, appends)
    foreign_append(world, texts or ("7", "05", "6"))
    return world


def append_numbers(table: Table, appends: int) -> None:
    """Ids from 0 on in two partitions."""
    appender = Appender(table)
    assert isinstance(table.clock, SetClock)
    for first in range(0, 4 * appends, 4):
        table.clock.advance(10)
        ids = list(range(first, first + 4))
        rows = {"id": ids, "day": [i % 2 for i in ids], "v": [i % 4 + 1 for i in ids]}
        appender.append(pa.table(rows))


def foreign_append(
    place: World | Table,
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
        place: the table.
        texts: values of the column.
        states: the type that the log file states.
        column: its name.
        host: of the client.
        kind: the type in the part; None for that of the values.
        more: more columns; their types are stated as they are.
    """
    table = place.table if isinstance(place, World) else place
    clock, count = table.clock, len(texts)
    assert isinstance(clock, SetClock)
    first = 100 + 10 * len(list(table.store.list(table.paths.log_dir)))
    rows = pa.table(
        {
            "id": list(range(first, first + count)),
            "day": [0] * count,
            column: pa.array(texts, kind),
            **more,
        }
    )
    data = parquet_bytes(rows)
    clock.advance(10)
    t = clock.now
    key = table.paths.data_part("day=0", table.ids.uuid7(t))
    table.store.put_new(key, data)
    header = {"v": "1", "t": t, "sch": 1, "f": 2}
    columns = {**from_arrow(rows.schema), column: states}
    lines = [header, columns, {"p": key, "b": len(data), "t": t}]
    log_file = "\n".join(map(json.dumps, lines)).encode()
    table.store.put_new(f"{table.paths.log_dir}{t}_{host}.jsonl", log_file)
    return key


def engine(world: World, scratch: Path, store: Any = None) -> LocalEngine:
    """Kernels on the world's store."""
    return LocalEngine(lambda: store or world.store, scratch, world.ids, SystemClock())


def fix(world: World, scratch: Path, **given: Any) -> SchemaFixReport:
    """Repair one column (``column``, ``type``, ``rename``) or what ``fixes`` say."""
    column = {name: given.pop(name) for name in ("column", "type", "rename") if name in given}
    fixes = given.pop("fixes", None) or (ColumnFix(**{"column": "v", **column}),)
    options = SchemaFixOptions(fixes=fixes, **given)
    return run_schema_fix(Work(world.table, RUN, lambda: engine(world, scratch)), options)


def values(place: World | Table, column: str = "v") -> list[Any]:
    """Values of a column in all live parts, by ``id``; a part without it has nulls."""
    table = place.table if isinstance(place, World) else place
    live = read_snapshot(table.store, table.paths).live
    rows = [row for key in live for row in part_rows(table, key)]
    return [row.get(column) for row in sorted(rows, key=lambda row: row["id"])]
