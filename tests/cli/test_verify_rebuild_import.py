"""``firnline verify``, ``rebuild``, ``downgrade`` and ``import`` as a user calls them."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.cli import Outcome, content_of

Firnline = Callable[..., Outcome]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A table of four parts in one partition."""
    return tmp_path / "events"


@pytest.fixture
def root(folder: Path, tmp_path: Path, firnline: Firnline) -> str:
    rows = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"id": [3, 1, 2]}), rows)
    url = f"file://{folder}"
    for _ in range(4):
        assert firnline("append", url, rows, "--partition", "d=1").code == 0
    return url


def test_a_healthy_table_is_told_so_and_is_not_changed(
    firnline: Firnline, root: str, folder: Path
) -> None:
    before = content_of(folder)
    shown = firnline("verify", root, "--deep")
    assert (shown.code, shown.err) == (0, "")
    assert ["found", "nothing"] in [line.split() for line in shown.out.splitlines()]
    data = firnline("verify", root, "--json").data
    assert (data["healthy"], data["findings"], data["checked"]["live_parts"]) == (True, [], 4)
    assert content_of(folder) == before


def test_rows_without_a_sample_are_those_of_every_part(firnline: Firnline, root: str) -> None:
    shown = firnline("verify", root, "--rows")
    assert (shown.code, shown.err) == (0, "")
    assert "4 with 12 rows read" in shown.out
    checked = firnline("verify", root, "--rows", "--sample", "1", "--json").data["checked"]
    assert (checked["read_parts"], checked["read_rows"]) == (4, 12)


def test_a_finding_is_shown_and_ends_with_1(firnline: Firnline, root: str, folder: Path) -> None:
    part = min((folder / "_data").rglob("*.parquet"))
    part.unlink()
    shown = firnline("verify", root)
    assert shown.code == 1
    assert part.name in shown.out
    assert shown.sentence == "events is not in order; see the findings above"
    as_json = firnline("verify", root, "--json")
    assert (as_json.code, as_json.data["kinds"]) == (1, {"part-missing": 1})
    assert as_json.error["type"] == "UnhealthyTableError"
    assert part.name in as_json.error["message"]


def test_spark_is_for_footers_only(firnline: Firnline, root: str) -> None:
    shown = firnline("verify", root, "--engine", "spark")
    assert (shown.code, "add --deep" in shown.sentence) == (2, True)


def test_a_lost_log_is_planned_and_rebuilt_after_a_yes(
    firnline: Firnline, root: str, folder: Path
) -> None:
    refused = firnline("rebuild", root, "--yes")
    assert (refused.code, "is whole: it is readable" in refused.out) == (0, True)
    shutil.rmtree(folder / "_log")
    before = content_of(folder)
    plan = firnline("rebuild", root, "--dry-run")
    assert ["rows", "12"] in [line.split() for line in plan.out.splitlines()]
    assert len(firnline("rebuild", root, "--dry-run", "--json").data["found"]) == 4
    asked = firnline("rebuild", root)
    assert (asked.code, "nobody can be asked" in asked.sentence) == (2, True)
    assert content_of(folder) == before
    done = firnline("rebuild", root, "--yes", "--json")
    assert (done.code, done.data["transactions"]) == (0, [1])
    assert firnline("parts", root, "--json").data["total"]["rows"] == 12
    assert firnline("verify", root, "--deep").code == 0
    assert firnline("rebuild", root, "--force", "--yes").code == 0


def test_undecided_objects_are_asked_about_by_option(
    firnline: Firnline, root: str, folder: Path
) -> None:
    assert firnline("merge", root).code == 0
    shutil.rmtree(folder / "_log")
    shutil.rmtree(folder / "_txn")
    shown = firnline("rebuild", root, "--yes")
    assert (shown.code, "--revive" in shown.sentence) == (1, True)
    assert "which --revive brings back" in " ".join(
        firnline("rebuild", root, "--dry-run").out.split()
    )
    shown = firnline("rebuild", root, "--revive", "--yes")
    assert (shown.code, "--include GLOB" in shown.sentence) == (1, True)
    assert firnline("rebuild", root, "--revive", "--include", "*", "--yes").code == 0
    total = firnline("parts", root, "--json").data["total"]
    assert (total["parts"], total["rows"]) == (1, 12)


