from __future__ import annotations

import datetime
import decimal
import os
import uuid
from collections import Counter
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.kernel.conftest import PREFIX, Group

UTC = datetime.UTC


def every_type() -> pa.Table:
    """Two rows of every type that Parquet keeps, the second all null."""
    zoned = datetime.datetime(2013, 1, 1, 12, 30, 0, 123456, tzinfo=UTC)
    ns = 1_357_043_400_123_456_789
    columns: dict[str, tuple[pa.DataType, Any]] = {
        "flag": (pa.bool_(), True),
        "i8": (pa.int8(), -1),
        "u16": (pa.uint16(), 65535),
        "i32": (pa.int32(), -5),
        "u64": (pa.uint64(), 2**64 - 1),
        "f32": (pa.float32(), 1.5),
        "f64": (pa.float64(), float("inf")),
        "money": (pa.decimal128(38, 2), decimal.Decimal("-12345678901234567890.12")),
        "small": (pa.decimal128(5, 3), decimal.Decimal("12.345")),
        "text": (pa.string(), "naïve 'quoted' \x00 text"),
        "blob": (pa.binary(), b"\x00\xff"),
        "id": (pa.uuid(), uuid.UUID(int=2**127 + 5).bytes),
        "day": (pa.date32(), datetime.date(1, 1, 1)),
        "clock": (pa.time64("us"), datetime.time(23, 59, 59, 999999)),
        "local": (pa.timestamp("us"), zoned.replace(tzinfo=None)),
        "zoned": (pa.timestamp("us", "UTC"), zoned),
        "fine": (pa.timestamp("ns"), ns),
        "fine_zoned": (pa.timestamp("ns", "UTC"), ns),
        "list": (pa.list_(pa.struct([("a", pa.int32()), ("b", pa.string())])), [{"a": 1}, None]),
        "struct": (pa.struct([("x y", pa.list_(pa.int64())), ("d", pa.date32())]), {"d": None}),
        "map": (pa.map_(pa.string(), pa.list_(pa.float64())), [("k", [1.0, None]), ("l", None)]),
    }
    return pa.table(
        {name: pa.array([value, None], kind) for name, (kind, value) in columns.items()}
    )


def test_every_type_survives_with_its_values_and_nulls(group: Group) -> None:
    table = every_type()
    _, merged = group.merge(table, table, sort=["i32"])
    assert merged.schema.remove_metadata() == table.schema
    assert merged.slice(0, 2).to_pylist() == [table.slice(0, 1).to_pylist()[0]] * 2
    assert merged.slice(2).to_pylist() == [table.slice(1, 1).to_pylist()[0]] * 2


def test_a_column_that_an_input_lacks_is_null_in_its_rows(group: Group) -> None:
    old = pa.table({"a": [1, 2], "gone": ["x", None]})
    new = pa.table({"b": pa.array([{"c": 1}], pa.struct([("c", pa.int32())])), "a": [0]})
    _, merged = group.merge(old, new, sort=["a"])
    assert merged.column_names == ["a", "gone", "b"]
    assert merged.to_pylist() == [
        {"a": 0, "gone": None, "b": {"c": 1}},
        {"a": 1, "gone": "x", "b": None},
        {"a": 2, "gone": None, "b": None},
    ]


def test_columns_are_matched_by_name_and_not_by_place(group: Group) -> None:
    _, merged = group.merge(pa.table({"a": [1], "b": [2]}), pa.table({"b": [20], "a": [10]}))
    assert Counter(map(str, merged.to_pylist())) == Counter(
        ["{'a': 1, 'b': 2}", "{'a': 10, 'b': 20}"]
    )


def test_a_column_in_other_letters_is_the_same_column(group: Group) -> None:
    keys = group.put(pa.table({"Event": [1]}), pa.table({"event": [2]}))
    merged = group.read(group.run(group.task(keys, {"event": "BIGINT"}, sort=["event"])))
    assert merged.to_pylist() == [{"event": 1}, {"event": 2}]


def test_hive_columns_of_the_path_never_overwrite_those_of_the_file(group: Group) -> None:
    table = pa.table({"d": ["from the file"], "run": ["also"]})
    _, merged = group.merge(table, table)
    assert merged.to_pylist() == table.to_pylist() * 2


def test_nulls_come_last_in_either_direction(group: Group) -> None:
    from firnline.types.order import SortKey

    keys = group.put(pa.table({"a": [None, 1, 3]}), pa.table({"a": [2, None, None]}))
    for descending, values in ((False, [1, 2, 3]), (True, [3, 2, 1])):
        task = group.task(keys, {"a": "BIGINT"}, sort_by=(SortKey("a", descending),))
        assert group.read(group.run(task))["a"].to_pylist() == [*values, None, None, None]


def test_inputs_without_rows_leave_their_types_and_no_part_comes_of_nothing(group: Group) -> None:
    empty = every_type().slice(0, 0)
    result, _ = group.merge(empty, empty)
    assert (result.parts, result.rows_in) == ((), 0)
    _, merged = group.merge(empty, pa.table({"i32": pa.array([1], pa.int32())}))
    assert merged.schema.remove_metadata() == empty.schema
    assert merged["i32"].to_pylist() == [1]


