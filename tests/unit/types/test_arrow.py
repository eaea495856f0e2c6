from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firnline.errors import PartSchemaError
from firnline.types.arrow import conform, from_arrow, parse_type, to_arrow
from firnline.types.sql import MAX_LEVELS, MAX_REPEATED
from tests.support.effort import examples

PRIMITIVE = [
    pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(),
    pa.uint32(), pa.uint64(), pa.float16(), pa.float32(), pa.float64(), pa.string(),
    pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary(), pa.binary_view(),
    pa.binary(16), pa.uuid(), pa.json_(), pa.date32(), pa.date64(), pa.time32("s"),
    pa.time32("ms"), pa.time64("us"), pa.time64("ns"), pa.timestamp("s"), pa.timestamp("ms"),
    pa.timestamp("us"), pa.timestamp("ns"), pa.timestamp("s", "UTC"), pa.timestamp("ms", "UTC"),
    pa.timestamp("us", "Europe/Berlin"), pa.timestamp("ns", "UTC"), pa.decimal32(5, 2),
    pa.decimal64(12, 2), pa.decimal128(10, 3), pa.decimal128(38, 0), pa.decimal256(30, 2),
]  # fmt: skip
COMPOUND = [
    pa.list_(pa.int32()),
    pa.large_list(pa.large_string()),
    pa.list_(pa.int32(), 3),
    pa.struct([("a", pa.int32()), ("b c", pa.string()), ('q"', pa.timestamp("ms"))]),
    pa.map_(pa.string(), pa.list_(pa.struct([("Order", pa.decimal128(4, 1))]))),
    pa.dictionary(pa.int32(), pa.string()),
    pa.dictionary(pa.int8(), pa.int64()),
]


def nulls(kind: pa.DataType) -> pa.Table:
    if isinstance(kind, pa.BaseExtensionType):
        return pa.table({"x": kind.wrap_array(pa.nulls(1, kind.storage_type))})
    return pa.table({"x": pa.array([None], kind)})


def written(kind: pa.DataType) -> pa.Table:
    """One null in the type that a part is written with."""
    names = from_arrow(pa.schema([("x", kind)]))
    column = conform(nulls(kind).column("x"), parse_type(names["x"]))
    return pa.Table.from_arrays([column], schema=to_arrow(names))


def duckdb_reads(table: pa.Table, path: Path) -> str:
    pq.write_table(table, path)
    row = duckdb.execute("DESCRIBE SELECT x FROM read_parquet(?)", [str(path)]).fetchone()
    assert row is not None
    return str(row[1])


@pytest.mark.parametrize("kind", PRIMITIVE + COMPOUND, ids=str)
def test_a_column_is_called_what_duckdb_calls_it_in_the_part(
    kind: pa.DataType, tmp_path: Path
) -> None:
    name = from_arrow(pa.schema([("x", kind)]))["x"]
    assert duckdb_reads(nulls(kind), tmp_path / "given.parquet") == name
    assert duckdb_reads(written(kind), tmp_path / "written.parquet") == name


@pytest.mark.long
@pytest.mark.parametrize("kind", PRIMITIVE + COMPOUND, ids=str)
def test_writing_a_part_does_not_change_what_its_columns_are_called(kind: pa.DataType) -> None:
    names = from_arrow(pa.schema([("x", kind)]))
    assert from_arrow(to_arrow(names)) == names


@pytest.mark.long
@pytest.mark.parametrize(
    "kind",
    [pa.run_end_encoded(pa.int32(), pa.string()), pa.bool8(), pa.decimal256(38, 2)],
    ids=str,
)
def test_what_parquet_cannot_write_as_it_is_gets_decoded(kind: pa.DataType, tmp_path: Path) -> None:
    name = from_arrow(pa.schema([("x", kind)]))["x"]
    assert duckdb_reads(written(kind), tmp_path / "x.parquet") == name


