"""``firnline.spark.frame``: the rows of ``firnline.scan``, read by Spark's own Parquet reader."""

from __future__ import annotations

import datetime
import math
import random
import tempfile
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import firnline
from firnline.appends.append import Appender
from firnline.errors import (
    EnvironmentFaultError,
    PartGoneError,
    UsageError,
)
from firnline.log import codec
from firnline.operations.delete.run import run_delete
from firnline.operations.operation import Work
from firnline.operations.options import DeleteOptions
from firnline.read.scan import Scan
from firnline.settings.load import TableSettings
from firnline.spark.format.stored import stored
from firnline.spark.format.types import duckdb_type, spark_type
from firnline.spark.frame import frame
from firnline.spark.versions import SPARK_4_0_PLUS, VERSION
from firnline.state.snapshot import read_snapshot
from firnline.store.access import StoreAccess
from firnline.table import Table, open_table
from firnline.types.sql import quote_name
from tests.support.effort import examples, sample
from tests.support.evolving import RUN, engine, lazily, put
from tests.support.spark_versions import as_arrow
from tests.support.visible import STEPS, WANTED, Played, play, tally
from tests.support.world import World, make_world
from tools.s3server import StoreRoot
from tools.samples import sample_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def on_disk(world: World, folder: Path) -> Table:
    """The same table in a folder, where Spark finds it."""
    for key, (data, _) in world.store.objects.items():
        path = folder / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    given = world.settings.model_dump(mode="json", exclude_unset=True)
    return open_table(TableSettings.model_validate({**given, "root": f"file://{folder}/t"}))


@contextmanager
def setting(spark: SparkSession, name: str, value: str) -> Iterator[None]:
    before = spark.conf.get(name)
    spark.conf.set(name, value)
    try:
        yield
    finally:
        spark.conf.set(name, str(before))


def in_frame(rows: DataFrame) -> Counter[tuple[tuple[str, str], ...]]:
    return plain(as_arrow(rows).to_pylist())


def in_scan(scan: Scan) -> Counter[tuple[tuple[str, str], ...]]:
    """What a data frame has to show: the rows of a scan, in the types that Spark has for them."""
    shown = ", ".join(
        f"CAST({quote_name(name)} AS {duckdb_type(spark_type(kind))}) AS {quote_name(name)}"
        for name, kind in scan.columns.items()
    )
    return plain(scan.duckdb().select(shown).to_arrow_table().to_pylist())


def plain(rows: list[dict[str, Any]]) -> Counter[tuple[tuple[str, str], ...]]:
    def text(value: object) -> str:
        if isinstance(value, datetime.datetime) and value.tzinfo is not None:
            return value.astimezone(datetime.UTC).isoformat()
        if isinstance(value, list):
            return str([text(one) for one in value])
        return repr(value)

    return Counter(tuple(sorted((k, text(v)) for k, v in row.items())) for row in rows)


def ids(rows: DataFrame) -> list[int]:
    return sorted(row["id"] for row in rows.select("id").collect())