def test_a_deleted_row_is_one_for_which_the_condition_is_true(group: Group) -> None:
    table = pa.table({"a": [1, 2, None], "b": [None, 1, 1]})
    keys = group.put(table, table)
    columns = {"a": "BIGINT", "b": "BIGINT", "new": "VARCHAR"}
    hidden = {keys[0]: "(a = 1) OR (b > 5)", keys[1]: "new IS NULL AND a = 2"}
    result = group.run(group.task(keys, columns, hidden=hidden, sort=["a", "b"]))
    merged = group.read(result)
    assert (result.rows_in, result.rows_deleted) == (6, 2)
    assert merged["a"].to_pylist() == [1, 2, None, None]


def test_no_part_is_written_when_deletes_hide_every_row(group: Group) -> None:
    keys = group.put(pa.table({"a": [1]}), pa.table({"a": [2]}))
    hidden = dict.fromkeys(keys, "a > 0")
    result = group.run(group.task(keys, {"a": "BIGINT"}, hidden=hidden))
    assert (result.error, result.parts, result.rows_deleted) == (None, (), 2)
    assert result.requests["put"] == 0


def test_the_largest_version_of_a_key_wins_and_among_equals_the_last_inserted(group: Group) -> None:
    first = pa.table({"k": [1, 1, 2, 3], "v": [5, 9, 1, None], "from": ["a0", "a1", "a2", "a3"]})
    second = pa.table({"k": [1, 2, 3, None], "v": [7, 1, 0, 1], "from": ["b0", "b1", "b2", "b3"]})
    result, merged = group.merge(first, second, primary_key=("k",), version="v", sort=["k"])
    assert merged["from"].to_pylist() == ["a1", "b1", "b2", "b3"]
    assert result.rows_deduplicated == 4


def test_without_a_version_the_last_inserted_row_of_a_key_wins(group: Group) -> None:
    rows = 5000
    early = pa.table({"k": [i % 10 for i in range(rows)], "n": list(range(rows))})
    # Other columns, so that the inputs are read by two scans.
    late = pa.table({"n": [-1, -2], "k": [3, 3], "more": [True, False]})
    _, merged = group.merge(early, late, primary_key=("k",), sort=["k"])
    last = [rows - 10 + i for i in range(10)]
    last[3] = -2
    assert merged["n"].to_pylist() == last


def test_metadata_rows_and_statistics_are_in_the_part(group: Group) -> None:
    table = pa.table({"a": [3, 1, None], "s": ["x" * 100, "b", None], "f": [0.5, -2.0, None]})
    result, _ = group.merge(
        table,
        stats_columns=("a", "s", "f", "elsewhere"),
        metadata={"firnline.txn": "it's 1", "firnline.replaces": '["a","b"]'},
    )
    (part,) = result.parts
    assert part.key.startswith(PREFIX)
    assert part.stats["a"] == (1, 3, 1)
    assert part.stats["f"] == (-2.0, 0.5, 1)
    assert part.stats["s"] == ("b", "x" * 63 + "y", 1)
    footer = pq.read_metadata(group.root / part.key)
    assert footer.metadata[b"firnline.txn"] == b"it's 1"
    assert footer.metadata[b"firnline.replaces"] == b'["a","b"]'
    assert footer.metadata[b"firnline.rows"] == b"3"


def test_a_float_column_with_nan_has_no_bounds(group: Group) -> None:
    result, _ = group.merge(pa.table({"f": [1.0, float("nan")]}), stats_columns=("f",))
    assert result.parts[0].stats == {}


def test_row_groups_have_the_rows_asked_for_and_fewer_when_rows_are_wide(group: Group) -> None:
    narrow = pa.table({"a": list(range(10_000))})
    result, _ = group.merge(narrow, sort=["a"])
    footer = pq.read_metadata(group.root / result.parts[0].key)
    sizes = [footer.row_group(i).num_rows for i in range(footer.num_row_groups)]
    assert sizes == [2048] * 4 + [1808]
    assert footer.row_group(0).column(0).compression == "ZSTD"
    wide = pa.table({"a": [os.urandom(2000) for _ in range(9_000)]})
    result, _ = group.merge(wide, memory=64 * 2**20, row_group_rows=1_000_000)
    assert pq.read_metadata(group.root / result.parts[0].key).num_row_groups > 1


def test_every_input_is_fetched_with_one_get(group: Group) -> None:
    result, _ = group.merge(*[pa.table({"a": [n]}) for n in range(20)])
    assert (result.requests["get"], result.requests["put"], result.requests["head"]) == (20, 1, 0)


def test_two_attempts_at_one_task_write_two_objects(group: Group) -> None:
    keys = group.put(pa.table({"a": [1]}), pa.table({"a": [2]}))
    task = group.task(keys, {"a": "BIGINT"})
    first, second = group.run(task), group.run(task)
    assert first.parts[0].key != second.parts[0].key
