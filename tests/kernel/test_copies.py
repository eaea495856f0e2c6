"""Row groups of unsorted tables go from former merges into the next as they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from firnline.kernel import copies, outputs
from firnline.kernel.inputs import Inputs
from firnline.kernel.task import KernelResult, KernelTask
from firnline.parquet.join import Footer
from firnline.types.arrow import from_arrow
from tests.kernel.conftest import Group

ROWS = 4096
"""Twice a row group."""


def numbers(start: int, count: int = ROWS) -> pa.Table:
    # Few values: a column with a dictionary has a Bloom filter.
    values = range(start, start + count)
    return pa.table({"id": list(values), "name": [f"n{i % 9}" for i in values]})


SCHEMA = from_arrow(numbers(0, 1).schema)


def merged(group: Group, keys: list[str], **changed: Any) -> KernelResult:
    result = group.run(group.task(keys, changed.pop("schema", SCHEMA), **changed))
    assert result.error is None, result.error
    return result


def output(group: Group, start: int, count: int = ROWS, **changed: Any) -> str:
    """A part that a merge has written."""
    (part,) = merged(group, group.put(numbers(start, count)), **changed).parts
    return part.key


def chunks(group: Group, key: str) -> list[bytes]:
    """The pages of the column chunks of a part, compressed."""
    data, footer = (group.root / key).read_bytes(), pq.read_metadata(group.root / key)
    found = []
    for row_group in range(footer.num_row_groups):
        for column in range(footer.num_columns):
            one = footer.row_group(row_group).column(column)
            start = one.dictionary_page_offset or one.data_page_offset
            found.append(data[start : start + one.total_compressed_size])
    return found


def ids(group: Group, key: str) -> list[int]:
    return sorted(pq.read_table(group.root / key)["id"].to_pylist())


def test_row_groups_of_former_merges_are_copied_as_they_are(group: Group) -> None:
    keys = [output(group, start) for start in (0, ROWS)]
    (part,) = merged(group, keys, stats_columns=("id",)).parts
    assert chunks(group, part.key) == [each for key in keys for each in chunks(group, key)]
    assert ids(group, part.key) == list(range(2 * ROWS))
    assert part.stats == {"id": (0, 2 * ROWS - 1, 0)}
    footer = pq.read_metadata(group.root / part.key)
    assert footer.metadata[b"firnline.rows"] == str(2 * ROWS).encode()
    assert footer.num_row_groups == 4


def test_what_else_there_is_is_written_behind_them(group: Group) -> None:
    whole = output(group, 0)
    small = group.put(numbers(ROWS, 300), numbers(ROWS + 300, 200))
    (part,) = merged(group, [small[0], whole, small[1]]).parts
    assert chunks(group, part.key)[: 2 * 2] == chunks(group, whole)
    assert pq.read_metadata(group.root / part.key).num_row_groups == 3
    assert ids(group, part.key) == list(range(ROWS + 500))


def test_parts_of_other_writers_are_decoded_as_their_schema_is_another_one(group: Group) -> None:
    """Arrow writes the same columns with another schema: files with both cannot be joined."""
    whole, found = output(group, 0, bloom_filters=None), group.put(numbers(ROWS), numbers(0, 10))
    pq.write_table(numbers(ROWS), group.root / found[0], compression="zstd", row_group_size=2048)
    (part,) = merged(group, [*found, whole], bloom_filters=None).parts
    assert chunks(group, part.key)[: 2 * 2] == chunks(group, whole)
    assert ids(group, part.key) == sorted([*range(2 * ROWS), *range(10)])


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"sort": ("id",)}, "rows have an order"),
        ({"keep": "id >= 0"}, "rows may go"),
        ({"query": "SELECT * FROM _rows"}, "a query makes them"),
        ({"primary_key": ("id",)}, "the last of a key stays"),
        ({"row_group_rows": 5 * ROWS}, "row groups are too small"),
        ({"schema": {**SCHEMA, "more": "BIGINT"}}, "the table has another column"),
        ({"schema": dict(reversed(SCHEMA.items()))}, "the columns have another order"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_rows_are_written_anew_where(
    group: Group, monkeypatch: pytest.MonkeyPatch, changed: dict[str, Any], why: str
) -> None:
    keys = [output(group, start) for start in (0, ROWS)]
    found: list[int] = []
    choose = copies.copies_of

    def counted(task: KernelTask, inputs: Inputs, schema: Callable[[], bytes]) -> list[Footer]:
        chosen = choose(task, inputs, schema)
        found.append(len(chosen))
        return chosen

    monkeypatch.setattr(outputs, "copies_of", counted)
    (part,) = merged(group, keys, **changed).parts
    assert found == [0], why
    assert ids(group, part.key) == list(range(2 * ROWS))


def test_rows_that_a_delete_hides_are_not_copied(group: Group) -> None:
    keys = [output(group, start) for start in (0, ROWS)]
    result = merged(group, keys, hidden={keys[0]: "id < 10"})
    (part,) = result.parts
    assert (result.rows_deleted, part.rows) == (10, 2 * ROWS - 10)
    assert chunks(group, part.key)[:4] == chunks(group, keys[1])
    assert ids(group, part.key) == list(range(10, 2 * ROWS))


def test_parts_without_the_filters_that_the_table_wants_are_written_anew(group: Group) -> None:
    plain = [output(group, start, bloom_filters=None) for start in (0, ROWS)]
    (part,) = merged(group, plain).parts
    assert pq.read_metadata(group.root / part.key).num_row_groups == 4
    assert len((group.root / part.key).read_bytes()) != sum(
        len((group.root / key).read_bytes()) for key in plain
    )
    copied = merged(group, plain, bloom_filters=None).parts[0]
    assert chunks(group, copied.key) == [each for key in plain for each in chunks(group, key)]


def test_parts_in_which_no_value_repeats_need_no_filter(group: Group) -> None:
    rows = [numbers(start).drop_columns(["name"]) for start in (0, ROWS)]
    schema = from_arrow(rows[0].schema)
    keys = [merged(group, group.put(each), schema=schema).parts[0].key for each in rows]
    (part,) = merged(group, keys, schema=schema).parts
    assert chunks(group, part.key) == [each for key in keys for each in chunks(group, key)]


def test_parts_of_another_writer_are_written_anew(group: Group) -> None:
    """Theirs are of another schema, with another codec, or without filters."""
    keys = group.put(numbers(0), numbers(ROWS))
    (part,) = merged(group, keys, bloom_filters=None).parts
    assert ids(group, part.key) == list(range(2 * ROWS))
    assert {pq.read_metadata(group.root / part.key).row_group(0).column(0).compression} == {"ZSTD"}


def test_nulls_in_one_part_alone_are_no_other_schema(group: Group) -> None:
    """DuckDB would write a column without nulls as required."""
    with_nulls = pa.table({"id": pa.array([None] * 2048 + list(range(2048))), "name": ["a"] * 4096})
    keys = [output(group, 0), merged(group, group.put(with_nulls)).parts[0].key]
    (part,) = merged(group, keys).parts
    assert chunks(group, part.key) == [each for key in keys for each in chunks(group, key)]
    assert pq.read_table(group.root / part.key)["id"].null_count == 2048


def test_a_copied_part_is_still_checked(group: Group) -> None:
    keys = [output(group, start) for start in (0, ROWS)]
    path = group.root / keys[1]
    path.write_bytes(path.read_bytes()[:-9])
    result = group.run(group.task(keys, SCHEMA))
    assert (result.error_type, result.error_key) == ("PartUnreadableError", keys[1])
