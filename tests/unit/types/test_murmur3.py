from __future__ import annotations

import datetime
import uuid
from decimal import Decimal, localcontext
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firnline.types.murmur3 import (
    can_hash,
    form_of_sql,
    hash_column,
    hash_literals,
    hash_rows,
)
from firnline.types.values import canonical
from tests.support.predicates import COLUMNS, VALUES, arrow

MOMENT = datetime.datetime(2017, 11, 16, 22, 31, 8)  # noqa: DTZ001 - the vector is without zone
MICRO = MOMENT + datetime.timedelta(microseconds=1)
UUID_BYTES = uuid.UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7").bytes

# Apache Iceberg specification, appendix B: 32-bit hash requirements.
VECTORS = [
    (pa.array([34], pa.int32()), 2017239379),
    (pa.array([34], pa.int64()), 2017239379),
    (pa.array([34], pa.uint8()), 2017239379),
    (pa.array([Decimal("14.20")]), -500754589),
    (pa.array([datetime.date(2017, 11, 16)]), -653330422),
    (pa.array([datetime.date(2017, 11, 16)], pa.date64()), -653330422),
    (pa.array([datetime.time(22, 31, 8)], pa.time64("us")), -662762989),
    (pa.array([datetime.time(22, 31, 8)], pa.time32("s")), -662762989),
    (pa.array([datetime.time(22, 31, 8)], pa.time64("ns")), -662762989),
    (pa.array([MOMENT], pa.timestamp("us")), -2047944441),
    (pa.array([MOMENT], pa.timestamp("s")), -2047944441),
    (pa.array([MOMENT], pa.timestamp("ns")), -2047944441),
    (pa.array([MICRO], pa.timestamp("us")), -1207196810),
    (pa.array([MICRO], pa.timestamp("ns", "UTC")), -1207196810),
    (pa.array(["iceberg"]), 1210000089),
    (pa.array(["iceberg"], pa.large_string()), 1210000089),
    (pa.uuid().wrap_array(pa.array([UUID_BYTES], pa.binary(16))), 1488055340),
    (pa.array([b"\x00\x01\x02\x03"], pa.binary(4)), -188683207),
    (pa.array([b"\x00\x01\x02\x03"]), -188683207),
]


@pytest.mark.parametrize(("array", "expected"), VECTORS, ids=lambda value: str(value)[:30])
def test_the_vectors_of_the_iceberg_specification(array: pa.Array, expected: int) -> None:
    assert can_hash(array.type)
    assert list(hash_column(pa.chunked_array([array, array]))) == [expected, expected]


@pytest.mark.parametrize(
    "kind", [pa.bool_(), pa.float32(), pa.float64(), pa.list_(pa.int8()), pa.json_()]
)
def test_types_without_a_hash_in_the_specification_are_not_hashed(kind: pa.DataType) -> None:
    assert not can_hash(kind)


def murmur3(data: bytes) -> int:
    """The algorithm byte by byte, after its public description."""

    def rotate(value: int, by: int) -> int:
        return (value << by | value >> (32 - by)) & 0xFFFFFFFF

    state, whole = 0, len(data) // 4 * 4
    for at in range(0, whole, 4):
        block = int.from_bytes(data[at : at + 4], "little")
        state ^= rotate(block * 0xCC9E2D51 & 0xFFFFFFFF, 15) * 0x1B873593 & 0xFFFFFFFF
        state = (rotate(state, 13) * 5 + 0xE6546B64) & 0xFFFFFFFF
    tail = int.from_bytes(data[whole:], "little")
    state ^= rotate(tail * 0xCC9E2D51 & 0xFFFFFFFF, 15) * 0x1B873593 & 0xFFFFFFFF
    state ^= len(data)
    state = (state ^ state >> 16) * 0x85EBCA6B & 0xFFFFFFFF
    state = (state ^ state >> 13) * 0xC2B2AE35 & 0xFFFFFFFF
    state ^= state >> 16
    return state - 2**32 if state >= 2**31 else state


@pytest.mark.long
@given(values=st.lists(st.none() | st.binary(max_size=40), min_size=1))
def test_bytes_of_every_length_hash_as_described(values: list[bytes | None]) -> None:
    array = pa.array([b"before", *values], pa.binary()).slice(1)
    hashes = hash_column(pa.chunked_array([array]))
    for value, hashed in zip(values, hashes, strict=True):
        assert value is None or hashed == murmur3(value)


