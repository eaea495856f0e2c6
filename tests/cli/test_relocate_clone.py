"""``firnline relocate`` and ``firnline clone`` as a user calls them, on folders."""

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
    return tmp_path / "lake" / "events"


@pytest.fixture
def rows_file(tmp_path: Path) -> Path:
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"id": list(range(1_000))}), path)
    return path


@pytest.fixture
def root(folder: Path, rows_file: Path, firnline: Firnline) -> str:
    """Four appends of 1,000 rows, merged; one more, and a delete that is pending."""
    url = f"file://{folder}"
    for number in range(5):
        assert firnline("append", url, rows_file, "--partition", "p=1").code == 0
        if number == 3:
            assert firnline("merge", url).code == 0
    done = firnline("delete", url, "--where", "id < 100", "--lazy", "--yes")
    assert done.code == 0, done.err
    return url


def count(firnline: Firnline, root: str) -> int:
    shown = firnline("read", root, "--output", "-")
    assert shown.code == 0, shown.err
    return len(shown.out.splitlines()) - 1


@pytest.mark.parametrize("how", ["mv", "cp"])
def test_a_table_that_was_moved_or_copied_is_relocated_and_goes_on(
    firnline: Firnline, root: str, folder: Path, rows_file: Path, how: str
) -> None:
    place = folder.parent / "deeper"
    if how == "mv":
        folder.rename(place)
    else:
        shutil.copytree(folder, place)
    url = f"file://{place}"
    refused = firnline("parts", url)
    assert refused.code == 1
    assert f"`firnline relocate {url}` writes its log for this place" in refused.sentence
    before = content_of(place)
    plan = firnline("relocate", url, "--dry-run", "--json").data["plan"]
    assert (plan["from"], plan["to"], plan["parts"]) == ("events", "deeper", 2)
    assert content_of(place) == before
    shown = firnline("relocate", url)
    assert (shown.code, shown.err) == (0, "")
    assert "7 log files, 2 transactions" in shown.out
    assert count(firnline, url) == 4_500
    assert firnline("append", url, rows_file, "--partition", "p=1").code == 0
    assert firnline("merge", url).code == 0
    assert count(firnline, url) == 5_500
    assert firnline("verify", url, "--deep").code == 0
    again = firnline("relocate", url)
    assert (again.code, "there is nothing to do" in again.out) == (0, True)
    assert firnline("relocate", url, "--json").data["nothing_to_do"] is True
    assert "there is nothing to rebuild" in firnline("rebuild", url, "--yes").out


@pytest.mark.parametrize("options", [(), ("--history",)])
def test_a_table_is_cloned_in_its_folder(
    firnline: Firnline, root: str, folder: Path, rows_file: Path, options: tuple[str, ...]
) -> None:
    before, url = content_of(folder), f"file://{folder.parent}/copy"
    planned = firnline("clone", root, url, *options, "--dry-run", "--json").data
    assert (planned["plan"]["rows"], planned["copied"]) == (5_000, 0)
    assert not (folder.parent / "copy").exists()
    shown = firnline("clone", root, url, *options)
    assert (shown.code, shown.err) == (0, "")
    assert ["transaction", "2"] in [line.split() for line in shown.out.splitlines()]
    assert count(firnline, url) == 4_500
    again = firnline("clone", root, url, *options)
    assert again.code == 2
    assert "there is something at" in again.sentence
    assert firnline("append", url, rows_file, "--partition", "p=1").code == 0
    assert firnline("merge", url).code == 0
    assert count(firnline, url) == 5_500
    assert firnline("verify", url, "--deep").code == 0
    assert content_of(folder) == before
    ops = [entry["op"] for entry in firnline("history", url, "--json").data["transactions"]]
    kept = ["merge", "delete"] if options else ["clone"]
    assert ops == [*kept, "merge"]


def test_a_clone_elsewhere_is_told_the_way(firnline: Firnline, root: str, tmp_path: Path) -> None:
    refused = firnline("clone", root, f"file://{tmp_path}/elsewhere/events")
    assert refused.code == 2
    assert f"`firnline relocate file://{tmp_path}/elsewhere/events`" in refused.sentence
