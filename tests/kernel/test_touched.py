"""Keys of rows to hide, filters of rows to keep, and inputs that are left as they are."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from firnline.kernel.task import KernelResult, KernelTask, KeyFile
from firnline.parquet.part import PartMetadata, read_pairs
from tests.kernel.conftest import PREFIX, Group
from tests.support.effort import examples

COLUMNS = {"k": "BIGINT", "s": "VARCHAR"}


def key_file(group: Group, table: pa.Table) -> KeyFile:
    """The keys as an object beside the parts."""
    key = "table/keys.parquet"
    (group.root / key).parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, group.root / key)
    return KeyFile(key=key, bytes=1, columns=tuple(table.column_names))


def task_of(group: Group, inputs: list[str], /, **changed: Any) -> KernelTask:
    """A task whose inputs have an order and whose metadata names them."""
    metadata = PartMetadata(
        table="table", partition="d=1", writer="test", o=(0, 99), replaces=tuple(inputs)
    )
    task = group.task(inputs, COLUMNS, metadata=metadata.to_pairs(), **changed)
    ordered = [replace(i, order=(10 * n, 10 * n + 1)) for n, i in enumerate(task.inputs)]
    return replace(task, inputs=tuple(ordered))


def rows(*pairs: tuple[int | None, str | None]) -> pa.Table:
    kinds = pa.schema([("k", pa.int64()), ("s", pa.string())])
    return pa.Table.from_pylist([{"k": k, "s": s} for k, s in pairs], kinds)


def metadata_of(group: Group, result: KernelResult) -> PartMetadata:
    (part,) = result.parts
    found = read_pairs("it", pq.read_metadata(group.root / part.key).metadata)
    assert found is not None
    return found


def test_rows_whose_keys_are_in_the_file_are_hidden_in_every_input(group: Group) -> None:
    keys = group.put(rows((1, "a"), (2, "a")), rows((1, "b"), (3, None), (None, "a")))
    which = key_file(group, rows((1, "a"), (1, "b"), (1, "a"), (3, None), (None, "a")))
    result = group.run(group.task(keys, COLUMNS, keys=which, sort=["k"]))
    assert group.read(result).to_pylist() == [
        {"k": 2, "s": "a"},
        {"k": 3, "s": None},
        {"k": None, "s": "a"},
    ]
    assert (result.rows_deleted, result.rows_in) == (2, 5)
    assert result.requests["get"] == 3


def test_a_row_that_a_delete_and_a_key_hide_counts_once(group: Group) -> None:
    keys = group.put(rows((1, "a"), (2, "a")))
    task = group.task(
        keys, COLUMNS, keys=key_file(group, pa.table({"K": [1, 2]})), hidden={keys[0]: "k = 1"}
    )
    result = group.run(task)
    assert (result.rows_deleted, result.parts) == (2, ())


def test_inputs_without_a_hidden_row_stay_and_are_not_counted(group: Group) -> None:
    keys = group.put(rows((1, "a"), (2, "a")), rows((3, "a")), rows((2, "c"), (4, "d")))
    hidden = dict.fromkeys(keys, "k = 2")
    task = task_of(group, keys, hidden=hidden, only_touched=True, sort=["k"])
    result = group.run(task)
    assert group.read(result)["k"].to_pylist() == [1, 4]
    assert (result.rows_in, result.rows_deleted) == (4, 2)
    assert result.unchanged == (keys[1],)
    assert result.rows_hidden == {keys[0]: 1, keys[2]: 1}
    found = metadata_of(group, result)
    assert (found.replaces, found.o, found.rows) == ((keys[0], keys[2]), (0, 21), 2)


def test_nothing_touched_is_no_part_and_no_error(group: Group) -> None:
    keys = group.put(rows((1, "a")), rows((2, "b")))
    result = group.run(
        task_of(group, keys, keys=key_file(group, pa.table({"k": [9]})), only_touched=True)
    )
    assert (result.error, result.parts, result.unchanged) == (None, (), tuple(keys))
    assert (result.rows_in, result.rows_hidden, result.requests["put"]) == (0, {}, 0)


def test_touched_inputs_of_which_nothing_is_left_make_no_part(group: Group) -> None:
    keys = group.put(rows((1, "a")), rows((2, "b")))
    result = group.run(task_of(group, keys, hidden={keys[0]: "k = 1"}, only_touched=True))
    assert (result.error, result.parts, result.rows_in) == (None, (), 1)
    assert (result.unchanged, result.rows_hidden) == ((keys[1],), {keys[0]: 1})


def test_rows_for_which_the_filter_is_not_true_are_removed_and_not_deleted(group: Group) -> None:
    keys = group.put(rows((1, "a"), (2, "b"), (None, "c")), rows((1, "d")))
    task = task_of(group, keys, keep="k = 1", hidden={keys[0]: "k = 2"}, only_touched=True)
    result = group.run(task)
    assert group.read(result).to_pylist() == [{"k": 1, "s": "a"}]
    assert (result.rows_in, result.rows_deleted, result.rows_removed) == (3, 1, 1)
    assert (result.unchanged, result.rows_hidden) == ((keys[1],), {keys[0]: 2})


def test_a_table_may_have_columns_named_as_those_of_a_scan(group: Group) -> None:
    table = pa.table({"filename": ["a", "b"], "path": ["c", "d"]})
    keys = group.put(table, table)
    columns = {"filename": "VARCHAR", "path": "VARCHAR"}
    task = task_of(group, keys, hidden={keys[1]: "filename = 'a'"}, only_touched=True)
    task = replace(task, columns=tuple(columns.items()))
    result = group.run(task)
    assert group.read(result).to_pylist() == [{"filename": "b", "path": "d"}]
    assert result.unchanged == (keys[0],)


def test_keys_of_another_type_or_without_a_column_are_refused(group: Group) -> None:
    parts = group.put(rows((1, "a")))
    wrong = {
        "as VARCHAR": key_file(group, pa.table({"k": ["1"]})),
        "has no column 's'": replace(key_file(group, pa.table({"k": [1]})), columns=("k", "s")),
    }
    for says, keys in wrong.items():
        group.root.joinpath(keys.key).unlink()
        key_file(group, pa.table({"k": ["1"]}) if "as" in says[:2] else pa.table({"k": [1]}))
        result = group.run(group.task(parts, COLUMNS, keys=keys))
        assert (result.error_type, result.error_key) == ("PartSchemaError", keys.key)
        assert says in str(result.error)


def test_a_key_column_that_the_table_lacks_and_a_missing_file_are_named(group: Group) -> None:
    parts = group.put(rows((1, "a")))
    absent = KeyFile(key="table/none.parquet", bytes=1, columns=("k",))
    gone = group.run(group.task(parts, COLUMNS, keys=absent))
    assert (gone.error_type, gone.error_key) == ("ObjectNotFoundError", absent.key)
    unknown = group.run(group.task(parts, COLUMNS, keys=replace(absent, columns=("x",))))
    assert (unknown.error_type, unknown.requests["get"]) == ("PartSchemaError", 0)


def test_a_broken_key_file_is_named_by_its_key(group: Group) -> None:
    parts = group.put(rows((1, "a")))
    keys = key_file(group, pa.table({"k": [1]}))
    (group.root / keys.key).write_bytes(b"no Parquet")
    result = group.run(group.task(parts, COLUMNS, keys=keys))
    assert (result.error_type, result.error_key) == ("PartUnreadableError", keys.key)


VALUES = st.tuples(st.none() | st.integers(0, 3), st.none() | st.sampled_from("abc"))


@examples(20, 600)
@given(
    parts=st.lists(st.lists(VALUES, max_size=5), min_size=1, max_size=4),
    gone=st.lists(VALUES, max_size=4),
    deleted=st.sets(st.integers(0, 3), max_size=1),
    only_touched=st.booleans(),
)
def test_keys_and_deletes_hide_what_python_filters(
    group: Group,
    parts: list[list[tuple[int | None, str | None]]],
    gone: list[tuple[int | None, str | None]],
    deleted: set[int],
    only_touched: bool,
) -> None:
    keys = group.put(*(rows(*part) for part in parts))
    # Every second part has the delete behind it already.
    hidden = {key: f"k = {value}" for key in keys[::2] for value in deleted}
    which = key_file(group, rows(*gone))
    task = task_of(group, keys, keys=which, hidden=hidden, only_touched=only_touched)
    result = group.run(task)
    assert result.error is None, result.error

    def stays(number: int, row: tuple[int | None, str | None]) -> bool:
        return not ((None not in row and row in gone) or (number % 2 == 0 and row[0] in deleted))

    kept = [[row for row in part if stays(n, row)] for n, part in enumerate(parts)]
    lost = {key: len(p) - len(k) for key, p, k in zip(keys, parts, kept, strict=True)}
    touched = [not only_touched or lost[key] > 0 for key in keys]
    wanted = [row for rest, here in zip(kept, touched, strict=True) if here for row in rest]
    found = group.read(result).to_pylist() if result.parts else []
    assert sorted(map(str, found)) == sorted(str({"k": k, "s": s}) for k, s in wanted)
    assert result.rows_deleted == sum(lost.values())
    if only_touched:
        assert result.rows_hidden == {key: count for key, count in lost.items() if count}
        assert set(result.unchanged) == {key for key, count in lost.items() if not count}
    assert PREFIX in task.data_prefix
