from __future__ import annotations

import datetime
import re
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firnline.errors import UsageError
from firnline.parquet.partition import buckets_of, partition_batches, span_of
from firnline.paths import NULL_VALUE, unquote_value
from firnline.settings.fields import PartitionField
from firnline.types.hashes import HashRange

UTC = datetime.UTC
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=UTC)


def field(text: str) -> PartitionField:
    return PartitionField.model_validate(text)


def split(table: pa.Table, *fields: str) -> dict[str, list[dict[str, Any]]]:
    parts = partition_batches(table, [field(text) for text in fields])
    assert [path for path, _ in parts] == sorted({path for path, _ in parts})
    return {path: rows.to_pylist() for path, rows in parts}


def paths(values: list[Any], kind: pa.DataType, transform: str) -> list[str]:
    """Partition of each value in turn."""
    table = pa.table({"row": range(len(values)), "x": pa.array(values, kind)})
    found: dict[int, str] = {}
    for path, rows in partition_batches(table, [field(transform)]):
        found |= dict.fromkeys(rows.column("row").to_pylist(), path)
    return [found[row] for row in range(len(values))]


MOMENTS = ["2013-01-31T23:59:59.999999", "2013-02-01T00:00:00", "1969-12-31T23:00:00"]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_times_are_cut_in_utc_before_and_after_the_epoch(unit: str) -> None:
    moments = [datetime.datetime.fromisoformat(text + "+00:00") for text in MOMENTS]
    naive = [moment.replace(tzinfo=None) for moment in moments]
    if unit in ("s", "ms"):
        moments[0], naive[0] = moments[0].replace(microsecond=0), naive[0].replace(microsecond=0)
    expected = {
        "year": ["2013", "2013", "1969"],
        "month": ["2013-01", "2013-02", "1969-12"],
        "day": ["2013-01-31", "2013-02-01", "1969-12-31"],
        "hour": ["2013-01-31-23", "2013-02-01-00", "1969-12-31-23"],
    }
    for transform, values in expected.items():
        named = [f"x_{transform}={value}" for value in values] + [f"x_{transform}={NULL_VALUE}"]
        text = f"{transform}(x)"
        assert paths([*moments, None], pa.timestamp(unit, "Europe/Berlin"), text) == named
        assert paths([*naive, None], pa.timestamp(unit), text) == named


@pytest.mark.parametrize("kind", [pa.date32(), pa.date64()])
def test_dates_are_cut_too(kind: pa.DataType) -> None:
    values = [datetime.date(2013, 12, 31), datetime.date(1969, 1, 1), None]
    assert paths(values, kind, "month(x)") == [
        "x_month=2013-12",
        "x_month=1969-01",
        f"x_month={NULL_VALUE}",
    ]
    assert paths(values[:1], kind, "hour(x)") == ["x_hour=2013-12-31-00"]


@pytest.mark.long
@pytest.mark.parametrize(
    ("values", "kind", "names"),
    [
        (["a b/ü", "", NULL_VALUE, None], pa.string(), ["a%20b%2F%C3%BC", "", "%5F_null__", 0]),
        ([1, -1, None], pa.int8(), ["1", "-1", 0]),
        ([2**64 - 1], pa.uint64(), [str(2**64 - 1)]),
        ([True, False, None], pa.bool_(), ["true", "false", 0]),
        ([1.5, float("nan"), -0.0, 0.0], pa.float64(), ["1.5", "nan", "-0.0", "0.0"]),
        ([Decimal("1.20")], pa.decimal128(5, 2), ["1.20"]),
        ([datetime.date(2013, 1, 5)], pa.date64(), ["2013-01-05"]),
        ([datetime.time(1, 2, 3)], pa.time64("us"), ["01%3A02%3A03"]),
        ([1], pa.timestamp("ns"), ["1970-01-01T00%3A00%3A00.000000001"]),
        ([1, None], pa.timestamp("s", "Asia/Tokyo"), ["1970-01-01T00%3A00%3A01.000000Z", 0]),
        ([2**62], pa.timestamp("us"), ["148108-07-06T14%3A00%3A27.387904"]),
    ],
    ids=str,
)
def test_a_value_is_its_own_directory(
    values: list[Any], kind: pa.DataType, names: list[str | int]
) -> None:
    expected = [f"x={NULL_VALUE if name == 0 else name}" for name in names]
    assert paths(values, kind, "x") == expected


