"""The digest of rows is that of docs/format.md, and depends on nothing but values."""

from __future__ import annotations

import datetime
import decimal
import hashlib
import math
import re
import struct
import tracemalloc
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firnline.parquet.digests import digest_file
from firnline.types import rowhash
from firnline.types.digests import NOTHING, Digest, parse_digest, total
from firnline.types.rowhash import ColumnDigest, RowDigest, can_digest, digest_of
from tests.support.effort import examples

# --- the definition once more, a value at a time -------------------------------------------------

_ALL = 2**64 - 1
_GOLDEN, _SECOND = 0x9E3779B97F4A7C15, 0xD1B54A32D192ED03


def fold(word: int) -> int:
    return word ^ (word >> 32)


def mix(word: int) -> int:
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & _ALL
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & _ALL
    return word ^ (word >> 31)


def position(number: int, lane: int) -> int:
    return mix((_GOLDEN * (number + 1) + lane * _SECOND) & _ALL) | 1


def constants(name: str) -> tuple[int, ...]:
    found = struct.unpack("<4Q", hashlib.sha256(b"firnline-rows-1\0" + name.encode()).digest())
    return found[0] | 1, found[1], found[2] | 1, found[3]


def of_words(length: int, words: list[tuple[int, int]]) -> tuple[int, int]:
    sums = [length, length]
    for number, pair in enumerate(words):
        for lane in (0, 1):
            sums[lane] += fold(pair[lane]) * position(number, lane)
    return sums[0] & _ALL, sums[1] & _ALL


def of_bytes(data: bytes) -> tuple[int, int]:
    padded = data + bytes(-len(data) % 8)
    words = struct.unpack(f"<{len(padded) // 8}Q", padded)
    return of_words(len(data), [(word, word) for word in words])


def of_value(value: Any) -> tuple[int, int]:
    if isinstance(value, bool | int):
        return int(value) & _ALL, int(value) & _ALL
    if isinstance(value, float):
        bits = (
            0x7FF8000000000000
            if math.isnan(value)
            else struct.unpack("<Q", struct.pack("<d", value))[0]
        )
        return bits, bits
    if isinstance(value, decimal.Decimal):
        scaled = int(value.scaleb(38, decimal.Context(prec=100)))
        return of_bytes((scaled % 2**256).to_bytes(32, "little"))
    if isinstance(value, str):
        return of_bytes(value.encode())
    if isinstance(value, bytes):
        return of_bytes(value)
    if isinstance(value, list):
        null = 0x6E756C6C9A3F5D27
        return of_words(len(value), [(null, null) if v is None else of_value(v) for v in value])
    return of_row(value)


def of_row(row: Mapping[str, Any]) -> tuple[int, int]:
    _, first, _, second = constants("")
    sums = [first, second]
    for name, value in row.items():
        if value is not None:
            words, own = of_value(value), constants(name)
            for lane in (0, 1):
                sums[lane] += fold(words[lane]) * own[2 * lane] + own[2 * lane + 1]
    return mix(sums[0] & _ALL), mix(sums[1] & _ALL)


def reference(rows: list[dict[str, Any]]) -> Digest:
    return total(Digest(*of_row(row)) for row in rows)


# --- vectors -------------------------------------------------------------------------------------

UTC = datetime.UTC
ID = uuid.UUID("12345678-90ab-cdef-1234-567890abcdef")


def one(kind: pa.DataType, *values: Any) -> pa.Table:
    return pa.table({"a": pa.array(values, kind)})


