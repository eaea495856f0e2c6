"""The digest of a file is read in batches of a bounded size, however its values are encoded."""

from __future__ import annotations

import threading
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from firnline.cores import Cores
from firnline.errors import PartUnreadableError
from firnline.parquet.digests import digest_file
from firnline.types.rowhash import digest_of

MIB = 2**20


def largest_batch(path: Path, rows: pa.Table) -> int:
    """Return the bytes of the largest batch that was read of a file, and compare the digest."""
    sizes: list[int] = []
    found = digest_file(path, seen=lambda batch: sizes.append(batch.nbytes))
    assert found == (digest_of(rows), rows.num_rows)
    return max(sizes)


def repeated(values: list[str], count: int) -> pa.Array:
    """Return so many rows of a few values, with a dictionary of these."""
    codes = pa.array([number % len(values) for number in range(count)], pa.int32())
    return pa.DictionaryArray.from_arrays(codes, pa.array(values))


def test_a_few_long_texts_in_many_rows_are_never_decoded_together(tmp_path: Path) -> None:
    rows = pa.table({"t": repeated(["a" * 20_000, "b" * 20_000], 2_000)})
    path = tmp_path / "part.parquet"
    pq.write_table(rows, path, row_group_size=1_000, store_schema=False)
    assert largest_batch(path, rows) < MIB  # 40 MiB


def test_texts_are_decoded_in_row_groups_without_a_dictionary_alone(tmp_path: Path) -> None:
    path, few = tmp_path / "part.parquet", repeated(["a" * 20_000, "b" * 20_000], 1_000)
    # More than writers put into a dictionary.
    many = repeated([f"{number:04d}{'c' * 20_000}" for number in range(100)], 100)
    rows = pa.table({"t": pa.chunked_array([few, many, few])})
    with pq.ParquetWriter(path, rows.schema, store_schema=False) as writer:
        for chunk in rows["t"].chunks:
            writer.write_table(pa.table({"t": chunk}))
    assert largest_batch(path, rows) < 3 * MIB  # 40 MiB


@pytest.mark.long
def test_lists_of_values_that_take_no_room_in_pages_are_not_read_at_once(tmp_path: Path) -> None:
    places = pa.array(range(0, 2_000_001, 5_000), pa.int32())
    rows = pa.table({"l": pa.ListArray.from_arrays(places, pa.repeat(7, 2_000_000))})
    pq.write_table(rows, tmp_path / "part.parquet")
    assert largest_batch(tmp_path / "part.parquet", rows) < 9 * MIB  # 15 MiB


def test_row_groups_are_read_side_by_side_on_idle_cores(tmp_path: Path) -> None:
    path, cores, both = tmp_path / "part.parquet", Cores(1), threading.Barrier(2)
    rows = pa.table({"id": range(8_000), "t": repeated(["a", "b"], 8_000)})
    pq.write_table(rows, path, row_group_size=1_000, store_schema=False)

    def seen(_: object) -> None:
        both.wait(30)

    found = digest_file(path, seen=seen, cores=cores, memory=2**30)
    assert found == (digest_of(rows), rows.num_rows) == digest_file(path)
    assert cores.idle == 1


def test_one_core_reads_what_memory_does_not_suffice_for_on_several(tmp_path: Path) -> None:
    path, threads = tmp_path / "part.parquet", set[str]()
    rows = pa.table({"id": range(4_000)})
    pq.write_table(rows, path, row_group_size=1_000)
    found = digest_file(
        path,
        seen=lambda _: threads.add(threading.current_thread().name),
        cores=Cores(3),
        memory=MIB,
    )
    assert found == (digest_of(rows), 4_000)
    assert threads == {threading.current_thread().name}


def test_a_damaged_row_group_is_named_by_its_file_whoever_reads_it(tmp_path: Path) -> None:
    path = tmp_path / "part.parquet"
    pq.write_table(pa.table({"id": range(4_000)}), path, row_group_size=1_000)
    start = pq.read_metadata(path).row_group(3).column(0).data_page_offset
    data = bytearray(path.read_bytes())
    data[start : start + 64] = b"\xff" * 64
    path.write_bytes(data)
    with pytest.raises(PartUnreadableError, match=r"part\.parquet"):
        digest_file(path, cores=Cores(3), memory=2**30)
