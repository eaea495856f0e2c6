"""``firnline.scan``: the rows that should be visible, by every path, and no request too many."""

from __future__ import annotations

import datetime
import io
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import msgspec
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import firnline
from firnline.appends.append import Appender
from firnline.errors import PartGoneError, PartUnreadableError, SnapshotExpiredError, UsageError
from firnline.log import codec
from firnline.log.records import NO_STATS
from firnline.operations.cleanup.run import run_cleanup
from firnline.operations.delete.run import run_delete
from firnline.operations.operation import Work
from firnline.operations.options import CleanupOptions, DeleteOptions
from firnline.state.snapshot import read_snapshot
from tests.support.effort import examples
from tests.support.visible import (
    RUN,
    SCHEMA,
    STEPS,
    WANTED,
    Played,
    by_every_path,
    play,
    rows_like,
    tally,
)
from tests.support.world import World, make_world


@pytest.mark.parametrize(
    "declared",
    [{}, {"primary_key": ["id"]}, {"primary_key": ["id"], "version": "v"}],
    ids=["rows", "key", "version"],
)
@examples(5, 150)
@given(steps=st.lists(STEPS, min_size=2, max_size=7), wanted=st.sampled_from(range(len(WANTED))))
def test_every_read_path_gives_the_rows_that_should_be_visible(
    declared: dict[str, Any], steps: list[tuple[Any, ...]], wanted: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        merge = {"min_inputs": 2, "kernel_threads": 1}
        world = make_world(partition_by=["day"], sort_by=["id"], merge=merge, **declared)
        played = play(world, Path(folder), steps)
        options, keep = WANTED[wanted]
        expected = tally([row for row in played.visible() if keep(row)])
        globs = {"partitions": options["partitions"]} if _has_both_days(world, options) else {}
        scan = firnline.scan(world.table, **{**options, "partitions": (), **globs})
        for path, rows in by_every_path(scan).items():
            assert tally(rows) == expected, path


def _has_both_days(world: World, options: dict[str, Any]) -> bool:
    state = read_snapshot(world.store, world.table.paths)
    return "partitions" in options and {"day=1", "day=2"} & state.partitions.keys() != set()


def filled(appends: int = 6, **declared: Any) -> World:
    """Appends of ten ids each: 0 to 9, 10 to 19, …"""
    world = make_world(**{"sort_by": ["id"], **declared})
    for first in range(0, 10 * appends, 10):
        world.clock.advance(10)
        rows = rows_like(range(first, first + 10), 1, extra=False)
        Appender(world.table).append(pa.Table.from_pylist(rows, schema=SCHEMA))
    return world


def gets(world: World, act: Callable[[], object]) -> int:
    before = world.store.counters.get
    act()
    return world.store.counters.get - before


def test_parts_that_the_log_rules_out_cost_no_request() -> None:
    world = filled(6)
    scan = firnline.scan(world.table, where="id between 12 and 17")
    assert gets(world, scan.duckdb) == 0
    assert gets(world, scan.to_arrow) == 1
    assert scan.to_arrow().num_rows == 6
    assert scan.plan.to_json()["passed_over"] == {"no row can match": 5}
    assert scan.plan.bytes_passed_over > 4 * scan.plan.task.bytes


def test_a_scan_that_rules_everything_out_reads_nothing_and_keeps_its_columns() -> None:
    world = filled(2)
    scan = firnline.scan(world.table, columns=["v", "id"], where="id > 1000")
    assert scan.plan.nothing_to_do
    assert gets(world, lambda: by_every_path(scan)) == 0
    assert scan.to_arrow().schema.names == ["v", "id"]
    assert by_every_path(scan) == {key: [] for key in by_every_path(scan)}


def test_a_partition_without_statistics_is_ruled_out_by_its_name() -> None:
    world = make_world(partition_by=["day(ts)"])
    days = [datetime.datetime.fromisoformat(f"2013-01-0{day}T12:00:00") for day in (1, 2, 3)]
    for day in days:
        Appender(world.table).append(pa.table({"ts": pa.array([day], pa.timestamp("us"))}))
        world.clock.advance(5)
    change_markers(world, s=NO_STATS)
    scan = firnline.scan(world.table, where="ts >= TIMESTAMP '2013-01-02 00:00:00'")
    assert len(scan.plan.task.parts) == 2
    assert sorted(scan.to_arrow()["ts"].to_pylist()) == days[1:]


def change_markers(world: World, **changed: Any) -> None:
    """The log as another client may have written it."""
    for key in [k for k in world.store.objects if "/_log/" in k]:
        content = codec.decode(key, world.store.objects[key][0], world.table.paths)
        markers = [msgspec.structs.replace(m, **changed) for m in content.markers]
        data = codec.encode(msgspec.structs.replace(content, markers=markers))
        world.store.objects[key] = (data, world.clock.now)


def test_a_newer_row_that_does_not_match_still_hides_the_older_one_that_does() -> None:
    world = make_world(primary_key=["id"])
    for v in (1, 2):
        Appender(world.table).append(pa.table({"id": [7], "day": [0], "v": [v]}))
        world.clock.advance(5)
    for path, rows in by_every_path(firnline.scan(world.table, where="v = 1")).items():
        assert rows == [], path
    kept = firnline.scan(world.table, where="v = 1 and id = 8")
    assert kept.plan.nothing_to_do, "the key itself rules both parts out"
    assert firnline.scan(world.table, where="v = 1", dedup=False).to_arrow().num_rows == 1


def test_the_past_is_read_by_time_and_by_transaction() -> None:
    world = filled(2, merge={"min_inputs": 2})
    second = world.clock.now
    live = list(read_snapshot(world.store, world.table.paths).live)
    played = Played(world, Path(tempfile.mkdtemp()))
    played.merge()
    merged = world.clock.now
    world.clock.advance(1000)
    Appender(world.table).append(pa.Table.from_pylist(rows_like([99], 1, extra=False)))
    world.clock.advance(1000)

    def rows(at: Any) -> int:
        return len(firnline.scan(world.table, at=at).to_arrow())

    assert (rows(None), rows(merged), rows(1), rows(second)) == (21, 20, 20, 20)
    assert rows(second - 10) == 10
    moment = datetime.datetime.fromtimestamp(second / 1000, datetime.UTC)
    assert rows(moment) == rows(moment.isoformat()) == rows(str(second)) == 20
    assert {p.key for p in firnline.scan(world.table, at=second).plan.task.parts} == set(live)
    for wrong in ("tomorrow", moment.replace(tzinfo=None), world.clock.now + 1, 2, True):
        with pytest.raises(UsageError):
            firnline.scan(world.table, at=wrong)


def test_a_past_whose_parts_are_deleted_is_refused() -> None:
    world = filled(2, merge={"min_inputs": 2})
    then = world.clock.now
    Played(world, Path(tempfile.mkdtemp())).merge()
    world.clock.advance(30 * 86_400_000)
    assert run_cleanup(Work(world.table, RUN), CleanupOptions()).parts
    with pytest.raises(SnapshotExpiredError):
        firnline.scan(world.table, at=then)


def test_a_part_that_is_gone_is_named_with_the_next_step() -> None:
    world = filled(2)
    scan = firnline.scan(world.table)
    gone = scan.plan.task.parts[1].key
    world.store.objects.pop(gone)
    for act in (scan.to_arrow, scan.arrow_dataset, lambda: list(scan)):
        with pytest.raises(PartGoneError, match=f"(?s){gone}.*read again"):
            act()
    with pytest.raises(duckdb.Error, match=gone):
        scan.duckdb().fetchall()


@pytest.mark.parametrize("damage", [lambda data: data[:-9], lambda data: b"x" * len(data)])
def test_a_damaged_part_is_named(damage: Callable[[bytes], bytes]) -> None:
    world = filled(2)
    scan = firnline.scan(world.table)
    key = scan.plan.task.parts[0].key
    world.store.objects[key] = (damage(world.store.objects[key][0]), world.clock.now)
    for act in (scan.to_arrow, scan.arrow_dataset):
        with pytest.raises(PartUnreadableError, match=key):
            act()


def test_columns_of_the_path_are_not_those_of_the_file() -> None:
    world = make_world()
    Appender(world.table).append(pa.table({"id": [1], "v": ["x"]}), "id=7/w=3", agree=False)
    rows = by_every_path(firnline.scan(world.table))
    assert rows == {key: [{"id": 1, "v": "x"}] for key in rows}


def foreign_part(world: World, rows: pa.Table) -> str:
    """The object of the only part becomes one that another client wrote."""
    (key,) = read_snapshot(world.store, world.table.paths).live
    sink = io.BytesIO()
    pq.write_table(rows, sink)
    world.store.objects[key] = (sink.getvalue(), world.clock.now)
    change_markers(world, b=sink.tell())
    return key


def test_values_take_the_types_of_the_table_and_columns_any_case_and_order() -> None:
    world = make_world()
    wide = pa.table({"id": pa.array([1], pa.int64()), "v": pa.array([1.0]), "s": ["a"]})
    Appender(world.table).append(wide)
    narrow = pa.table(
        {"S": ["b"], "v": pa.array([2.5], pa.float32()), "ID": pa.array([5], pa.int32())}
    )
    key = foreign_part(world, narrow)
    scan = firnline.scan(world.table)
    assert scan.to_arrow().to_pylist() == [{"id": 5, "v": 2.5, "s": "b"}]
    assert scan.to_arrow().schema.field("id").type == pa.int64()
    with pytest.raises(UsageError, match=f"(?s){key} has column 'ID'.*arrow_reader"):
        scan.arrow_dataset()


def test_a_dataset_is_refused_where_it_could_not_be_right() -> None:
    world = filled(2, deletes="lazy")
    played = Played(world, Path(tempfile.mkdtemp()), raw=[{"id": 3}])
    played.delete(3, 0)
    with pytest.raises(UsageError, match="hide rows of 1 of 2 parts"):
        firnline.scan(world.table).arrow_dataset()
    rows = firnline.scan(world.table, where="id > 10").arrow_dataset().to_table()
    assert sorted(rows["id"].to_pylist()) == list(range(11, 20))
    with pytest.raises(UsageError, match="column 'id', which is not among the selected columns"):
        firnline.scan(world.table, columns=["v"], where="id > 10").arrow_dataset()
    keyed = make_world(primary_key=["id"])
    Appender(keyed.table).append(pa.table({"id": [1]}))
    with pytest.raises(UsageError, match="one row per primary key"):
        firnline.scan(keyed.table).arrow_dataset()
    assert firnline.scan(keyed.table, dedup=False).arrow_dataset().to_table().num_rows == 1


def test_a_row_with_nan_is_found_though_its_writer_states_no_bound_for_it() -> None:
    world = make_world(deletes="lazy")
    rows = pa.table({"id": [0, 1, 2], "x": [1.5, float("nan"), None]})
    Appender(world.table).append(rows)
    foreign_part(world, rows)
    for where in ("x > 1.7", "x != 1.5", "not x < 1.7", "not x in (1.5, 3)"):
        scan = firnline.scan(world.table, where=where)
        assert scan.to_arrow()["id"].to_pylist() == scan.polars().collect()["id"].to_list() == [1]
        with pytest.raises(UsageError, match="NaN"):
            scan.arrow_dataset()
    relation = firnline.scan(world.table).duckdb()
    assert relation.filter("x > 1.7").fetchall()[0][0] == 1
    played = Played(world, Path(tempfile.mkdtemp()))
    run_delete(Work(world.table, RUN, played.engine), DeleteOptions(where="x > 1.7", mode="eager"))
    assert sorted(firnline.scan(world.table).to_arrow()["id"].to_pylist()) == [0, 2]


def test_rows_are_joined_with_those_of_ones_own_connection() -> None:
    world = filled(2)
    connection = duckdb.connect()
    connection.execute("CREATE TABLE names AS SELECT 11 AS id, 'eleven' AS name")
    for _ in range(2):  # a second scan on the same connection
        rows = firnline.scan(world.table, columns=["id"]).duckdb(connection)
        rows.create_view("rows", replace=True)
        found = connection.execute("SELECT name FROM rows JOIN names USING (id)").fetchall()
        assert found == [("eleven",)]


def test_a_frame_filters_limits_and_reads_only_its_columns() -> None:
    frame = firnline.scan(filled(3).table).polars()
    found = frame.filter(pl.col("id") > 24).select("id").sort("id").collect()
    assert found["id"].to_list() == [25, 26, 27, 28, 29]
    assert len(frame.head(7).collect()) == 7
    assert len(frame.filter(pl.col("id") > 3).head(7).collect()) == 7
    assert len(frame.head(30).filter(pl.col("id") > 3).collect()) == 26


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"columns": ["nope"]}, "no column 'nope'"),
        ({"columns": "id"}, "columns is one text"),
        ({"where": "id + 1 = 2"}, "id \\+ 1"),
        ({"where": "nope = 2"}, "has no column 'nope'"),
        ({"partitions": "x=*"}, "no partition of the table matches"),
        ({"dedup": True}, "no primary key"),
    ],
)
def test_what_a_table_does_not_have_is_said(options: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        firnline.scan(filled(1).table, **options)


def test_a_root_without_a_log_is_no_table(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no table at"):
        firnline.scan(f"file://{tmp_path}/t")


def test_the_package_offers_scan_and_nothing_else() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nope'"):
        _ = firnline.nope  # type: ignore[attr-defined]  # type checkers know the names too