VECTORS: dict[str, list[pa.Table]] = {
    "no rows": [one(pa.int32())],
    "a row without a value": [
        one(pa.int32(), None),
        one(pa.string(), None),
        one(pa.float64(), None),
    ],
    "`a = 1`, any whole number": [
        one(k, 1) for k in (pa.int8(), pa.int64(), pa.uint16(), pa.uint64())
    ],
    "`a = -1`": [one(k, -1) for k in (pa.int8(), pa.int16(), pa.int32(), pa.int64())],
    "`a = true`": [one(pa.bool_(), True)],
    "`a = 1.5`, `FLOAT` or `DOUBLE`": [one(pa.float32(), 1.5), one(pa.float64(), 1.5)],
    "`a = 0.0`": [one(pa.float64(), 0.0), one(pa.float32(), 0.0)],
    "`a = -0.0`": [one(pa.float64(), -0.0), one(pa.float32(), -0.0)],
    "`a = NaN`": [one(pa.float64(), math.nan), one(pa.float32(), -math.nan)],
    "`a = DECIMAL 12.50`": [
        one(pa.decimal128(4, 2), decimal.Decimal("12.50")),
        one(pa.decimal128(38, 4), decimal.Decimal("12.5000")),
    ],
    "`a = ''`": [one(pa.string(), ""), one(pa.binary(), b"")],
    "`a = 'snow'`, `VARCHAR` or `BLOB`": [
        one(pa.string(), "snow"),
        one(pa.large_binary(), b"snow"),
    ],
    "`a = 'snow on the glacier'`": [
        one(pa.string(), "snow on the glacier"),
        pa.table({"a": pa.array(["snow on the glacier"]).dictionary_encode()}),
    ],
    "`a = DATE 2013-01-01`, or that midnight": [
        one(pa.date32(), datetime.date(2013, 1, 1)),
        one(pa.timestamp("us"), datetime.datetime(2013, 1, 1)),  # noqa: DTZ001
        one(pa.timestamp("s", "UTC"), datetime.datetime(2013, 1, 1, tzinfo=UTC)),
        one(pa.timestamp("ns"), 1_356_998_400_000_000_000),
    ],
    "`a = TIMESTAMP_NS 2013-01-01 00:00:00.000000123`": [
        one(pa.timestamp("ns"), 1_356_998_400_000_000_123)
    ],
    "`a = TIME 00:00:01`": [
        one(pa.time64("us"), 1_000_000),
        one(pa.time32("s"), 1),
        one(pa.time64("ns"), 10**9),
    ],
    f"`a = UUID {ID}`": [one(pa.uuid(), ID.bytes), one(pa.binary(16), ID.bytes)],
    "`a = [1, NULL, 3]`": [
        one(pa.list_(pa.int8()), [1, None, 3]),
        one(pa.large_list(pa.int64()), [1, None, 3]),
    ],
    "`a = []`": [one(pa.list_(pa.int32()), [])],
    "`a = {'x': 1, 'y': NULL}`": [
        one(pa.struct([("x", pa.int32()), ("y", pa.string())]), {"x": 1}),
        one(pa.struct([("x", pa.int64())]), {"x": 1}),
    ],
    "`a = MAP {'k': 1}`": [one(pa.map_(pa.string(), pa.int32()), [("k", 1)])],
    "`a = 1, b = 'snow'`": [
        pa.table({"a": [1], "b": ["snow"]}),
        pa.table({"B": ["snow"], "c": pa.array([None], pa.date32()), "A": [1]}),
    ],
    "`a = 1` and `a = 2`": [one(pa.int64(), 1, 2), one(pa.int16(), 2, 1)],
    "`a = 1` twice": [one(pa.int64(), 1, 1)],
    "`a = 1`, and a row without a value": [one(pa.int64(), 1, None), one(pa.uint8(), None, 1)],
}


def documented() -> dict[str, str]:
    text = (Path(__file__).parents[3] / "docs/format.md").read_text()
    section = text.partition("## Digests of rows")[2].partition("\n## ")[0]
    return dict(re.findall(r"^\| (.+?) \| `(r1:[0-9a-f]{32})` \|$", section, re.MULTILINE))


@pytest.mark.parametrize("row", VECTORS)
def test_digests_are_those_of_the_format_whatever_type_holds_the_value(row: str) -> None:
    said = documented()
    assert {str(digest_of(table)) for table in VECTORS[row]} == {said[row]}


def test_the_format_has_a_digest_for_each_kind_of_value() -> None:
    assert list(documented()) == list(VECTORS)


# --- properties ----------------------------------------------------------------------------------

_TEXTS = st.one_of(st.text(max_size=40), st.sampled_from(["a", "b", "", "x" * 600]))
_FLOATS = st.one_of(st.floats(), st.sampled_from([0.0, -0.0, 1.0]))
_ITEM = st.fixed_dictionaries(
    {"x": st.none() | st.integers(-(2**31), 2**31 - 1), "y": st.none() | _TEXTS}
)
KINDS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "i": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "n": (pa.int16(), st.integers(-5, 5)),
    "u": (pa.uint64(), st.integers(0, 2**64 - 1)),
    "b": (pa.bool_(), st.booleans()),
    "f": (pa.float64(), _FLOATS),
    "t": (pa.string(), _TEXTS.filter(lambda text: "\ud800" not in text)),
    "o": (pa.binary(), st.binary(max_size=40)),
    "m": (
        pa.decimal128(20, 4),
        st.decimals(-(10**15), 10**15, places=4, allow_nan=False, allow_infinity=False),
    ),
    "l": (pa.list_(pa.string()), st.lists(st.none() | _TEXTS, max_size=5)),
    "s": (
        pa.list_(pa.struct([("x", pa.int32()), ("y", pa.string())])),
        st.lists(st.none() | _ITEM, max_size=3),
    ),
}
SCHEMA = pa.schema([(name, kind) for name, (kind, _) in KINDS.items()])
ROW = st.fixed_dictionaries({name: st.none() | values for name, (_, values) in KINDS.items()})
ROWS = st.lists(ROW, max_size=12)