@pytest.mark.parametrize(
    "declared",
    [{}, {"primary_key": ["id"]}, {"primary_key": ["id"], "version": "v"}],
    ids=["rows", "key", "version"],
)
@examples(2, 60)
@given(steps=st.lists(STEPS, min_size=2, max_size=7), wanted=st.sampled_from(range(len(WANTED))))
def test_a_frame_gives_the_rows_that_should_be_visible(
    spark: SparkSession, declared: dict[str, Any], steps: list[tuple[Any, ...]], wanted: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        merge = {"min_inputs": 2, "kernel_threads": 1}
        world = make_world(partition_by=["day"], sort_by=["id"], merge=merge, **declared)
        played = play(world, Path(folder) / "scratch", steps)
        options, keep = WANTED[wanted]
        found = frame(spark, on_disk(world, Path(folder)), **{**options, "partitions": ()})
        expected = tally([row for row in played.visible() if keep(row)])
        assert tally(as_arrow(found).to_pylist()) == expected


TYPES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "id": (pa.int64(), list(range(12))),
    "day": (pa.string(), ["mo", "tu x%/ö"]),
    "x": (pa.float64(), [0.0, -0.0, 1.5, 1e300, math.nan, None]),
    "f": (pa.float32(), [0.1, -2.5, math.nan, None]),
    "dec": (pa.decimal128(10, 2), [Decimal("1.10"), Decimal("-7.25"), None]),
    "big": (pa.uint64(), [0, 2**63, 2**64 - 1, None]),
    "small": (pa.uint8(), [0, 255, None]),
    "ts": (pa.timestamp("us"), [datetime.datetime(2013, 1, d, 0, 0, 0, 1) for d in (1, 2)]),  # noqa: DTZ001 -- without a zone
    "tz": (
        pa.timestamp("us", "UTC"),
        [datetime.datetime(2013, 3, 10, h, 30, tzinfo=datetime.UTC) for h in (6, 7)] + [None],
    ),
    "ns": (pa.timestamp("ns"), [-1_500, 1, 500, 1_357_041_600_123_456_999, None]),
    "d": (pa.date32(), [datetime.date(1500, 1, 1), datetime.date(2013, 1, 1), None]),
    "u": (pa.uuid(), [uuid.UUID(int=5).bytes, uuid.UUID(int=2**127).bytes, None]),
    "s": (pa.string(), ["", "a\\nb", "it's", 'q"`', "ä\0", None]),
    "b": (pa.bool_(), [True, False, None]),
    "nested": (
        pa.struct([("x", pa.float64()), ("l", pa.list_(pa.int32()))]),
        [{"x": math.nan, "l": [1, None]}, {"x": 0.5, "l": None}, None],
    ),
}
CONDITIONS = (
    "x > 1.7",
    "not x <= 0",
    "x = 0 or f in (0.1, 3)",
    "dec >= 1.10 and not (small = 255)",
    "big > 9223372036854775808 or big is null",
    "big in (18446744073709551615, 3)",
    "ts > TIMESTAMP '2013-01-01 00:00:00.000001'",
    "tz <= TIMESTAMPTZ '2013-03-10 02:30:00-04:00'",
    "ns > TIMESTAMP '1970-01-01 00:00:00' and not (s = '')",
    "ns < '1970-01-01T00:00:00.000000500'",
    "d < DATE '1582-10-15'",
    "u >= '80000000-0000-0000-0000-000000000000'",
    "s = 'a\\nb' or s = 'ä\0' or s > 'q'",
    "s in ('it''s', 'q\"`') or b = false",
    f"id in (3, 4, {', '.join(map(str, range(100, 220)))})",
    "not (x > 1.7 or id = 3)",
)


def some_rows(rng: random.Random, count: int) -> pa.Table:
    picked = {
        name: [rng.choice(values) for _ in range(count)] for name, (_, values) in TYPES.items()
    }
    return pa.table({name: pa.array(picked[name], kind) for name, (kind, _) in TYPES.items()})


KINDS: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "rows": ({}, tuple(f"{one} and id > 5" for one in CONDITIONS)),
    "key": ({"primary_key": ["x", "s"]}, ("x > 1.7", "not (s = '' or x = 0)")),
    "version": (
        {"primary_key": ["id", "u"], "version": "f"},
        ("id in (2, 3)", "u >= '80000000-0000-0000-0000-000000000000' and id < 4"),
    ),
    "deleted": ({"primary_key": ["id"], "version": "ns", "deleted": "b"}, ("id = 1", "id > 9")),
}
"""Settings, and conditions that a lazy delete may have with them."""


