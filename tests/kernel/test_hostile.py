"""Parts, schemas, conditions and disks that are not as they should be."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.kernel.conftest import PREFIX, Group
from tools.bootstrap import REPO


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
        (pa.int32(), "DOUBLE", "INTEGER"),
        (pa.int64(), "INTEGER", "BIGINT"),
        (pa.float64(), "FLOAT", "DOUBLE"),
        (pa.decimal128(9, 2), "DECIMAL(9,3)", "DECIMAL(9,2)"),
        (pa.timestamp("us"), "TIMESTAMP WITH TIME ZONE", "TIMESTAMP"),
        (pa.string(), "BLOB", "VARCHAR"),
        (pa.list_(pa.int64()), "INTEGER[]", "BIGINT[]"),
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
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(REPO), str(REPO / "include")])},
    )
    error_type, message = done.stdout.strip().split("\n")[-1].split("|")
    assert error_type == "ScratchFullError", (message, done.stderr)
    assert str(tmp_path / "scratch") in message
    assert "--scratch" in message


_FILL = """
import os, subprocess, sys
from pathlib import Path
import pyarrow as pa
from tests.kernel.conftest import Group

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
