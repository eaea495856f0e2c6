from __future__ import annotations

import datetime
import math
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from firnline.arrow_types import to_arrow
from firnline.errors import UsageError
from firnline.predicate import (
    COMPARISONS,
    MAX_DEPTH,
    And,
    Equal,
    In,
    IsNull,
    Less,
    Not,
    Or,
    Predicate,
    bind,
    columns_of,
    parse_json,
    to_json,
    to_sql,
)
from firnline.predicate_logic import evaluate, matches_all, matches_nothing, outcomes
from firnline.predicate_sql import parse_sql
from firnline.scalars import canonical
from firnline.stats import from_table

COLUMNS = {
    "i": "INTEGER",
    "t": "UTINYINT",
    "f": "DOUBLE",
    "r": "FLOAT",
    "c": "DECIMAL(9,2)",
    "b": "BOOLEAN",
    's "q"': "VARCHAR",
    "d": "DATE",
    "ts": "TIMESTAMP",
    "tz": "TIMESTAMP WITH TIME ZONE",
    "u": "UUID",
    "blob": "BLOB",
}
TEXT = st.sampled_from(["", "a", "A", "ä", "'", "a\x00b", '"; DROP', "\\", "\U0001f600", "ab"])
MOMENT = st.datetimes(
    datetime.datetime(2013, 1, 1),  # noqa: DTZ001 - drawn without zone, zoned below
    datetime.datetime(2013, 1, 2),  # noqa: DTZ001
)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "i": st.integers(-3, 3) | st.integers(-(2**31), 2**31 - 1),
    "t": st.integers(0, 3),
    "f": st.sampled_from([0.0, -0.0, 0.1, 1.5, -1e300, math.nan, math.inf]) | st.floats(),
    "r": st.sampled_from([0.0, 0.10000000149011612, 1.5, math.nan]) | st.floats(width=32),
    "c": st.decimals(-2, 2, places=2),
    "b": st.booleans(),
    's "q"': TEXT | st.text(max_size=3),
    "d": st.dates(datetime.date(2013, 1, 1), datetime.date(2013, 1, 4)),
    "ts": MOMENT,
    "tz": MOMENT.map(lambda moment: moment.replace(tzinfo=datetime.UTC)),
    "u": st.uuids(),
    "blob": st.binary(max_size=2),
}
COMPARABLE = [name for name in COLUMNS if name != "blob"]


def literals(name: str) -> st.SearchStrategy[Any]:
    """Literals of a column in canonical form."""
    values = VALUES[name]
    if COLUMNS[name] in ("DOUBLE", "FLOAT"):
        values = values.filter(math.isfinite)
    return values.map(lambda value: canonical(COLUMNS[name], value))


@st.composite
def leaves(draw: st.DrawFn) -> Predicate:
    if draw(st.integers(0, 5)) == 0:
        return IsNull(draw(st.sampled_from(list(COLUMNS))))
    name = draw(st.sampled_from(COMPARABLE))
    if draw(st.booleans()):
        return In(name, tuple(draw(st.lists(literals(name), min_size=1, max_size=3))))
    return COMPARISONS[draw(st.sampled_from(list(COMPARISONS)))](name, draw(literals(name)))


TREES = st.recursive(
    leaves(),
    lambda inner: (
        st.lists(inner, min_size=1, max_size=3).map(lambda args: And(tuple(args)))
        | st.lists(inner, min_size=1, max_size=3).map(lambda args: Or(tuple(args)))
        | inner.map(Not)
    ),
    max_leaves=6,
)
ROWS = st.lists(
    st.fixed_dictionaries({name: st.none() | values for name, values in VALUES.items()}),
    min_size=1,
    max_size=5,
)


def arrow(rows: list[dict[str, Any]]) -> pa.Table:
    schema = to_arrow(COLUMNS)
    columns = []
    for field in schema:
        values = [row[field.name] for row in rows]
        if field.name == "u":
            raw = [None if value is None else value.bytes for value in values]
            columns.append(field.type.wrap_array(pa.array(raw, pa.binary(16))))
        else:
            columns.append(pa.array(values, field.type))
    return pa.Table.from_arrays(columns, schema=schema)


@pytest.fixture(scope="module")
def connection() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'America/New_York'")  # whatever the session says
    return connection


