from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given

from firnline.errors import UsageError
from firnline.predicate.pruning import evaluate
from firnline.predicate.tree import (
    COMPARISONS,
    MAX_DEPTH,
    And,
    Equal,
    In,
    IsNull,
    Not,
    Or,
    Predicate,
    bind,
    columns_of,
    parse_asked,
    parse_json,
    to_json,
    to_sql,
)
from firnline.types.values import Scalar
from tests.support.predicates import COLUMNS, TREES


@pytest.mark.long
@given(tree=TREES)
def test_a_tree_comes_back_from_json_and_binding_changes_it_no_more(tree: Predicate) -> None:
    assert parse_json(to_json(tree)) == tree
    assert bind(tree, COLUMNS) == tree


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b"[]",
        b'{"op":"like","column":"i","value":"x"}',
        b'{"op":"=","column":"i"}',
        b'{"op":"=","column":"i","value":[1]}',
        b'{"op":"=","column":"i","value":1,"more":1}',
        b'{"op":"and","args":1}',
        b'{"op":"not","arg":' * (MAX_DEPTH + 1) + b'{"op":"is_null","column":"i"}' + b"}" * 101,
        b'{"op":"not","arg":' * 100_000,
        b'{"op":"in","column":"i","values":[' + b"1," * 100_001 + b"1]}",
    ],
    ids=lambda data: data[:40].decode(),
)
def test_json_that_is_no_predicate_is_refused(data: bytes) -> None:
    with pytest.raises(UsageError, match="predicate"):
        parse_json(data)


def test_empty_lists_and_unknown_columns_are_refused_when_bound() -> None:
    for tree in (And(()), Or(()), In("i", ()), Not(Equal("nosuch", 1)), Equal("i", None)):
        with pytest.raises(UsageError):
            bind(tree, COLUMNS)


def test_columns_are_named_once_in_order() -> None:
    tree = And((Equal("i", 1), Or((IsNull("d"), Not(In("i", (2,)))))))
    assert columns_of(tree) == ("i", "d")


def test_types_of_a_foreign_table_are_read_in_any_spelling() -> None:
    assert to_sql(Equal("x", 5), {"x": "int4"}) == "(\"x\" = CAST('5' AS INTEGER))"
    assert evaluate(Equal("x", "1.5"), {"x": Decimal("1.50")}, {"x": "numeric(5,2)"}) is True


@pytest.mark.parametrize("value", ["a", "", b"a"])
def test_only_nulls_are_null_among_rows_of_one_text_without_a_dictionary(
    tmp_path: Path, value: str | bytes
) -> None:
    """DuckDB 2.0 takes all of them for nulls, if it is asked in the plain way."""
    rows = pa.table({"k": range(4), "x": [None, value, None, value]})
    pq.write_table(rows, tmp_path / "a.parquet", use_dictionary=False)
    types = {"x": "VARCHAR" if isinstance(value, str) else "BLOB"}
    null = IsNull("x")
    for tree in (null, Not(Not(null)), And((null, null)), Or((null, null))):
        query = f"SELECT k FROM '{tmp_path}/a.parquet' WHERE {to_sql(tree, types)} ORDER BY k"
        assert duckdb.execute(query).fetchall() == [(0,), (2,)]


AMOUNTS = {"amt": "DECIMAL(20,2)", "b": "BIGINT", "d": "DOUBLE", "s": "VARCHAR"}


@pytest.mark.parametrize(
    ("column", "written", "taken"),
    [
        ("amt", "123456789012345678.91", "123456789012345678.91"),
        ("amt", "0.1", "0.10"),
        ("b", "9007199254740993", 9007199254740993),
        ("b", "9007199254740993.0", 9007199254740993),
        ("b", "1e3", 1000),
        ("d", "0.1000000000000000055511151231257827", 0.1),
        ("d", "1e-3", 0.001),
    ],
)
def test_a_number_that_somebody_has_written_counts_digit_by_digit(
    column: str, written: str, taken: Scalar
) -> None:
    for op in ("=", "!=", "<", "<=", ">", ">="):
        asked = f'{{"op":"not","arg":{{"op":"{op}","column":"{column}","value":{written}}}}}'
        assert parse_asked(asked, AMOUNTS) == Not(COMPARISONS[op](column, taken))
    listed = f'{{"op":"in","column":"{column}","values":[{written},{written}]}}'
    assert parse_asked(listed, AMOUNTS) == In(column, (taken, taken))


@pytest.mark.parametrize(
    ("column", "written"),
    [("amt", "0.100000000000000000001"), ("b", "0.5"), ("s", "1.5"), ("d", "1e999999999")],
)
def test_a_number_that_a_column_cannot_hold_is_refused(column: str, written: str) -> None:
    with pytest.raises(UsageError):
        parse_asked(f'{{"op":"=","column":"{column}","value":{written}}}', AMOUNTS)


@pytest.mark.parametrize("text", ['{"op":"="', '{"op":"=","column":"s"}', "[1.5]", "1.5", "{}"])
def test_what_is_no_tree_is_refused_in_one_sentence(text: str) -> None:
    with pytest.raises(UsageError, match="the predicate cannot be parsed"):
        parse_asked(text, AMOUNTS)
