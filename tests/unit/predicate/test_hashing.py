"""Parts that hash ranges exclude: never one with a row for which the condition is true."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firnline.parquet.partition import buckets_of, partition_batches
from firnline.predicate import hashing
from firnline.predicate.hashing import LiteralHashes, values_of
from firnline.predicate.pruning import Pruner, evaluate
from firnline.predicate.tree import (
    And,
    Equal,
    In,
    IsNull,
    Less,
    Not,
    NotEqual,
    Or,
    Predicate,
    bind,
)
from firnline.settings.fields import PartitionField
from firnline.types.hashes import LARGEST, Hashes, HashRange
from firnline.types.murmur3 import form_of_sql, hash_rows
from firnline.types.schema import WIDER
from tests.support.predicates import COLUMNS, ROWS, TREES, VALUES, arrow, literals

HASHED = [name for name, kind in COLUMNS.items() if form_of_sql(kind) is not None]
Row = dict[str, Any]


def of_bucket(rows: pa.Table, column: str, buckets: int) -> list[tuple[Hashes, list[Row]]]:
    field = PartitionField(transform="bucket", column=column, buckets=buckets)
    return [
        (buckets_of(path, [field], COLUMNS), found.to_pylist())
        for path, found in partition_batches(rows, [field])
    ]


def of_cluster(rows: pa.Table, columns: list[str]) -> list[tuple[Hashes, list[Row]]]:
    """One part per row, of which the range is exactly its hash."""
    forms = tuple(str(form_of_sql(COLUMNS[name])) for name in columns)
    found = hash_rows([rows.column(name) for name in columns]).tolist()
    return [
        ((HashRange(tuple(columns), forms, 0, value, value),), [row])
        for value, row in zip(found, rows.to_pylist(), strict=True)
    ]


def never_loses(tree: Predicate, parts: list[tuple[Hashes, list[Row]]]) -> None:
    pruner = Pruner(tree, COLUMNS)
    for hashes, rows in parts:
        possible = pruner.outcomes({}, hashes)
        for row in rows:
            answer = evaluate(tree, row, COLUMNS)
            assert {True: possible.true, False: possible.false, None: possible.unknown}[answer]
        matching = [row for row in rows if evaluate(tree, row, COLUMNS)]
        assert not (pruner.matches_nothing({}, hashes) and matching)
        assert not pruner.matches_all({}, hashes) or matching == rows


@pytest.mark.long
@given(tree=TREES, rows=ROWS, column=st.sampled_from(HASHED), buckets=st.sampled_from([2, 7, 64]))
def test_a_bucket_that_is_excluded_holds_no_matching_row(
    tree: Predicate, rows: list[Row], column: str, buckets: int
) -> None:
    never_loses(tree, of_bucket(arrow(rows), column, buckets))


@pytest.mark.long
@given(
    tree=TREES,
    rows=ROWS,
    columns=st.lists(st.sampled_from(HASHED), min_size=1, max_size=3, unique=True),
)
def test_a_range_of_a_cluster_that_is_excluded_holds_no_matching_row(
    tree: Predicate, rows: list[Row], columns: list[str]
) -> None:
    never_loses(tree, of_cluster(arrow(rows), columns))


@pytest.mark.long
@given(st.data())
def test_equality_with_a_value_finds_its_bucket_and_its_bucket_alone(data: st.DataObject) -> None:
    column = data.draw(st.sampled_from(HASHED))
    literal = data.draw(literals(column))
    ways: list[Predicate] = [Equal(column, literal), In(column, (literal,))]
    tree = data.draw(st.sampled_from([*ways, And((ways[0],))]))
    kind, form = COLUMNS[column], str(form_of_sql(COLUMNS[column]))
    pruner = Pruner(tree, {column: kind})
    kept = [
        bucket
        for bucket in range(64)
        if not pruner.matches_nothing({}, (HashRange((column,), (form,), 64, bucket, bucket),))
    ]
    assert len(kept) == 1


def ranges(*columns: str, low: int | None = 5, high: int | None = 5, buckets: int = 64) -> Hashes:
    forms = tuple(str(form_of_sql(COLUMNS[name])) for name in columns)
    return (HashRange(columns, forms, buckets, low, high),)


def excluded(tree: Predicate, hashes: Hashes, columns: dict[str, str] | None = None) -> bool:
    return Pruner(tree, columns or COLUMNS).matches_nothing({}, hashes)


def test_the_bucket_of_the_nulls_equals_nothing() -> None:
    nulls = ranges("i", low=None, high=None)
    assert excluded(Equal("i", 1), nulls)
    assert excluded(In("i", (1, 2)), nulls)
    assert not excluded(IsNull("i"), nulls)
    assert not excluded(Not(Equal("i", 1)), nulls)  # of bounds, not of hashes


@pytest.mark.parametrize(
    "tree",
    [
        NotEqual("i", 1),
        Less("i", 1),
        IsNull("i"),
        Not(Equal("i", 1)),
        Equal("t", 1),
        Or((Equal("i", 1), Equal("t", 1))),
        Not(And((Equal("i", 1), Equal("t", 1)))),
    ],
)
def test_a_condition_that_other_values_satisfy_excludes_no_hash(tree: Predicate) -> None:
    assert not any(excluded(tree, ranges("i", low=b, high=b)) for b in range(64))


def test_alternatives_find_the_bucket_of_each() -> None:
    tree = Or((Equal("i", 1), And((In("i", (2, 3)), Equal("t", 1)))))
    separate = {
        b
        for b in range(64)
        for value in (1, 2, 3)
        if not excluded(Equal("i", value), ranges("i", low=b, high=b))
    }
    kept = {b for b in range(64) if not excluded(tree, ranges("i", low=b, high=b))}
    assert kept == separate
    assert len(kept) == 3


def test_several_columns_are_excluded_where_all_of_them_have_values() -> None:
    tree = And((In("i", (1, 2)), Or((Equal("t", 1), Equal("t", 2))), Less("f", 1.0)))
    exact = [
        hash_rows([pa.chunked_array([[i]], pa.int32()), pa.chunked_array([[t]], pa.uint8())])[0]
        for i in (1, 2)
        for t in (1, 2)
    ]
    for value in exact:
        hit = int(value)
        assert not excluded(tree, ranges("i", "t", low=hit, high=hit, buckets=0))
        assert excluded(tree, ranges("i", "t", low=hit + 1, high=hit + 1, buckets=0))
        assert not excluded(tree, ranges("i", "t", low=0, high=LARGEST, buckets=0))
    assert not excluded(In("i", (1, 2)), ranges("i", "t", low=7, high=7, buckets=0))


def test_too_many_combinations_exclude_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    tree = And((In("i", (1, 2)), In("t", (1, 2))))
    hashes = ranges("i", "t", low=7, high=7, buckets=0)
    monkeypatch.setattr(hashing, "MAX_ROWS", 4)
    assert excluded(tree, hashes)
    monkeypatch.setattr(hashing, "MAX_ROWS", 3)
    assert not excluded(tree, hashes)
    assert excluded(In("i", (1, 2, 4, 5)), ranges("i"))  # of one column there is no limit


@pytest.mark.long
@pytest.mark.parametrize("narrow", WIDER)
def test_a_range_from_before_a_column_was_widened_excludes_only_by_the_same_bytes(
    narrow: str,
) -> None:
    for wide in WIDER[narrow]:
        form, now = form_of_sql(narrow), form_of_sql(wide)
        if form is None:
            continue
        literal = "2013-01-01" if narrow == "DATE" else 1
        found = [
            excluded(Equal("x", literal), (HashRange(("x",), (form,), 64, b, b),), {"x": wide})
            for b in range(64)
        ]
        assert sum(found) == (63 if form == now else 0)


def test_a_range_about_a_column_that_the_table_does_not_have_excludes_nothing() -> None:
    assert not excluded(Equal("i", 1), (HashRange(("gone",), ("long",), 64, 5, 5),))


def test_a_float_has_no_hash_whatever_a_range_says() -> None:
    for value in (0.0, -0.0, math.pi):
        for form in ("long", "text", "None"):
            assert not excluded(Equal("f", value), (HashRange(("f",), (form,), 64, 5, 5),))


def test_the_case_of_a_column_in_a_condition_does_not_matter() -> None:
    kept = [b for b in range(64) if not excluded(Equal("I", 1), ranges("i", low=b, high=b))]
    assert len(kept) == 1


@pytest.mark.long
def test_literals_are_hashed_once_for_all_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    from firnline.types import murmur3

    asked: list[int] = []
    real = murmur3.hash_literals

    def counted(kind: str, values: Any) -> Any:
        asked.append(len(values))
        return real(kind, values)

    monkeypatch.setattr(murmur3, "hash_literals", counted)
    tree = Or(tuple(Equal("i", value) for value in range(50)))
    pruner = Pruner(tree, COLUMNS)
    for bucket in range(64):
        pruner.outcomes({}, ranges("i", low=bucket, high=bucket))
    assert asked == [50]


def test_literals_of_other_columns_are_not_hashed_with_those_of_this_one() -> None:
    others = (Equal('s "q"', "text"), In("f", (1.5, 2.5)))
    kept = [
        b
        for b in range(64)
        if not excluded(And((Equal("i", 1), *others)), ranges("i", low=b, high=b))
    ]
    assert len(kept) == 1


def test_values_that_a_condition_needs() -> None:
    narrow = And((In("i", (1, 2, 3)), Equal("i", 2), Equal("t", 5)))
    assert values_of(narrow) == {"i": (2,), "t": (5,)}
    assert values_of(Or((narrow, Equal("i", 9)))) == {"i": (2, 9)}
    assert values_of(Not(Equal("i", 1))) == {}
    tree = bind(Equal("i", 1), COLUMNS)
    assert LiteralHashes(tree, COLUMNS).exclude(tree, ()) is False


assert set(HASHED) < set(VALUES)
