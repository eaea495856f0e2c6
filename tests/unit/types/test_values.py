from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firnline.types.values import bound_key, canonical, literal_sql

EAST = datetime.timezone(datetime.timedelta(hours=2))
NOON = datetime.datetime(2013, 1, 5, 12, tzinfo=EAST)

FORMS = [
    ("TINYINT", "5", 5),
    ("BIGINT", Decimal("5.0"), 5),
    ("UHUGEINT", 2**128 - 1, 2**128 - 1),
    ("DOUBLE", 3, 3.0),
    ("DOUBLE", "1e3", 1000.0),
    ("FLOAT", 0.1, 0.10000000149011612),
    ("DECIMAL(38,3)", "-12345678901234567890123456789012345.678",
     "-12345678901234567890123456789012345.678"),
    ("DECIMAL(5,2)", 1.5, "1.50"),
    ("DECIMAL(5,2)", "-0.00", "0.00"),
    ("DECIMAL(3,0)", 7, "7"),
    ("BOOLEAN", False, False),
    ("VARCHAR", "it's", "it's"),
    ("DATE", datetime.date(2013, 1, 5), "2013-01-05"),
    ("DATE", "2013-01-05 00:00", "2013-01-05"),
    ("TIMESTAMP", "2013-01-05", "2013-01-05T00:00:00.000000"),
    ("TIMESTAMP", NOON, "2013-01-05T10:00:00.000000"),
    ("TIMESTAMP WITH TIME ZONE", "2013-01-05T12:00:00.5+02:00", "2013-01-05T10:00:00.500000Z"),
    ("TIMESTAMP_NS", "2013-01-05 12:00:00.123456789", "2013-01-05T12:00:00.123456789"),
    ("TIMESTAMP_S", NOON, "2013-01-05T10:00:00.000000"),
    ("UUID", "F79C3E09-677C-4BBD-A479-3F349CB785E7", "f79c3e09-677c-4bbd-a479-3f349cb785e7"),
]  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize(("kind", "value", "form"), FORMS)
def test_a_value_has_one_form_and_duckdb_reads_it_back(kind: str, value: Any, form: Any) -> None:
    assert canonical(kind, value) == form
    assert canonical(kind, form) == form
    read = duckdb.execute(f"SELECT x, typeof(x) FROM (SELECT {literal_sql(kind, form)} AS x)")
    row = read.fetchone()
    assert row is not None
    assert row[1] == kind
    if kind != "TIMESTAMP_NS":  # more digits than a datetime holds
        assert canonical(kind, row[0]) == form


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("TINYINT", 128), ("UTINYINT", -1), ("HUGEINT", -(2**127)), ("INTEGER", True),
        ("INTEGER", "x"), ("INTEGER", float("nan")), ("DECIMAL(3,2)", 10), ("BOOLEAN", "true"),
        ("VARCHAR", 1), ("DATE", "2013-1-5"), ("DATE", NOON), ("TIMESTAMP", "2013-01-05 24:00"),
        ("TIMESTAMP_S", "2013-01-05 12:00:00.5"), ("TIMESTAMP", "٢٠١٣-01-05"), ("UUID", "x"),
        ("BLOB", b"x"), ("INTEGER[]", [1]), ("NOSUCH", 1), ("DOUBLE", "1e500"),
    ],
)  # fmt: skip
def test_a_value_that_its_type_cannot_hold_is_refused(kind: str, value: object) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        canonical(kind, value)


def test_types_without_order_have_no_key() -> None:
    assert bound_key("BLOB") is None
    assert bound_key("STRUCT(a INTEGER)") is None
    assert bound_key("") is None


@given(st.tuples(st.datetimes(), st.datetimes()))
def test_forms_of_times_are_in_the_order_of_the_times(
    pair: tuple[datetime.datetime, datetime.datetime],
) -> None:
    for kind in ("TIMESTAMP", "TIMESTAMP_NS", "TIMESTAMP WITH TIME ZONE"):
        forms = [str(canonical(kind, moment)) for moment in pair]
        key = bound_key(kind)
        assert key is not None
        assert (forms[0] < forms[1]) == (pair[0] < pair[1]) == (key(forms[0]) < key(forms[1]))


@pytest.mark.long
@given(st.text())
def test_no_text_leaves_its_quotes(text: str) -> None:
    query = f"SELECT {literal_sql('VARCHAR', text)}"
    assert duckdb.execute(query).fetchall() == [(text,)]


@pytest.mark.parametrize(
    "value", [123456789012345678.91, 9007199254740993.0, 0.1 + 0.2, 1e15, -1e20]
)
def test_a_float_that_may_have_been_another_number_is_none_of_an_exact_column(value: float) -> None:
    for kind in ("DECIMAL(38,20)", "DECIMAL(38,0)", "BIGINT", "HUGEINT"):
        with pytest.raises(ValueError, match=r"may have been meant|not a whole number"):
            canonical(kind, value)
    with pytest.raises(ValueError, match="another one may have been meant"):
        canonical("DECIMAL(38,17)", value)
    assert canonical("DOUBLE", value) == value


@given(st.decimals(-(10**15) + 1, 10**15 - 1, allow_nan=False, places=2))
def test_a_float_of_few_digits_is_the_number_that_was_written(number: Decimal) -> None:
    if len(number.normalize().as_tuple().digits) <= 15:
        assert canonical("DECIMAL(38,2)", float(number)) == canonical("DECIMAL(38,2)", number)