@pytest.mark.parametrize(
    "kind",
    [
        pa.duration("us"),
        pa.month_day_nano_interval(),
        pa.decimal256(50, 2),
        pa.decimal128(10, -2),
        pa.dense_union([pa.field("a", pa.int32())]),
        pa.struct([]),
        pa.list_view(pa.int32()),
        pa.struct([("a", pa.int32()), ("A", pa.int32())]),
        pa.list_(pa.struct([("a", pa.duration("s"))])),
        pa.map_(pa.string(), pa.duration("s")),
        pa.null(),
        pa.list_(pa.null()),
        pa.struct([("a", pa.map_(pa.string(), pa.null()))]),
    ],
    ids=str,
)
def test_a_type_that_a_part_cannot_hold_is_refused_by_name(kind: pa.DataType) -> None:
    with pytest.raises(PartSchemaError, match="'x'"):
        from_arrow(pa.schema([("x", kind)]))


def deep(kind: pa.DataType, make: Callable[[pa.DataType], pa.DataType], times: int) -> pa.DataType:
    for _ in range(times):
        kind = make(kind)
    return kind


def in_struct(kind: pa.DataType) -> pa.DataType:
    return pa.struct([("a", kind)])


def in_map(kind: pa.DataType) -> pa.DataType:
    return pa.map_(pa.string(), kind)


@pytest.mark.long
@pytest.mark.parametrize("repeat", [pa.list_, in_map])
def test_a_column_as_deep_as_may_be_is_read_by_duckdb_and_arrow(
    repeat: Callable[[pa.DataType], pa.DataType], tmp_path: Path
) -> None:
    kind = deep(deep(pa.int8(), repeat, MAX_REPEATED), in_struct, MAX_LEVELS - MAX_REPEATED)
    (name,) = from_arrow(pa.schema([("x", kind)])).values()
    file = str(tmp_path / "x.parquet")
    pq.write_table(pa.table({"x": pa.nulls(1, to_arrow({"x": name}).field("x").type)}), file)
    assert pq.read_table(file).num_rows == 1
    with duckdb.connect() as connection:
        assert connection.read_parquet(file).to_arrow_table().num_rows == 1


@pytest.mark.parametrize(
    "kind",
    [
        deep(pa.int8(), in_struct, MAX_LEVELS + 1),
        deep(pa.int8(), pa.list_, MAX_REPEATED + 1),
        deep(pa.int8(), in_map, MAX_REPEATED + 1),
        deep(deep(pa.int8(), in_map, MAX_REPEATED), in_struct, MAX_LEVELS - MAX_REPEATED + 1),
        deep(pa.int8(), in_struct, 2000),
    ],
    ids=["structs", "lists", "maps", "both", "very many"],
)
def test_a_column_that_is_deeper_is_refused(kind: pa.DataType) -> None:
    with pytest.raises(PartSchemaError, match="column 'x' is nested deeper than readers take it"):
        from_arrow(pa.schema([("x", kind)]))


def test_columns_that_sql_cannot_tell_apart_are_refused() -> None:
    for names in (("a", "a"), ("a", "A"), ("é", "é")):
        with pytest.raises(PartSchemaError, match="one column in SQL"):
            from_arrow(pa.schema([(name, pa.int8()) for name in names]))
    assert list(from_arrow(pa.schema([("é", pa.int8()), ("É", pa.int8())]))) == ["é", "É"]
    with pytest.raises(PartSchemaError, match="empty name"):
        from_arrow(pa.schema([("", pa.int8())]))


def test_a_known_type_that_says_more_than_parquet_keeps_stays() -> None:
    schema = pa.schema(
        [
            ("s", pa.timestamp("ms")),
            ("v", pa.list_(pa.float32(), 3)),
            ("n", pa.null()),
            ("e", pa.list_(pa.null())),
            ("i", pa.int32()),
        ]
    )
    known = {
        "s": "TIMESTAMP_MS",
        "v": "FLOAT[3]",
        "n": "STRUCT(a INTEGER)",
        "e": "DATE[]",
        "i": "BIGINT",
    }
    assert from_arrow(schema, known) == known | {"i": "INTEGER"}
    assert from_arrow(schema.remove(3).remove(2)) == {
        "s": "TIMESTAMP",
        "v": "FLOAT[]",
        "i": "INTEGER",
    }


