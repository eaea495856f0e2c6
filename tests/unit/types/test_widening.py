"""Which types hold each value of another one."""

from __future__ import annotations

import duckdb
import pytest

from firnline.errors import SchemaConflictError
from firnline.types.schema import (
    WIDER,
    added,
    agreed,
    as_known,
    held_as,
    union,
    variants,
    widens,
)


@pytest.mark.long
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


@pytest.mark.parametrize(
    ("known", "kind", "both"),
    [
        ("STRUCT(a INTEGER)", "STRUCT(b DATE)", "STRUCT(a INTEGER, b DATE)"),
        ("STRUCT(b DATE, a INTEGER)", "STRUCT(a INTEGER)", "STRUCT(b DATE, a INTEGER)"),
        ("STRUCT(a BIGINT)", "STRUCT(b DATE, a INTEGER)", "STRUCT(a BIGINT, b DATE)"),
        ("STRUCT(a BIGINT)[]", "STRUCT(b DATE)[]", "STRUCT(a BIGINT, b DATE)[]"),
        (
            "MAP(VARCHAR, STRUCT(a DATE))",
            "MAP(VARCHAR, STRUCT(b DATE))",
            "MAP(VARCHAR, STRUCT(a DATE, b DATE))",
        ),
        (
            "STRUCT(p STRUCT(a DATE))",
            "STRUCT(p STRUCT(b DATE))",
            "STRUCT(p STRUCT(a DATE, b DATE))",
        ),
        ("BIGINT[]", "INTEGER[]", "BIGINT[]"),
    ],
)
def test_a_table_has_the_fields_of_both_and_the_wider_types(
    known: str, kind: str, both: str
) -> None:
    assert held_as(kind, known) == both
    assert both == known or widens(known, both)
    assert kind == both or widens(kind, both)


@pytest.mark.parametrize(
    ("known", "kind"),
    [
        ("STRUCT(a INTEGER)", "STRUCT(a BIGINT, b DATE)"),
        ("STRUCT(a DATE)", "STRUCT(A DATE)"),
        ("STRUCT(a DATE)", "MAP(VARCHAR, DATE)"),
        ("MAP(VARCHAR, STRUCT(a DATE))", "MAP(INTEGER, STRUCT(a DATE))"),
        ("INTEGER[3]", "INTEGER[]"),
        ("STRUCT(a DATE)[]", "STRUCT(b DATE)"),
    ],
)
def test_what_contradicts_the_table_stays_as_it_is(known: str, kind: str) -> None:
    assert held_as(kind, known) == kind
    assert not widens(kind, known)


def test_lines_with_other_fields_are_one_type_in_any_order() -> None:
    lines = [{"p": "STRUCT(a DATE)"}, {"p": "STRUCT(b DATE)[]"}, {"p": "STRUCT(a DATE, c DATE)"}]
    structs = [("x", lines[0]), ("y", lines[2])]
    assert union(structs) == union(structs[::-1]) == {"p": "STRUCT(a DATE, c DATE)"}
    assert variants(structs) == {"p": {("p", "STRUCT(a DATE, c DATE)"): ["x", "y"]}}
    assert agreed(structs) == {"p": "STRUCT(a DATE, c DATE)"}
    with pytest.raises(SchemaConflictError, match=r"column 'p' is STRUCT\(a DATE\) in log file x"):
        union([*structs[:1], ("z", lines[1])])
    assert len(variants([*structs, ("z", lines[1])])["p"]) == 3


def test_a_contradiction_within_a_column_is_named_with_its_path() -> None:
    one, other = "STRUCT(q STRUCT(n DATE)[])", "STRUCT(q STRUCT(n VARCHAR, m DATE)[])"
    with pytest.raises(SchemaConflictError, match=r"field 'p\.q\[\]\.n' is DATE in .* but VARCHAR"):
        union([("x", {"p": one}), ("y", {"p": other})])


def test_what_is_added_is_the_outermost_of_it() -> None:
    before = {"p": "STRUCT(a DATE)", "m": "MAP(VARCHAR, STRUCT(a DATE))", "k": "DATE"}
    after = {
        "p": "STRUCT(a DATE, b STRUCT(c STRUCT(d DATE)[]))",
        "m": "MAP(VARCHAR, STRUCT(a DATE, b DATE))",
        "k": "TIMESTAMP",
        "new": "STRUCT(a DATE)",
    }
    assert added(before, after) == {
        "p.b": "STRUCT(c STRUCT(d DATE)[])",
        "m{}.b": "DATE",
        "new": "STRUCT(a DATE)",
    }
