from __future__ import annotations

import datetime
import decimal
import os
import subprocess
import sys
import uuid
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.kernel.conftest import PREFIX, Group

UTC = datetime.UTC


def every_type() -> pa.Table:
    """Two rows of every type that Parquet keeps, the second all null."""
    zoned = datetime.datetime(2013, 1, 1, 12, 30, 0, 123456, tzinfo=UTC)
    ns = 1_357_043_400_123_456_789
    columns: dict[str, tuple[pa.DataType, Any]] = {
        "flag": (pa.bool_(), True),
        "i8": (pa.int8(), -1),
        "u16": (pa.uint16(), 65535),
        "i32": (pa.int32(), -5),
        "u64": (pa.uint64(), 2**64 - 1),
        "f32": (pa.float32(), 1.5),
        "f64": (pa.float64(), float("inf")),
        "money": (pa.decimal128(38, 2), decimal.Decimal("-12345678901234567890.12")),
        "small": (pa.decimal128(5, 3), decimal.Decimal("12.345")),
        "text": (pa.string(), "naïve 'quoted' \x00 text"),
        "blob": (pa.binary(), b"\x00\xff"),
        "id": (pa.uuid(), uuid.UUID(int=2**127 + 5).bytes),
        "day": (pa.date32(), datetime.date(1, 1, 1)),
        "clock": (pa.time64("us"), datetime.time(23, 59, 59, 999999)),
        "local": (pa.timestamp("us"), zoned.replace(tzinfo=None)),
        "zoned": (pa.timestamp("us", "UTC"), zoned),
        "fine": (pa.timestamp("ns"), ns),
        "fine_zoned": (pa.timestamp("ns", "UTC"), ns),
        "list": (pa.list_(pa.struct([("a", pa.int32()), ("b", pa.string())])), [{"a": 1}, None]),
        "struct": (pa.struct([("x y", pa.list_(pa.int64())), ("d", pa.date32())]), {"d": None}),
        "map": (pa.map_(pa.string(), pa.list_(pa.float64())), [("k", [1.0, None]), ("l", None)]),
    }
    return pa.table(
        {name: pa.array([value, None], kind) for name, (kind, value) in columns.items()}
    )


def test_every_type_survives_with_its_values_and_nulls(group: Group) -> None:
    table = every_type()
    _, merged = group.merge(table, table, sort=["i32"])
    assert merged.schema.remove_metadata() == table.schema
    assert merged.slice(0, 2).to_pylist() == [table.slice(0, 1).to_pylist()[0]] * 2
    assert merged.slice(2).to_pylist() == [table.slice(1, 1).to_pylist()[0]] * 2


def test_a_column_that_an_input_lacks_is_null_in_its_rows(group: Group) -> None:
    old = pa.table({"a": [1, 2], "gone": ["x", None]})
    new = pa.table({"b": pa.array([{"c": 1}], pa.struct([("c", pa.int32())])), "a": [0]})
    _, merged = group.merge(old, new, sort=["a"])
    assert merged.column_names == ["a", "gone", "b"]
    assert merged.to_pylist() == [
        {"a": 0, "gone": None, "b": {"c": 1}},
        {"a": 1, "gone": "x", "b": None},
        {"a": 2, "gone": None, "b": None},
    ]


def test_columns_are_matched_by_name_and_not_by_place(group: Group) -> None:
    _, merged = group.merge(pa.table({"a": [1], "b": [2]}), pa.table({"b": [20], "a": [10]}))
    assert Counter(map(str, merged.to_pylist())) == Counter(
        ["{'a': 1, 'b': 2}", "{'a': 10, 'b': 20}"]
    )


def test_a_column_in_other_letters_is_the_same_column(group: Group) -> None:
    keys = group.put(pa.table({"Event": [1]}), pa.table({"event": [2]}))
    merged = group.read(group.run(group.task(keys, {"event": "BIGINT"}, sort=["event"])))
    assert merged.to_pylist() == [{"event": 1}, {"event": 2}]


