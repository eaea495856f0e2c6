"""Rows and the partition that is stated for all of them."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from firnline.errors import UsageError
from firnline.paths import NULL_VALUE
from firnline.rows.agree import refuse_strays

DAY = datetime.date(2013, 1, 5)
NOON = datetime.datetime(2013, 1, 5, 12, tzinfo=datetime.UTC)


@pytest.mark.parametrize(
    ("values", "kind", "text"),
    [
        (["a", "a"], pa.string(), "a"),
        (["a b/c"], pa.string(), "a%20b%2Fc"),
        ([7], pa.int32(), "07"),
        ([True], pa.bool_(), "true"),
        ([Decimal("1.50")], pa.decimal128(5, 2), "1.5"),
        ([DAY], pa.date32(), "2013-01-05"),
        ([DAY], pa.date32(), "2013-01"),
        ([NOON], pa.timestamp("us", "UTC"), "2013"),
        ([NOON], pa.timestamp("ns"), "2013-01-05"),
        ([None], pa.string(), NULL_VALUE),
        ([], pa.string(), "a"),
    ],
)
def test_rows_of_the_partition_are_taken(values: list[Any], kind: pa.DataType, text: str) -> None:
    refuse_strays(pa.table({"c": pa.array(values, kind)}), f"x=1/C={text}")


@pytest.mark.parametrize(
    ("values", "kind", "text", "stray"),
    [
        (["a", "b"], pa.string(), "a", "'b'"),
        (["a", None], pa.string(), "a", "no value"),
        ([7, 8], pa.int32(), "7", "'8'"),
        ([7], pa.int64(), "seven", "'7'"),
        ([True], pa.bool_(), "false", "'True'"),
        ([Decimal("1.51")], pa.decimal128(5, 2), "1.5", "'1.51'"),
        ([DAY], pa.date32(), "2013-01-06", "'2013-01-05'"),
        ([NOON], pa.timestamp("us", "UTC"), "2014", "'2013-01-05'"),
        (["a"], pa.string(), NULL_VALUE, "'a'"),
    ],
)
def test_a_row_of_another_one_is_refused(
    values: list[Any], kind: pa.DataType, text: str, stray: str
) -> None:
    with pytest.raises(UsageError, match=f"a row has {stray} in column 'c'"):
        refuse_strays(pa.table({"c": pa.array(values, kind)}), f"c={text}")


def test_what_a_path_does_not_state_is_not_compared() -> None:
    rows = pa.table({"c": [1.5], "d": pa.array([DAY], pa.date32()), "e": [[1]]})
    for partition in ("", "plain/c", "x=1", "c=2", "d=week-7", "e=9"):
        refuse_strays(rows, partition)