def duckdb_says(
    connection: duckdb.DuckDBPyConnection, condition: str, table: pa.Table
) -> list[bool | None]:
    connection.register("given", table)
    answers = connection.sql(f"FROM given SELECT ({condition})::BOOLEAN").fetchall()
    return [answer for (answer,) in answers]


@settings(deadline=None)
@given(tree=TREES, rows=ROWS)
def test_evaluation_is_what_duckdb_answers(
    connection: duckdb.DuckDBPyConnection, tree: Predicate, rows: list[dict[str, Any]]
) -> None:
    expected = duckdb_says(connection, to_sql(tree, COLUMNS), arrow(rows))
    assert [evaluate(tree, row, COLUMNS) for row in rows] == expected


@given(tree=TREES, rows=ROWS)
def test_pruning_by_statistics_never_loses_a_row(
    tree: Predicate, rows: list[dict[str, Any]]
) -> None:
    stats = from_table(arrow(rows), COLUMNS)
    answers = {evaluate(tree, row, COLUMNS) for row in rows}
    possible = outcomes(tree, stats, COLUMNS)
    assert possible.true or True not in answers
    assert possible.false or False not in answers
    assert possible.unknown or None not in answers
    assert not (matches_nothing(tree, stats, COLUMNS) and True in answers)
    assert not matches_all(tree, stats, COLUMNS) or answers == {True}
    assert not matches_nothing(tree, {}, COLUMNS)


@given(tree=TREES)
def test_a_tree_comes_back_from_json_and_binding_changes_it_no_more(tree: Predicate) -> None:
    assert parse_json(to_json(tree)) == tree
    assert bind(tree, COLUMNS) == tree


@settings(deadline=None)
@given(tree=TREES, rows=ROWS)
def test_sql_that_duckdb_accepts_is_read_with_the_same_meaning(
    tree: Predicate, rows: list[dict[str, Any]]
) -> None:
    def written(node: Predicate) -> str:
        if isinstance(node, And | Or):
            word = " and " if isinstance(node, And) else " or "
            return "(" + word.join(written(arg) for arg in node.args) + ")"
        if isinstance(node, Not):
            return f"not {written(node.arg)}"
        name = '"' + node.column.replace('"', '""') + '"'
        if isinstance(node, IsNull):
            return f"{name} is null"
        if isinstance(node, In):
            return f"{name} in ({', '.join(map(text, node.values))})"
        return f"{name} {node.op} {text(node.value)}"

    def text(value: Any) -> str:
        return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else repr(value)

    assume("\x00" not in written(tree))
    parsed = parse_sql(written(tree).replace("True", "true").replace("False", "false"), COLUMNS)
    for row in rows:
        assert evaluate(parsed, row, COLUMNS) == evaluate(tree, row, COLUMNS)


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("i = 1", Equal("i", 1)),
        ("I = -1", Equal("i", -1)),
        ("5 > i", Less("i", 5)),
        ("(i) < (((7)))", Less("i", 7)),
        ("i <> 1_000", Not(Equal("i", 1000))),
        ("i between 1 and 2", And((COMPARISONS[">="]("i", 1), COMPARISONS["<="]("i", 2)))),
        ("c = 1.5", Equal("c", "1.50")),
        ("f = 1e3", Equal("f", 1000.0)),
        ("d < DATE '2013-02-01'", Less("d", "2013-02-01")),
        ("d < '2013-02-01'", Less("d", "2013-02-01")),
        ("ts < DATE '2013-02-01'", Less("ts", "2013-02-01T00:00:00.000000")),
        ("ts < TIMESTAMP '2013-02-01 12:00'", Less("ts", "2013-02-01T12:00:00.000000")),
        ("tz < TIMESTAMPTZ '2013-02-01 12:00+02'", Less("tz", "2013-02-01T10:00:00.000000Z")),
        ("tz < TIMESTAMP '2013-02-01 12:00'", Less("tz", "2013-02-01T12:00:00.000000Z")),
        ('"s ""q""" = \'it\'\'s \\\'', Equal('s "q"', "it's \\")),
        ("b = true", Equal("b", True)),
        ("blob is not null", Not(IsNull("blob"))),
        ("i not in (1, 2) -- why", Not(In("i", (1, 2)))),
        (
            "i = 1 or i = 2 or not (i = 3 and t = 1)",
            Or((Equal("i", 1), Equal("i", 2), Not(And((Equal("i", 3), Equal("t", 1)))))),
        ),
    ],
)
def test_sql_text_is_read_into_a_tree(text: str, tree: Predicate) -> None:
    if text.startswith("i <>"):
        assert parse_sql(text, COLUMNS) == COMPARISONS["!="]("i", 1000)
    else:
        assert parse_sql(text, COLUMNS) == tree


