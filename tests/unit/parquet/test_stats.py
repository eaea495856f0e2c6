from __future__ import annotations

import datetime
import io
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firnline.parquet.stats import TEXT_BYTES, from_footer, from_table, union
from firnline.types.arrow import from_arrow
from firnline.types.values import Stats, bound_key
from tests.support.effort import examples

TEXT = st.text(max_size=5) | st.text(
    st.sampled_from(["a", "\x00", "\x7f", "ß", "\ud7ff", "\ue000", "\uffff", "\U0010ffff"]),
    min_size=14,
    max_size=90,
)
MICROS = st.integers(-(2**62), 2**62) | st.integers(0, 2**41)
COLUMNS: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.int8(), st.integers(-128, 127)),
    (pa.uint64(), st.integers(0, 2**64 - 1)),
    (pa.float32(), st.floats(width=32)),
    (pa.float64(), st.floats()),
    (pa.bool_(), st.booleans()),
    (pa.string(), TEXT),
    (pa.date32(), st.integers(-(2**31), 2**31 - 1)),
    (pa.timestamp("s"), st.integers(-(10**11), 10**11)),
    (pa.timestamp("ms"), st.integers(-(10**14), 10**14)),
    (pa.timestamp("us"), MICROS),
    (pa.timestamp("ns"), MICROS),
    (pa.timestamp("us", "UTC"), MICROS),
    (pa.timestamp("ns", "UTC"), MICROS),
    (pa.decimal128(6, 3), st.decimals(-999, 999, places=3)),
    (pa.decimal128(38, 0), st.integers(-(10**37), 10**37).map(Decimal)),
]


def array(values: list[Any], kind: pa.DataType) -> pa.Array:
    if pa.types.is_date32(kind):
        return pa.array(values, pa.int32()).cast(kind)
    return pa.array(values, kind)


def comparable(value: Any, kind: pa.DataType) -> Any:
    """A raw value of COLUMNS as ``bound_key`` gives it."""
    if pa.types.is_date32(kind):
        return value * 86_400_000_000_000
    if pa.types.is_timestamp(kind):
        return value * {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}[kind.unit]
    if pa.types.is_floating(kind):
        return (False, value)
    return value


def assert_contains(stats: Stats, values: list[Any], kind: pa.DataType) -> None:
    if "x" not in stats:
        return
    low, high, nulls = msgspec.json.decode(msgspec.json.encode(stats), type=Stats)["x"]
    key = bound_key(from_arrow(pa.schema([("x", kind)]), {"x": ""})["x"])
    assert key is not None
    present = [comparable(value, kind) for value in values if value is not None]
    assert nulls == len(values) - len(present)
    assert (low is None) == (not present)
    for value in present:
        assert key(low) <= value
        assert high is None or value <= key(high)
    for bound in (low, high):
        assert not isinstance(bound, str) or len(bound.encode()) <= TEXT_BYTES


@pytest.mark.long
@given(data=st.data(), column=st.sampled_from(COLUMNS))
def test_bounds_contain_every_value(
    data: st.DataObject, column: tuple[pa.DataType, st.SearchStrategy[Any]]
) -> None:
    kind, strategy = column
    values = data.draw(st.lists(st.none() | strategy, max_size=6))
    table = pa.table({"x": array(values, kind)})
    assert_contains(from_table(table, ["x", "not there"]), values, kind)
    sink = io.BytesIO()
    pq.write_table(table, sink, row_group_size=2)
    assert_contains(from_footer(pq.read_metadata(sink), ["x"]), values, kind)


@pytest.fixture(scope="module")
def connection() -> duckdb.DuckDBPyConnection:
    return duckdb.connect()


