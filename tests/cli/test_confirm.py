"""What commands do that would ask, where nobody can be asked."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.cli import Outcome, settings_file

Firnline = Callable[..., Outcome]


class Terminal:
    """Somebody at a terminal, who is not to be asked."""

    def isatty(self) -> bool:
        return True

    def readline(self) -> str:
        raise AssertionError("nobody is asked")


@pytest.fixture
def settings(tmp_path: Path, firnline: Firnline) -> str:
    """The table ``t`` of six rows, which says what its settings say."""
    path = settings_file(tmp_path, f"tables: {{t: {{root: 'file://{tmp_path}/t', sort_by: [id]}}}}")
    rows = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"id": list(range(6)), "v": [0] * 6}), rows)
    assert firnline("append", "t", rows, "--settings", path).code == 0
    return str(path)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("properties apply t", "nothing to do"),
        ("rebuild t", "is whole"),
    ],
)
@pytest.mark.parametrize("form", [(), ("--json",)])
def test_where_there_is_nothing_to_do_nobody_is_asked(
    settings: str, line: str, said: str, form: tuple[str, ...], firnline: Firnline
) -> None:
    done = firnline(*line.split(), *form, "--settings", settings)
    assert (done.code, done.err) == (0, "")
    assert done.data if form else said in done.out


@pytest.mark.parametrize(
    "line",
    [
        "delete t --where id=1",
        "rewrite t --where id=1",
        "replace t --nothing --start 1 --end 2",
        "erase t --column id --key 1",
        "drop t -",
        "downgrade t",
        "evolve t --rename v=w",
    ],
)
def test_json_asks_nobody_and_says_so_also_at_a_terminal(
    settings: str, line: str, firnline: Firnline, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal())
    asked = firnline(*line.split(), "--json", "--settings", settings)
    assert (asked.code, asked.out) == (2, "")
    assert asked.error["message"].startswith("--json asks nobody whether ")
    assert asked.error["next_step"] == "look with --dry-run, then give --yes"
