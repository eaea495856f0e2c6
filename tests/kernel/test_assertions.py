"""Assertions are SELECTs over the rows before and after, and hold only when they are true."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from firnline.errors import AssertionFailedError, UsageError
from firnline.kernel.query import assertions
from firnline.kernel.query.assertions import assert_rows, check_assertions

COLUMNS = (("n", "BIGINT"), ("s", "VARCHAR"))


@pytest.fixture
def in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answer here, without a process: what a text may do is the same."""

    def run(request: assertions._Request, _limit_s: float) -> None:
        found = assertions._answer(request)
        if found.number >= 0:
            kind = UsageError if found.refused else AssertionFailedError
            raise kind(f"`{request.texts[found.number]}` {found.problem}", next_step="")

    monkeypatch.setattr(assertions, "_run", run)


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    found = (tmp_path / "before.parquet", tmp_path / "after.parquet")
    pq.write_table(pa.table({"n": [1, 2], "s": ["a", "b"]}), found[0])
    pq.write_table(pa.table({"n": [1], "s": ["a"]}), found[1])
    return found


def holds(files: tuple[Path, Path], *texts: str, limit_s: float = 60) -> None:
    assert_rows(texts, COLUMNS, files, memory=128 * 2**20, threads=1, limit_s=limit_s)


def test_a_true_assertion_holds_in_its_process(files: tuple[Path, Path]) -> None:
    check_assertions(("select count(*) = 2 from before",), COLUMNS)
    holds(
        files,
        "select count(*) = 2 from before",
        "with gone as (from before except all from after) select list(n) = [2] from gone -- yes",
    )


@pytest.mark.usefixtures("in_process")
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("select count(*) = 9 from after", "is false"),
        ("select max(n) > 9 from after where n > 100", "is null"),
        ("select n > 0 from before", "more than one row"),
        ("select true) union all select (true", "more than one row"),
        ("select true from after where n > 100", "no row"),
        ("select s::integer > 0 from after", "fails"),
    ],
)
def test_what_is_not_true_does_not_hold(files: tuple[Path, Path], text: str, said: str) -> None:
    with pytest.raises(AssertionFailedError, match=said):
        holds(files, "select true", text)


@pytest.mark.usefixtures("in_process")
@pytest.mark.parametrize(
    "text",
    [
        "select count(*) from after",
        "select * from before",
        "delete from after",
        "select true from read_csv('/etc/passwd')",
        "select true; select true",
        "select true from other",
        "select current_setting('memory_limit') = ''",
    ],
)
def test_it_reads_the_two_relations_and_nothing_else(text: str) -> None:
    with pytest.raises(UsageError):
        check_assertions((text,), COLUMNS)


def test_an_assertion_without_end_is_ended(files: tuple[Path, Path]) -> None:
    endless = "select count(*) > 0 from range(100000000000)"
    with pytest.raises(AssertionFailedError, match=r"take longer than 1\.5 s"):
        holds(files, endless, limit_s=1.5)