def test_hive_columns_of_the_path_never_overwrite_those_of_the_file(group: Group) -> None:
    table = pa.table({"d": ["from the file"], "run": ["also"]})
    _, merged = group.merge(table, table)
    assert merged.to_pylist() == table.to_pylist() * 2


def test_nulls_come_last_in_either_direction(group: Group) -> None:
    from firnline.kernel.model import SortKey

    keys = group.put(pa.table({"a": [None, 1, 3]}), pa.table({"a": [2, None, None]}))
    for descending, values in ((False, [1, 2, 3]), (True, [3, 2, 1])):
        task = group.task(keys, {"a": "BIGINT"}, sort_by=(SortKey("a", descending),))
        assert group.read(group.run(task))["a"].to_pylist() == [*values, None, None, None]


def test_inputs_without_rows_leave_their_types_and_no_part_comes_of_nothing(group: Group) -> None:
    empty = every_type().slice(0, 0)
    result, _ = group.merge(empty, empty)
    assert (result.parts, result.rows_in) == ((), 0)
    _, merged = group.merge(empty, pa.table({"i32": pa.array([1], pa.int32())}))
    assert merged.schema.remove_metadata() == empty.schema
    assert merged["i32"].to_pylist() == [1]


def test_a_deleted_row_is_one_for_which_the_condition_is_true(group: Group) -> None:
    table = pa.table({"a": [1, 2, None], "b": [None, 1, 1]})
    keys = group.put(table, table)
    columns = {"a": "BIGINT", "b": "BIGINT", "new": "VARCHAR"}
    hidden = {keys[0]: "(a = 1) OR (b > 5)", keys[1]: "new IS NULL AND a = 2"}
    result = group.run(group.task(keys, columns, hidden=hidden, sort=["a", "b"]))
    merged = group.read(result)
    assert (result.rows_in, result.rows_deleted) == (6, 2)
    assert merged["a"].to_pylist() == [1, 2, None, None]


def test_no_part_is_written_when_deletes_hide_every_row(group: Group) -> None:
    keys = group.put(pa.table({"a": [1]}), pa.table({"a": [2]}))
    hidden = dict.fromkeys(keys, "a > 0")
    result = group.run(group.task(keys, {"a": "BIGINT"}, hidden=hidden))
    assert (result.error, result.parts, result.rows_deleted) == (None, (), 2)
    assert result.requests["put"] == 0


def test_the_largest_version_of_a_key_wins_and_among_equals_the_last_inserted(group: Group) -> None:
    first = pa.table({"k": [1, 1, 2, 3], "v": [5, 9, 1, None], "from": ["a0", "a1", "a2", "a3"]})
    second = pa.table({"k": [1, 2, 3, None], "v": [7, 1, 0, 1], "from": ["b0", "b1", "b2", "b3"]})
    result, merged = group.merge(first, second, primary_key=("k",), version="v", sort=["k"])
    assert merged["from"].to_pylist() == ["a1", "b1", "b2", "b3"]
    assert result.rows_deduplicated == 4


def test_without_a_version_the_last_inserted_row_of_a_key_wins(group: Group) -> None:
    rows = 5000
    early = pa.table({"k": [i % 10 for i in range(rows)], "n": list(range(rows))})
    # Other columns, so that the inputs are read by two scans.
    late = pa.table({"n": [-1, -2], "k": [3, 3], "more": [True, False]})
    _, merged = group.merge(early, late, primary_key=("k",), sort=["k"])
    last = [rows - 10 + i for i in range(10)]
    last[3] = -2
    assert merged["n"].to_pylist() == last