def test_a_uuid_is_its_own_directory() -> None:
    array = pa.uuid().wrap_array(pa.array([b"\x01" * 16, None], pa.binary(16)))
    found = [path for path, _ in partition_batches(pa.table({"x": array}), [field("x")])]
    assert found == ["x=01010101-0101-0101-0101-010101010101", f"x={NULL_VALUE}"]


def test_a_bucket_is_that_of_the_iceberg_specification() -> None:
    expected = (1210000089 & 0x7FFFFFFF) % 16
    assert paths(["iceberg", None], pa.string(), "bucket(16, x)") == [
        f"x_bucket={expected}",
        f"x_bucket={NULL_VALUE}",
    ]
    assert paths([34], pa.int64(), "bucket(100, x)") == ["x_bucket=79"]


def test_several_levels_make_one_path_and_keep_the_order_of_rows() -> None:
    day = datetime.date(2013, 1, 1)
    table = pa.table(
        {
            "n": [1, 2, 3, 4, 5],
            "d": [day, day, None, day, day],
            "c": ["b", "a", "a", "b", None],
        }
    )
    found = split(table, "year(d)", "c")
    assert {path: [row["n"] for row in rows] for path, rows in found.items()} == {
        "d_year=2013/c=a": [2],
        "d_year=2013/c=b": [1, 4],
        f"d_year=2013/c={NULL_VALUE}": [5],
        f"d_year={NULL_VALUE}/c=a": [3],
    }


def test_no_fields_are_one_partition_and_no_rows_are_none() -> None:
    table = pa.table({"x": [1]})
    assert split(table) == {"": [{"x": 1}]}
    assert partition_batches(table.slice(0, 0), [field("x")]) == []


def test_a_column_that_is_not_there_is_named_with_those_that_are() -> None:
    with pytest.raises(UsageError, match=re.escape("month(ts)")) as caught:
        partition_batches(pa.table({"a": [1], "b": [1]}), [field("month(ts)")])
    assert "'ts'" in str(caught.value)
    assert "a, b" in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (pa.string(), "month(x)"),
        (pa.float64(), "bucket(4, x)"),
        (pa.list_(pa.int8()), "x"),
        (pa.binary(), "x"),
        (pa.json_(), "x"),
    ],
)
def test_a_type_that_the_transform_does_not_take_is_refused(kind: pa.DataType, text: str) -> None:
    storage = kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind
    values = pa.array({pa.binary(): [b"a"], pa.string(): ["a"]}.get(storage, [None]), storage)
    array = kind.wrap_array(values) if isinstance(kind, pa.BaseExtensionType) else values
    with pytest.raises(UsageError, match=re.escape(text)):
        partition_batches(pa.table({"x": array}), [field(text)])


def test_a_value_too_long_for_a_directory_is_refused() -> None:
    with pytest.raises(UsageError, match="bucket"):
        partition_batches(pa.table({"x": ["ü" * 60]}), [field("x")])


@given(values=st.lists(st.none() | st.text(max_size=8), min_size=1))
def test_a_text_comes_back_from_its_directory(values: list[str | None]) -> None:
    for value, path in zip(values, paths(values, pa.string(), "x"), strict=True):
        text = path.removeprefix("x=")
        assert "/" not in text
        assert value is None if text == NULL_VALUE else unquote_value(text) == value


FIELDS = st.lists(
    st.sampled_from(["year(x)", "month(x)", "day(x)", "hour(x)", "bucket(3, k)", "k", "day(y)"]),
    min_size=1,
    max_size=4,
    unique=True,
)