@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_every_type_are_those_of_a_scan(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    rng = random.Random(f"{sample_name()} {kind}")
    declared, deletes = KINDS[kind]
    world = make_world(
        partition_by=["day"], sort_by=["id"], merge={"min_inputs": 2}, deletes="lazy", **declared
    )
    played = Played(world, tmp_path / "scratch")
    states = []
    for number in range(4):
        put(world, dict(zip(TYPES, some_rows(rng, 30).columns, strict=True)))
        if number:
            asked = DeleteOptions(where=rng.choice(deletes), mode="lazy")
            run_delete(Work(world.table, RUN, played.engine), asked)
        if number == 1:
            played.merge()
        states.append(world.clock.now)
        world.clock.advance(100)
    table = on_disk(world, tmp_path)
    with (
        setting(spark, "spark.sql.session.timeZone", "America/New_York"),
        # As in a session of a user; the jobs' sessions, and so the tests', switch it off.
        setting(spark, "spark.sql.codegen.wholeStage", rng.choice(["true", "false"])),
        setting(spark, "spark.sql.codegen.factoryMode", "FALLBACK"),
    ):
        for where in (None, *sample(CONDITIONS, 3, kind)):
            options: dict[str, Any] = {"where": where, "at": rng.choice([None, None, *states])}
            expected = in_scan(firnline.scan(table, **options))
            assert in_frame(frame(spark, table, **options)) == expected, options
        every = frame(spark, table, dedup=False)
        assert in_frame(every) == in_scan(firnline.scan(table, dedup=False))


@pytest.mark.skipif(
    not SPARK_4_0_PLUS, reason=f"Spark {VERSION} reads no part with a narrower type (4.0)"
)
def test_parts_of_before_a_schema_change_are_read_under_the_names_and_types_of_today(
    spark: SparkSession, tmp_path: Path
) -> None:
    world = make_world(deletes="lazy", sort_by=["id"], merge={"min_inputs": 2})
    kinds = {"a": pa.int32(), "b": pa.float32(), "c": pa.uint8(), "d": pa.date32(), "e": pa.int8()}

    def more(**types: pa.DataType) -> None:
        values = {"id": [1, 2, 3], **{name: [1, None, 3] for name in types}}
        put(world, {name: pa.array(v, types.get(name, pa.int64())) for name, v in values.items()})

    def hide(where: str) -> None:
        world.clock.advance(10)
        options = DeleteOptions(where=where, mode="lazy")
        run_delete(Work(world.table, RUN, engine(world, tmp_path / "scratch")), options)

    more(**kinds)
    lazily(world, widen={"a": "BIGINT", "b": "DOUBLE", "c": "INTEGER", "d": "TIMESTAMP"})
    lazily(world, rename={"a": "A2", "e": "b2"}, drop=("c",))
    more(A2=pa.int64(), b2=pa.int8(), c=pa.float64())
    hide("A2 = 3 or c = 1")
    lazily(world, rename={"b": "x"}, widen={"b2": "SMALLINT"})
    more(A2=pa.int64(), x=pa.float64(), b=pa.int64())
    table = on_disk(world, tmp_path)
    for where in (
        None,
        "A2 = 1",
        "x > 0.5 and A2 < 5000000000",
        "d >= TIMESTAMP '1970-01-02 00:00:00'",
    ):
        scan = firnline.scan(table, where=where)
        assert in_frame(frame(spark, table, where=where)) == in_scan(scan), where
        few = frame(spark, table, where=where, columns=["b2", "id"])
        assert in_frame(few) == in_scan(firnline.scan(table, where=where, columns=["b2", "id"]))
    assert frame(spark, table).filter("A2 = 1 and b2 = 1").count() == 1


def test_a_filter_on_a_frame_finds_nan_though_the_parts_state_no_bound_for_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    world = make_world(deletes="lazy")
    inner = pa.StructArray.from_arrays([pa.array([1.0, math.nan, None])], ["y"])
    rows = {"id": [1, 0, 2], "x": [1.5, math.nan, None], "st": inner}
    put(world, rows)
    table = on_disk(world, tmp_path)
    (key,) = read_snapshot(table.store, table.paths).live
    pq.write_table(pa.table(rows), tmp_path / key)
    plainly = spark.read.parquet(str(tmp_path / key))
    assert ids(plainly.filter("x > 1.7")) == [], "Spark by itself does not find it"
    for condition in ("x > 1.7", "x = double('NaN')", "not x < 2", "st.y > 1.7"):
        assert ids(frame(spark, table).filter(condition)) == [0], condition
    assert ids(frame(spark, table, where="x > 1.7")) == [0]


def test_parts_that_the_log_rules_out_are_not_opened(spark: SparkSession, tmp_path: Path) -> None:
    table = on_disk(appended(6), tmp_path)
    found = frame(spark, table, where="id between 12 and 17")
    opened = {
        part.key for part in firnline.scan(table, where="id between 12 and 17").plan.task.parts
    }
    assert len(opened) == 1
    for key in set(read_snapshot(table.store, table.paths).live) - opened:
        (tmp_path / key).unlink()
    assert ids(found) == list(range(12, 18))
    assert ids(frame(spark, table, where="id > 1000")) == []
    assert frame(spark, table, ["id"], where="id > 1000").columns == ["id"]


def appended(appends: int, **declared: Any) -> World:
    """Appends of ten ids each: 0 to 9, 10 to 19, …"""
    world = make_world(**{"sort_by": ["id"], **declared})
    for first in range(0, 10 * appends, 10):
        put(world, {"id": list(range(first, first + 10))})
    return world


def test_a_part_that_is_gone_ends_the_read(spark: SparkSession, tmp_path: Path) -> None:
    table = on_disk(appended(2), tmp_path)
    found = frame(spark, table)
    gone = sorted(read_snapshot(table.store, table.paths).live)[0]
    (tmp_path / gone).unlink()
    with setting(spark, "spark.sql.files.ignoreMissingFiles", "true"):
        with pytest.raises(Exception, match=r"FILE_NOT_EXIST|does not exist"):
            found.collect()
        with pytest.raises(PartGoneError, match=f"(?s){gone}.*read again"):
            frame(spark, table)


def test_the_past_is_read_by_transaction(spark: SparkSession, tmp_path: Path) -> None:
    world = appended(2, merge={"min_inputs": 2})
    Played(world, tmp_path / "scratch").merge()
    put(world, {"id": [99]})
    table = on_disk(world, tmp_path)
    assert [len(ids(frame(spark, table, at=at))) for at in (None, 1)] == [21, 20]
    with pytest.raises(UsageError):
        frame(spark, table, at=2)


@pytest.mark.parametrize("keyed", [False, True])
def test_paths_are_neither_columns_nor_patterns(
    spark: SparkSession, tmp_path: Path, keyed: bool
) -> None:
    # Paths of any form, as those of other writers.
    world = make_world(primary_key=["id"] if keyed else [], partition=r".+")
    for number, path in enumerate(("id=7/w=3", "a=[bc]", "a=b", "x={1,2}", "y=x%20 ö?*", "_z/.q")):
        Appender(world.table).append(
            pa.table({"id": [1, number], "v": ["x", "y"]}), path, agree=False
        )
        world.clock.advance(10)
    table = on_disk(world, tmp_path)
    assert in_frame(frame(spark, table)) == in_scan(firnline.scan(table))
    assert len(ids(frame(spark, table))) == (11 if keyed else 12)


def test_rows_of_parts_with_any_name_are_in_the_order_of_insertion(
    spark: SparkSession, tmp_path: Path
) -> None:
    world = make_world(primary_key=["id"])
    for number in range(4):
        put(world, {"id": [1, 2], "v": [number, -number]})
    live = sorted(read_snapshot(world.store, world.table.paths).live)
    names = ("same/p.parquet", "other/p.parquet", "with blank%41.parquet", "z.parquet")
    moved = {key: f"t/_data/{name}" for key, name in zip(reversed(live), names, strict=True)}
    renamed(world, moved)
    table = on_disk(world, tmp_path)
    assert in_frame(frame(spark, table)) == in_scan(firnline.scan(table))


def renamed(world: World, names: Mapping[str, str]) -> None:
    """Parts with other keys, as other clients may have written them."""
    objects, paths = world.store.objects, world.table.paths
    for key in [key for key in objects if "/_log/" in key]:
        content = codec.decode(key, objects[key][0], paths)
        markers = [msgspec.structs.replace(m, p=names.get(m.p, m.p)) for m in content.markers]
        data = codec.encode(msgspec.structs.replace(content, markers=markers))
        objects[key] = (data, world.clock.now)
    for old, new in names.items():
        objects[new] = objects.pop(old)


@pytest.mark.parametrize("name", ["_x.parquet", ".x.parquet", "x._COPYING_"])
def test_a_part_that_spark_would_leave_out_is_refused(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    world = appended(1)
    (live,) = read_snapshot(world.store, world.table.paths).live
    renamed(world, {live: f"{live.rpartition('/')[0]}/{name}"})
    with pytest.raises(UsageError, match="temporary file"):
        frame(spark, on_disk(world, tmp_path))


def test_a_session_in_which_rows_would_differ_is_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    world = make_world()
    put(world, {"id": [1], "Ä": [1], "ä": [2], "u": pa.array([1], pa.uint64())})
    table = on_disk(world, tmp_path)
    with (
        setting(spark, "spark.sql.caseSensitive", "true"),
        pytest.raises(UsageError, match="case of their letters"),
    ):
        frame(spark, table, ["id"])
    with setting(spark, "spark.sql.parquet.enableVectorizedReader", "false"):
        with pytest.raises(UsageError, match="'u' is UBIGINT"):
            frame(spark, table, ["id", "u"])
        assert ids(frame(spark, table, ["id"])) == [1]
    with pytest.raises(UsageError, match="one column for Spark"):
        frame(spark, table)


@pytest.mark.parametrize(
    "kind", ["HUGEINT", "TIME", "INTERVAL", "UUID[]", "STRUCT(a TIMESTAMP_NS)"]
)
def test_a_type_that_spark_does_not_read_from_every_part_is_named(kind: str) -> None:
    with pytest.raises(UsageError, match=r"column 'c' is .*; leave it out"):
        stored("c", kind)


def test_without_a_file_system_of_its_own_spark_is_told_what_to_start_with(
    spark: SparkSession, s3_root: StoreRoot
) -> None:
    access = StoreAccess.from_env(s3_root.env)
    table = open_table(TableSettings.model_validate({"name": "t", "root": s3_root.url}), access)
    Appender(table).append(pa.table({"id": [1]}))
    with pytest.raises(EnvironmentFaultError, match=r"(?s)s3a://.*hadoop-aws.*firnline"):
        frame(spark, table)
