"""Some row groups of an object become a file of their own, which every reader reads."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from firnline.errors import PartUnreadableError
from firnline.parquet import cut as module
from firnline.parquet.cut import Cut, fetch_cut
from tests.support.world import MemoryStore, make_world

KEY = "staged/a.parquet"
GROUP = 50


def rows(count: int = 200) -> pa.Table:
    ids = list(range(count))
    return pa.table(
        {
            "id": ids,
            "name": pa.array([f"n{n % 7}" for n in ids]).dictionary_encode(),
            "tags": [[f"t{n % 3}"] * (n % 4) for n in ids],
            "none": pa.nulls(count, pa.float64()),
        }
    )


def stored(table: pa.Table, **how: Any) -> tuple[MemoryStore, int]:
    sink = io.BytesIO()
    pq.write_table(table, sink, row_group_size=GROUP, **how)
    store = make_world().store
    store.put_new(KEY, sink.getvalue())
    return store, len(sink.getvalue())


def fetched(store: MemoryStore, cut: Cut, folder: Path) -> Path:
    path = folder / "cut.parquet"
    fetch_cut(store, KEY, cut, path)
    return path


@pytest.mark.parametrize(("first", "end"), [(0, 1), (1, 3), (3, 4), (0, 4)])
@pytest.mark.parametrize(
    "how", [{}, {"write_page_index": True}, {"use_dictionary": False, "compression": "gzip"}]
)
def test_the_row_groups_of_a_cut_are_read_by_every_reader(
    first: int, end: int, how: dict[str, Any], tmp_path: Path
) -> None:
    store, size = stored(rows(), **how)
    path = fetched(store, Cut(size, first, end, (end - first) * GROUP), tmp_path)
    wanted = rows().slice(first * GROUP, (end - first) * GROUP)
    assert pq.read_table(path).to_pylist() == wanted.to_pylist()
    assert pl.read_parquet(path)["id"].to_list() == wanted["id"].to_pylist()
    query = f"SELECT id FROM '{path}' WHERE id >= {first * GROUP} ORDER BY id"
    assert [id_ for (id_,) in duckdb.execute(query).fetchall()] == wanted["id"].to_pylist()
    statistics = pq.read_metadata(path).row_group(0).column(0).statistics
    assert (statistics.min, statistics.max) == (first * GROUP, first * GROUP + GROUP - 1)


def test_a_cut_reads_the_footer_and_the_bytes_of_its_row_groups_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, size = stored(rows(4000), use_dictionary=False)
    monkeypatch.setattr(module, "PIECE_BYTES", 1000)
    before = store.counters.as_dict()
    path = fetched(store, Cut(size, 10, 20, 10 * GROUP), tmp_path)
    spent = {k: v - before[k] for k, v in store.counters.as_dict().items()}
    footer = pq.read_metadata(path)
    data = sum(
        footer.row_group(n).column(c).total_compressed_size
        for n in range(footer.num_row_groups)
        for c in range(footer.num_columns)
    )
    assert spent["get"] == 1 + -(-data // 1000)
    assert pq.read_table(path)["id"].to_pylist() == list(range(10 * GROUP, 20 * GROUP))


def test_a_file_that_was_written_anew_meanwhile_is_refused(tmp_path: Path) -> None:
    store, size = stored(rows())
    with pytest.raises(PartUnreadableError, match=r"staged/a\.parquet was written anew"):
        fetched(store, Cut(size, 3, 5, 2 * GROUP), tmp_path)
    with pytest.raises(PartUnreadableError, match="had 49 rows, and have 50"):
        fetched(store, Cut(size, 0, 1, 49), tmp_path)


def test_what_is_not_parquet_or_ends_early_is_refused(tmp_path: Path) -> None:
    store, size = stored(rows())
    with pytest.raises(PartUnreadableError, match="is truncated"):
        fetched(store, Cut(size - 3, 0, 1, GROUP), tmp_path)
    data, at = store.objects[KEY]
    store.objects[KEY] = (data[:4] + data[-1200:], at)
    with pytest.raises(PartUnreadableError, match=KEY):
        fetched(store, Cut(1204, 2, 4, 2 * GROUP), tmp_path)
