"""Which types hold each value of another one."""

from __future__ import annotations

import duckdb
import pytest

from firnline.types.schema import WIDER, as_known, widens


@pytest.mark.parametrize(("kind", "wider"), [(k, w) for k, ws in WIDER.items() for w in ws])
def test_a_wider_type_brings_every_end_of_the_narrower_one_there_and_back(
    kind: str, wider: str
) -> None:
    ends = {
        "FLOAT": ["3.4028235e38", "1e-45", "0.1", "'nan'", "'-inf'"],
        "DATE": ["'0001-01-01'", "'9999-12-31'"],
    }
    bits = {"TINYINT": 8, "SMALLINT": 16, "INTEGER": 32}
    size = bits.get(kind.removeprefix("U"), 8)
    low, high = (0, 2**size - 1) if kind.startswith("U") else (-(2 ** (size - 1)), 2 ** (size - 1))
    whole = [str(low), str(high if kind.startswith("U") else high - 1)]
    assert widens(kind, wider)
    assert not widens(wider, kind)
    for value in ends.get(kind, whole):
        there = f"CAST({value} AS {kind})"
        query = f"SELECT {there} IS NOT DISTINCT FROM CAST(CAST({there} AS {wider}) AS {kind})"
        assert duckdb.execute(query).fetchall() == [(True,)]


@pytest.mark.parametrize(
    ("kind", "wanted", "holds"),
    [
        ("DECIMAL(10,2)", "decimal(12, 4)", True),
        ("DECIMAL(10,2)", "DECIMAL(12,5)", False),
        ("DECIMAL(10,2)", "DECIMAL(10,2)", False),
        ("int", "int8", True),
        ("INTEGER", "DOUBLE", False),
        ("INTEGER", "nonsense", False),
        ("nonsense", "INTEGER", False),
    ],
)
def test_decimals_need_as_many_digits_on_either_side(kind: str, wanted: str, holds: bool) -> None:
    assert widens(kind, wanted) is holds


def test_columns_take_the_types_of_the_table_only_where_those_are_wider() -> None:
    given = {"a": "INTEGER", "b": "BIGINT", "c": "VARCHAR", "new": "DATE"}
    known = {"a": "BIGINT", "b": "INTEGER", "c": "INTEGER"}
    assert as_known(given, known) == {**given, "a": "BIGINT"}
