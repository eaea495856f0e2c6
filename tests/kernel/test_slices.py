"""Slices of a group: put together they have the rows of one merge, each of them once."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise, product
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from firnline.kernel.task import Cluster, KernelInput, KernelResult, KernelTask, KeyRange, Slice
from firnline.parquet.part import PartMetadata
from firnline.types.arrow import from_arrow
from firnline.types.order import SortKey
from firnline.types.schema import union
from tests.kernel.conftest import PREFIX, Group
from tests.kernel.test_ranges import bag, numbers, tables
from tests.support.effort import examples


def ranges(column: str, cuts: Sequence[str]) -> list[KeyRange]:
    ends = [None, *cuts, None]
    return [KeyRange(column=column, low=low, high=high) for low, high in pairwise(ends)]


def slices(column: str, cuts: Sequence[str]) -> list[Slice]:
    return [Slice(ranges=(each,)) for each in ranges(column, cuts)]


def boxes(**cuts: Sequence[str]) -> list[Slice]:
    """A slice for each box between cut points of several columns."""
    return [Slice(ranges=found) for found in product(*(ranges(n, at) for n, at in cuts.items()))]


def run_slices(
    group: Group, task: KernelTask, wanted: list[Slice]
) -> tuple[list[KernelResult], list[pa.Table]]:
    results = [group.run(structs.replace(task, slice=each)) for each in wanted]
    assert [result.error for result in results] == [None] * len(results)
    keys = [part.key for result in results for part in result.parts]
    return results, [pq.read_table(group.root / key) for key in keys]


def task_of(group: Group, found: list[pa.Table], **changed: Any) -> KernelTask:
    schema = union((f"log {n}", from_arrow(table.schema)) for n, table in enumerate(found))
    return group.task(group.put(*found), schema, **changed)


@examples(20, 400)
@given(parts=tables(), data=st.data(), descending=st.booleans())
def test_every_row_is_in_exactly_one_slice_whatever_the_cut_points_are(
    tmp_path_factory: pytest.TempPathFactory,
    parts: list[pa.Table],
    data: st.DataObject,
    descending: bool,
) -> None:
    """Nulls, values equal to a cut point, texts with quotes and NUL."""
    folder = tmp_path_factory.mktemp("slices")
    group = Group(folder / "store", folder / "scratch")
    wanted = pa.concat_tables(parts)
    task = task_of(group, parts, sort_by=(SortKey("a", descending),))
    cuts = _drawn_cuts(data, task, wanted, "a", 3)
    results, found = run_slices(group, task, slices("a", cuts))
    _have_every_row_once(results, found, wanted)


@examples(10, 200)
@given(parts=tables(), data=st.data(), outputs=st.integers(1, 3))
def test_every_row_is_in_exactly_one_slice_of_several_columns(
    tmp_path_factory: pytest.TempPathFactory,
    parts: list[pa.Table],
    data: st.DataObject,
    outputs: int,
) -> None:
    """Nulls come after every cut point of their column, whatever the other has."""
    folder = tmp_path_factory.mktemp("slices")
    group = Group(folder / "store", folder / "scratch")
    wanted = pa.concat_tables(parts)
    narrowed = data.draw(st.tuples(st.floats(0, 3), st.floats(0, 3)))
    cluster = Cluster(method="zorder", columns=("a", "b"), outputs=outputs, narrowed=narrowed)
    task = task_of(group, parts, cluster=cluster)
    cuts = {name: _drawn_cuts(data, task, wanted, name, 2) for name in ("a", "b")}
    results, found = run_slices(group, task, boxes(**cuts))
    _have_every_row_once(results, found, wanted)


def _have_every_row_once(
    results: list[KernelResult], found: list[pa.Table], wanted: pa.Table
) -> None:
    assert sum(result.rows_in for result in results) == wanted.num_rows
    rows = [row for table in found for row in table.to_pylist()]
    assert bag(rows) == bag(wanted.to_pylist())


def _drawn_cuts(
    data: st.DataObject, task: KernelTask, rows: pa.Table, column: str, most: int
) -> list[str]:
    # The planner cuts by none: bounds of other writers leave NaN out, and DuckDB goes by them.
    if pa.types.is_floating(rows.schema.field(column).type):
        return []
    values = [str(v) for v in rows[column].to_pylist() if v is not None]
    if not values:
        return []
    drawn = data.draw(st.lists(st.sampled_from(values), max_size=most, unique=True))
    return _in_order(task, column, drawn)


def _in_order(task: KernelTask, column: str, cuts: list[str]) -> list[str]:
    import duckdb

    kind = dict(task.columns)[column]
    with duckdb.connect() as connection:
        rows = connection.execute(
            f"SELECT DISTINCT ON (CAST(t AS {kind})) t FROM (SELECT unnest(?) AS t)"
            f" ORDER BY CAST(t AS {kind})",
            [cuts],
        ).fetchall()
    return [row[0] for row in rows] if cuts else []


def test_slices_are_the_unsliced_merge_cut_at_values(group: Group) -> None:
    found = [numbers(3_000), numbers(500)]
    task = task_of(group, found, sort=("a", "b"), stats_columns=("a",))
    (whole,) = (pq.read_table(group.root / group.run(task).parts[0].key),)
    results, outputs = run_slices(group, task, slices("a", ["300", "1700"]))
    assert pa.concat_tables(outputs) == whole
    assert [part.stats["a"] for result in results for part in result.parts] == [
        (0, 299, 0),
        (300, 1699, 0),
        (1700, 2999, 0),
    ]


def test_only_the_row_groups_named_are_read_and_the_rest_is_found_missing(group: Group) -> None:
    """What a wrong choice of row groups would lose shows in the rows that a slice counts."""
    table = pa.table({"a": list(range(4_000))})
    key = f"{PREFIX}in.parquet"
    (group.root / PREFIX).mkdir(parents=True)
    pq.write_table(table, group.root / key, row_group_size=1_000)
    size = (group.root / key).stat().st_size
    task = group.task([key], {"a": "BIGINT"}, sort=("a",))

    def slice_of(groups: tuple[int, ...]) -> KernelResult:
        source = KernelInput(key=key, bytes=size, rows=None, row_groups=groups)
        wanted = slices("a", ["1500", "2500"])[1]
        return group.run(structs.replace(task, inputs=(source,), slice=wanted))

    result = slice_of((1, 2))
    assert result.error is None, result.error
    assert (result.rows_in, result.parts[0].rows) == (1_000, 1_000)
    assert result.requests["get"] == 2  # the footer, and two neighbours
    assert slice_of((1, 3)).requests["get"] == 3
    assert slice_of((1,)).rows_in == 500
    failed = slice_of((9,))
    assert (failed.error_type, failed.error_key) == ("PartUnreadableError", key)


def test_a_slice_names_all_inputs_of_its_group(group: Group) -> None:
    """A rebuild of the log drops what a part was made of, whichever slice the part is."""
    found = [numbers(100), numbers(50)]
    metadata = PartMetadata(
        table="table", partition="d=1", writer="merge", replaces=("x.parquet", "y.parquet")
    )
    task = task_of(group, found, sort=("a",), metadata=metadata.to_pairs())
    one = structs.replace(task, inputs=task.inputs[1:], slice=slices("a", ["70"])[0])
    (part,) = group.run(one).parts
    footer = pq.read_metadata(group.root / part.key)
    assert footer.metadata[b"firnline.replaces"] == b'["x.parquet","y.parquet"]'


def test_rows_that_deletes_hide_are_counted_in_their_slice(group: Group) -> None:
    keys = group.put(numbers(1_000), numbers(1_000))
    task = group.task(
        keys, {"a": "BIGINT", "b": "BIGINT"}, sort=("a",), hidden={keys[0]: "a < 300"}
    )
    results, _ = run_slices(group, task, slices("a", ["200"]))
    assert [result.rows_deleted for result in results] == [200, 100]
    assert [result.rows_in for result in results] == [400, 1_600]


def test_the_newest_row_of_a_key_wins_in_its_slice(group: Group) -> None:
    old = pa.table({"a": list(range(100)), "b": [1] * 100})
    new = pa.table({"a": list(range(0, 100, 2)), "b": [2] * 50})
    task = task_of(group, [old, new], sort=("a",), primary_key=("a",))
    results, found = run_slices(group, task, slices("a", ["31"]))
    assert [result.rows_deduplicated for result in results] == [16, 34]
    rows = pa.concat_tables(found).to_pylist()
    assert rows == [{"a": a, "b": 1 if a % 2 else 2} for a in range(100)]


def test_each_slice_of_a_clustered_group_makes_its_share_of_outputs(group: Group) -> None:
    cluster = Cluster(method="range", columns=("a", "b"), outputs=2)
    task = task_of(group, [numbers(2_000)], cluster=cluster)
    results, found = run_slices(group, task, slices("a", ["1000"]))
    assert [len(result.parts) for result in results] == [2, 2]
    inside = [table["a"].to_pylist() for table in found]
    assert all(max(before) < min(after) for before, after in pairwise(inside))


def test_outputs_of_a_z_order_in_slices_narrow_all_columns_as_those_of_one_task(
    group: Group,
) -> None:
    """Four slices by one column have used its bits of 16 outputs: theirs are cut by the other."""
    count = 4_096
    table = pa.table({"a": [i % 64 for i in range(count)], "b": [i // 64 for i in range(count)]})
    cluster = Cluster(method="zorder", columns=("a", "b"), outputs=16)
    task = task_of(group, [table], cluster=cluster, stats_columns=("a", "b"))
    whole = [part.stats for part in group.run(task).parts]
    cluster = structs.replace(cluster, outputs=4, narrowed=(2.0, 0.0))
    one = structs.replace(task, cluster=cluster)
    results, _ = run_slices(group, one, slices("a", ["16", "32", "48"]))
    sliced = [part.stats for result in results for part in result.parts]
    assert len(whole) == len(sliced) == 16

    def read(found: list[Any], column: str) -> int:
        """The most outputs that may have a value."""
        bounds: list[tuple[int, int]] = [each[column][:2] for each in found]
        return max(sum(low <= at <= high for low, high in bounds) for at in range(64))

    for column in ("a", "b"):
        assert read(sliced, column) == 4 <= read(whole, column)


def test_a_slice_larger_than_memory_is_sorted_in_pieces(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    from firnline.kernel import pieces

    monkeypatch.setattr(pieces, "_SORT_FACTOR", 1e9)
    monkeypatch.setattr(pieces, "_MOST_PIECES", 3)
    task = task_of(group, [numbers(6_000)], sort=("a",))
    _, found = run_slices(group, task, slices("a", ["2000"]))
    assert [table["a"].to_pylist() for table in found] == [
        list(range(2_000)),
        list(range(2_000, 6_000)),
    ]
