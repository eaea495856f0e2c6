"""Rows that a kernel puts into partitions: each where an append would put it, none lost."""

from __future__ import annotations

import datetime
import uuid
from collections import Counter
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firnline.errors import KernelError
from firnline.kernel import partitions
from firnline.kernel.task import KernelResult, Layout, Level
from firnline.parquet.partition import partition_batches
from firnline.settings.fields import PartitionField
from firnline.types.arrow import from_arrow
from tests.kernel.conftest import Group
from tests.support.effort import examples

Rows = list[dict[str, Any]]
MOMENTS = st.integers(-(2**50), 2**50)
VALUES: dict[str, tuple[pa.DataType, st.SearchStrategy[Any], tuple[str, ...]]] = {
    "whole": (pa.int32(), st.integers(-3, 3), ("identity", "bucket")),
    "unsigned": (pa.uint64(), st.integers(0, 2**64 - 1), ("identity",)),
    "real": (pa.float32(), st.floats(allow_nan=True, width=32), ("identity",)),
    "text": (pa.string(), st.text("ab/=% \0é\U0001f600", max_size=3), ("identity", "bucket")),
    "date": (
        pa.date32(),
        st.dates(datetime.date(1900, 1, 1), datetime.date(2100, 1, 1)),
        ("identity", "year", "month", "day", "hour", "bucket"),
    ),
    "moment": (
        pa.timestamp("us", "UTC"),
        MOMENTS,
        ("identity", "year", "month", "day", "hour", "bucket"),
    ),
    "wall": (pa.timestamp("us"), MOMENTS, ("identity", "day", "hour", "bucket")),
    "fine": (pa.timestamp("ns"), st.integers(-(10**12), 10**12), ("identity", "day", "hour")),
    "amount": (
        pa.decimal128(9, 2),
        st.integers(-99, 99).map(lambda i: Decimal(i) / 100),
        ("identity", "bucket"),
    ),
    "flag": (pa.bool_(), st.booleans(), ("identity",)),
    "time": (pa.time64("us"), st.times(), ("identity", "bucket")),
    "uuid": (
        pa.uuid(),
        st.integers(0, 9).map(lambda i: uuid.UUID(int=i * 2**99).bytes),
        ("identity",),
    ),
}


def level(text: str) -> Level:
    field = PartitionField.model_validate(text)
    return Level(
        transform=field.transform,
        column=field.column,
        buckets=field.buckets,
        label=field.label,
        text=str(field),
    )


def split(group: Group, tables: list[pa.Table], *layout: str, **changed: Any) -> KernelResult:
    columns = from_arrow(tables[0].schema)
    made = Layout(prefix="table", levels=tuple(map(level, layout)))
    return group.run(group.task(group.put(*tables), columns, layout=made, **changed))


def bag(table: pa.Table) -> Counter[str]:
    return Counter(repr(row) for row in table.to_pylist())


@examples(40, 600)
@given(data=st.data())
def test_a_row_of_any_type_is_where_an_append_would_put_it(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("group")
    group = Group(folder / "store", folder / "scratch")
    names = data.draw(
        st.lists(st.sampled_from(sorted(VALUES)), min_size=1, max_size=2, unique=True)
    )
    layout = []
    for name in names:
        transform = data.draw(st.sampled_from(VALUES[name][2]))
        layout.append(
            {"identity": name, "bucket": f"bucket(3, {name})"}.get(
                transform, f"{transform}({name})"
            )
        )
    tables = []
    for _ in range(data.draw(st.integers(1, 2))):
        count = data.draw(st.integers(1, 10))
        arrays = [
            pa.array(
                data.draw(st.lists(st.none() | VALUES[n][1], min_size=count, max_size=count)),
                VALUES[n][0],
            )
            for n in names
        ]
        tables.append(pa.table([*arrays, pa.array(range(count))], names=[*names, "n"]))
    result = split(group, tables, *layout, sort=["n"])
    assert result.error is None, result.error
    fields = [PartitionField.model_validate(text) for text in layout]
    rows = pa.concat_tables(tables)
    expected = {path: bag(found) for path, found in partition_batches(rows, fields)}
    assert {part.partition for part in result.parts} == expected.keys()
    assert result.rows_in == sum(part.rows for part in result.parts) == rows.num_rows
    for part in result.parts:
        assert part.key.rpartition("/")[0] == f"table/_data/{part.partition}"
        found = pq.read_table(group.root / part.key, partitioning=None)
        assert bag(found.cast(rows.schema)) == expected[part.partition]
        assert found.column("n").to_pylist() == sorted(found.column("n").to_pylist())


def numbers(count: int) -> pa.Table:
    return pa.table({"a": [i % 5 for i in range(count)], "b": list(range(count))})


def test_rows_that_are_in_place_leave_the_parts_as_they_are(group: Group) -> None:
    table = pa.table({"d": [1, 1], "b": [1, 2]})
    result = split(group, [table, table], "d")
    assert (result.parts, result.rows_in, len(result.unchanged)) == ((), 0, 2)


def test_hidden_rows_are_left_out_and_do_not_count_as_out_of_place(group: Group) -> None:
    table = pa.table({"d": [1, 2], "b": [1, 2]})
    key = "table/_data/d=1/in-0.parquet"
    hidden = split(group, [table], "d", hidden={key: "d = 2"})
    assert len(hidden.unchanged) == 1
    gone = split(group, [table], "b", hidden={"table/_data/d=1/in-1.parquet": "b = 2"})
    assert ([part.partition for part in gone.parts], gone.rows_deleted) == (["b=1"], 1)


def test_each_output_says_its_partition_and_its_rows(group: Group) -> None:
    result = split(
        group, [numbers(50_000)], "bucket(4, b)", "a", metadata={"firnline.table": "table"}
    )
    assert len(result.parts) == 20
    assert sum(part.rows for part in result.parts) == 50_000
    for part in result.parts:
        pairs = pq.read_metadata(group.root / part.key).metadata
        assert pairs[b"firnline.partition"].decode() == part.partition
        assert int(pairs[b"firnline.rows"]) == part.rows


def test_many_threads_and_batches_keep_each_row_with_its_partition(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partitions, "_BATCH", 1_000)
    result = split(group, [numbers(300_000)], "a", threads=4)
    for part in result.parts:
        found = pq.read_table(group.root / part.key, partitioning=None)
        assert set(found.column("a").to_pylist()) == {int(part.partition[2:])}
        assert found.num_rows == 60_000


def test_a_row_in_a_wrong_partition_is_found_before_anything_is_uploaded(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = partitions.Partitioner._number

    def shifted(self: Any, visible: Any, numbers: Any, name: str) -> list[str]:
        paths = own(self, visible, numbers, name)
        return [*paths[1:], paths[0]]

    monkeypatch.setattr(partitions.Partitioner, "_number", shifted)
    result = split(group, [numbers(10)], "a")
    assert (result.error_type, result.parts) == (KernelError.__name__, ())
    assert "were put into" in (result.error or "")


def test_a_column_that_is_not_there_or_has_no_directory_is_an_error(group: Group) -> None:
    assert "'c'" in (split(group, [numbers(3)], "c").error or "")
    assert "day(b)" in (split(group, [numbers(3)], "day(b)").error or "")
