"""The compact protocol: what is decoded and encoded again is the same bytes."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firnline.parquet.thrift import (
    BINARY,
    DOUBLE,
    FALSE,
    I16,
    I32,
    I64,
    LIST,
    SET,
    STRUCT,
    TRUE,
    Items,
    Struct,
    ThriftError,
    Value,
    decode,
    encode,
)
from tests.support.effort import examples

_INTEGERS = {I16: 15, I32: 31, I64: 63}


def plain(kind: int) -> st.SearchStrategy[Value]:
    """Values of a type without others in it."""
    if kind in _INTEGERS:
        return st.integers(-(2 ** _INTEGERS[kind]), 2 ** _INTEGERS[kind] - 1)
    if kind == DOUBLE:
        return st.binary(min_size=8, max_size=8)
    return st.binary(max_size=40) if kind == BINARY else st.just(kind)


def fields(value: st.SearchStrategy[tuple[int, Value]]) -> st.SearchStrategy[Struct]:
    numbers = st.integers(1, 2**15 - 1)
    return st.dictionaries(numbers, value, max_size=20).map(
        lambda found: Struct(dict(sorted(found.items())))
    )


def typed(kinds: tuple[int, ...]) -> st.SearchStrategy[tuple[int, Value]]:
    return st.sampled_from(kinds).flatmap(lambda k: st.tuples(st.just(k), plain(k)))


_PLAIN = typed((*_INTEGERS, DOUBLE, BINARY, TRUE, FALSE))
_LISTED = typed((*_INTEGERS, DOUBLE, BINARY))


def of_lists(values: st.SearchStrategy[tuple[int, Value]]) -> st.SearchStrategy[tuple[int, Value]]:
    """Lists and sets of one element, or of many of the same."""
    counts = st.integers(0, 40)
    made = st.tuples(st.sampled_from((LIST, SET)), values, counts)
    return made.map(lambda m: (m[0], Items(m[1][0], [m[1][1]] * m[2])))


STRUCTS = st.recursive(
    fields(_PLAIN | of_lists(_LISTED)),
    lambda inner: fields(
        _PLAIN
        | inner.map(lambda found: (STRUCT, found))
        | of_lists(inner.map(lambda found: (STRUCT, found)))
    ),
    max_leaves=8,
)


@pytest.mark.long
@examples(12, 1000)
@given(STRUCTS)
def test_a_structure_is_decoded_as_it_was_encoded(value: Struct) -> None:
    assert decode(encode(value)) == value


@pytest.mark.long
@examples(12, 1000)
@given(STRUCTS, st.integers(0, 200))
def test_a_structure_that_ends_early_is_refused(value: Struct, short: int) -> None:
    data = encode(value)
    with pytest.raises(ThriftError):
        decode(data[: max(0, len(data) - 1 - short)])


@examples(60, 5000)
@given(st.binary(max_size=200))
def test_any_other_bytes_are_decoded_or_refused(data: bytes) -> None:
    try:
        found = decode(data)
    except ThriftError:
        return
    assert decode(encode(found)) == found


@pytest.mark.parametrize("kind", [0, 11, 13, 15])
def test_types_that_the_protocol_does_not_have_are_refused(kind: int) -> None:
    with pytest.raises(ThriftError, match="no type that is known"):
        decode(bytes([1 << 4 | kind, 0]))
    with pytest.raises(ThriftError, match="no type that is known"):
        decode(bytes([1 << 4 | LIST, 1 << 4 | kind, 0, 0]))


def test_deep_nesting_is_refused() -> None:
    with pytest.raises(ThriftError, match="too deeply"):
        decode(bytes([1 << 4 | STRUCT]) * 1000)


def test_the_footer_of_a_parquet_file_is_encoded_as_its_writer_did(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    rows = pa.table({"a": list(range(1000)), "b": [{"x": [True, None], "y": "é"}] * 1000})
    pq.write_table(rows, path, row_group_size=300, write_page_index=True)
    data = path.read_bytes()
    length = int.from_bytes(data[-8:-4], "little")
    footer = data[-8 - length : -8]
    assert encode(decode(footer)) == footer
