"""``firnline append``, ``plan merge``, ``merge`` and ``history`` on a table of real parts."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from firnline.cli.options import identity
from firnline.errors import FirnlineError
from firnline.operations.local import parallel_kernels
from firnline.operations.registry import MERGE
from firnline.settings.load import settings_for_root
from firnline.table import open_table
from tests.support.cli import Outcome, settings_file
from tests.support.interrupted import interrupt
from tools.bootstrap import REPO

Firnline = Callable[..., Outcome]
PARTS = 4


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"id": [3, 1, 2]}), path)
    return path


@pytest.fixture
def root(tmp_path: Path, rows: Path, firnline: Firnline) -> str:
    """Four parts in d=1, one in d=2."""
    url = f"file://{tmp_path}/events"
    for partition in (*["d=1"] * PARTS, "d=2"):
        assert firnline("append", url, rows, "--partition", partition).code == 0
    return url


def test_an_append_says_what_it_added(firnline: Firnline, tmp_path: Path, rows: Path) -> None:
    url = f"file://{tmp_path}/t"
    copy = shutil.copy(rows, tmp_path / "copy.parquet")
    assert firnline("append", url, rows, copy).out.startswith(
        "Appended 6 rows of 2 files to t: 1 part in 1 partition, "
    )
    data = firnline("append", url, rows, "--json").data
    assert (data["files"], data["rows"], len(data["parts"])) == (1, 3, 1)
    assert data["log_file"].startswith("t/_log/")
    assert firnline("parts", url, "--json").data["total"]["rows"] == 9


def test_files_without_rows_append_nothing(firnline: Firnline, tmp_path: Path) -> None:
    path = tmp_path / "none.parquet"
    pq.write_table(pa.table({"id": pa.array([], pa.int64())}), path)
    shown = firnline("append", f"file://{tmp_path}/t", path)
    assert (shown.code, shown.out) == (0, "Nothing to append to t: 1 file without a row.\n")
    assert not (tmp_path / "t").exists()


def test_a_plan_says_what_a_merge_would_do_and_changes_nothing(
    firnline: Firnline, root: str, tmp_path: Path
) -> None:
    before = sorted(tmp_path.rglob("*"))
    data = firnline("plan", "merge", root, "--json").data
    assert (data["parts_in"], data["parts_out"]) == (PARTS, 1)
    (group,) = data["groups"]
    expected = {"partition": "d=1", "parts": PARTS, "outputs": 1, "bytes": data["bytes_in"]}
    assert group == {**expected, "tasks": 1}
    assert sum(data["left_alone"].values()) == 1
    assert firnline("merge", root, "--dry-run", "--json").data == data
    lines = [line.split() for line in firnline("plan", "merge", root).out.splitlines()]
    assert lines[2][:3] == ["d=1", "4", "1"]
    assert lines[-1][:6] == ["4", "parts", "would", "become", "1:", "about"]
    assert sorted(tmp_path.rglob("*")) == before


def test_partitions_and_bytes_bound_a_plan(firnline: Firnline, root: str) -> None:
    nothing = firnline("plan", "merge", root, "--partitions", "d=2", "--json").data
    assert nothing["groups"] == []
    bounded = firnline("plan", "merge", root, "--max-bytes", "10B", "--json").data
    assert (bounded["groups"], bounded["left_alone"]) == (
        [],
        {
            "does not fit into max_bytes of this run": PARTS,
            "waits until 4 parts of about its size are there, or no append for 2d": 1,
        },
    )
    shown = firnline("plan", "merge", root, "--max-bytes", "10 apples")
    assert shown.code == 2
    assert "'10 apples'" in shown.sentence


def test_a_full_plan_does_not_wait_for_more_parts(firnline: Firnline, root: str) -> None:
    full = firnline("plan", "merge", root, "--full", "--json").data
    assert [group["parts"] for group in full["groups"]] == [PARTS]
    assert full["left_alone"] == {"is one of the fewest parts that its partition can have": 1}


def test_a_merge_reports_and_a_second_finds_nothing_to_do(firnline: Firnline, root: str) -> None:
    shown = firnline("merge", root)
    assert shown.code == 0
    table = dict(line.split(maxsplit=1) for line in shown.out.splitlines())
    assert (table["merged"], table["rows"]) == ("4 parts → 1", "12")
    assert (table["groups"], table["transactions"]) == ("1 of 1 committed", "1")
    assert shown.err.splitlines()[-1] == ("merging events: 4 of 4 parts, 1 of 1 group committed")
    again = firnline("merge", root)
    assert (again.code, again.err) == (0, "")
    assert again.out == f"Nothing to merge in events: `firnline plan merge {root}` says why.\n"


def test_a_merge_as_json_prints_no_progress(firnline: Firnline, root: str) -> None:
    shown = firnline("merge", root, "--json")
    assert shown.err == ""
    assert (shown.data["groups_done"], shown.data["counts"]["parts_in"]) == (1, PARTS)
    assert shown.data["failures"] == []


def test_the_history_names_who_merged_what(firnline: Firnline, root: str) -> None:
    assert firnline("history", root).out == "events has no maintenance transaction yet.\n"
    assert firnline("merge", root).code == 0
    (txn,) = firnline("history", root, "--json").data["transactions"]
    assert (txn["seq"], txn["op"], txn["partitions"]) == (1, "merge", ["d=1"])
    assert (txn["parts_in"], txn["parts_out"], txn["rows_in"]) == (PARTS, 1, 12)
    assert txn["run"]["run_id"].startswith("cli-")
    line = firnline("history", root).out.splitlines()[2]
    assert " merge " in line
    assert "4 → 1" in line
    assert txn["by"] in line


def test_the_history_ends_with_the_newest(
    firnline: Firnline, root: str, rows: Path, tmp_path: Path
) -> None:
    path = settings_file(tmp_path, f"tables: {{e: {{root: '{root}', merge: {{min_inputs: 2}}}}}}")
    for _ in range(3):
        assert firnline("append", "e", rows, "--settings", path, "--partition", "d=1").code == 0
        assert firnline("merge", "e", "--settings", path).code == 0
    seqs = [txn["seq"] for txn in firnline("history", root, "--json").data["transactions"]]
    assert seqs == [1, 2, 3]
    newest = firnline("history", root, "--last", "2", "--json").data["transactions"]
    assert [txn["seq"] for txn in newest] == [2, 3]


def test_ctrl_c_in_a_merge_says_what_is_safe(
    firnline: Firnline, root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupt(MERGE, monkeypatch)
    shown = firnline("merge", root)
    assert shown.code == 130
    assert shown.sentence == (
        "stopped; what is committed stays, everything else in events is as it was; "
        "run the same command again to go on"
    )


def test_ctrl_c_in_an_append_does_not_invite_to_append_twice(
    firnline: Firnline, root: str, rows: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("firnline.appends.append.Appender.append_files", stopped)
    shown = firnline("append", root, rows)
    assert shown.code == 130
    assert f"look with `firnline parts {root}` before you append them again" in shown.sentence


@pytest.mark.parametrize(
    ("cores", "threads", "memory_gib", "expected"),
    [(8, 1, 64, 8), (8, 4, 64, 2), (8, 1, 8, 2), (1, 4, 64, 1), (8, 1, 1, 1)],
)
def test_kernels_at_a_time_fit_cores_and_memory(
    cores: int, threads: int, memory_gib: int, expected: int
) -> None:
    settings = settings_for_root("memory://t").model_copy(
        update={
            "merge": settings_for_root("memory://t").merge.model_copy(
                update={"kernel_threads": threads}
            )
        }
    )
    assert parallel_kernels(open_table(settings), cores, memory_gib * 2**30) == expected


def test_a_user_without_a_name_is_a_number(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def nameless() -> str:
        raise KeyError("uid not found")

    monkeypatch.setattr("getpass.getuser", nameless)
    table = open_table(settings_for_root("memory://t"))
    assert identity(table).user.isdigit()


def test_rows_that_went_are_accounted_for(firnline: Firnline, tmp_path: Path, rows: Path) -> None:
    path = settings_file(
        tmp_path, f"tables: {{e: {{root: 'file://{tmp_path}/e', primary_key: [id]}}}}"
    )
    for _ in range(PARTS):
        assert firnline("append", "e", rows, "--settings", path).code == 0
    shown = firnline("merge", "e", "--settings", path)
    assert "12 → 3: 0 deleted, 9 replaced by newer ones of their key" in shown.out


def test_every_error_of_the_tree_has_an_exit_code_that_is_documented() -> None:
    def tree(kind: type[FirnlineError]) -> set[int]:
        return {kind.exit_code}.union(*(tree(below) for below in kind.__subclasses__()))

    page = (REPO / "docs" / "cli.md").read_text(encoding="utf-8")
    assert [code for code in tree(FirnlineError) if f"\n| {code} | " not in page] == []


def test_a_scratch_folder_that_cannot_be_used_is_refused_before_anything_is_read(
    firnline: Firnline, root: str, tmp_path: Path
) -> None:
    nowhere = tmp_path / "no" / "folder"
    done = firnline("merge", root, "--scratch", nowhere)
    assert (done.code, f"--scratch {nowhere} cannot be used" in done.sentence) == (2, True)
    assert not nowhere.exists()
    (tmp_path / "file").touch()
    assert firnline("merge", root, "--scratch", tmp_path / "file").code == 2


def test_commands_in_messages_name_the_table_as_the_command_line_did(
    firnline: Firnline, root: str, tmp_path: Path
) -> None:
    assert firnline("merge", root).code == 0
    assert f"`firnline plan merge {root}` says why" in firnline("merge", root).out
    file = settings_file(tmp_path, f"tables: {{events: {{root: '{root}'}}}}")
    named = firnline("merge", "events", "--settings", file)
    assert f"`firnline plan merge events --settings {file}` says why" in named.out


def test_a_plan_names_its_operation(firnline: Firnline) -> None:
    done = firnline("plan", "s3://lake/my t")
    assert (done.code, "run `firnline plan merge 's3://lake/my t'`" in done.sentence) == (2, True)


@pytest.mark.parametrize("command", ["merge", "downgrade", "append"])
def test_an_empty_scratch_is_not_the_current_folder(
    firnline: Firnline, tmp_path: Path, command: str
) -> None:
    more = [tmp_path / "x.parquet"] if command == "append" else []
    done = firnline(command, f"file://{tmp_path}/t", *more, "--scratch", "")
    assert (done.code, "--scratch is empty" in done.sentence) == (2, True)


def test_the_history_of_a_table_without_partitions_names_none(
    firnline: Firnline, tmp_path: Path
) -> None:
    rows = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"id": [1, 2]}), rows)
    root = f"file://{tmp_path}/plain"
    for _ in range(4):
        assert firnline("append", root, rows).code == 0
    assert firnline("merge", root).code == 0
    shown = firnline("history", root).out
    assert "merge" in shown
    assert "merge -" not in shown