@pytest.mark.long
@given(values=st.lists(st.decimals(-(10**9), 10**9, places=2), min_size=1))
def test_decimals_hash_by_their_shortest_unscaled_bytes(values: list[Decimal]) -> None:
    hashes = hash_column(pa.chunked_array([pa.array(values, pa.decimal128(20, 2))]))
    for value, hashed in zip(values, hashes, strict=True):
        unscaled = int(value.scaleb(2))
        length = next(n for n in range(1, 17) if -(1 << 8 * n - 1) <= unscaled < 1 << 8 * n - 1)
        assert hashed == murmur3(unscaled.to_bytes(length, "big", signed=True))


FORMS = {
    "TINYINT": "long",
    "UBIGINT": "long",
    "DECIMAL(9,2)": "decimal2",
    "DECIMAL(12,2)": "decimal2",
    "DECIMAL(12,4)": "decimal4",
    "VARCHAR": "text",
    "DATE": "date",
    "TIMESTAMP_S": "timestamp",
    "TIMESTAMP WITH TIME ZONE": "timestamp",
    "UUID": "uuid",
    "DOUBLE": None,
    "BOOLEAN": None,
    "BLOB": None,
    "TIME": None,
    "HUGEINT": None,
    "UHUGEINT": None,
    "JSON": None,
    "INTEGER[]": None,
    "SOMETHING_NEW": None,
}


@pytest.mark.parametrize(("kind", "form"), FORMS.items())
def test_types_of_one_form_hash_equal_values_alike(kind: str, form: str | None) -> None:
    assert form_of_sql(kind) == form


@pytest.mark.long
@given(st.data())
def test_a_literal_has_the_hash_that_its_value_has_in_a_column(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from([c for c in COLUMNS if form_of_sql(COLUMNS[c]) is not None]))
    values = data.draw(st.lists(VALUES[name], min_size=1, max_size=4))
    rows = arrow([{**dict.fromkeys(COLUMNS), name: value} for value in values])
    literals = [canonical(COLUMNS[name], value) for value in values]
    found = hash_literals(COLUMNS[name], literals)
    assert found is not None
    assert found.tolist() == hash_rows([rows.column(name)]).tolist()


@pytest.mark.parametrize(
    ("kind", "literal"),
    [
        ("INTEGER", 2**40),
        ("TIMESTAMP_NS", "9999-01-01T00:00:00.000000"),
        ("UUID", "no uuid"),
        ("DECIMAL(4,2)", "123.45"),
        ("DOUBLE", 1.5),
        ("VARCHAR", "\ud800"),
    ],
)
def test_a_literal_that_a_column_cannot_hold_has_no_hash(kind: str, literal: Any) -> None:
    assert hash_literals(kind, [literal]) is None


def test_nanoseconds_are_hashed_as_the_microseconds_that_they_lie_in() -> None:
    whole = hash_literals("TIMESTAMP", ["2017-11-16T22:31:08.000001"])
    fine = hash_literals("TIMESTAMP_NS", ["2017-11-16T22:31:08.000001999"])
    assert whole is not None
    assert fine is not None
    assert whole.tolist() == fine.tolist() == [-1207196810 % 2**32]


def test_the_digits_of_a_decimal_are_hashed_whatever_the_thread_rounds_to() -> None:
    digits = "9" * 38
    unscaled = int(digits).to_bytes(16, "big", signed=True)
    with localcontext(prec=5):
        (found,) = hash_column(pa.chunked_array([pa.array([Decimal(digits)])]))
    assert found == murmur3(unscaled)


def test_a_row_of_several_columns_is_hashed_column_by_column_and_a_null_counts_as_0() -> None:
    one, two = pa.chunked_array([[34, None]], pa.int64()), pa.chunked_array([["iceberg", None]])
    first, second = (2017239379, 1210000089)
    joined = (first << 32 | second).to_bytes(8, "little")
    assert hash_rows([one]).tolist() == [first, 0]
    assert hash_rows([one, two]).tolist() == [
        murmur3(joined) % 2**32,
        murmur3(bytes(8)) % 2**32,
    ]
