"""Row groups of an object as a file: the same rows, and no byte more than they need."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firnline.errors import PartUnreadableError
from firnline.parquet.excerpt import Excerpt, fetch_excerpt
from firnline.parquet.footers import FooterTask, FooterWanted, parse_here
from tests.support.effort import examples
from tests.support.world import MemoryStore, SetClock

GROUPS, ROWS = 6, 50
TABLE = pa.table(
    {
        "a": list(range(GROUPS * ROWS)),
        "t": pa.array([None if n % 7 == 0 else f"text {n}" for n in range(GROUPS * ROWS)]),
        "l": [[n, n + 1] for n in range(GROUPS * ROWS)],
        "x": [float("nan") if n < ROWS else n / 2 for n in range(GROUPS * ROWS)],
    }
)


def stored(path: Path, data: bytes | None = None) -> tuple[MemoryStore, int]:
    """A store with the table in row groups, with page indexes and a Bloom filter."""
    if data is None:
        pq.write_table(TABLE, path, row_group_size=ROWS, write_page_index=True)
        data = path.read_bytes()
    store = MemoryStore(SetClock())
    store.put_new("key", data)
    return store, len(data)


def fetch(store: MemoryStore, size: int, numbers: Sequence[int], folder: Path) -> Path:
    path = folder / "some.parquet"
    fetch_excerpt(store, "key", Excerpt(size, tuple(numbers)), path)
    return path


@pytest.mark.long
@examples(20, 200)
@given(numbers=st.sets(st.integers(0, GROUPS - 1), min_size=1))
def test_the_file_has_the_rows_of_these_row_groups(
    tmp_path_factory: pytest.TempPathFactory, numbers: set[int]
) -> None:
    folder = tmp_path_factory.mktemp("excerpt")
    store, size = stored(folder / "whole.parquet")
    wanted = sorted(numbers)
    fetch(store, size, wanted, folder)
    expected = pa.concat_tables([TABLE.slice(n * ROWS, ROWS) for n in wanted])
    read = pq.read_table(folder / "some.parquet")
    assert repr(read.to_pylist()) == repr(expected.to_pylist())
    with duckdb.connect() as connection:
        found = connection.execute(
            "SELECT a, t, l FROM read_parquet(?)", [str(folder / "some.parquet")]
        ).fetchall()
    assert found == [(r["a"], r["t"], r["l"]) for r in expected.to_pylist()]
    stretches = sum(n - 1 not in numbers for n in wanted)
    assert store.counters.get == 1 + stretches


def test_only_the_footer_and_the_row_groups_are_read(tmp_path: Path) -> None:
    big = pa.table({"a": pa.array([bytes([n]) * 100_000 for n in range(20)], pa.binary())})
    path = tmp_path / "whole.parquet"
    pq.write_table(big, path, row_group_size=1, compression="none", use_dictionary=False)
    store, size = stored(path, path.read_bytes())
    read: list[int] = []
    real = store.get_range

    def counted(key: str, start: int, length: int) -> bytes:
        read.append(length)
        return real(key, start, length)

    store.get_range = counted  # type: ignore[method-assign]
    fetch(store, size, [3, 4], tmp_path)
    assert len(read) == 2
    assert 200_000 < read[1] < 201_000


@pytest.mark.parametrize("numbers", [[GROUPS], [0, 99]])
def test_a_row_group_that_is_not_there_is_refused(tmp_path: Path, numbers: list[int]) -> None:
    store, size = stored(tmp_path / "whole.parquet")
    with pytest.raises(PartUnreadableError, match="the footer of key cannot be read"):
        fetch(store, size, numbers, tmp_path)


@pytest.mark.parametrize("data", [b"", b"PAR1", b"PAR1" + b"\xff" * 20 + b"PAR1", b"x" * 100])
def test_what_is_not_parquet_is_refused(tmp_path: Path, data: bytes) -> None:
    store, size = stored(tmp_path / "whole.parquet", data)
    with pytest.raises(PartUnreadableError):
        fetch(store, size, [0], tmp_path)


def test_positions_outside_of_the_object_are_refused(tmp_path: Path) -> None:
    """A footer that is not this object's."""
    store, size = stored(tmp_path / "whole.parquet")
    data = store.objects["key"][0]
    short, length = stored(tmp_path / "short.parquet", b"PAR1" + data[size // 2 :])
    with pytest.raises(PartUnreadableError, match="not in the file"):
        fetch(short, length, [GROUPS - 1], tmp_path)


def test_a_file_that_was_written_anew_meanwhile_is_refused(tmp_path: Path) -> None:
    store, size = stored(tmp_path / "whole.parquet")
    for rows, numbers in ((ROWS - 1, (0,)), (ROWS, (0, 1))):
        with pytest.raises(PartUnreadableError, match=rf"key was written anew.* had {rows} rows"):
            fetch_excerpt(store, "key", Excerpt(size, numbers, rows), tmp_path / "some.parquet")
    fetch_excerpt(store, "key", Excerpt(size, (4, 5), 2 * ROWS), tmp_path / "some.parquet")


@pytest.mark.parametrize("how", [{}, {"use_dictionary": False, "compression": "gzip"}])
def test_every_reader_reads_the_file_and_its_statistics(
    tmp_path: Path, how: dict[str, Any]
) -> None:
    whole = tmp_path / "whole.parquet"
    pq.write_table(TABLE, whole, row_group_size=ROWS, **how)
    store, size = stored(whole, whole.read_bytes())
    path = fetch(store, size, [2, 3], tmp_path)
    assert pl.read_parquet(path)["a"].to_list() == list(range(2 * ROWS, 4 * ROWS))
    statistics = pq.read_metadata(path).row_group(0).column(0).statistics
    assert (statistics.min, statistics.max) == (2 * ROWS, 3 * ROWS - 1)


def test_facts_of_row_groups_are_their_rows_bytes_and_bounds(tmp_path: Path) -> None:
    path = tmp_path / "whole.parquet"
    _, size = stored(path)
    task = FooterTask("key", size)
    found = parse_here(task, FooterWanted(groups_by=("a", "x")), path.read_bytes())
    assert [each.bounds for each in found.bounds] == [
        ((n * ROWS, n * ROWS + ROWS - 1, 0), None) for n in range(GROUPS)
    ]
    assert {each.rows for each in found.bounds} == {ROWS}
    assert 0 < sum(each.bytes for each in found.bounds) < size
    for without in ("x", "l", "nothing"):  # NaN, no order, no column
        facts = parse_here(task, FooterWanted(groups_by=(without,)), path.read_bytes())
        assert [each.bounds for each in facts.bounds] == [(None,)] * GROUPS
    assert not parse_here(task, FooterWanted(), path.read_bytes()).bounds
