"""A group that is larger than memory is sorted in pieces: the same rows in the same order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firnline.kernel import pieces, ranges
from firnline.kernel.cuts import Keys, bands
from firnline.kernel.task import KernelResult
from firnline.parquet.part import PartMetadata
from firnline.types.arrow import from_arrow
from firnline.types.order import SortKey
from firnline.types.schema import union
from tests.kernel.conftest import Group
from tests.kernel.test_ranges import bag, numbers, tables
from tests.support.effort import examples

WAYS = pytest.mark.parametrize("way", ["files", "passes", "at once"])


def take(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let groups that do not fit be split that way, whatever their rows are."""
    monkeypatch.setattr(ranges, "_MOST_PASSES", 1e9 if way == "passes" else 0.0)
    monkeypatch.setattr(pieces, "has_fixed_width", lambda *_: way == "at once")


def sorted_in(group: Group, found: list[pa.Table], **changed: Any) -> tuple[KernelResult, Any]:
    """The result, and the footer of its only output."""
    schema = union((f"log {n}", from_arrow(table.schema)) for n, table in enumerate(found))
    result = group.run(group.task(group.put(*found), schema, **changed))
    assert result.error is None, result.error
    (part,) = result.parts
    return result, pq.ParquetFile(group.root / part.key)


@pytest.fixture
def in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every group is many times too large."""
    monkeypatch.setattr(pieces, "_SORT_FACTOR", 1e9)
    monkeypatch.setattr(pieces, "_MOST_PIECES", 5)


def test_each_row_is_in_one_piece_where_a_part_has_one_text_and_nulls(tmp_path: Path) -> None:
    """DuckDB 2.0 takes such rows, without a dictionary, all for nulls (``NULLS_BY_BOUNDS``)."""
    rows = pa.table({"k": range(4), "x": ["a", None, "a", None]})
    pq.write_table(rows, tmp_path / "a.parquet", use_dictionary=False)
    found = [
        duckdb.execute(f"SELECT k FROM '{tmp_path}/a.parquet' WHERE {each}").fetchall()
        for each in bands(Keys(("x",), ("VARCHAR",)), [("a",), (None,)])
    ]
    assert found == [[], [(0,), (2,)], [(1,), (3,)]]


def in_words(rows: list[tuple[Any, ...]]) -> str:
    """NaN equals itself; 0.0 and -0.0 are equal keys, whichever comes first."""
    return repr([tuple(0.0 if value == 0 else value for value in row) for row in rows])


@WAYS
@pytest.mark.usefixtures("in_pieces")
@examples(25, 400)
@given(parts=tables(), descending=st.tuples(st.booleans(), st.booleans()), data=st.data())
def test_the_rows_are_those_of_one_sort_in_its_order(
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    parts: list[pa.Table],
    descending: tuple[bool, bool],
    data: st.DataObject,
    way: str,
) -> None:
    take(way, monkeypatch)
    folder = tmp_path_factory.mktemp("pieces")
    group = Group(folder / "store", folder / "scratch")
    wanted = pa.concat_tables(parts)
    if not wanted.num_rows:
        return
    columns = data.draw(st.sampled_from([("a",), ("a", "b"), ("b", "a")]))
    keys = tuple(SortKey(c, d) for c, d in zip(columns, descending, strict=False))
    order = ", ".join(f"{k.column} {'DESC' if k.descending else 'ASC'} NULLS LAST" for k in keys)
    result, file = sorted_in(group, parts, sort_by=keys)
    rows = file.read()
    assert bag(rows.to_pylist()) == bag(wanted.to_pylist())
    asked = ", ".join(columns)
    with duckdb.connect() as connection:
        connection.register("wanted", wanted)
        connection.register("rows", rows)
        expected = connection.execute(f"SELECT {asked} FROM wanted ORDER BY {order}").fetchall()
        found = connection.execute(f"SELECT {asked} FROM rows").fetchall()
        assert in_words(found) == in_words(expected)
    assert result.rows_in == wanted.num_rows


@WAYS
@pytest.mark.usefixtures("in_pieces")
def test_a_row_with_nan_is_kept_though_the_bounds_of_its_row_group_leave_it_out(
    group: Group, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    take(way, monkeypatch)
    nan = float("nan")
    parts = [
        pa.table({"a": pa.array(values, pa.float64()), "b": list(range(len(values)))})
        for values in ([0, None], [None, None, 0, nan, None], [None, None, 0], [1, 2, 3])
    ]
    _, file = sorted_in(group, parts, sort_by=(SortKey("a", descending=True),))
    found = file.read()["a"].to_pylist()
    assert [str(value) for value in found[:5]] == ["nan", "3.0", "2.0", "1.0", "0.0"]
    assert len(found) == 13


@pytest.mark.parametrize("way", ["files", "passes"])
@pytest.mark.usefixtures("in_pieces")
def test_the_output_is_one_part_in_the_form_of_the_table(
    group: Group, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    take(way, monkeypatch)
    metadata = PartMetadata(table="table", partition="d=1", writer="merge", q=3, o=(1, 2))
    result, file = sorted_in(
        group,
        [numbers(9000), numbers(4000)],
        sort=("a",),
        stats_columns=("a",),
        metadata=metadata.to_pairs(),
    )
    footer = file.metadata
    assert footer.num_row_groups >= 5
    assert footer.metadata[b"firnline.rows"] == b"13000"
    assert footer.metadata[b"firnline.q"] == b"3"
    assert b"firnline.piece" not in footer.metadata
    assert result.parts[0].stats == {"a": (0, 8999, 0)}
    assert footer.row_group(4).sorting_columns == (pq.SortingColumn(0),)
    assert {footer.row_group(0).column(n).compression for n in range(2)} == {"ZSTD"}
    assert result.parts[0].bytes == (group.root / result.parts[0].key).stat().st_size


@pytest.mark.usefixtures("in_pieces")
def test_rows_that_deletes_hide_are_in_no_piece(group: Group) -> None:
    table = numbers(1000)
    (key,) = group.put(table)
    task = group.task([key], from_arrow(table.schema), sort=("a",), hidden={key: "b < 400"})
    result = group.run(task)
    assert (result.rows_in, result.rows_deleted, result.parts[0].rows) == (1000, 400, 600)
    assert pq.read_table(group.root / result.parts[0].key)["b"].to_pylist() == [
        row["b"] for row in table.sort_by("a").to_pylist() if row["b"] >= 400
    ]


def test_a_group_that_fits_into_memory_is_sorted_at_once(group: Group) -> None:
    _, file = sorted_in(group, [numbers(1000), numbers(500)], sort=("a",))
    assert file.metadata.num_row_groups == 1


def test_wide_rows_or_many_runs_are_not_sorted_on_disk_at_once(group: Group) -> None:
    """Of each run a merge holds some rows: here 2,048 of 100 bytes, or of 10 KB."""
    task = group.task([], {"a": "BIGINT"}, sort=("a",), memory=512 * 2**20)
    assert pieces.runs_fit(task, 100, 50)
    assert not pieces.runs_fit(task, 10_000, 50)
    assert not pieces.runs_fit(task, 100, 512)


def test_passes_are_taken_where_each_reads_a_share(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Inputs that are sorted, and inputs that lie apart; not those that overlap."""
    monkeypatch.setattr(pieces, "_SORT_FACTOR", 1e9)
    monkeypatch.setattr(pieces, "_MOST_PIECES", 40)
    taken: list[int] = []
    passes = ranges.Spreader._by_passes

    def counted(self: ranges.Spreader, keys: Keys, rows: str, conditions: Any) -> Any:
        taken.append(len(conditions))
        return passes(self, keys, rows, conditions)

    monkeypatch.setattr(ranges.Spreader, "_by_passes", counted)
    apart = [pa.table({"a": list(range(n * 1000, n * 1000 + 1000))}) for n in range(20)]
    sorted_in(group, apart, sort=("a",))
    assert taken == [40]
    across = [pa.table({"a": [i * 20 + n for i in range(1000)]}) for n in range(20)]
    sorted_in(group, across, sort=("a",))
    assert taken == [40]


def test_what_a_sort_needs_is_bounded_by_pieces_of_memory(group: Group) -> None:
    """Rows of 100 MiB with 128 MiB, of which DuckDB has 96."""
    rng = range(400_000)
    table = pa.table({"a": [i * 7919 % 400_000 for i in rng], "t": [f"{i:060d}" for i in rng]})
    _, file = sorted_in(group, [table] * 4, sort=("a",), memory=128 * 2**20, row_group_rows=10**6)
    assert file.metadata.num_row_groups > 1
    found = file.read(["a"])["a"].to_pylist()
    assert found == sorted(found)
    assert len(found) == 1_600_000
