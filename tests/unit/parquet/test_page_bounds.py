from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from firnline.parquet.page_bounds import go_into_index

_TEXTS = [
    pa.string(),
    pa.large_string(),
    pa.binary(),
    pa.dictionary(pa.int8(), pa.string()),
    pa.json_(),
    pa.list_(pa.string()),
    pa.struct([("x", pa.int64()), ("y", pa.struct([("z", pa.string())]))]),
    pa.map_(pa.int64(), pa.binary()),
]
_OTHERS = [pa.int64(), pa.float64(), pa.bool_(), pa.decimal128(20, 2), pa.uuid(), pa.date32()]


@pytest.mark.parametrize("kind", _TEXTS, ids=str)
def test_bounds_of_texts_go_into_the_index(kind: pa.DataType) -> None:
    assert go_into_index(pa.schema([("n", pa.int64()), ("x", kind)]))


@pytest.mark.parametrize("kind", _OTHERS, ids=str)
def test_bounds_of_all_others_may_be_in_the_headers(kind: pa.DataType) -> None:
    assert not go_into_index(pa.schema([("x", kind)]))


@pytest.mark.parametrize("index", [False, True])
def test_duckdb_goes_by_the_headers_of_pages_alone(tmp_path: Path, index: bool) -> None:
    """A row group of many values has pages of one; a new DuckDB may answer rightly."""
    path = tmp_path / "x.parquet"
    texts = pa.array([f"{n:09d}" for n in range(20_000)] + ["z", None] * 20_000)
    options = {"use_dictionary": False, "data_page_size": 1_000, "write_page_index": index}
    pq.write_table(pa.table({"x": texts}), path, **options)

    def found(condition: str) -> int:
        query = f"SELECT count(*) FROM '{path}' WHERE {condition}"
        number: int = duckdb.execute(query).fetchall()[0][0]
        return number

    assert (found("x IS NULL") == 20_000) == index
    assert found("(x IS NULL) = true") == 20_000, "as docs/reading.md says"