@pytest.mark.parametrize(
    ("text", "piece"),
    [
        ("lower(i) = 'x'", "LOWER(i)"),
        ("i = (select 1)", "SELECT 1"),
        ("i in (select 1)", "SELECT 1"),
        ("i in (1, (select 2))", "SELECT 2"),
        ("exists (select 1)", "EXISTS"),
        ('"s ""q""" like \'x%\'', "LIKE"),
        ("i = t", "t"),
        ("i + 1 = 2", "i + 1"),
        ("i = 1 + 1", "1 + 1"),
        ("i = 1::INTEGER", "AS INT"),
        ("i = '1'::INTEGER", "AS INT"),
        ("try_cast('2013-01-01' as date) = d", "TRY_CAST"),
        ("x.i = 1", "x.i"),
        ("i", "i"),
        ("true", "TRUE"),
        ("1 = 1", "1"),
        ("i = 1; drop table x", "drop table"),
        ("i = 1 order by i", "order by"),
        ("i = 1 limit 1", "limit"),
        ("i = 1 union select 1", "union"),
        ("i is true", "IS TRUE"),
        ("i is distinct from 1", "DISTINCT"),
        ("1 < i < 3", "1 < i"),
        ("i = ?", "?"),
        ("i = case when true then 1 end", "CASE"),
        ("blob = E'\\n'", ""),
        ("d = current_date", "CURRENT_DATE"),
        ("i = ", "does not parse"),
        ("i = 1)", "does not parse"),
        ("", "does not parse"),
        ("'", "does not parse"),
        ("(" * 5000 + "i = 1" + ")" * 5000, ""),
        ("not " * 5000 + "i = 1", ""),
        ("x" * 2_000_000, "million"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_sql_that_is_more_than_a_predicate_is_refused(text: str, piece: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_sql(text, COLUMNS)
    assert piece.lower() in str(caught.value).lower()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("nosuch = 1", "nosuch"),
        ("i = 1.5", "whole number"),
        ("i = 'x'", "not a number"),
        ("i = 3000000000", "range"),
        ("t = -1", "range"),
        ("c = 1.555", "exactly"),
        ("c = 1e400", "exactly"),
        ("i = 1e999999999", "finite"),
        ("r = 1e300", "range"),
        ("b = 1", "true or false"),
        ('"s ""q""" = 1', "text in quotes"),
        ('"s ""q""" = DATE \'2013-01-01\'', "text in quotes"),
        ("d = '2013-02-30'", "calendar"),
        ("d = 'yesterday'", "form"),
        ("d = DATE 'infinity'", "form"),
        ("d = TIMESTAMP '2013-01-01 12:00'", "dates"),
        ("ts = '2013-01-01 00:00:00.1234567'", "finer"),
        ("u = 'x'", "UUID"),
        ("blob = 'x'", "compared"),
        ("i = NULL", "IS NULL"),
        ("i in (1, NULL)", "IS NULL"),
    ],
)
def test_a_literal_that_its_column_cannot_hold_is_refused(text: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        parse_sql(text, COLUMNS)


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


def test_statistics_of_another_type_count_as_missing() -> None:
    tree = Equal("i", 5)
    assert matches_nothing(tree, {"i": (1, 2, 0)}, COLUMNS)
    assert not matches_nothing(tree, {"i": ("1x", "2", 0)}, COLUMNS)
    assert not matches_nothing(tree, {"i": (True, True, 0)}, COLUMNS)


def test_a_part_of_nulls_matches_nothing_but_is_null() -> None:
    nulls = {"i": (None, None, 3)}
    assert matches_nothing(Equal("i", 5), nulls, COLUMNS)
    assert matches_nothing(Not(Equal("i", 5)), nulls, COLUMNS)
    assert matches_all(IsNull("i"), nulls, COLUMNS)


def test_types_of_a_foreign_table_are_read_in_any_spelling() -> None:
    assert to_sql(Equal("x", 5), {"x": "int4"}) == "(\"x\" = CAST('5' AS INTEGER))"
    assert evaluate(Equal("x", "1.5"), {"x": Decimal("1.50")}, {"x": "numeric(5,2)"}) is True
