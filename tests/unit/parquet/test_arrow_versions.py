"""What older versions of pyarrow would write or read as another type is refused."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from firnline.errors import EnvironmentFaultError
from firnline.parquet import arrow_versions, form
from firnline.parquet.footers import arrow_schema
from firnline.parquet.io import write_part

TIME = pa.time64("us")


def older(monkeypatch: pytest.MonkeyPatch, major: int) -> None:
    monkeypatch.setattr(arrow_versions, "MAJOR", major)
    form._forms_of.cache_clear()


@pytest.mark.parametrize(
    ("kind", "least"),
    [
        (pa.uuid(), 21),
        (pa.list_(pa.uuid()), 21),
        (TIME, 22),
        (pa.struct([("t", pa.map_(pa.string(), TIME))]), 22),
    ],
    ids=str,
)
def test_a_column_that_would_change_its_type_is_refused_until_pyarrow_keeps_it(
    kind: pa.DataType, least: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    older(monkeypatch, least)
    arrow_versions.refuse_changed(pa.schema([("a", pa.int64()), ("x", kind)]))
    older(monkeypatch, least - 1)
    with pytest.raises(EnvironmentFaultError, match="column 'x' has some") as caught:
        arrow_versions.refuse_changed(pa.schema([("a", pa.int64()), ("x", kind)]))
    assert f"pyarrow>={least}" in (caught.value.next_step or "")


def test_no_part_is_written_with_another_type(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    older(monkeypatch, 21)
    rows = pa.table({"t": pa.array([1], TIME)})
    path = tmp_path / "x.parquet"
    with pytest.raises(EnvironmentFaultError, match="times of day as those of UTC"):
        write_part(rows, path, metadata={}, compression_level=1, row_group_rows=10)
    assert not path.exists()


def test_the_form_of_a_part_is_not_taken_from_what_would_be_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    older(monkeypatch, 21)
    with pytest.raises(EnvironmentFaultError, match="times of day as those of UTC"):
        form._forms_of("TIME[]")
    form._forms_of.cache_clear()


def test_a_file_with_uuids_is_refused_where_they_would_be_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.parquet"
    duckdb.execute("COPY (SELECT 1 AS n, [uuid()] AS ids) TO ? (FORMAT parquet)", [str(path)])
    footer = pq.read_metadata(path)
    older(monkeypatch, 20)
    with pytest.raises(EnvironmentFaultError, match="reads UUIDs as plain bytes, and column 'ids'"):
        arrow_schema(footer)


@pytest.mark.skipif(arrow_versions.MAJOR < 21, reason="refused there")
def test_uuid_and_json_are_read_as_such(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    duckdb.execute("COPY (SELECT uuid() AS u, '{}'::JSON AS j) TO ? (FORMAT parquet)", [str(path)])
    assert arrow_schema(pq.read_metadata(path)).types == [pa.uuid(), pa.json_()]
