"""A file is a part as it is only if all readers agree about its columns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from firnline.errors import PartSchemaError
from firnline.parquet.footers import FooterFacts, FooterTask, FooterWanted, parse_elsewhere
from firnline.parquet.io import read_local_tail
from firnline.rows.source import check_files
from firnline.types.schema import SchemaUnion


def facts(path: Path) -> FooterFacts:
    task = FooterTask(path.name, path.stat().st_size)
    return parse_elsewhere(task, FooterWanted(form=True), read_local_tail(path))


def written(path: Path, column: pa.Array, **options: Any) -> FooterFacts:
    pq.write_table(pa.table({"x": column}), path / "a.parquet", **options)
    return facts(path / "a.parquet")


def by_duckdb(path: Path, value: str, options: str = "") -> FooterFacts:
    file = path / "a.parquet"
    duckdb.execute(f"COPY (SELECT {value} AS x) TO '{file}' (FORMAT parquet {options})")
    return facts(file)


@pytest.mark.long
@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("1::TINYINT", "TINYINT"),
        ("1", "INTEGER"),
        ("1::UBIGINT", "UBIGINT"),
        ("1.5::DECIMAL(4,1)", "DECIMAL(4,1)"),
        ("1.5::DECIMAL(30,1)", "DECIMAL(30,1)"),
        ("1.5::DOUBLE", "DOUBLE"),
        ("'x'", "VARCHAR"),
        ("'x'::BLOB", "BLOB"),
        ("uuid()", "UUID"),
        ("'{}'::JSON", "JSON"),
        ("true", "BOOLEAN"),
        ("DATE '2024-01-01'", "DATE"),
        ("TIME '10:00:00'", "TIME"),
        ("TIMESTAMP '2024-01-01 10:00:00'", "TIMESTAMP"),
        ("TIMESTAMPTZ '2024-01-01 10:00:00+00'", "TIMESTAMP WITH TIME ZONE"),
        ("TIMESTAMP_NS '2024-01-01 10:00:00'", "TIMESTAMP_NS"),
        ("[1, 2]", "INTEGER[]"),
        ("[uuid()]", "UUID[]"),
        ("{'a': 1, 'b': ['x']}", "STRUCT(a INTEGER, b VARCHAR[])"),
        ("MAP {'a': 1}", "MAP(VARCHAR, INTEGER)"),
    ],
)
def test_what_duckdb_writes_is_read_as_it_is(tmp_path: Path, value: str, kind: str) -> None:
    for options in ("", ", PARQUET_VERSION V2", ", COMPRESSION snappy", ", COMPRESSION gzip"):
        found = by_duckdb(tmp_path, value, options)
        assert (found.error, found.odd, found.columns) == (None, {}, {"x": kind})


@pytest.mark.parametrize(
    ("column", "options", "words"),
    [
        (pa.array([1], pa.timestamp("us")), {"use_deprecated_int96_timestamps": True}, "INT96"),
        (pa.array([1000], pa.timestamp("ns")), {"version": "1.0"}, ""),
        (pa.array([1.5], pa.float16()), {}, "Float16"),
        (pa.array([1]), {"compression": {"x": "lz4", "other": "snappy"}}, "compressed as LZ4"),
        (pa.array([b"ab"], pa.binary(2)), {}, ""),
        (
            pa.array([b"ab"], pa.binary(2)),
            {"use_byte_stream_split": ["x"], "use_dictionary": False},
            "BYTE_STREAM_SPLIT of FIXED_LEN_BYTE_ARRAY",
        ),
        (pa.array([None]), {}, ""),
        (pa.array(["a"]).dictionary_encode(), {}, ""),
        (pa.array([[1]]), {"use_compliant_nested_type": False}, ""),
        (pa.array([1], pa.time32("ms")), {}, "written as Time"),
    ],
)
def test_what_readers_understand_differently_is_odd(
    tmp_path: Path, column: pa.Array, options: dict[str, Any], words: str
) -> None:
    table = pa.table({"x": column, "other": ["a"]})
    pq.write_table(table, tmp_path / "a.parquet", **options)
    found = facts(tmp_path / "a.parquet")
    assert found.error is None
    assert words in found.odd.get("x", "")
    untyped = pa.types.is_null(column.type)
    assert ("x" in found.odd) == (bool(words) or untyped)
    assert ("x" in found.columns) != untyped
    assert "other" not in found.odd


@pytest.mark.parametrize(
    ("low", "high", "kind", "read"),
    [
        (-(2**30), 2**30 - 1, "INTEGER", True),
        (-(2**30), 2**30, "INTEGER", False),
        (-(2**31), 2**31 - 1, "INTEGER", False),
        (2**31 - 5, 2**31 + 5, "UINTEGER", True),
        (0, 2**31, "UINTEGER", False),
        (-(2**63), 2**63 - 1, "BIGINT", True),
        (0, 2**64 - 1, "UBIGINT", True),
        (-128, 127, "TINYINT", True),
        ("NULL", "NULL", "INTEGER", True),
    ],
)
def test_steps_that_arrow_does_not_read_are_odd(
    tmp_path: Path, low: object, high: object, kind: str, read: bool
) -> None:
    values = f"unnest([{low}, {high}, {low}, {high}])::{kind}"
    found = by_duckdb(tmp_path, values, ", PARQUET_VERSION V2")
    assert (found.error, found.odd == {}) == (None, read)
    if read:
        assert pq.read_table(tmp_path / "a.parquet").num_rows == 4
    else:
        assert "steps of more than 32 bits" in found.odd["x"]
        with pytest.raises((pa.ArrowException, OSError)):
            pq.read_table(tmp_path / "a.parquet")


def test_steps_of_which_nothing_is_known_are_odd(tmp_path: Path) -> None:
    numbers = pa.array([1, 2], pa.int32())
    delta: dict[str, Any] = {"use_dictionary": False, "column_encoding": "DELTA_BINARY_PACKED"}
    assert written(tmp_path, numbers, **delta).odd == {}
    assert "steps" in written(tmp_path, numbers, write_statistics=False, **delta).odd["x"]


PLAIN: dict[str, Any] = {"use_dictionary": False}


@pytest.mark.long
@pytest.mark.parametrize(
    ("values", "options", "odd"),
    [
        (["a", None, "a"], PLAIN, True),
        (["", None], PLAIN, True),
        ([None, b"ab"], PLAIN, True),
        (["a", None, "b"], PLAIN, False),
        (["a", "a"], PLAIN, False),
        ([None, None], PLAIN, False),
        (["a", None], {**PLAIN, "write_statistics": False}, False),
        (["a", None], {}, False),
        ([1, None], PLAIN, False),
        ([1.5, None], PLAIN, False),
        ([["a"], None], PLAIN, False),
    ],
)
def test_one_text_and_nulls_that_duckdb_takes_for_nulls_are_odd(
    tmp_path: Path, values: list[Any], options: dict[str, Any], odd: bool
) -> None:
    found = written(tmp_path, pa.array(values), **options)
    assert ("takes for nulls" in found.odd.get("x", "")) == odd
    query = f"SELECT count(*) FROM '{tmp_path}/a.parquet' WHERE x IS NULL"
    nulls = duckdb.execute(query).fetchall()
    # A new DuckDB may answer rightly: then the rule can go.
    assert (nulls[0][0] != values.count(None)) == odd


@pytest.mark.parametrize("version", ["V1", "V2"])
def test_one_text_and_nulls_of_duckdb_are_read_as_they_are(tmp_path: Path, version: str) -> None:
    for text in ("'a'", "''", "'a'::BLOB"):
        found = by_duckdb(tmp_path, f"unnest([NULL, {text}])", f", PARQUET_VERSION {version}")
        assert found.odd == {}
        query = f"SELECT count(*) FROM '{tmp_path}/a.parquet' WHERE x IS NULL"
        assert duckdb.execute(query).fetchall() == [(1,)]


@pytest.mark.parametrize("version", ["V1", "V2"])
@pytest.mark.parametrize(
    ("value", "read"),
    [
        ("CASE WHEN n = 1 THEN [n, NULL]::BIGINT[2] END", False),
        ("{'a': CASE WHEN n = 1 THEN ['x', NULL]::VARCHAR[2] END}", False),
        ("[CASE WHEN n = 1 THEN [n, NULL]::BIGINT[2] END, [3, 4]]", False),
        ("[n, n]::BIGINT[2]", True),
        ("CASE WHEN n = 1 THEN [n, NULL]::BIGINT[] END", True),
    ],
)
def test_arrays_with_nulls_that_arrow_does_not_read_are_odd(
    tmp_path: Path, value: str, version: str, read: bool
) -> None:
    query = f"SELECT {value} AS x FROM range(3) t(n)"
    duckdb.execute(f"COPY ({query}) TO '{tmp_path}/a' (FORMAT parquet, PARQUET_VERSION {version})")
    assert ("maybe an ARRAY" not in facts(tmp_path / "a").odd.get("x", "")) == read
    if read:
        assert pq.read_table(tmp_path / "a").num_rows == 3
    else:
        with pytest.raises((pa.ArrowException, OSError)):
            pq.read_table(tmp_path / "a").validate(full=True)


@pytest.mark.parametrize("unit", ["ms", "us"])
def test_milliseconds_that_do_not_fit_microseconds_are_odd(tmp_path: Path, unit: str) -> None:
    most = (2**63 - 1) // 1_000
    for number in (most, -most, most + 1, -most - 1):
        times = pa.array([0, number, None], pa.timestamp(unit))
        far = unit == "ms" and abs(number) > most
        items = pa.ListArray.from_arrays(pa.array([0, 3], pa.int32()), times)
        for column in (times, items):
            assert ("in milliseconds" in written(tmp_path, column).odd.get("x", "")) == far
    unknown = written(tmp_path, pa.array([1], pa.timestamp(unit)), write_statistics=False)
    assert ("in milliseconds" in unknown.odd.get("x", "")) == (unit == "ms")


def test_bytes_are_maybe_geometries_if_the_metadata_says_so(tmp_path: Path) -> None:
    table = pa.table({"id": [1], "x": [b"\1"]}).replace_schema_metadata({"geo": "{}"})
    pq.write_table(table, tmp_path / "a.parquet")
    assert facts(tmp_path / "a.parquet").odd == {
        "x": "maybe a geometry, by the metadata of the file"
    }


def test_a_variant_is_refused_by_name(tmp_path: Path) -> None:
    assert "column 'x' is a VARIANT" in (by_duckdb(tmp_path, "42::VARIANT").error or "")


def test_an_interval_becomes_bytes(tmp_path: Path) -> None:
    found = by_duckdb(tmp_path, "INTERVAL '1 month'")
    assert (found.columns, found.odd) == ({"x": "BLOB"}, {"x": "written as Interval"})


@pytest.mark.parametrize(
    ("values", "told", "refused"),
    [
        (pa.array([-141_428, 0], pa.date32()), {"legacyDateTime": ""}, True),
        (pa.array([-141_428, 0], pa.date32()), {"version": "2.4.8"}, True),
        (pa.array([-141_428, 0], pa.date32()), {"version": "3.5.0"}, False),
        (pa.array([-141_427, None], pa.date32()), {"legacyDateTime": ""}, False),
        (pa.array([None], pa.date32()), {"legacyDateTime": ""}, False),
        (pa.array([[-141_428]], pa.list_(pa.date32())), {"legacyDateTime": ""}, True),
        (pa.array([-141_428 * 86_400_000], pa.timestamp("ms")), {"version": "2.4.8"}, True),
        (pa.array([-141_427 * 86_400_000_000], pa.timestamp("us")), {"version": "2.4.8"}, False),
        (pa.array([-141_428], pa.int32()), {"legacyDateTime": ""}, False),
    ],
)
def test_days_of_the_julian_calendar_are_refused(
    tmp_path: Path, values: pa.Array, told: dict[str, str], refused: bool
) -> None:
    pairs = {f"org.apache.spark.{name}": text for name, text in told.items()}
    table = pa.table({"x": values}).replace_schema_metadata(pairs)
    pq.write_table(table, tmp_path / "a.parquet")
    said = facts(tmp_path / "a.parquet").error or ""
    assert ("column 'x' has days before 1582-10-15" in said) == refused
    assert bool(said) == refused
    if refused:  # by an append of the file, too
        with pytest.raises(PartSchemaError, match=r"a\.parquet: column 'x' has days before 1582"):
            check_files([tmp_path / "a.parquet"], SchemaUnion())