def test_metadata_rows_and_statistics_are_in_the_part(group: Group) -> None:
    table = pa.table({"a": [3, 1, None], "s": ["x" * 100, "b", None], "f": [0.5, -2.0, None]})
    result, _ = group.merge(
        table,
        stats_columns=("a", "s", "f", "elsewhere"),
        metadata={"firnline.txn": "it's 1", "firnline.replaces": '["a","b"]'},
    )
    (part,) = result.parts
    assert part.key.startswith(PREFIX)
    assert part.stats["a"] == (1, 3, 1)
    assert part.stats["f"] == (-2.0, 0.5, 1)
    assert part.stats["s"] == ("b", "x" * 63 + "y", 1)
    footer = pq.read_metadata(group.root / part.key)
    assert footer.metadata[b"firnline.txn"] == b"it's 1"
    assert footer.metadata[b"firnline.replaces"] == b'["a","b"]'
    assert footer.metadata[b"firnline.rows"] == b"3"


def test_a_float_column_with_nan_has_no_bounds(group: Group) -> None:
    result, _ = group.merge(pa.table({"f": [1.0, float("nan")]}), stats_columns=("f",))
    assert result.parts[0].stats == {}


def test_row_groups_have_the_rows_asked_for_and_fewer_when_rows_are_wide(group: Group) -> None:
    narrow = pa.table({"a": list(range(10_000))})
    result, _ = group.merge(narrow, sort=["a"])
    footer = pq.read_metadata(group.root / result.parts[0].key)
    sizes = [footer.row_group(i).num_rows for i in range(footer.num_row_groups)]
    assert sizes == [2048] * 4 + [1808]
    assert footer.row_group(0).column(0).compression == "ZSTD"
    wide = pa.table({"a": [os.urandom(2000) for _ in range(9_000)]})
    result, _ = group.merge(wide, memory=64 * 2**20, row_group_rows=1_000_000)
    assert pq.read_metadata(group.root / result.parts[0].key).num_row_groups > 1


def test_every_input_is_fetched_with_one_get(group: Group) -> None:
    result, _ = group.merge(*[pa.table({"a": [n]}) for n in range(20)])
    assert (result.requests["get"], result.requests["put"], result.requests["head"]) == (20, 1, 0)


def test_two_attempts_at_one_task_write_two_objects(group: Group) -> None:
    keys = group.put(pa.table({"a": [1]}), pa.table({"a": [2]}))
    task = group.task(keys, {"a": "BIGINT"})
    first, second = group.run(task), group.run(task)
    assert first.parts[0].key != second.parts[0].key


# --- hostile input --------------------------------------------------------------------------------


def refused(group: Group, keys: list[str], columns: dict[str, str], **changed: Any) -> Any:
    before = {path.name for path in (group.root / PREFIX).iterdir()}
    result = group.run(group.task(keys, columns, **changed))
    assert result.error is not None
    assert result.error_next_step
    assert "Traceback" not in result.error
    assert str(group.scratch) not in result.error or result.error_type == "ScratchFullError"
    assert {path.name for path in (group.root / PREFIX).iterdir()} == before
    return result


@pytest.mark.parametrize(
    ("written", "wanted", "kind"),
    [
        (pa.int32(), "BIGINT", "INTEGER"),
        (pa.int64(), "INTEGER", "BIGINT"),
        (pa.float32(), "DOUBLE", "FLOAT"),
        (pa.decimal128(9, 2), "DECIMAL(10,2)", "DECIMAL(9,2)"),
        (pa.timestamp("us"), "TIMESTAMP WITH TIME ZONE", "TIMESTAMP"),
        (pa.string(), "BLOB", "VARCHAR"),
        (pa.list_(pa.int32()), "BIGINT[]", "INTEGER[]"),
    ],
)
def test_another_type_is_refused_with_part_column_and_both_types(
    group: Group, written: pa.DataType, wanted: str, kind: str
) -> None:
    good = pa.table({"other": [1]})
    bad = pa.table({"a": pa.array([None], written)})
    keys = group.put(good, bad)
    result = refused(group, keys, {"a": wanted, "other": "BIGINT"})
    assert (result.error_type, result.error_key) == ("PartSchemaError", keys[1])
    assert all(word in result.error for word in (keys[1], "'a'", kind, wanted))


