"""``firnline evolve`` on a folder: what it prints, what it asks, what it refuses."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.cli import Outcome

Firnline = Callable[..., Outcome]


@pytest.fixture
def root(firnline: Firnline, tmp_path: Path) -> str:
    url, path = f"file://{tmp_path}/t", tmp_path / "rows.parquet"
    pq.write_table(pa.table({"a": pa.array([1, 2], pa.int32()), "b": ["x", "y"]}), path)
    assert firnline("append", url, str(path)).code == 0
    return url


def columns(firnline: Firnline, root: str) -> list[tuple[str, str]]:
    shown = firnline("schema", "show", root, "--json").data["columns"]
    return [(column["column"], column["type"]) for column in shown]


def test_columns_are_widened_and_renamed_in_one_transaction(firnline: Firnline, root: str) -> None:
    asked = ("evolve", root, "--widen", "a=BIGINT", "--rename", "b=note")
    planned = firnline(*asked, "--dry-run")
    assert "a would be BIGINT; b would be note: 1 of 1 part looked at" in " ".join(
        planned.out.split()
    )
    assert columns(firnline, root) == [("a", "INTEGER"), ("b", "VARCHAR")]
    done = firnline(*asked, "--yes")
    assert done.code == 0
    assert done.out.splitlines()[0].split(None, 1) == ["changed", "a is BIGINT; b is note"]
    assert columns(firnline, root) == [("a", "BIGINT"), ("note", "VARCHAR")]
    again = firnline("evolve", root, "--widen", "a=BIGINT", "--yes")
    assert again.out.startswith(
        "Nothing to change in t: a is BIGINT, as its log files and 1 footer"
    )


def test_a_drop_needs_a_yes(firnline: Firnline, root: str) -> None:
    assert firnline("evolve", root, "--drop", "b", "--json").code == 2
    assert len(columns(firnline, root)) == 2
    assert firnline("evolve", root, "--drop", "b", "--yes", "--json").data["transaction"] == 1
    assert columns(firnline, root) == [("a", "INTEGER")]


def test_lazily_nothing_is_read_and_readers_see_it_at_once(firnline: Firnline, root: str) -> None:
    asked = ("evolve", root, "--widen", "a=BIGINT", "--rename", "b=note", "--lazy")
    planned = firnline(*asked, "--dry-run")
    assert "a would be BIGINT; b would be note, for every reader" in " ".join(planned.out.split())
    assert columns(firnline, root) == [("a", "INTEGER"), ("b", "VARCHAR")]
    assert firnline(*asked, "--json").code == 2
    done = firnline(*asked, "--yes")
    assert done.out.splitlines()[0].split(None, 1)[1] == "a is BIGINT; b is note"
    assert columns(firnline, root) == [("a", "BIGINT"), ("note", "VARCHAR")]
    assert "1 of 1 part has it otherwise" in firnline("schema", "show", root).out
    read = firnline("read", root, "--where", "note = 'y'", "--output", "-")
    assert read.out.split() == ["a,note", "2,y"]
    again = firnline("evolve", root, "--widen", "a=BIGINT", "--lazy", "--yes")
    assert "have these types already" in again.out


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (["--widen", "a"], "--widen 'a' is not COLUMN=TYPE"),
        (["--widen", "a=BIGINT", "--widen", "a=DOUBLE"], "--widen names the column 'a' twice"),
        (["--drop", "nobody"], "the table has no column 'nobody'"),
        ([], "no column is named"),
    ],
)
def test_a_mistake_is_one_sentence(
    firnline: Firnline, root: str, asked: list[str], said: str
) -> None:
    done = firnline("evolve", root, *asked, "--yes")
    assert done.code == 2
    assert said in " ".join(done.err.split())