def test_a_downgrade_says_when_to_come_again(firnline: Firnline, root: str, folder: Path) -> None:
    before = content_of(folder)
    plan = firnline("downgrade", root, "--dry-run", "--json").data
    assert (plan["logs"], plan["is_v1"]) == (4, False)
    assert firnline("downgrade", root).code == 2
    assert content_of(folder) == before
    shown = firnline("downgrade", root, "--yes")
    assert shown.code == 0, shown.err
    assert "events is a table of log version 1. Run this again after" in shown.out
    assert "can be deleted from" in firnline("downgrade", root, "--dry-run").out
    assert firnline("parts", root, "--json").data["total"]["rows"] is None
    assert firnline("verify", root, "--deep").code == 0


def test_a_folder_is_imported_once(firnline: Firnline, tmp_path: Path) -> None:
    for number in range(3):
        path = tmp_path / "old" / f"d{number % 2}" / f"{number}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"id": [number]}), path)
    root, source = f"file://{tmp_path}/events", f"file://{tmp_path}/old"
    before = content_of(tmp_path)
    plan = firnline("import", root, source, "--dry-run")
    assert plan.out.splitlines()[-1].startswith("3 files to import, 3 of them copied by the store")
    assert firnline("import", root, source, "--dry-run", "--json").data["rows"] == 3
    assert content_of(tmp_path) == before
    shown = firnline("import", root, source)
    assert (shown.code, shown.out.splitlines()[0]) == (0, "imported    3 files, 3 of them copied")
    assert firnline("parts", root, "--json").data["total"]["rows"] == 3
    again = firnline("import", root, source)
    assert (again.code, "imported into this table before" in again.sentence) == (2, True)
    assert firnline("import", root, source, "--again", "--json").data["plan"]["files"] == 3
    placed = firnline("import", root, f"{root}/_data")
    assert placed.out == "Nothing to import: 6 files are in it already.\n"


def test_a_file_is_no_source_and_can_be_appended(firnline: Firnline, tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": [1]}), tmp_path / "new.parquet")
    root = f"file://{tmp_path}/events"
    shown = firnline("import", root, f"file://{tmp_path}/new.parquet")
    assert shown.code == 2
    assert shown.sentence == (
        f"file://{tmp_path}/new.parquet is a file, and a folder is imported; give its folder, "
        f"file://{tmp_path}, or take this file alone by `firnline append {root} "
        f"{tmp_path}/new.parquet`"
    )


@pytest.mark.parametrize("source", ["file:///", "s3://bucket/x", "nowhere"])
def test_a_source_that_cannot_be_is_wrong_usage(
    firnline: Firnline, tmp_path: Path, source: str
) -> None:
    shown = firnline("import", f"file://{tmp_path}/events", source)
    assert shown.code == 2
    assert shown.sentence


def test_a_witness_finds_a_history_that_was_cut_off(
    firnline: Firnline, root: str, folder: Path, tmp_path: Path
) -> None:
    none = firnline("witness", root)
    assert (none.code, "has no transaction yet" in none.sentence) == (2, True)
    assert firnline("merge", root).code == 0
    before = content_of(folder)
    line = firnline("witness", root)
    assert line.code == 0
    assert len(line.out.splitlines()) == 1  # to be copied
    notes = tmp_path / "notes.txt"
    notes.write_text(f"Monday\n{line.out}")
    assert firnline("verify", root, "--witness", notes).code == 0
    assert firnline("verify", root, "--witness", line.out.strip()).code == 0
    assert content_of(folder) == before
    (folder / "_txn" / "00000000000000000001.jsonl").unlink()
    (log,) = (folder / "_log").glob("*_m_*")
    log.unlink()
    assert firnline("verify", root).code == 0  # of which nothing is to be seen
    shown = firnline("verify", root, "--witness", notes)
    assert (shown.code, "a witness has seen it" in " ".join(shown.out.split())) == (1, True)


def test_a_witness_that_cannot_be_read_is_refused_in_one_sentence(
    firnline: Firnline, root: str, tmp_path: Path
) -> None:
    gone = firnline("verify", root, "--witness", tmp_path / "none.txt")
    assert (gone.code, "cannot be read" in gone.sentence) == (2, True)
    empty = tmp_path / "empty.txt"
    empty.write_text("nothing\n")
    other = firnline("verify", root, "--witness", empty)
    assert (other.code, "is no witness" in other.sentence) == (2, True)
