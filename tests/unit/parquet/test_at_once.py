"""Rows of a file are decoded in pieces of bounded size, also where few bytes repeat much."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from firnline.errors import PartUnreadableError
from firnline.parquet import at_once
from firnline.parquet.at_once import BYTES, spans
from firnline.parquet.io import UNREADABLE, read_local_footer
from firnline.rows.source import BATCH_ROWS, read_files
from tests.e2e.test_hostile_parquet import FOOTER, GOOD

LONG = "x" * 200_000
ROWS = 1_000


def of(values: pa.Array, rows: int = ROWS) -> pa.Array:
    """Each row has the first of the values, which a dictionary stores once."""
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), values)


BOMBS: dict[str, Any] = {
    "text": lambda: of(pa.array([LONG])),
    "bytes": lambda: of(pa.array([LONG.encode()])),
    "lists": lambda: pa.array([[LONG]] * ROWS),
    "lists of which the first is empty": lambda: pa.array([[], *[[LONG]] * (ROWS - 1)]),
    "structs": lambda: pa.array([{"a": {"b": LONG}}] * ROWS),
    "maps": lambda: pa.array([[("a", LONG)]] * ROWS, pa.map_(pa.string(), pa.string())),
    "fixed": lambda: pa.array([LONG[:50_000].encode()] * ROWS, pa.binary(50_000)),
    "numbers": lambda: pa.array([[7] * 50_000] * 200, pa.list_(pa.int64())),
}


@pytest.mark.long
@pytest.mark.parametrize("kind", BOMBS)
def test_what_few_bytes_repeat_is_decoded_in_pieces(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "bomb.parquet"
    column = BOMBS[kind]()
    pq.write_table(pa.table({"c": column}), path, compression="zstd", store_schema=False)
    assert path.stat().st_size < 2**20
    batches = list(map(sizes, read_files([path])))
    assert sum(rows for rows, _ in batches) == len(column)
    assert sum(size for _, size in batches) > BYTES
    assert max(size for _, size in batches) <= BYTES * 1.01  # lists have offsets


def sizes(batch: pa.RecordBatch) -> tuple[int, int]:
    return batch.num_rows, batch.nbytes


@pytest.mark.long
def test_a_value_that_is_larger_than_the_bound_is_read_alone(tmp_path: Path) -> None:
    path = tmp_path / "big.parquet"
    pq.write_table(pa.table({"c": ["y" * (BYTES + 1), "z" * (BYTES + 1)]}), path)
    assert [batch.num_rows for batch in read_files([path])] == [1, 1]


def test_small_row_groups_are_read_together_and_nothing_is_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "small.parquet"
    rows = pa.table({"k": list(range(5_000)), "s": [f"n{n}" for n in range(5_000)]})
    pq.write_table(rows, path, row_group_size=100)
    monkeypatch.setattr(at_once, "_Dictionaries", Untouched)
    metadata = pq.read_metadata(path)
    assert [(len(groups), most) for groups, most in spans(path, metadata, 9)] == [(50, 9)]
    assert pa.Table.from_batches(read_files([path])) == rows


class Untouched:
    """Dictionaries that nobody may ask for."""

    def __init__(self, *_: object) -> None: ...

    def longest(self, *_: object) -> int:
        raise AssertionError("a dictionary was read")

    def close(self) -> None: ...


@pytest.mark.long
def test_rows_of_usual_size_are_read_as_many_at_once_as_ever(tmp_path: Path) -> None:
    path = tmp_path / "usual.parquet"
    numbers = np.arange(300_000)
    rows = pa.table({"k": numbers, "s": [f"carrier {n % 50}" for n in numbers]})
    pq.write_table(rows, path)
    metadata = pq.read_metadata(path)
    assert {most for _, most in spans(path, metadata, BATCH_ROWS)} == {BATCH_ROWS}
    assert pa.Table.from_batches(read_files([path])) == rows


@pytest.mark.long
def test_a_damaged_footer_is_refused_by_name_and_ends_no_process_of_ours(tmp_path: Path) -> None:
    """Arrow ends the process that looks at a column with counts of levels that are wrong."""
    path = tmp_path / "hit.parquet"
    refused = 0
    for at in range(FOOTER, len(GOOD)):
        path.write_bytes(GOOD[:at] + bytes([GOOD[at] ^ 1 << at % 8]) + GOOD[at + 1 :])
        try:
            list(spans(path, read_local_footer(path), 9, limit=1))
        except PartUnreadableError as error:
            refused += "hit.parquet has a damaged footer: the process" in error.message
        except UNREADABLE:
            continue
    assert refused


@pytest.mark.long
def test_a_column_named_as_a_field_of_a_struct_hides_no_long_value(tmp_path: Path) -> None:
    path = tmp_path / "named.parquet"
    short = of(pa.array(["short"]), 2_000)
    rows = pa.table({"s.x": short, "s": [{"x": LONG}] * 2_000, "other": short})
    pq.write_table(rows, path, compression="zstd", store_schema=False)
    assert max(size for _, size in map(sizes, read_files([path]))) <= BYTES * 1.01


@pytest.mark.long
def test_dictionaries_of_many_columns_are_read_some_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(at_once, "_AT_ONCE", 2_000)
    path = tmp_path / "many.parquet"
    texts = [f"carrier {n % 50}" for n in range(ROWS)]
    columns: dict[str, Any] = {f"t{n}": texts for n in range(8)}
    columns["t5"] = of(pa.array([LONG]))
    pq.write_table(pa.table(columns), path, compression="zstd", store_schema=False)
    batches = list(read_files([path]))
    assert sum(batch.num_rows for batch in batches) == ROWS
    assert max(size for _, size in map(sizes, batches)) <= BYTES * 1.1
