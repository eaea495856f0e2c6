from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firnline.appends.append import Appender
from firnline.rows.parts import PartBuffer
from firnline.settings.load import PartitionField
from tests.support.appends import make
from tests.support.effort import examples


@pytest.mark.long
def test_a_large_stream_is_cut_into_parts_and_never_held_whole() -> None:
    table = make(append={"part_bytes": "1MiB", "buffer": "16MiB"}, partition_by=["k"])
    held: list[int] = []

    def batches() -> Iterator[pa.RecordBatch]:
        random = np.random.default_rng(1)
        for _ in range(30):
            numbers = random.integers(0, 2**60, 100_000)
            keys = random.integers(0, 3, 100_000, np.int8)
            yield pa.RecordBatch.from_arrays([pa.array(numbers), pa.array(keys)], ["n", "k"])
            held.append(pa.total_allocated_bytes())

    before = pa.total_allocated_bytes()
    result = Appender(table).append(batches())
    assert result.rows == 3_000_000
    assert {part.partition for part in result.parts} == {"k=0", "k=1", "k=2"}
    assert max(part.bytes for part in result.parts) < 2 * 2**20
    assert len(result.parts) > 20  # 24 MB that do not compress
    assert max(held) - before < 16 * 2**20
    assert [meta.key for meta in table.store.list("t/_log/")] == [result.log_key]


BY_KEY = [PartitionField.model_validate("k")]


@pytest.mark.long
@examples(25, 1_000)
@given(
    batches=st.lists(st.lists(st.integers(0, 4), min_size=1, max_size=30), max_size=12),
    part_bytes=st.integers(16, 2_000),
    buffer_bytes=st.integers(16, 2_000),
)
def test_every_row_leaves_the_buffer_once_and_memory_stays_bounded(
    batches: list[list[int]], part_bytes: int, buffer_bytes: int
) -> None:
    buffer = PartBuffer(BY_KEY, "", part_bytes=part_bytes, buffer_bytes=buffer_bytes)
    numbers = iter(range(10_000))
    given: list[tuple[str, int]] = []
    out: list[tuple[str, int]] = []

    def take(parts: Iterator[tuple[str, pa.Table]]) -> None:
        for partition, rows in parts:
            assert rows.num_rows
            out.extend((partition, n) for n in rows.column("n").to_pylist())

    for batch in batches:
        rows = [{"k": key, "n": next(numbers)} for key in batch]
        given += [(f"k={row['k']}", row["n"]) for row in rows]
        take(buffer.add(pa.Table.from_pylist(rows)))
        assert buffer.bytes <= buffer_bytes
    take(buffer.drain())
    assert buffer.bytes == 0
    assert Counter(out) == Counter(given)


def test_a_part_is_closed_by_its_size_on_disk_once_that_is_known() -> None:
    buffer = PartBuffer([], "p", part_bytes=800, buffer_bytes=1_000_000)
    rows = pa.table({"n": pa.array(range(100), pa.int64())})
    assert len(list(buffer.add(rows))) == 1
    buffer.written(rows.nbytes, rows.nbytes // 4)
    closed = [len(list(buffer.add(rows))) for _ in range(8)]
    assert closed == [0, 0, 0, 1, 0, 0, 0, 1]
