"""Parts that hold columns under names or in types of before."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from firnline.kernel.task import Conversion, KernelTask, Source
from tests.kernel.conftest import Group


def with_sources(task: KernelTask, *sources: tuple[Source, ...]) -> KernelTask:
    inputs = tuple(
        msgspec.structs.replace(one, sources=given)
        for one, given in zip(task.inputs, sources, strict=True)
    )
    return msgspec.structs.replace(task, inputs=inputs)


RENAMED = (Source(column="b", names=("a", "b")), Source(column="a", names=()))


def test_each_part_is_read_by_its_own_names(group: Group) -> None:
    keys = group.put(
        pa.table({"id": [1], "a": ["old"]}),
        pa.table({"id": [2], "b": ["late"]}),
        pa.table({"id": [3], "a": ["another"], "b": ["new"]}),
    )
    task = group.task(keys, {"id": "BIGINT", "a": "VARCHAR", "b": "VARCHAR"}, sort=["id"])
    made = group.read(group.run(with_sources(task, RENAMED, RENAMED, ())))
    assert made.to_pylist() == [
        {"id": 1, "a": None, "b": "old"},
        {"id": 2, "a": None, "b": "late"},
        {"id": 3, "a": "another", "b": "new"},
    ]


def test_of_two_names_in_one_part_the_first_with_a_value_counts(group: Group) -> None:
    keys = group.put(pa.table({"a": pa.array([1, None], pa.int16()), "b": [7, 8]}))
    task = with_sources(group.task(keys, {"b": "BIGINT"}, sort=["b"]), RENAMED)
    assert group.read(group.run(task)).to_pylist() == [{"b": 1}, {"b": 8}]


def test_what_went_is_not_looked_at_and_what_hides_rows_speaks_of_the_new_names(
    group: Group,
) -> None:
    (key,) = group.put(pa.table({"id": [1, 2], "a": ["x", "y"], "gone": [[1], [2]]}))
    columns = {"id": "BIGINT", "b": "VARCHAR"}
    task = group.task([key], columns, sort=["id"], hidden={key: "b = 'x'"})
    result = group.run(with_sources(task, (*RENAMED, Source(column="gone", names=()))))
    assert group.read(result).to_pylist() == [{"id": 2, "b": "y"}]
    assert result.rows_deleted == 1


@pytest.mark.parametrize(
    ("value", "stored", "wanted"),
    [
        (7, pa.int32(), "BIGINT"),
        (0.5, pa.float32(), "DOUBLE"),
        (Decimal("1.50"), pa.decimal128(9, 2), "DECIMAL(12,4)"),
        (datetime.date(2013, 1, 5), pa.date32(), "TIMESTAMP"),
    ],
)
def test_a_narrower_type_becomes_the_table_s(
    group: Group, value: Any, stored: pa.DataType, wanted: str
) -> None:
    keys = group.put(pa.table({"v": pa.array([value], stored)}))
    made = group.read(group.run(group.task(keys, {"v": wanted})))
    assert made.schema.field("v").type != stored
    kept = made["v"].cast(stored).to_pylist()
    assert kept == [value]


def test_a_repair_goes_on_top_of_a_rename(group: Group) -> None:
    keys = group.put(pa.table({"id": [1], "a": ["7"]}))
    conversion = Conversion(column="b", name="c")
    task = group.task(keys, {"id": "BIGINT", "c": "INTEGER"}, conversions=(conversion,))
    made = group.read(group.run(with_sources(task, RENAMED)))
    assert made.to_pylist() == [{"id": 1, "c": 7}]
