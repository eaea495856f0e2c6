"""What the command line says of a place where no table is, and of a table whose log is lost."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.cli import LogOnlyTable, Outcome, content_of

Firnline = Callable[..., Outcome]

COMMANDS: list[list[str]] = [
    ["snapshot"],
    ["parts"],
    ["history"],
    ["diff", "1"],
    ["timeline", "--column", "ts"],
    ["read"],
    ["plan", "merge"],
    ["verify"],
    ["merge"],
    ["ttl"],
    ["drop", "d=1", "--yes"],
    ["delete", "--where", "v = 1", "--yes"],
    ["rewrite", "--where", "v = 1", "--yes"],
    ["restore", "--to", "1", "--yes"],
    ["cleanup"],
    ["sweep"],
    ["schema", "show"],
    ["rebuild", "--yes"],
    ["downgrade", "--yes"],
    ["drop-table", "--yes"],
]


def called(firnline: Firnline, command: list[str], root: str) -> Outcome:
    words = 2 if command[0] in {"plan", "schema"} else 1
    return firnline(*command[:words], root, *command[words:])


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_root_where_no_table_is_is_wrong_usage(
    firnline: Firnline, tmp_path: Path, command: list[str]
) -> None:
    done = called(firnline, command, f"file://{tmp_path}/nowhere")
    assert done.code == 2, done.out
    assert "nowhere" in done.sentence
    assert not (tmp_path / "nowhere").exists()


# A birth record alone is what the end of a table leaves when it dies.
NOT_REFUSED = {"rebuild", "history", "ttl", "drop-table"}


@pytest.mark.parametrize("command", [c for c in COMMANDS if c[0] not in NOT_REFUSED], ids=" ".join)
def test_a_table_whose_log_is_deleted_is_refused_with_the_way_out(
    firnline: Firnline, table: LogOnlyTable, command: list[str]
) -> None:
    shutil.rmtree(table.folder / "_log")
    born = table.folder / "_txn" / f"{0:020}.jsonl"
    born.parent.mkdir(exist_ok=True)
    born.write_bytes(b"the birth record")
    before = content_of(table.folder)
    done = called(firnline, command, table.root)
    assert done.code == 1, done.out
    assert "firnline rebuild" in done.err + done.out
    assert content_of(table.folder) == before
