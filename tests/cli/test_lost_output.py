"""Output that cannot be written, and streams that the shell has closed."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import firnline
from tests.support.cli import PROGRAM, Outcome
from tests.support.programs import HUNG_SECONDS

FULL = ">/dev/full"


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    """A file of three rows."""
    path = tmp_path / "new.parquet"
    pq.write_table(pa.table({"id": [1, 2, 3], "amount": [100, 200, 300]}), path)
    return path


@pytest.fixture
def root(tmp_path: Path, rows: Path) -> str:
    """A table of these rows."""
    found = f"file://{tmp_path}/ev"
    firnline.append(found, pq.read_table(rows))
    return found


def shell(*words: str | Path, to: str = "", **env: str) -> Outcome:
    """Run a command line, with redirections, in a shell; stdin is a pipe that is at its end."""
    done = subprocess.run(
        ["bash", "-c", f'"$@" {to}', "bash", PROGRAM, *map(str, words)],
        check=False,
        capture_output=True,
        text=True,
        input="",
        timeout=HUNG_SECONDS,
        env={**os.environ, **env},
    )
    return Outcome(done.returncode, done.stdout, done.stderr)


def read(root: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = firnline.scan(root).to_arrow().to_pylist()
    return found


STANDS = "and only the output is incomplete: no space is left on its disk"


def see(root: str) -> str:
    return (
        f"do not run the command again, but see with `firnline history {root}` and "
        f"`firnline snapshot {root}` what was done"
    )


def test_after_an_append_nobody_is_told_to_append_again(root: str, rows: Path) -> None:
    shown = shell("append", root, rows, to=FULL)
    assert shown.code == 1
    assert shown.sentence == f"the changes to ev are made, {STANDS}; {see(root)}"
    assert len(read(root)) == 6
    shown = shell("append", root, rows, "--json", to=FULL)
    assert shown.error == {
        "type": "OutputLostError",
        "message": f"the changes to ev are made, {STANDS}",
        "next_step": see(root),
        "exit_code": 1,
        "retryable": False,
    }


@pytest.mark.parametrize(
    "words",
    [
        ("rewrite", "--sql", "select * replace (-amount as amount) from _rows", "--yes"),
        ("delete", "--where", "id = 1", "--yes"),
        ("merge", "--progress", "none"),
        ("evolve", "--rename", "amount=cents", "--yes"),
        ("drop", "-", "--yes"),
    ],
)
def test_after_any_change_nobody_is_told_to_make_it_again(
    root: str, rows: Path, words: tuple[str, ...]
) -> None:
    for _ in range(5):
        firnline.append(root, pq.read_table(rows))
    shown = shell(words[0], root, *words[1:], to=FULL)
    assert shown.code == 1
    assert shown.sentence == f"the changes to ev are made, {STANDS}; {see(root)}"


@pytest.mark.parametrize("json_", [(), ("--json",)])
def test_what_only_the_output_has_is_told_with_its_failure(
    root: str, tmp_path: Path, json_: tuple[str, ...]
) -> None:
    shown = shell("erase", root, "--column", "id", "--key", "1", "--yes", *json_, to=FULL)
    assert shown.code == 1
    assert "do not run the command again" in shown.err
    (note,) = shown.error["notes"] if json_ else [shown.err.splitlines()[1].strip()]
    said, _, secret = note.rpartition(": ")
    assert said.endswith("which is stored nowhere")
    id_ = said.split()[3].rstrip(",")
    keys = tmp_path / "keys.csv"
    keys.write_text("id\n1\n")
    proven = shell("certificate", root, id_, "--keys", keys, "--secret", secret)
    assert proven.code == 0, proven.err


def test_a_secret_that_was_printed_is_not_repeated(root: str) -> None:
    shown = shell("erase", root, "--column", "id", "--key", "1", "--yes")
    assert "secret" in shown.out
    assert "stored nowhere" not in shown.err


def test_where_nothing_was_done_it_is_to_be_run_again(root: str, rows: Path) -> None:
    for words in (("read", root), ("plan", "merge", root), ("delete", root, "--where", "id = 1")):
        more = ("--dry-run",) if words[0] == "delete" else ()
        shown = shell(*words, *more, to=FULL)
        assert shown.code == 1
        assert shown.sentence == (
            "the output cannot be written: no space is left on its disk; write it elsewhere, or "
            "free some space and run the command again"
        )
    empty = rows.with_name("empty.parquet")
    pq.write_table(pq.read_table(rows).slice(0, 0), empty)
    assert "run the command again" in shell("append", root, empty, to=FULL).sentence


def test_a_file_that_was_written_is_named(root: str, tmp_path: Path) -> None:
    path = tmp_path / "y.csv"
    shown = shell("read", root, "--output", path, to=FULL)
    assert shown.code == 1
    assert shown.sentence == (
        f"{path} is written, {STANDS}; do not run the command again, but see what was done"
    )


def test_output_that_is_not_flushed_by_the_command_sets_the_exit_code() -> None:
    shown = shell("--version", to=FULL)
    assert (shown.code, len(shown.err.splitlines())) == (1, 1)


def test_without_a_reader_a_change_is_told_and_a_read_is_not(root: str, rows: Path) -> None:
    def piped(*words: str | Path, **env: str) -> Outcome:
        reader, writer = os.pipe()
        os.close(reader)
        done = subprocess.run(
            [PROGRAM, *map(str, words)],
            check=False,
            stdout=writer,
            stderr=subprocess.PIPE,
            text=True,
            timeout=HUNG_SECONDS,
            env={**os.environ, **env},
        )
        os.close(writer)
        return Outcome(done.returncode, "", done.stderr)

    assert piped("read", root) == Outcome(141, "", "")
    assert piped("snapshot", root, "--json", PYTHONUNBUFFERED="1") == Outcome(141, "", "")
    shown = piped("append", root, rows)
    assert shown.code == 141
    assert shown.sentence == (
        f"the changes to ev are made, and only the output is incomplete: broken pipe; {see(root)}"
    )
    assert piped("append", root, rows, "--json").error["exit_code"] == 141


@pytest.mark.parametrize("encoding", ["ascii", "ascii:strict"])
def test_a_terminal_without_the_letters_does_not_end_a_command(
    tmp_path: Path, root: str, encoding: str
) -> None:
    path = tmp_path / "f.parquet"
    pq.write_table(pa.table({"id": [4], "größe": ["→"]}), path)
    env = {"PYTHONIOENCODING": encoding, "LC_ALL": "C", "LANG": "C"}
    shown = shell("append", root, path, **env)
    assert (shown.code, shown.err) == (0, "")
    assert "gr??e" in shown.out
    assert shell("history", root, **env).code == 0


@pytest.mark.parametrize("json_", [(), ("--json",)])
def test_nothing_is_done_with_a_closed_stdout(
    root: str, rows: Path, json_: tuple[str, ...]
) -> None:
    for words in (("append", root, rows), ("read", root)):
        shown = shell(*words, *json_, to=">&-")
        assert shown.code == 2
        said = shown.error["message"] if json_ else shown.sentence.partition(";")[0]
        assert said == "standard output is closed, and nothing was done"
    assert len(read(root)) == 3


def test_a_closed_stdin_is_no_terminal(root: str) -> None:
    for words in (("delete", root, "--where", "id = 1"), ("evolve", root, "--drop", "amount")):
        shown = shell(*words, to="<&-")
        assert shown.code == 2
        assert "nobody can be asked" in shown.err
    assert "nobody can be asked" in shell("init", to="<&-").err


@pytest.mark.parametrize("to", ["2>&-", "2>/dev/full", "<&- 2>&-"])
def test_stderr_is_not_needed(root: str, rows: Path, to: str) -> None:
    assert shell("read", root, "--output", "-", to=to).out.startswith("id,amount\n")
    assert shell("append", root, rows, "--progress", "json", to=to).code == 0
    assert shell("nope", to=to).code == 2
    assert len(read(root)) == 6


def test_without_any_stream_nothing_is_done(root: str, rows: Path) -> None:
    assert shell("append", root, rows, to="<&- >&- 2>&-").code == 2
    assert len(read(root)) == 3


def test_the_failure_of_a_run_is_told_without_its_report(root: str, tmp_path: Path) -> None:
    for part in (tmp_path / "ev").rglob("*.parquet"):
        part.write_bytes(b"PAR1")
    shown = shell("rewrite", root, "--sql", "select * from _rows", "--yes", "--json", to=FULL)
    assert shown.code == 1
    assert json.loads(shown.err)["error"]["type"] != "OutputLostError"