def test_a_column_that_the_table_does_not_have_is_refused_and_not_dropped(group: Group) -> None:
    keys = group.put(pa.table({"a": [1], "secret": ["kept"]}))
    result = refused(group, keys, {"a": "BIGINT"})
    assert result.error_type == "PartSchemaError"
    assert "'secret'" in result.error


def test_columns_that_are_one_name_in_sql_are_refused(group: Group) -> None:
    keys = group.put(pa.table([pa.array([1]), pa.array([2])], names=["a", "A"]))
    result = refused(group, keys, {"a": "BIGINT", "A_1": "BIGINT"})
    assert result.error_type == "PartSchemaError"
    assert "'a' and 'A'" in result.error


@pytest.mark.parametrize("damage", ["cut", "empty", "text", "page"])
def test_a_file_that_does_not_read_is_named_by_its_key(group: Group, damage: str) -> None:
    rows = pa.table({"a": [os.urandom(8).hex() for _ in range(5000)]})
    keys = group.put(rows, rows, rows)
    path = group.root / keys[1]
    data = path.read_bytes()
    broken = {
        "cut": data[:-100],
        "empty": b"",
        "text": b"not a Parquet file at all" * 9,
        "page": data[:5000] + bytes(5000) + data[10_000:],
    }
    path.write_bytes(broken[damage])
    result = refused(group, keys, {"a": "VARCHAR"}, sort=["a"])
    assert (result.error_type, result.error_key) == ("PartUnreadableError", keys[1])
    assert keys[1] in result.error


def test_an_encrypted_file_is_unreadable(group: Group) -> None:
    (key,) = group.put(pa.table({"a": [1]}))
    path = group.root / key
    path.write_bytes(b"PARE" + path.read_bytes()[4:-4] + b"PARE")
    result = refused(group, [key], {"a": "BIGINT"})
    assert (result.error_type, result.error_key) == ("PartUnreadableError", key)


def test_a_part_without_object_is_gone(group: Group) -> None:
    keys = [*group.put(pa.table({"a": [1]})), PREFIX + "nothing.parquet"]
    result = refused(group, keys, {"a": "BIGINT"})
    assert (result.error_type, result.error_key) == ("PartGoneError", keys[1])


def test_a_type_text_of_a_log_file_is_never_run_as_sql(group: Group) -> None:
    keys = group.put(pa.table({"a": [1]}))
    evil = "INTEGER) AS a; COPY (SELECT 1) TO '/tmp/firnline-evil.csv'; SELECT CAST(1 AS INTEGER"
    result = refused(group, keys, {"a": evil})
    assert result.error_type == "PartSchemaError"
    assert not Path("/tmp/firnline-evil.csv").exists()


def test_a_condition_cannot_reach_files_outside_of_its_scratch(group: Group) -> None:
    keys = group.put(pa.table({"a": [1]}))
    hidden = {keys[0]: "a IN (SELECT length(content) FROM read_text('/etc/passwd'))"}
    result = refused(group, keys, {"a": "BIGINT"}, hidden=hidden)
    assert result.error_type == "KernelError"


def test_a_sort_column_that_the_table_lacks_is_refused_before_any_request(group: Group) -> None:
    result = refused(group, group.put(pa.table({"a": [1]})), {"a": "BIGINT"}, sort=["b"])
    assert (result.error_type, result.requests["get"]) == ("PartSchemaError", 0)


