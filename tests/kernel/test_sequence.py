"""Files of a sorted group that lie behind each other are copied, and only the others are sorted."""

from __future__ import annotations

import datetime
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firnline.kernel import outputs, pieces
from firnline.kernel.sequence import Stretch, stretches_of
from firnline.kernel.task import BloomFilters, KernelResult
from firnline.parquet.part import PartMetadata
from firnline.types.arrow import from_arrow
from firnline.types.order import SortKey
from tests.kernel.conftest import Group
from tests.kernel.test_copies import chunks
from tests.support.effort import examples

ROWS = 4096
"""Twice a row group."""
OURS = PartMetadata(table="table", partition="d=1", writer="merge", rows=1).to_pairs()
ORDER = (SortKey("id"), SortKey("name"))


def numbers(start: int, count: int = ROWS, step: int = 1) -> pa.Table:
    values = range(start, start + count * step, step)
    return pa.table({"id": list(values), "name": [f"n{i * 7 % 11}" for i in values]})


SCHEMA = from_arrow(numbers(0, 1).schema)


def merged(group: Group, keys: list[str], **changed: Any) -> KernelResult:
    task = {"sort_by": ORDER, "metadata": OURS, **changed}
    schema = task.pop("schema", SCHEMA)
    result = group.run(group.task(keys, schema, **task))
    assert result.error is None, result.error
    return result


def output(group: Group, rows: pa.Table, **changed: Any) -> str:
    """A part that a merge has written."""
    (part,) = merged(group, group.put(rows), schema=from_arrow(rows.schema), **changed).parts
    return part.key


@pytest.fixture
def chosen(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Stretch, ...]]:
    """What the kernels have chosen so far."""
    chosen: list[tuple[Stretch, ...]] = []

    def noted(*given: Any) -> tuple[Stretch, ...]:
        chosen.append(stretches_of(*given))
        return chosen[-1]

    monkeypatch.setattr(outputs, "stretches_of", noted)
    return chosen


def rows_of(group: Group, key: str) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in pq.read_table(group.root / key).to_pylist()]


def test_parts_behind_each_other_are_copied_in_the_order_of_their_rows(group: Group) -> None:
    keys = [output(group, numbers(start)) for start in (2 * ROWS, 0, ROWS)]
    (part,) = merged(group, keys).parts
    in_order = [keys[1], keys[2], keys[0]]
    assert chunks(group, part.key) == [each for key in in_order for each in chunks(group, key)]
    assert rows_of(group, part.key) == rows_of(group, in_order[0]) + rows_of(
        group, in_order[1]
    ) + rows_of(group, in_order[2])
    assert part.sorted_by == ORDER
    assert pq.read_metadata(group.root / part.key).num_row_groups == 6


