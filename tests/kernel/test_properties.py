"""What holds for any rows: none is lost, none doubled, the order is right."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tests.kernel.conftest import Group
from tests.support.effort import examples

KINDS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "whole": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "float": (pa.float64(), st.floats(allow_nan=False)),
    "text": (pa.string(), st.text(max_size=8)),
    "blob": (pa.binary(), st.binary(max_size=8)),
    "moment": (
        pa.timestamp("us", "UTC"),
        st.integers(-(2**50), 2**50),
    ),
    "list": (pa.list_(pa.int32()), st.lists(st.none() | st.integers(-9, 9), max_size=3)),
}


@st.composite
def parts(draw: st.DrawFn) -> list[pa.Table]:
    """One to four parts with some of the columns each, in any order, with nulls and no rows."""
    found = []
    for _ in range(draw(st.integers(1, 4))):
        names = draw(st.lists(st.sampled_from(sorted(KINDS)), min_size=1, unique=True))
        rows = draw(st.integers(0, 6))
        arrays = [
            pa.array(
                draw(st.lists(st.none() | KINDS[name][1], min_size=rows, max_size=rows)),
                KINDS[name][0],
            )
            for name in names
        ]
        found.append(pa.table(arrays, names=names))
    return found


def as_bag(rows: list[dict[str, Any]], names: list[str]) -> Counter[str]:
    return Counter(repr([row.get(name) for name in names]) for row in rows)


@examples(20, 600)
@given(tables=parts(), pick=st.data())
def test_a_merge_keeps_every_row_once_and_sorts(
    group: Group, tables: list[pa.Table], pick: st.DataObject
) -> None:
    names = list(dict.fromkeys(name for table in tables for name in table.column_names))
    sort = pick.draw(st.lists(st.sampled_from(names), unique=True, max_size=2))
    result, merged = group.merge(*tables, sort=sort, row_group_rows=2048)
    before = [row for table in tables for row in table.to_pylist()]
    assert as_bag(merged.to_pylist(), names) == as_bag(before, names)
    assert result.rows_in == len(before)
    if sort and result.parts:
        (key, *_) = sort
        values = merged[key].to_pylist()
        known = [value for value in values if value is not None]
        assert values == [*known, *[None] * (len(values) - len(known))]
        if key != "list":
            assert known == sorted(known)


@examples(15, 400)
@given(
    inputs=st.lists(
        st.lists(
            st.tuples(st.none() | st.integers(0, 3), st.none() | st.integers(0, 3)), max_size=5
        ),
        min_size=1,
        max_size=4,
    ),
    versioned=st.booleans(),
)
def test_one_row_per_key_stays_and_it_is_the_last(
    group: Group, inputs: list[list[tuple[int | None, int | None]]], versioned: bool
) -> None:
    kinds = pa.schema([("k", pa.int64()), ("v", pa.int64()), ("n", pa.int64())])
    numbered = [[(k, v, 10 * i + j) for j, (k, v) in enumerate(p)] for i, p in enumerate(inputs)]
    tables = [
        pa.Table.from_pylist([dict(zip(kinds.names, row, strict=True)) for row in part], kinds)
        for part in numbered
    ]
    result, merged = group.merge(*tables, primary_key=("k",), version="v" if versioned else None)
    last: dict[int | None, tuple[int, int]] = {}
    for k, v, n in (row for part in numbered for row in part):
        rank = (-1 if v is None else v) if versioned else 0
        last[k] = max(last.get(k, (-2, 0)), (rank, n))
    assert sorted(row["n"] for row in merged.to_pylist()) == sorted(n for _, n in last.values())
    assert result.rows_deduplicated == sum(map(len, inputs)) - len(last)