@pytest.mark.long
@examples(40, 1_000)
@given(values=st.lists(st.none() | TEXT, min_size=1, max_size=6))
def test_bounds_of_a_footer_that_duckdb_wrote_contain_every_text(
    connection: duckdb.DuckDBPyConnection,
    values: list[str | None],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    path = tmp_path_factory.mktemp("part") / "x.parquet"
    table = pa.table({"x": pa.array(values, pa.string())})
    connection.register("given", table)
    connection.execute(f"COPY given TO '{path}' (FORMAT parquet)")
    assert_contains(from_footer(pq.read_metadata(path), ["x"]), values, pa.string())


@given(
    data=st.data(),
    column=st.sampled_from(COLUMNS),
)
def test_the_union_contains_the_values_of_both(
    data: st.DataObject, column: tuple[pa.DataType, st.SearchStrategy[Any]]
) -> None:
    kind, strategy = column
    values = st.lists(st.none() | strategy, max_size=4)
    one, other = data.draw(values), data.draw(values)
    schema = from_arrow(pa.schema([("x", kind)]), {"x": ""})
    first, second = (from_table(pa.table({"x": array(v, kind)}), ["x"]) for v in (one, other))
    merged = union(first, second, schema)
    assert ("x" in merged) == ("x" in first and "x" in second)
    assert_contains(merged, one + other, kind)
    assert merged == union(second, first, schema)


def test_every_type_is_written_as_documented() -> None:
    moment = datetime.datetime(2013, 1, 5, 7, 8, 9, 123456)  # noqa: DTZ001 - without zone on purpose
    nano = 1_357_369_689_123_456_789
    table = pa.table(
        {
            "i": pa.array([3, 1, None], pa.int32()),
            "f": pa.array([1.5, -2.0, None]),
            "b": [True, False, None],
            "s": ["b", "ä", None],
            "d": [moment.date(), None, None],
            "t": pa.array([moment, None, None], pa.timestamp("us")),
            "z": pa.array([moment, None, None], pa.timestamp("us", "Europe/Berlin")),
            "n": pa.array([nano, None, None], pa.timestamp("ns")),
            "m": pa.array([Decimal("12.5"), Decimal("-0.75"), None], pa.decimal128(5, 2)),
            "none": pa.array([None, None, None], pa.int8()),
        }
    )
    assert from_table(table, table.column_names) == {
        "i": (1, 3, 1),
        "f": (-2.0, 1.5, 1),
        "b": (False, True, 1),
        "s": ("b", "ä", 1),
        "d": ("2013-01-05", "2013-01-05", 2),
        "t": ("2013-01-05T07:08:09.123456", "2013-01-05T07:08:09.123456", 2),
        "z": ("2013-01-05T07:08:09.123456Z", "2013-01-05T07:08:09.123456Z", 2),
        "n": ("2013-01-05T07:08:09.123456", "2013-01-05T07:08:09.123457", 2),
        "m": ("-0.75", "12.50", 1),
        "none": (None, None, 3),
    }


def test_a_text_that_cannot_be_rounded_up_has_no_upper_bound() -> None:
    top = "\U0010ffff" * 20
    assert from_table(pa.table({"x": [top, "a"]}), ["x"]) == {"x": ("a", None, 0)}
    assert from_table(pa.table({"x": ["b" * 70]}), ["x"])["x"] == ("b" * 64, "b" * 63 + "c", 0)


@pytest.mark.parametrize(
    "values",
    [
        pa.array([1.0, float("nan")]),
        pa.array([1.0, float("inf")]),
        pa.array([b"a"]),
        pa.array([[1]]),
        pa.array([datetime.time(1)]),
        pa.array([2**62], pa.timestamp("us")),
        pa.array([2**31 - 1], pa.int32()).cast(pa.date32()),
        pa.uuid().wrap_array(pa.array([b"0" * 16], pa.binary(16))),
        pa.json_().wrap_array(pa.array(["1"])),
        pa.nulls(1),
    ],
    ids=lambda array: str(array.type),
)
def test_what_has_no_bounds_is_left_out(values: pa.Array, tmp_path: Path) -> None:
    table = pa.table({"x": values})
    assert from_table(table, ["x"]) == {}
    pq.write_table(table, tmp_path / "x.parquet")
    assert from_footer(pq.read_metadata(tmp_path / "x.parquet"), ["x"]) == {}


def test_a_footer_that_does_not_say_everything_gives_no_bounds(tmp_path: Path) -> None:
    table = pa.table({"x": [1, 2], "s": [{"x": 5}, {"x": 6}], "f": [1.0, 2.0]})
    path = tmp_path / "x.parquet"
    pq.write_table(table, path, write_statistics=["s.x"])
    assert from_footer(pq.read_metadata(path), ["x", "s", "s.x", "f"]) == {}
    pq.write_table(table, path)
    assert from_footer(pq.read_metadata(path), ["x", "s", "s.x", "f"]) == {"x": (1, 2, 0)}
    pq.write_table(table.rename_columns(["s.x", "s", "f"]), path)
    assert from_footer(pq.read_metadata(path), ["s.x", "x"]) == {"s.x": (1, 2, 0)}