@pytest.mark.parametrize("text", ["UNION(a INTEGER)", "VARIANT", "QUANTUM", "STRUCT(a QUANTUM)"])
def test_a_type_name_without_arrow_type_is_refused_with_its_column(text: str) -> None:
    with pytest.raises(PartSchemaError, match="column 'x'"):
        to_arrow({"x": text})


def test_every_type_a_foreign_table_may_name_has_an_arrow_type() -> None:
    for text in ("HUGEINT", "INTERVAL", "ENUM('a')", "BIT", "TIMETZ", "INTEGER[3]", "GEOMETRY"):
        assert to_arrow({"x": text}).field("x").type == parse_type(text)


VALUES = st.one_of(
    st.none(), st.lists(st.fixed_dictionaries({"k": st.text(max_size=3), "v": st.integers(0, 9)}))
)


@examples(12, 300)
@given(values=st.lists(VALUES, max_size=5))
def test_decoding_keeps_every_nested_value(
    values: list[list[dict[str, object]] | None],
) -> None:
    encoded = pa.large_list(
        pa.struct([("k", pa.large_string()), ("v", pa.dictionary(pa.int8(), pa.int16()))])
    )
    plain = pa.list_(pa.struct([("k", pa.string()), ("v", pa.int16())]))
    column = pa.chunked_array([pa.array(values, plain)]).cast(
        pa.large_list(pa.struct([("k", pa.large_string()), ("v", pa.int16())]))
    )
    name = from_arrow(pa.schema([("x", encoded)]))["x"]
    assert name == "STRUCT(k VARCHAR, v SMALLINT)[]"
    assert conform(column, parse_type(name)).to_pylist() == values


def test_values_survive_decoding() -> None:
    cases: list[tuple[pa.Array, list[object]]] = [
        (pa.array(["a", None, "a"]).dictionary_encode(), ["a", None, "a"]),
        (pa.array([1.5, None], pa.float16()), [1.5, None]),
        (pa.array([Decimal("1.25")], pa.decimal256(30, 2)), [Decimal("1.25")]),
        (pa.bool8().wrap_array(pa.array([1, 0, None], pa.int8())), [True, False, None]),
        (pa.json_().wrap_array(pa.array(['{"a":1}', None])), ['{"a":1}', None]),
    ]
    for array, values in cases:
        kind = parse_type(from_arrow(pa.schema([("x", array.type)]))["x"])
        assert conform(pa.chunked_array([array]), kind).to_pylist() == values


def beyond_2_gib(folder: Path) -> pa.Array:
    """Texts of which the first is longer than other than large types allow; they take no memory."""
    offsets = [0, 2**31 - 1, 2**31 + 2, 2**31 + 2]
    with (folder / "texts").open("wb") as file:
        file.truncate(offsets[1])
        file.seek(offsets[1])
        file.write(b"abc")
    places = pa.array(offsets, pa.int64()).buffers()[1]
    data = pa.memory_map(str(folder / "texts")).read_buffer()
    return pa.Array.from_buffers(pa.large_string(), 3, [None, places, data])


@pytest.mark.long
def test_a_slice_of_more_than_2_gib_of_text_has_only_its_own(tmp_path: Path) -> None:
    texts = beyond_2_gib(tmp_path)
    items = pa.LargeListArray.from_arrays(pa.array([0, 1, 2, 3], pa.int64()), texts)
    fields = pa.StructArray.from_arrays([texts], ["a"])
    for array, kind, expected in (
        (texts, pa.string(), ["abc", ""]),
        (texts.view(pa.large_binary()), pa.binary(), [b"abc", b""]),
        (items, pa.list_(pa.string()), [["abc"], [""]]),
        (fields, pa.struct([("a", pa.string())]), [{"a": "abc"}, {"a": ""}]),
    ):
        found = conform(pa.chunked_array([array]).slice(1), kind)
        assert (found.type, found.to_pylist()) == (kind, expected)
    with pytest.raises(pa.ArrowInvalid, match="input array too large"):
        conform(pa.chunked_array([texts]), pa.string())
