from __future__ import annotations

import itertools
import os
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firnline.appends.append import Appender, AppendProgress
from firnline.cores import Cores
from firnline.errors import (
    FirnlineError,
    PartSchemaError,
    PartUnreadableError,
    SchemaConflictError,
    UsageError,
)
from firnline.rows import source
from firnline.rows.source import BATCH_ROWS, gather, read_files
from tests.support.appends import TABLE, keys, make, rows_of

STREAMS: dict[str, Any] = {
    "table": lambda: TABLE,
    "batch": lambda: TABLE.to_batches()[0],
    "reader": TABLE.to_reader,
    "iterable": lambda: iter(TABLE.to_batches(max_chunksize=1)),
    "list": lambda: TABLE.to_batches(max_chunksize=3),
}


class Capsule:
    """What a data frame of another library looks like."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return TABLE.to_reader().__arrow_c_stream__(requested_schema)


STREAMS["capsule"] = Capsule


@pytest.mark.parametrize("kind", STREAMS)
def test_rows_come_as_tables_and_streams(kind: str, tmp_path: Path) -> None:
    table = make()
    assert Appender(table).append(STREAMS[kind]()).rows == 4
    assert sorted(row["n"] for row in rows_of(table, tmp_path)) == [1, 2, 3, 4]


@pytest.mark.parametrize("data", [5, "rows", [5], None])
def test_what_holds_no_rows_is_refused(data: Any) -> None:
    with pytest.raises(UsageError, match="holds no rows"):
        Appender(make()).append(data)


def test_batches_of_one_stream_may_bring_new_columns(tmp_path: Path) -> None:
    table = make()
    batches = [pa.table({"a": [1]}).to_batches()[0], pa.table({"b": [2]}).to_batches()[0]]
    (part,) = Appender(table).append(batches).parts
    assert part.rows == 2
    assert rows_of(table, tmp_path) == [{"a": 1, "b": None}, {"a": None, "b": 2}]


def test_files_are_appended_as_one(tmp_path: Path) -> None:
    table = make(partition_by=["month(d)"])
    paths = [tmp_path / f"{name}.parquet" for name in "ab"]
    for path in paths:
        pq.write_table(TABLE, path, row_group_size=1)
    result = Appender(table).append_files(paths)
    assert result.rows == 8
    assert len(result.parts) == 3
    assert len(keys(table, "_log")) == 1


def test_bad_files_are_named_before_anything_is_written(tmp_path: Path) -> None:
    table = make()
    good, bad = tmp_path / "good.parquet", tmp_path / "bad.parquet"
    pq.write_table(TABLE, good)
    cases: list[tuple[Any, type[FirnlineError]]] = [
        (lambda: bad.write_bytes(good.read_bytes()[:-9]), PartUnreadableError),
        (lambda: bad.write_text("a,b\n"), PartUnreadableError),
        (bad.unlink, UsageError),
        (lambda: pq.write_table(pa.table({"n": ["x"]}), bad), SchemaConflictError),
        (lambda: pq.write_table(pa.table({"z": pa.nulls(1)}), bad), PartSchemaError),
    ]
    for prepare, error in cases:
        prepare()
        with pytest.raises(error, match=r"bad\.parquet"):
            Appender(table).append_files([good, bad])
    with pytest.raises(UsageError, match="no files"):
        Appender(table).append_files([])
    assert table.store.counters.put == 0


def test_a_file_whose_pages_are_damaged_is_named_and_leaves_nothing(tmp_path: Path) -> None:
    table = make()
    path = tmp_path / "bad.parquet"
    pq.write_table(TABLE, path, compression="zstd")
    data = bytearray(path.read_bytes())
    data[4:60] = b"\0" * 56
    path.write_bytes(data)
    with pytest.raises(PartUnreadableError, match=r"bad\.parquet"):
        Appender(table).append_files([path])
    assert keys(table, "_data") == keys(table, "_log") == []


def several(tmp_path: Path, *sizes: int) -> list[Path]:
    """Files of so many rows each, whose ids go on from file to file; one row group a 1,000 rows."""
    paths, start = list[Path](), 0
    for number, size in enumerate(sizes):
        paths.append(tmp_path / f"{number}.parquet")
        rows = pa.table({"id": range(start, start + size)})
        pq.write_table(rows, paths[-1], row_group_size=1_000)
        start += size
    return paths


class Watched:
    """Knows how many files were begun at a time; each takes a while."""

    def __init__(self, begin: Callable[[Path], Any]) -> None:
        self.most = self._now = 0
        self._begin = begin
        self._lock = threading.Lock()

    def __call__(self, path: Path) -> Any:
        with self._lock:
            self._now += 1
            self.most = max(self.most, self._now)
        time.sleep(0.005)
        try:
            return self._begin(path)
        finally:
            with self._lock:
                self._now -= 1


@pytest.mark.parametrize("idle", [0, 1, 2, 15])
def test_rows_of_files_come_in_their_order_on_however_many_cores(
    tmp_path: Path, idle: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A large file, which is read in pieces, among small ones and an empty one."""
    sizes = (3, 1_500, 2 * BATCH_ROWS, 0, 7, 7, 7, 7, 7)
    told, cores, watched = list[tuple[int, int]](), Cores(idle), Watched(source._begin)
    monkeypatch.setattr(source, "_begin", watched)
    batches = list(read_files(several(tmp_path, *sizes), lambda *at: told.append(at), cores))
    ids = [n for batch in batches for n in batch.column(0).to_pylist()]
    assert ids == list(range(sum(sizes)))
    assert max(batch.num_rows for batch in batches) <= BATCH_ROWS
    assert told == sorted(told)
    assert told[-1] == (len(sizes), sum(sizes))
    assert cores.idle == idle
    assert watched.most <= min(4, 1 + idle), "memory is that of four files at most"
    assert (watched.most > 1) == (idle > 0)