def table_of(rows: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=SCHEMA)


@pytest.mark.long
@given(ROWS)
@examples(40, 2000)
def test_vectors_of_rows_are_hashed_as_the_definition_hashes_one(
    rows: list[dict[str, Any]],
) -> None:
    assert digest_of(table_of(rows)) == reference(rows)


@pytest.mark.long
@given(ROWS, ROWS, st.randoms(use_true_random=False))
@examples(20, 1000)
def test_digests_add_up_and_know_no_order(
    one_part: list[dict[str, Any]], other: list[dict[str, Any]], random: Any
) -> None:
    whole = [*one_part, *other]
    random.shuffle(whole)
    digests = digest_of(table_of(one_part)), digest_of(table_of(other))
    assert digest_of(table_of(whole)) == digests[0].plus(digests[1])
    assert digest_of(table_of(whole)).minus(digests[1]) == digests[0]


@pytest.mark.long
@given(ROWS, st.integers(1, 4), st.integers(1, 3))
@examples(20, 1000)
def test_columns_that_are_read_apart_have_the_digest_of_their_rows(
    rows: list[dict[str, Any]], at_once: int, columns: int
) -> None:
    table = table_of(rows).combine_chunks()
    digest = ColumnDigest(len(rows))
    for first in reversed(range(0, table.num_columns, columns)):
        some = table.select(table.column_names[first : first + columns])
        for place in range(0, len(rows), at_once):
            for batch in some.slice(place, at_once).to_batches():
                digest.add(place, batch)
    assert digest.end() == digest_of(table)


def test_many_rows_of_a_column_that_is_read_apart_are_hashed_some_at_a_time() -> None:
    rows = pa.table(
        {"n": range(3 * rowhash.BATCH_ROWS + 1), "few": [1] * (3 * rowhash.BATCH_ROWS + 1)}
    )
    digest = ColumnDigest(rows.num_rows)
    for name in rows.column_names:
        digest.add(0, rows.select([name]).combine_chunks().to_batches()[0])
    assert digest.end() == digest_of(rows)
    assert ColumnDigest(0).end() == digest_of(rows.slice(0, 0))


@pytest.mark.long
@given(ROWS, st.integers(1, 5), st.booleans(), st.sampled_from(["zstd", "snappy", "none"]))
@examples(20, 1000)
def test_files_have_the_digest_of_their_rows_in_every_encoding(
    tmp_path_factory: pytest.TempPathFactory,
    rows: list[dict[str, Any]],
    row_group: int,
    dictionary: bool,
    codec: str,
) -> None:
    path = tmp_path_factory.mktemp("rows") / "part.parquet"
    table = table_of(rows)
    names = list(reversed(table.column_names))
    pq.write_table(
        table.select(names),
        path,
        row_group_size=row_group,
        use_dictionary=dictionary,
        compression=codec,
        data_page_size=64,
    )
    assert digest_file(path) == (digest_of(table), len(rows))


@pytest.mark.long
@given(ROWS.filter(bool), st.data())
@examples(30, 1500)
def test_another_value_gives_another_digest(rows: list[dict[str, Any]], data: Any) -> None:
    place = data.draw(st.integers(0, len(rows) - 1))
    name = data.draw(st.sampled_from(list(KINDS)))
    value = data.draw(st.none() | KINDS[name][1])
    wrong = [dict(row) for row in rows]
    wrong[place][name] = value
    same = of_row({"v": value}) == of_row({"v": rows[place][name]})
    assert (digest_of(table_of(wrong)) == digest_of(table_of(rows))) == same


def test_values_that_change_places_change_the_digest() -> None:
    rows = pa.table({"a": [1.0, 2.0], "b": [3.0, 4.0]})
    across = pa.table({"a": [3.0, 4.0], "b": [1.0, 2.0]})
    shifted = pa.table({"a": [2.0, 1.0], "b": [3.0, 4.0]})
    assert len({digest_of(each) for each in (rows, across, shifted)}) == 3


