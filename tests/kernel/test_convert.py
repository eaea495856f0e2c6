"""Columns that become another type or another name on the way: exactly, or not at all."""

from __future__ import annotations

import datetime
import decimal
from typing import Any

import pyarrow as pa
import pytest

from firnline.kernel.task import Conversion, KernelResult
from tests.kernel.conftest import Group

SAME = (Conversion(column="v", name="v"),)


def converted(
    group: Group, values: list[Any], stored: pa.DataType, wanted: str
) -> tuple[KernelResult, list[Any]]:
    """What becomes of values of a column ``v`` that gets another type."""
    table = pa.table({"id": list(range(len(values))), "v": pa.array(values, stored)})
    columns = {"id": "BIGINT", "v": wanted}
    result = group.run(
        group.task(group.put(table), columns, sort=["id"], conversions=SAME, stats_columns=("v",))
    )
    return result, group.read(result).column("v").to_pylist() if result.parts else []


DATE = datetime.date(2013, 1, 5)
TIME = datetime.datetime.combine(DATE, datetime.time(7, 30))
MIDNIGHT = datetime.datetime.combine(DATE, datetime.time())


@pytest.mark.parametrize(
    ("values", "stored", "wanted", "becomes"),
    [
        (["1", "01", " 7 ", "3.0", None], pa.string(), "INTEGER", [1, 1, 7, 3, None]),
        (["9007199254740993"], pa.string(), "BIGINT", [2**53 + 1]),
        (["1.50", "2"], pa.string(), "DECIMAL(10,2)", [decimal.Decimal("1.50"), 2]),
        (["0.1", "inf"], pa.string(), "DOUBLE", [0.1, float("inf")]),
        (["2013-01-05"], pa.string(), "DATE", [DATE]),
        (["2013-01-05T07:30:00"], pa.string(), "TIMESTAMP", [TIME]),
        ([1, -2, None], pa.int32(), "BIGINT", [1, -2, None]),
        ([1, 2**31 - 1], pa.int64(), "INTEGER", [1, 2**31 - 1]),
        ([1.0, None], pa.float64(), "INTEGER", [1, None]),
        ([1.5, 0.1], pa.float64(), "VARCHAR", ["1.5", "0.1"]),
        ([TIME], pa.timestamp("us"), "VARCHAR", ["2013-01-05 07:30:00"]),
        ([DATE], pa.date32(), "TIMESTAMP", [MIDNIGHT]),
        ([True, None], pa.bool_(), "VARCHAR", ["true", None]),
    ],
)
def test_a_value_that_the_type_holds_is_the_same_value(
    group: Group, values: list[Any], stored: pa.DataType, wanted: str, becomes: list[Any]
) -> None:
    result, made = converted(group, values, stored, wanted)
    assert result.error is None, result.error
    assert made == becomes
    assert result.rows_in == len(values)


@pytest.mark.parametrize(
    ("values", "stored", "wanted", "says"),
    [
        (["1", "x", "y"], pa.string(), "INTEGER", "2 values that INTEGER cannot hold exactly"),
        (["1.5"], pa.string(), "INTEGER", "1 value that INTEGER cannot hold exactly, such as '1.5"),
        (["9007199254740993.4"], pa.string(), "BIGINT", "9007199254740993.4"),
        (["0.00000000001"], pa.string(), "BIGINT", "0.00000000001"),
        (["3000000000"], pa.string(), "INTEGER", "3000000000"),
        (["1.239"], pa.string(), "DECIMAL(10,2)", "1.239"),
        (["2013-01-05 07:30:00"], pa.string(), "DATE", "07:30"),
        (["yesterday"], pa.string(), "TIMESTAMP", "yesterday"),
        ([1.5, 2.0], pa.float64(), "INTEGER", "1 value"),
        ([2**53 + 1], pa.int64(), "DOUBLE", "9007199254740993"),
        ([0.1], pa.float64(), "FLOAT", "0.1"),
        ([TIME], pa.timestamp("us"), "DATE", "07:30"),
        ([5], pa.int32(), "BOOLEAN", "'5'"),
        ([5], pa.int32(), "DATE", "5"),
        (["z" * 100], pa.string(), "INTEGER", "z" * 59 + "…"),
    ],
)
def test_a_value_that_would_change_is_named_with_part_column_and_count(
    group: Group, values: list[Any], stored: pa.DataType, wanted: str, says: str
) -> None:
    result, _ = converted(group, values, stored, wanted)
    assert result.error_type == "PartSchemaError"
    assert says in str(result.error)
    assert "column 'v'" in str(result.error)
    assert str(result.error_key) in str(result.error)
    assert "--rename" in str(result.error_next_step)
    assert result.parts == ()


def test_a_renamed_column_keeps_every_value_and_its_type(group: Group) -> None:
    table = pa.table({"id": [2, 1], "v": ["a", None]})
    rename = (Conversion(column="v", name="v_text"),)
    columns = {"id": "BIGINT", "v_text": "VARCHAR"}
    result = group.run(group.task(group.put(table), columns, sort=["id"], conversions=rename))
    made = group.read(result)
    assert made.column_names == ["id", "v_text"]
    assert made.to_pydict() == {"id": [1, 2], "v_text": [None, "a"]}


def test_rows_are_sorted_by_the_new_values(group: Group) -> None:
    table = pa.table({"v": ["10", "9", "100", None]})
    task = group.task(group.put(table), {"v": "INTEGER"}, sort=["v"], conversions=SAME)
    assert group.read(group.run(task)).column("v").to_pylist() == [9, 10, 100, None]


def test_a_file_spells_the_column_in_other_letters_or_lacks_it(group: Group) -> None:
    keys = group.put(pa.table({"id": [1], "V": ["7"]}), pa.table({"id": [2]}))
    task = group.task(keys, {"id": "BIGINT", "v": "INTEGER"}, sort=["id"], conversions=SAME)
    assert group.read(group.run(task)).to_pydict() == {"id": [1, 2], "v": [7, None]}


def test_a_file_that_has_the_new_name_already_is_refused(group: Group) -> None:
    table = pa.table({"v": ["a"], "w": ["b"]})
    rename = (Conversion(column="v", name="w"),)
    result = group.run(group.task(group.put(table), {"w": "VARCHAR"}, conversions=rename))
    assert result.error_type == "PartSchemaError"
    assert "'v' and 'w'" in str(result.error)


def test_conditions_and_keys_are_those_of_the_new_values(group: Group) -> None:
    table = pa.table({"v": ["1", "01", "2"], "n": [1, 2, 3]})
    (key,) = group.put(table)
    columns = {"v": "INTEGER", "n": "BIGINT"}
    task = group.task([key], columns, primary_key=("v",), conversions=SAME, hidden={key: "v = 2"})
    result = group.run(task)
    assert group.read(result).to_pylist() == [{"v": 1, "n": 2}]
    assert (result.rows_deleted, result.rows_deduplicated) == (1, 1)
