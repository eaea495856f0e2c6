"""What older versions of pyarrow would write or read as another type."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from firnline.errors import EnvironmentFaultError
from firnline.kernel.inference import _of_parquet
from firnline.parquet import arrow_versions, form
from firnline.parquet.footers import arrow_schema
from firnline.parquet.write import write_part
from firnline.rows.source import read_files

TIME = pa.time64("us")


@pytest.fixture
def before_times(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrow_versions, "MAJOR", 21)
    monkeypatch.setattr(form, "_forms_of", form._forms_of.__wrapped__)


@pytest.mark.parametrize(
    "kind", [TIME, pa.struct([("t", pa.map_(pa.string(), TIME))]), pa.time32("s")], ids=str
)
def test_a_column_with_times_is_refused_until_pyarrow_keeps_them(
    kind: pa.DataType, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = pa.schema([("a", pa.int64()), ("x", kind)])
    monkeypatch.setattr(arrow_versions, "MAJOR", 22)
    arrow_versions.refuse_changed(schema)
    monkeypatch.setattr(arrow_versions, "MAJOR", 21)
    with pytest.raises(EnvironmentFaultError, match=r"column 'x' has some.*'pyarrow>=22'"):
        arrow_versions.refuse_changed(schema)


def test_no_part_is_written_with_another_type(tmp_path: Path, before_times: None) -> None:
    rows = pa.table({"t": pa.array([1], TIME)})
    path = tmp_path / "x.parquet"
    with pytest.raises(EnvironmentFaultError, match="times of day as those of UTC"):
        write_part(rows, path, metadata={}, compression_level=1, row_group_rows=10)
    assert not path.exists()


def test_the_form_of_a_part_is_not_taken_from_what_would_be_written(before_times: None) -> None:
    with pytest.raises(EnvironmentFaultError, match="times of day as those of UTC"):
        form._forms_of("TIME[]")


@pytest.mark.long
def test_uuid_and_json_are_read_as_such(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    duckdb.execute("COPY (SELECT uuid() AS u, '{}'::JSON AS j) TO ? (FORMAT parquet)", [str(path)])
    kinds = [pa.uuid(), pa.json_()]
    assert arrow_schema(pq.read_metadata(path)).types == kinds
    assert [batch.schema.types for batch in read_files([path])] == [kinds]
    assert _of_parquet(path) == {"u": "UUID", "j": "JSON"}


def test_rows_end_no_page(tmp_path: Path) -> None:
    rows, options = pa.table({"n": range(50_000)}), arrow_versions.as_large_pages()
    sizes = []
    for more in ({}, options):
        pq.write_table(rows, tmp_path / "x", write_page_index=True, use_dictionary=False, **more)
        chunk = pq.read_metadata(tmp_path / "x").row_group(0).column(0)
        sizes.append(chunk.total_compressed_size)
    assert (sizes[1] < sizes[0]) == bool(options), "each page has a head"
