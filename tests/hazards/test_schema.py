"""Hazards of schemas that contradict each other, and of foreign objects (docs/guarantees.md)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from firnline.appends.append import Appender
from firnline.errors import SchemaConflictError
from firnline.operations.merge.run import run_merge
from firnline.operations.operation import Work
from firnline.operations.options import MergeOptions
from firnline.state.snapshot import read_snapshot
from tests.support.cleanups import RUN, check, clean_up, keys_under
from tests.support.conflicts import fix
from tests.support.engines import CountingEngine
from tests.support.histories import clean_up as clean_up_later
from tests.support.histories import ids_of, rows_from, table_world
from tests.support.log_tables import put_append, snapshot
from tests.support.reading import visible_rows
from tests.support.v1_client import V1Client
from tests.support.world import make_world


def _no_engine() -> CountingEngine:
    raise AssertionError("an engine was started for nothing")


TEXT = pa.table({"id": ["a"], "day": [0], "name": ["n"]})


def test_hazard_13_a_conflicting_schema_of_one_writer_is_a_clear_error() -> None:
    """An append in another type is refused before anything is written, and readers go on."""
    world = table_world()
    Appender(world.table).append(rows_from(0))
    before = dict(world.store.objects)
    for appender in (Appender(world.table), Appender(world.table, known_schema={"id": "BIGINT"})):
        with pytest.raises(SchemaConflictError, match=r"'id' is BIGINT in .* but VARCHAR in") as e:
            appender.append(TEXT)
        assert "cast" in e.value.next_step
        assert world.store.objects == before
    assert sorted(ids_of(world).elements()) == list(range(6))


@pytest.mark.parametrize("other", ["ours", "version 1"])
def test_hazard_13_two_first_writers_of_different_types_are_named_to_every_reader(
    other: str,
) -> None:
    """Neither could know of the other: the error names column, both types and both log files."""
    world = make_world()
    first = put_append(world, schema={"v": "VARCHAR"})
    if other == "ours":
        put_append(world, schema={"v": "INTEGER"})
    else:
        V1Client(world).append("d=1")
    logs = sorted(keys_under(world, "_log"))
    before = dict(world.store.objects)
    runs: list[Callable[[], Any]] = [
        lambda: snapshot(world),
        lambda: read_snapshot(world.store, world.table.paths),
        lambda: run_merge(Work(world.table, RUN, _no_engine), MergeOptions()),
        lambda: clean_up(world),
        lambda: Appender(world.table).append(rows_from(0)),
    ]
    for run in runs:
        with pytest.raises(SchemaConflictError) as raised:
            run()
        for word in ("'v'", "VARCHAR", "INTEGER", *logs):
            assert word in str(raised.value)
        assert raised.value.next_step
    assert world.store.objects == before
    assert set(first) <= before.keys()


FOREIGN = (
    "_log/",
    "_log/README.md",
    "_log/.DS_Store",
    "_log/_temporary/0/task.parquet",
    "_log/1700000000001_host.jsonl.bak",
    "_log_old/1700000000001_host.jsonl",
    "_logs/x.jsonl",
    "_log.jsonl",
    "_SUCCESS",
)


def test_hazard_13_foreign_objects_beside_the_log_do_not_block_readers() -> None:
    """Nor writers, mergers and clean-up; and nobody deletes them."""
    world = table_world(merge={"min_inputs": 2})
    Appender(world.table).append(rows_from(0))
    foreign = {f"t/{name}": (b"{not a log file", 1) for name in FOREIGN}
    world.store.objects.update(foreign)
    Appender(world.table).append(rows_from(6))
    run_merge(Work(world.table, RUN, lambda: CountingEngine(world)), MergeOptions())
    live = set(snapshot(world).live)
    assert len(live) == 2
    clean_up_later(world)
    assert set(read_snapshot(world.store, world.table.paths).live) == live
    assert sum(m.n or 0 for m in snapshot(world).live.values()) == 12
    assert foreign.items() <= world.store.objects.items()


@pytest.mark.parametrize("kept", ["BIGINT", "VARCHAR", None])
def test_hazard_13_schema_fix_is_the_way_out_and_loses_no_row(
    kept: str | None, tmp_path: Path
) -> None:
    """Of two appends that began on an empty table: one type for all, or two columns."""
    world = table_world()
    Appender(world.table, known_schema={}).append(rows_from(0))
    world.clock.advance(10)
    texts = {"id": ["101", "102"], "day": [1, 1], "name": ["a", "b"]}
    Appender(world.table, known_schema={}).append(pa.table(texts))
    with pytest.raises(SchemaConflictError, match="firnline schema fix"):
        snapshot(world)
    how = {"type": kept} if kept else {"rename": "id_text"}
    report = fix(world, tmp_path, column="id", **how)
    assert report.transaction == 1
    state = read_snapshot(world.store, world.table.paths)
    rows = sorted(
        ((row.get("id"), row.get("id_text"), row["name"]) for row in visible_rows(world.table)),
        key=lambda row: row[2],
    )
    ours = [(i if kept != "VARCHAR" else str(i), None, f"n{i}") for i in range(6)]
    theirs: dict[str | None, list[tuple[Any, Any, str]]] = {
        "BIGINT": [(101, None, "a"), (102, None, "b")],
        "VARCHAR": [("101", None, "a"), ("102", None, "b")],
        None: [(None, "101", "a"), (None, "102", "b")],
    }
    assert rows == [*theirs[kept], *ours]
    assert state.schema["id"] == (kept or "BIGINT")
    # Clean-up, merge and appends go on.
    clean_up_later(world)
    check(world, snapshot(world).live)
    Appender(world.table).append(pa.table({"name": ["late"], "day": [1]}))
    assert len(visible_rows(world.table)) == 9