@given(
    fields=FIELDS,
    x=st.lists(st.none() | st.integers(-(2**61), 2**61), min_size=1, max_size=8),
    data=st.data(),
)
def test_the_span_of_a_partition_holds_all_its_times(
    fields: list[str], x: list[int | None], data: st.DataObject
) -> None:
    def column(values: st.SearchStrategy[Any]) -> list[Any]:
        return data.draw(st.lists(st.none() | values, min_size=len(x), max_size=len(x)))

    table = pa.table(
        {
            "x": pa.array(x, pa.timestamp("us", "UTC")),
            "y": pa.array(column(st.integers(-(10**6), 10**6)), pa.int32()).cast(pa.date32()),
            "k": pa.array(column(st.text(max_size=2)), pa.string()),
        }
    )
    parsed = [field(text) for text in fields]
    parts = partition_batches(table, parsed)
    assert sum(rows.num_rows for _, rows in parts) == len(x)
    for path, rows in parts:
        spans = span_of(path, parsed)
        assert spans is not None
        for name, scale, storage in (("x", 1_000, pa.int64()), ("y", None, pa.int32())):
            if name in spans:
                start, end = spans[name]
                for value in rows.column(name).drop_null().cast(storage).to_pylist():
                    ms = value * 86_400_000 if scale is None else value // scale
                    assert start <= ms < end


@given(moment=st.datetimes(timezones=st.just(UTC)))
def test_a_span_is_exactly_the_calendar_unit(moment: datetime.datetime) -> None:
    (path,) = (path for path, _ in partition_batches(pa.table({"x": [moment]}), [field("day(x)")]))
    spans = span_of(path, [field("day(x)")])
    assert spans is not None
    start, end = spans["x"]
    assert EPOCH + datetime.timedelta(milliseconds=start) == moment.replace(
        hour=0, minute=0, second=0, microsecond=0
    )
    assert end - start == 86_400_000


def test_two_transforms_of_one_column_narrow_its_span() -> None:
    fields = [field("year(x)"), field("day(x)")]
    assert span_of("x_year=1970/x_day=1970-01-02", fields) == {"x": (86_400_000, 172_800_000)}
    assert span_of(f"x_year=1970/x_day={NULL_VALUE}", fields) == {"x": (0, 365 * 86_400_000)}


@pytest.mark.parametrize(
    "path",
    ["", "x_day", "x_day=", "x_day=2013-02-30", "x_day=2013-13-01", "x_day=13-01-01", "y_day=2013",
     "x_day=2013-01-01/k=1", "x_day=2013-01-01-00", "x_day=2013-01-00", "d=2013-01-01"],
)  # fmt: skip
def test_a_path_of_another_layout_has_no_span(path: str) -> None:
    assert span_of(path, [field("day(x)")]) is None
    assert span_of("x_hour=2013-01-01-24", [field("hour(x)")]) is None


def test_rows_of_a_bucket_are_said_to_be_in_it_and_nulls_to_have_none() -> None:
    fields = [field("day(ts)"), field("bucket(8, id)")]
    columns = {"ts": "TIMESTAMP", "id": "BIGINT"}
    rows = pa.table(
        {"ts": pa.array([0] * 5, pa.timestamp("us")), "id": pa.array([1, 2, 3, 34, None])}
    )
    stated = {
        path: buckets_of(path, fields, columns) for path, _ in partition_batches(rows, fields)
    }
    assert stated["ts_day=1970-01-01/id_bucket=__null__"] == (
        HashRange(("id",), ("long",), 8, None, None),
    )
    assert stated[f"ts_day=1970-01-01/id_bucket={2017239379 % 8}"] == (
        HashRange(("id",), ("long",), 8, 2017239379 % 8, 2017239379 % 8),
    )


def test_a_partition_says_nothing_of_hashes_without_a_bucket_that_a_condition_can_name() -> None:
    assert buckets_of("", [], {}) == ()
    assert buckets_of("d=1", [field("d")], {"d": "BIGINT"}) == ()
    assert buckets_of("b_bucket=1", [field("bucket(8, b)")], {"b": "BLOB"}) == ()