@pytest.mark.parametrize(("disk", "what"), [("1m", "staging"), ("5m", "writing")])
def test_a_full_disk_names_the_scratch_folder_and_the_setting(
    tmp_path: Path, disk: str, what: str
) -> None:
    """On a real file system of a few megabytes, in a mount namespace of its own."""
    space = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--map-root", "--mount"]
    if subprocess.run([*space, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this user may not mount a small disk")
    (tmp_path / "fill.py").write_text(_FILL)
    done = subprocess.run(
        [*space, sys.executable, "fill.py", tmp_path, disk],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
    )
    error_type, message = done.stdout.strip().split("\n")[-1].split("|")
    assert error_type == "ScratchFullError", (message, done.stderr)
    assert str(tmp_path / "scratch") in message
    assert "--scratch" in message


_FILL = """
import os, subprocess, sys
from pathlib import Path
import pyarrow as pa
from tests.unit.kernel.conftest import Group

here, size = Path(sys.argv[1]), sys.argv[2]
group = Group(here / "store", here / "scratch")
keys = group.put(*[pa.table({"a": [os.urandom(8).hex() for _ in range(40_000)]}) for _ in range(5)])
group.scratch.mkdir()
mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", group.scratch]
subprocess.run(mount, check=True)
result = group.run(group.task(keys, {"a": "VARCHAR"}, sort=["a"], memory=2**20))
print(f"{result.error_type}|{result.error}; {result.error_next_step}")
"""


def test_a_kernel_that_is_told_to_stop_ends_with_an_error(group: Group) -> None:
    from firnline.clock import SystemClock
    from firnline.ids import SystemIds
    from firnline.kernel.merge import merge_group

    keys = group.put(pa.table({"a": [1]}))
    task = group.task(keys, {"a": "BIGINT"})
    result = merge_group(task, group.store, group.scratch, SystemIds(), SystemClock(), lambda: True)
    assert result.error_type == "KernelError"
    assert "stopped" in str(result.error)


# --- properties -----------------------------------------------------------------------------------

KINDS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "whole": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "float": (pa.float64(), st.floats(allow_nan=False)),
    "text": (pa.string(), st.text(max_size=8)),
    "blob": (pa.binary(), st.binary(max_size=8)),
    "moment": (
        pa.timestamp("us", "UTC"),
        st.integers(-(2**50), 2**50),
    ),
    "list": (pa.list_(pa.int32()), st.lists(st.none() | st.integers(-9, 9), max_size=3)),
}


@st.composite
def parts(draw: st.DrawFn) -> list[pa.Table]:
    """One to four parts with some of the columns each, in any order, with nulls and no rows."""
    found = []
    for _ in range(draw(st.integers(1, 4))):
        names = draw(st.lists(st.sampled_from(sorted(KINDS)), min_size=1, unique=True))
        rows = draw(st.integers(0, 6))
        arrays = [
            pa.array(
                draw(st.lists(st.none() | KINDS[name][1], min_size=rows, max_size=rows)),
                KINDS[name][0],
            )
            for name in names
        ]
        found.append(pa.table(arrays, names=names))
    return found


def as_bag(rows: list[dict[str, Any]], names: list[str]) -> Counter[str]:
    return Counter(repr([row.get(name) for name in names]) for row in rows)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(tables=parts(), pick=st.data())
def test_a_merge_keeps_every_row_once_and_sorts(
    group: Group, tables: list[pa.Table], pick: st.DataObject
) -> None:
    names = list(dict.fromkeys(name for table in tables for name in table.column_names))
    sort = pick.draw(st.lists(st.sampled_from(names), unique=True, max_size=2))
    result, merged = group.merge(*tables, sort=sort, row_group_rows=2048)
    before = [row for table in tables for row in table.to_pylist()]
    assert as_bag(merged.to_pylist(), names) == as_bag(before, names)
    assert result.rows_in == len(before)
    if sort and result.parts:
        (key, *_) = sort
        values = merged[key].to_pylist()
        known = [value for value in values if value is not None]
        assert values == [*known, *[None] * (len(values) - len(known))]
        if key != "list":
            assert known == sorted(known)
