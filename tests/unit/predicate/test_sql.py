from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, given, settings

from firnline.errors import UsageError
from firnline.predicate.pruning import evaluate
from firnline.predicate.sql import parse_sql
from firnline.predicate.tree import COMPARISONS, And, Equal, In, IsNull, Less, Not, Or, Predicate
from tests.support.predicates import COLUMNS, ROWS, TREES


@pytest.mark.long
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
        ("b", Equal("b", True)),
        ("not (b) and i = 1", And((Not(Equal("b", True)), Equal("i", 1)))),
        ("b is false", And((Not(IsNull("b")), Equal("b", False)))),
        ("b is not true", Not(And((Not(IsNull("b")), Equal("b", True))))),
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


@pytest.mark.long
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
        (
            "i",
            "column 'i' is INTEGER, and only a BOOLEAN column is a condition of its own; compare",
        ),
        ("not I", "as in `I = 1` or `I IS NOT NULL`"),
        ("b and (ts)", "as in `ts = '2026-01-31'` or `ts IS NOT NULL`"),
        ("blob", "compare it, as in `blob IS NOT NULL`"),
        ("true", "TRUE"),
        ("1 = 1", "1"),
        ('"i" = "x"', """`"x"` in double quotes is a column, as in SQL, and the table has none"""),
        ('"x" = "i"', "write 'x' in single quotes if it is a text"),
        ("i = it", "`it` is a column, as in SQL, and the table has none of this name"),
        ('i in (1, "x")', "write 'x' in single quotes if it is a text"),
        ('i between "x" and 3', "write 'x' in single quotes if it is a text"),
        ('"i" = "t"', "two columns"),
        ("d > 2026-01-31", "a date stands in single quotes: d > '2026-01-31'"),
        ("d in (2026-1-31)", "a date stands in single quotes: d IN ('2026-01-31')"),
        ("i = 1 && t = 2", "`&&` does not join conditions; write and"),
        ("i > 1 || t < 2", "`||` does not join conditions; write or"),
        ("i = 1; drop table x", "drop table"),
        ("i = 1 order by i", "order by"),
        ("i = 1 limit 1", "limit"),
        ("i = 1 union select 1", "union"),
        ("i is true", "True is not a number"),
        ("i is not distinct from 1", "DISTINCT"),
        ("i is distinct from 1", "DISTINCT"),
        ("1 < i < 3", "1 < i"),
        ("i = ?", "?"),
        ("i = case when true then 1 end", "CASE"),
        ("blob = E'\\n'", ""),
        ("d = current_date", "CURRENT_DATE"),
        ("i = ", "does not parse: something is missing at `=`;"),
        ("i = 1)", "does not parse: nobody expects `)` there;"),
        ("(i = 1", "does not parse: `)` is missing after `1`;"),
        ("", "does not parse: it is empty;"),
        ("'", "does not parse: a quotation mark is not closed;"),
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
        ("d = 'yesterday'", "not a date or time"),
        ("d = DATE 'infinity'", "not a date or time"),
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
    "text", ["(" * 5_000, "k = " + "[" * 5_000, "i = " + "9" * 300, "a" * 5_000 + " = 1"]
)
def test_a_long_condition_is_not_repeated_whole_by_its_refusal(text: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_sql(text, {"i": "BIGINT"})
    assert len(str(refused.value)) < 300


def test_a_column_with_a_point_in_its_name_is_to_be_quoted() -> None:
    columns = {"user.agent": "VARCHAR"}
    with pytest.raises(
        UsageError, match=r"`User\.agent` without quotes is the field agent of User"
    ):
        parse_sql("User.agent = 'x'", columns)
    assert parse_sql("\"user.agent\" = 'x'", columns) == Equal("user.agent", "x")


@pytest.mark.long
@pytest.mark.parametrize(
    "text", ["user.agent = 'x'", "b and user.agent.os is null", "user['agent'] = 'x'"]
)
def test_a_field_of_a_structure_is_no_part_of_a_condition(text: str) -> None:
    with pytest.raises(UsageError, match="is a field of column 'user', a STRUCT, and") as caught:
        parse_sql(text, {"User": "STRUCT(agent STRUCT(os VARCHAR))", "b": "BOOLEAN"})
    assert "--sql of `firnline rewrite --help`" in caught.value.next_step
    assert "firnline.scan(…).duckdb()" in caught.value.next_step


def test_what_no_condition_can_say_names_what_can() -> None:
    with pytest.raises(UsageError) as caught:
        parse_sql("lower(i) = 'x'", COLUMNS)
    assert "--sql of `firnline rewrite --help` changes rows" in caught.value.next_step
