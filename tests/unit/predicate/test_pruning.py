from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings

from firnline.parquet.stats import from_table
from firnline.predicate.pruning import Outcomes, PartStats, Pruner, evaluate
from firnline.predicate.tree import COMPARISONS, And, Equal, In, IsNull, Not, Or, Predicate, to_sql
from tests.support.predicates import COLUMNS, ROWS, TREES, arrow


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


def outcomes(tree: Predicate, stats: PartStats, columns: dict[str, str]) -> Outcomes:
    return Pruner(tree, columns).outcomes(stats)


def matches_nothing(tree: Predicate, stats: PartStats, columns: dict[str, str]) -> bool:
    return Pruner(tree, columns).matches_nothing(stats)


def matches_all(tree: Predicate, stats: PartStats, columns: dict[str, str]) -> bool:
    return Pruner(tree, columns).matches_all(stats)


@pytest.mark.long
@settings(deadline=None)
@given(tree=TREES, rows=ROWS)
def test_evaluation_is_what_duckdb_answers(
    connection: duckdb.DuckDBPyConnection, tree: Predicate, rows: list[dict[str, Any]]
) -> None:
    expected = duckdb_says(connection, to_sql(tree, COLUMNS), arrow(rows))
    assert [evaluate(tree, row, COLUMNS) for row in rows] == expected


@pytest.mark.long
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


LEAVES = [
    *(lambda literal, make=make: make("i", literal) for make in COMPARISONS.values()),
    lambda literal: In("i", (literal,)),
    lambda literal: In("i", (literal, literal + 2)),
    lambda _literal: IsNull("i"),
]


@pytest.mark.parametrize("negated", [False, True])
@pytest.mark.parametrize("leaf", LEAVES)
def test_a_leaf_says_exactly_what_values_within_the_bounds_can_say(
    leaf: Callable[[int], Predicate], negated: bool
) -> None:
    for literal, low, high, nulls in itertools.product(range(5), range(5), [1, 2, 4, None], [0, 1]):
        if high is not None and high < low:
            continue
        values = range(low, 9 if high is None else high + 1)
        tree = Not(leaf(literal)) if negated else leaf(literal)
        rows: list[dict[str, object]] = [{"i": value} for value in [*values, *[None] * nulls]]
        answers = {evaluate(tree, row, COLUMNS) for row in rows}
        found = outcomes(tree, {"i": (low, high, nulls)}, COLUMNS)
        assert found.true == (True in answers)
        assert found.false == (False in answers)
        assert found.unknown == (None in answers)


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


def test_one_side_that_is_certain_decides_whatever_the_other_may_be() -> None:
    stats = {"i": (4, 9, 0)}
    unknown, certain = Equal("b", True), Not(Equal("i", 1))
    assert matches_all(Or((unknown, certain)), stats, COLUMNS)
    assert not matches_all(And((unknown, certain)), stats, COLUMNS)
    assert matches_all(Not(And((unknown, Equal("i", 1)))), stats, COLUMNS)