@pytest.mark.parametrize("idle", [0, 3])
@pytest.mark.parametrize("bad", [0, 2, 4])
def test_of_files_that_are_read_side_by_side_a_damaged_one_is_named(
    tmp_path: Path, idle: int, bad: int
) -> None:
    paths = several(tmp_path, 10, 10, 10, 10, 10)
    data = paths[bad].read_bytes()
    paths[bad].write_bytes(data[:4] + b"\xff" * 40 + data[44:])
    cores = Cores(idle)
    with pytest.raises(PartUnreadableError, match=rf"{bad}\.parquet"):
        list(read_files(paths, cores=cores))
    assert cores.idle == idle


@pytest.mark.parametrize("idle", [0, 3])
@pytest.mark.parametrize("sizes", [(1,), (70_000,), (70_000,) * 5, ()], ids=str)
def test_a_large_file_that_is_replaced_while_others_are_taken_is_one_of_both(
    tmp_path: Path, idle: int, sizes: tuple[int, ...]
) -> None:
    """Never rows of the new file by the row groups of the old one."""
    paths = several(tmp_path, 2, 3 * BATCH_ROWS)
    old, new = [3 * BATCH_ROWS], [sum(sizes)]
    groups = [pa.table({"id": pa.array(range(size), pa.int64())}) for size in sizes]
    with pq.ParquetWriter(tmp_path / "new", pa.schema([("id", pa.int64())])) as writer:
        for group in groups:
            writer.write_table(group)
    rows = read_files(paths, cores=Cores(idle))
    assert next(rows).num_rows == 2
    (tmp_path / "new").replace(paths[1])
    assert [sum(batch.num_rows for batch in rows)] == (old if idle else new)


def test_what_is_no_regular_file_is_refused_before_anything_waits_for_it(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UsageError, match=r"pipe is not a regular file"):
        Appender(make()).append_files([tmp_path / "pipe"])


def test_a_column_that_is_not_wanted_and_comes_after_the_check_is_refused(tmp_path: Path) -> None:
    """The second file is replaced by one with more columns while the first one is taken."""
    table = make()
    Appender(table).append(pa.table({"id": [0]}))
    paths = several(tmp_path, 1, 1, 1, 1, 1, 1, 1, 1)
    pq.write_table(pa.table({"id": [9], "new": [1]}), tmp_path / "new")

    def replaces(at: AppendProgress) -> None:
        if at.files_done == 1 and (tmp_path / "new").exists():
            (tmp_path / "new").replace(paths[-1])

    before = keys(table, "_data"), keys(table, "_log")
    with pytest.raises(UsageError, match="no column or field new"):
        Appender(table).append_files(paths, new_columns=False, on_progress=replaces)
    assert (keys(table, "_data"), keys(table, "_log")) == before


def test_a_caller_that_stops_early_leaves_no_core_taken(tmp_path: Path) -> None:
    cores = Cores(3)
    with closing(read_files(several(tmp_path, *[10] * 9), cores=cores)) as rows:
        assert next(rows).num_rows == 10
    assert cores.idle == 3


@given(sizes=st.lists(st.integers(0, 50), min_size=1, max_size=12), chunk=st.integers(1, 400))
def test_gathered_rows_are_the_same_rows_in_pieces_of_the_size_asked_for(
    sizes: list[int], chunk: int
) -> None:
    numbers = iter(range(10_000))
    tables = [
        pa.table({"n": pa.array([next(numbers) for _ in range(size)], pa.int64())})
        for size in sizes
    ]
    pieces = list(gather(tables, chunk))
    assert pa.concat_tables(pieces).equals(pa.concat_tables(tables))
    assert all(piece.nbytes <= max(chunk, 8) for piece in pieces)
    filled = [one.nbytes + other.nbytes for one, other in itertools.pairwise(pieces)]
    assert all(together > chunk // 2 for together in filled)


ONCE = "x" * 10_000
REPEATED: dict[str, Any] = {
    "dictionary": lambda: pa.DictionaryArray.from_arrays(pa.array([0] * 500, pa.int32()), [ONCE]),
    "runs": lambda: pa.RunEndEncodedArray.from_arrays(pa.array([500], pa.int32()), [ONCE]),
    "struct": lambda: pa.StructArray.from_arrays([REPEATED["dictionary"]()], ["a"]),
    "list": lambda: pa.ListArray.from_arrays(list(range(501)), REPEATED["dictionary"]()),
    "numbers": lambda: pa.DictionaryArray.from_arrays(pa.array([0] * 500, pa.int8()), [7]),
}


@pytest.mark.parametrize("kind", REPEATED)
def test_pieces_are_as_large_as_their_decoded_rows(kind: str) -> None:
    """What a dictionary holds once, a part holds for each row."""
    rows = pa.table({"c": REPEATED[kind](), "k": list(range(500))})
    width = 8 if kind == "numbers" else len(ONCE)
    pieces = list(gather([rows, rows.slice(100)], 100_000))
    assert sum(piece.num_rows for piece in pieces) == 900
    assert max(piece.num_rows * width for piece in pieces) <= 100_000
    assert all(piece.num_rows * (width + 20) > 40_000 for piece in pieces[:-1])
