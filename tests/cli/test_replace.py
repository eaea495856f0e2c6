"""``firnline replace`` on a table of real parts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.cli import Outcome, content_of, settings_file

Firnline = Callable[..., Outcome]
INTERVAL = ("--start", "3", "--end", "9")


@pytest.fixture
def root(tmp_path: Path, firnline: Firnline) -> str:
    """Ids 0 to 5 and 6 to 11, sorted by id; users u0, u1, u2 in turn."""
    url = f"file://{tmp_path}/events"
    path = settings_file(tmp_path, f"tables: {{events: {{root: '{url}', sort_by: [id]}}}}")
    for first in (0, 6):
        rows = file(tmp_path, range(first, first + 6))
        assert firnline("append", "events", rows, "--settings", path).code == 0
    return url


def file(folder: Path, ids: range) -> Path:
    path = folder / f"rows-{ids.start}.parquet"
    pq.write_table(pa.table({"id": list(ids), "user": [f"u{i % 3}" for i in ids]}), path)
    return path


def rows_of(firnline: Firnline, root: str) -> int:
    found: int = firnline("parts", root, "--json").data["total"]["rows"]
    return found


def test_a_replace_says_what_it_did(firnline: Firnline, root: str, tmp_path: Path) -> None:
    new = file(tmp_path, range(4, 6))
    shown = firnline("replace", root, new, "--column", "id", "--start", "0", "--end", "9", "--yes")
    assert shown.code == 0
    table = dict(line.split(maxsplit=1) for line in shown.out.splitlines())
    assert table["replaced"] == "[0, 9) of id"
    assert table["by"].startswith("2 rows in 1 part, ")
    assert table["deleted"] == "9 rows"
    assert (
        table["parts"] == "1 dropped unread, 1 read, 1 of them rewritten, 0 excluded by statistics"
    )
    assert rows_of(firnline, root) == 5


def test_the_settings_name_the_column_and_nothing_empties_the_interval(
    firnline: Firnline, root: str, tmp_path: Path
) -> None:
    settings = tmp_path / "tables.yaml"
    shown = firnline(
        "replace", "events", *INTERVAL, "--nothing", "--where-equal", "user=u1", "--yes", "--json",
        "--settings", settings,
    )  # fmt: skip
    assert shown.data["equal"] == {"user": "u1"}
    assert (shown.data["column"], shown.data["counts"]["rows_deleted"]) == ("id", 2)
    assert rows_of(firnline, root) == 10


def test_a_lazy_replace_says_that_rows_are_hidden(
    firnline: Firnline, root: str, tmp_path: Path
) -> None:
    out = firnline("replace", root, "--nothing", "--column", "id", *INTERVAL, "--lazy", "--yes").out
    assert "0 rows, and what up to 2 parts hold of it is hidden until a merge" in out


def test_a_dry_run_shows_the_plan_and_changes_nothing(
    firnline: Firnline, root: str, tmp_path: Path
) -> None:
    new = file(tmp_path, range(4, 6))
    before = content_of(tmp_path)
    whole = ("replace", root, new, "--column", "id", "--start", "0", "--end", "9", "--dry-run")
    data = firnline(*whole, "--json").data
    assert (data["parts_to_read"], data["parts_to_drop"], data["rows_to_drop"]) == (1, 1, 6)
    out = firnline(*whole).out
    assert "To replace [0, 9) of id in events: between 6 and 12 rows would go." in out
    assert "2 new rows would come, and all lie inside by their footers." in out
    assert "1 part would be dropped unread: all 6 rows lie inside." in out
    assert "1 part would be read" in out
    assert "1 part would stay until the next merge" in firnline(*whole, "--lazy").out
    far = firnline(
        "replace", root, "--nothing", "--column", "id", "--start", "50", "--end", "60", "--dry-run"
    )
    assert "No row would come instead." in far.out
    assert "No part would be touched." in far.out
    assert content_of(tmp_path) == before


def test_a_root_without_a_table_gets_one_and_nothing_needs_one(
    firnline: Firnline, tmp_path: Path
) -> None:
    url = f"file://{tmp_path}/new"
    empty = firnline("replace", url, "--nothing", "--column", "id", *INTERVAL, "--yes")
    assert (empty.code, "there is no table" in empty.sentence) == (2, True)
    done = firnline("replace", url, file(tmp_path, range(4, 6)), "--column", "id", *INTERVAL)
    assert done.code == 0, done.err
    assert rows_of(firnline, url) == 2


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "either new rows or `nothing`, and neither is given; give files"),
        (["--nothing", "FILE"], "and both are given"),
        (["FILE", "--end", "2"], "there is nothing between 3 and 2"),
        (["FILE", "--column", "user"], "name the column"),
        (["FILE", "--where-equal", "user"], "is not COLUMN=VALUE"),
        (["FILE", "--where-equal", "user=u7"], "do not lie in id from 3 to 9, user = u7"),
        (["FILE", "--start", "5"], "do not lie in id from 5 to 9"),
        (["nowhere.parquet"], "there is no file nowhere.parquet"),
        (["TEXT"], "is not a Parquet file"),
        (["FILE", "--partition", "d"], "does not consist of NAME=VALUE"),
        (["--nothing", "--partition", "d=1"], "'d=1' is named for new rows, and there are to be"),
    ],
)
@pytest.mark.parametrize("how", ["--yes", "--dry-run"])
def test_wrong_use_is_one_sentence_and_changes_nothing(
    words: list[str], said: str, how: str, firnline: Firnline, root: str, tmp_path: Path
) -> None:
    text = tmp_path / "text.parquet"
    text.write_text("id,user\n4,u1\n")
    new = str(file(tmp_path, range(4, 6)))
    before = content_of(tmp_path / "events")
    names = {"FILE": new, "TEXT": str(text)}
    given = [names.get(word, word) for word in words]
    usual = {"--column": "id", "--start": "3", "--end": "9"}
    rest = [word for item in usual.items() if item[0] not in words for word in item]
    shown = firnline("replace", root, *rest, how, *given)
    if said == "name the column":  # of texts: 3 to 9 is an interval of them, without these rows
        said = "do not lie in user from 3 to 9"
    assert shown.code != 0
    assert said in shown.sentence
    data = {key for key in content_of(tmp_path / "events") if "_probe" not in key}
    assert data == set(before)


def test_without_a_column_of_times_one_has_to_be_named(firnline: Firnline, tmp_path: Path) -> None:
    plain = f"file://{tmp_path}/plain"
    assert firnline("append", plain, file(tmp_path, range(6))).code == 0
    shown = firnline("replace", plain, "--nothing", *INTERVAL, "--yes")
    assert shown.sentence.endswith("name a column of times; name the column (--column)")


def test_a_root_url_takes_the_column_of_the_table_s_own_order(
    firnline: Firnline, root: str
) -> None:
    shown = firnline("replace", root, "--nothing", *INTERVAL, "--yes", "--json")
    assert shown.data["counts"]["rows_deleted"] == 6


def test_where_nobody_can_be_asked_yes_is_needed(firnline: Firnline, root: str) -> None:
    shown = firnline("replace", root, "--nothing", "--column", "id", *INTERVAL)
    assert (shown.code, shown.sentence.endswith("then give --yes")) == (2, True)