@pytest.mark.long
def test_long_texts_are_hashed_a_piece_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rowhash, "_LONG_WORDS", 4)
    monkeypatch.setattr(rowhash, "_PADDED_BYTES", 64)
    texts = ["", "x" * 31, "a" * 32, "b" * 33, "é" * 40, None, "c" * 100, "d" * 64, "e" * 65]
    for some in (texts, ["f" * 100] * 3, ["g" * 32] * 5, [f"{n}" * 20 for n in range(9)]):
        rows = pa.table({"t": some, "l": [[each, None, "h" * 70] for each in some]})
        expected = reference(rows.to_pylist())
        assert digest_of(rows) == expected
        large = rows.cast(pa.schema({"t": pa.large_string(), "l": pa.list_(pa.large_string())}))
        assert digest_of(large) == expected
        assert digest_of(rows.slice(1)) == reference(rows.to_pylist()[1:])


@pytest.mark.long
def test_a_long_text_takes_no_constants_of_its_length() -> None:
    rows = pa.table({"t": ["a" * 2**24]})
    tracemalloc.start()
    digest_of(rows)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 2**24


def test_slices_of_arrays_are_hashed_without_what_is_around_them() -> None:
    rows = [
        {"i": n, "t": f"text {n}", "l": ["a", None] * n, "s": [{"x": n, "y": None}]}
        for n in range(9)
    ]
    table = table_of(rows)
    assert digest_of(table.slice(3, 4)) == digest_of(table_of(rows[3:7]))
    maps = pa.array([[("k", n)] for n in range(9)], pa.map_(pa.string(), pa.int64()))
    assert digest_of(pa.table({"m": maps.slice(3, 4)})) == digest_of(
        pa.table({"m": pa.concat_arrays([maps.slice(3, 2), maps.slice(5, 2)])})
    )
    fixed = pa.array([[n, n] for n in range(9)], pa.list_(pa.int32(), 2))
    assert digest_of(pa.table({"m": fixed.slice(3, 4)})) == digest_of(
        pa.table({"m": pa.array([[n, n] for n in range(3, 7)], pa.list_(pa.int64()))})
    )


def test_texts_of_very_different_lengths_are_hashed_as_each_by_itself() -> None:
    rows = [{"t": "x" * n} for n in (0, 1, 7, 8, 9, 63, 64, 65, 700, 5_000, 3)]
    assert digest_of(table_of(rows)) == reference(rows)


@pytest.mark.parametrize("length", [0, 1, 7, 8, 9, 15, 16, 31, 36, 64, 511, 512, 513, 600])
@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.binary()])
def test_texts_of_one_length_are_hashed_where_they_lie(length: int, kind: pa.DataType) -> None:
    texts = [f"{n:x}".rjust(length, "~")[:length] for n in range(2, 12)]
    array = pa.array(["around", *texts, "around"]).cast(kind).slice(1, len(texts))
    assert digest_of(pa.table({"a": array})) == reference([{"a": text} for text in texts])


@pytest.mark.parametrize("index", [pa.int8(), pa.uint16(), pa.int32(), pa.int64()])
def test_values_of_a_dictionary_are_hashed_once_for_rows_and_nulls(index: pa.DataType) -> None:
    values, places = ["ice", "snow on the glacier", ""], [0, None, 2, 1, 1, None, 0]
    array = pa.DictionaryArray.from_arrays(pa.array([2, *places], index), pa.array(values))
    rows = [{"a": None if place is None else values[place]} for place in places]
    assert digest_of(pa.table({"a": array.slice(1)})) == reference(rows)
    batch = pa.RecordBatch.from_arrays([array.slice(1)], ["a"])
    found = RowDigest()
    found.add(batch)
    assert found.digest == reference(rows)


def test_types_without_a_definition_have_no_digest() -> None:
    assert not can_digest(pa.month_day_nano_interval())
    assert not can_digest(pa.list_(pa.duration("s")))
    assert can_digest(pa.map_(pa.string(), pa.list_(pa.decimal128(3, 1))))


def test_texts_of_digests() -> None:
    digest = Digest(1, 2**64 - 1)
    assert parse_digest(str(digest)) == digest
    assert [parse_digest(text) for text in (None, "", "r2:" + "0" * 32, "r1:12")] == [None] * 4
    assert digest.minus(digest) == NOTHING