def test_only_what_lies_around_them_is_sorted(group: Group) -> None:
    whole = output(group, numbers(1_000))
    before = group.put(numbers(0, 500, step=2), numbers(1, 499, step=2))
    behind = group.put(numbers(50_000, 300), numbers(49_000, 1_000))
    (part,) = merged(group, [behind[0], before[0], whole, behind[1], before[1]]).parts
    footer = pq.read_metadata(group.root / part.key)
    sizes = [footer.row_group(number).num_rows for number in range(footer.num_row_groups)]
    assert sizes == [999, ROWS // 2, ROWS // 2, 1_300]
    assert chunks(group, part.key)[2:6] == chunks(group, whole)
    ids = [row[0] for row in rows_of(group, part.key)]
    assert ids == [*range(999), *range(1_000, 1_000 + ROWS), *range(49_000, 50_300)]


def test_a_descending_order_is_that_of_the_output(group: Group) -> None:
    order = (SortKey("id", descending=True),)
    keys = [output(group, numbers(start), sort_by=order) for start in (0, ROWS)]
    (part,) = merged(group, keys, sort_by=order).parts
    assert chunks(group, part.key) == [*chunks(group, keys[1]), *chunks(group, keys[0])]
    assert [row[0] for row in rows_of(group, part.key)] == list(range(2 * ROWS))[::-1]


@pytest.mark.parametrize(
    ("second", "changed", "why"),
    [
        (numbers(ROWS - 1), {}, "their ranges touch"),
        (numbers(10), {}, "their ranges overlap"),
        (numbers(ROWS), {"sort_by": (SortKey("name"),)}, "they have another order"),
        (numbers(ROWS), {"row_group_rows": 5 * ROWS}, "row groups are too small"),
        (numbers(ROWS), {"keep": "id <> 5"}, "rows go"),
        (numbers(ROWS), {"query": "SELECT * FROM _rows"}, "a query makes them"),
        (numbers(ROWS), {"primary_key": ("id",)}, "the last of a key stays"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_all_is_sorted_where(
    group: Group,
    chosen: list[tuple[Stretch, ...]],
    second: pa.Table,
    changed: dict[str, Any],
    why: str,
) -> None:
    keys = [output(group, numbers(0)), output(group, second)]
    task = group.task(keys, SCHEMA, **{"sort_by": ORDER, "metadata": OURS, **changed})
    chosen.clear()
    (part,) = group.run(task).parts
    names = [key.column for key in task.sort_by]
    found = [tuple(row[0 if n == "id" else 1] for n in names) for row in rows_of(group, part.key)]
    assert found == sorted(found), why
    assert not any(chosen), why


def test_rows_that_a_delete_hides_are_not_copied(group: Group) -> None:
    keys = [output(group, numbers(start)) for start in (0, ROWS)]
    result = merged(group, keys, hidden={keys[0]: "id < 10"})
    (part,) = result.parts
    assert (result.rows_deleted, part.rows) == (10, 2 * ROWS - 10)
    assert [row[0] for row in rows_of(group, part.key)] == list(range(10, 2 * ROWS))


def test_parts_whose_nulls_come_last_are_sorted(group: Group) -> None:
    with_null = pa.table({"id": [*range(ROWS - 1), None], "name": ["a"] * ROWS})
    keys = [output(group, with_null), output(group, numbers(ROWS))]
    (part,) = merged(group, keys).parts
    ids = [row[0] for row in rows_of(group, part.key)]
    assert ids == [*range(ROWS - 1), *range(ROWS, 2 * ROWS), None]


def test_parts_that_were_sorted_otherwise_are_sorted(group: Group) -> None:
    """As after `sort_by` was changed."""
    keys = [output(group, numbers(start), sort_by=ORDER[1:]) for start in (0, ROWS)]
    (part,) = merged(group, keys).parts
    assert [row[0] for row in rows_of(group, part.key)] == list(range(2 * ROWS))


def test_a_part_of_another_writer_is_not_taken_for_sorted(group: Group) -> None:
    """It may state an order that its rows do not have."""
    ours = output(group, numbers(0))
    (theirs,) = group.put(numbers(0, 1))
    rows = numbers(ROWS).take(list(range(ROWS))[::-1])
    sorting = [pq.SortingColumn(0), pq.SortingColumn(1)]
    schema = pq.read_schema(group.root / ours).remove_metadata()
    pq.write_table(
        rows.cast(schema), group.root / theirs, compression="zstd", row_group_size=2048,
        sorting_columns=sorting, store_schema=False,
    )  # fmt: skip
    (part,) = merged(group, [theirs, ours]).parts
    assert [row[0] for row in rows_of(group, part.key)] == list(range(2 * ROWS))
    assert chunks(group, part.key)[:4] == chunks(group, ours)


KINDS: dict[str, Any] = {
    "numbers": lambda n: n,
    "texts": lambda n: f"{n:06d}",
    "long texts": lambda n: "x" * 70 + f"{n:06d}",
    "days": lambda n: datetime.date(2000, 1, 1) + datetime.timedelta(days=n % 3_000_000),
    "times": lambda n: (
        datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC) + datetime.timedelta(seconds=n)
    ),
    "floats": lambda n: n / 4,
}


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_columns_of_any_type_lead_the_order(
    group: Group, chosen: list[tuple[Stretch, ...]], kind: str
) -> None:
    def rows(start: int) -> pa.Table:
        values = [KINDS[kind](n) for n in range(start, start + ROWS)]
        return pa.table({"id": values, "name": ["a"] * ROWS})

    keys = [output(group, rows(start)) for start in (ROWS, 0)]
    (part,) = merged(group, keys, schema=from_arrow(rows(0).schema)).parts
    ids = [row[0] for row in rows_of(group, part.key)]
    assert ids == [KINDS[kind](n) for n in range(2 * ROWS)]
    copied = [each.copied is not None for each in chosen[-1]]
    # Bounds of long texts are cut, and of floats there are none: they may be anywhere.
    assert copied == ([] if kind in ("long texts", "floats") else [True, True])


@given(
    parts=st.lists(
        st.tuples(st.integers(0, 60), st.integers(1, 30), st.booleans()), min_size=2, max_size=6
    ),
    descending=st.booleans(),
    bloom_filters=st.sampled_from([None, BloomFilters(), BloomFilters(max_distinct=1_000)]),
)
@examples(test=15, full=300)
def test_the_rows_are_those_of_a_sort_wherever_the_parts_lie(
    tmp_path_factory: pytest.TempPathFactory,
    parts: list[tuple[int, int, bool]],
    descending: bool,
    bloom_filters: BloomFilters | None,
) -> None:
    """Parts begin somewhere and are of some length, in hundreds; some are made by a merge."""
    folder = tmp_path_factory.mktemp("group")
    group = Group(folder / "store", folder / "scratch")
    order = (SortKey("id", descending), SortKey("name"))
    task = {"sort_by": order, "bloom_filters": bloom_filters}
    keys: list[str] = []
    for start, length, by_merge in parts:
        rows = numbers(100 * start, 100 * length)
        keys.append(output(group, rows, **task) if by_merge else group.put(rows)[0])
    (part,) = merged(group, keys, **task).parts
    everything = [row for key in keys for row in rows_of(group, key)]
    expected = sorted(sorted(everything, key=lambda row: row[1]), key=lambda row: row[0])
    if descending:
        expected = sorted(sorted(everything, key=lambda row: row[1]), key=lambda row: -row[0])
    assert rows_of(group, part.key) == expected
    assert part.rows == len(expected)
    assert part.sorted_by == order


def test_a_stretch_that_does_not_fit_into_memory_is_sorted_in_pieces(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    split: list[int] = []
    choose = pieces.sort_in_pieces

    def counted(*given: Any) -> Any:
        sort = choose(*given)
        split.append(sort is not None)
        return sort

    monkeypatch.setattr(outputs, "sort_in_pieces", counted)
    rng = range(400_000)
    noise = [f"{n * 7919 % 400_009:06d}" + "y" * 60 for n in rng]
    wide = pa.table({"id": noise, "name": noise})
    first = pa.table({"id": [f" {n:06d}" for n in range(ROWS)], "name": ["a"] * ROWS})
    whole = output(group, first)
    keys = [*group.put(wide.slice(0, 200_000), wide.slice(200_000)), whole]
    (part,) = merged(group, keys, schema=from_arrow(wide.schema), memory=32 * 2**20).parts
    ids = [row[0] for row in rows_of(group, part.key)]
    assert split == [False, True], "the part that is there, and what is sorted beside it"
    assert ids == sorted(ids)
    assert len(ids) == 400_000 + ROWS
    assert chunks(group, part.key)[:4] == chunks(group, whole)
