"""``firnline tables``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.cli import Outcome, content_of, settings_file

Firnline = Callable[..., Outcome]


@pytest.fixture
def lake(tmp_path: Path, firnline: Firnline) -> Path:
    """Two tables, of which settings name one, beside one that is named and not there."""
    rows = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"id": [1, 2]}), rows)
    for place in ("known", "other one"):
        assert firnline("append", f"file://{tmp_path}/lake/{place}", rows).code == 0
    roots = "".join(f"  {n}: {{root: 'file://{tmp_path}/lake/{n}'}}\n" for n in ("known", "none"))
    settings_file(tmp_path, f"tables:\n{roots}")
    return tmp_path / "lake"


def test_what_is_there_and_what_is_not_in_the_settings_is_one_page(
    firnline: Firnline, lake: Path
) -> None:
    path = lake.parent / "tables.yaml"
    before = content_of(lake)
    done = firnline("tables", f"file://{lake}", "--settings", path)
    assert (done.code, done.err) == (0, "")
    _, _, *rows = done.out.splitlines()
    assert rows[0].split()[1:4] == ["known", "100", "1"]
    assert rows[1].split()[1:] == ["none", "-", "-", "-", "-", "not", "written"]
    assert rows[2].split()[2:5] == ["-", "100", "1"]
    assert "2 tables, 1 not in the settings, 1 in the settings and not written." in rows
    (command,) = [row.strip() for row in rows if row.startswith("  firnline init")]
    assert command == (
        f"firnline init other-one --root 'file://{lake}/other one' --yes --settings {path}"
    )
    assert content_of(lake) == before


def test_the_command_that_it_suggests_adds_the_table(firnline: Firnline, lake: Path) -> None:
    place, path = f"file://{lake}", lake.parent / "tables.yaml"
    assert firnline("init", "found", "--root", f"{place}/other one", "--yes",
                    "--settings", path).code == 0  # fmt: skip
    data = firnline("tables", place, "--json", "--settings", path).data
    assert [each["name"] for each in data["tables"]] == ["known", "none", "found"]
    assert data["to_add"] == []


def test_one_that_cannot_be_read_ends_with_1_after_the_page(firnline: Firnline, lake: Path) -> None:
    log_file = next((lake / "known" / "_log").iterdir())
    log_file.write_bytes(log_file.read_bytes()[:-20])
    done = firnline("tables", f"file://{lake}")
    assert done.code == 1
    assert "cannot be read: log file" in done.out
    assert "2 tables, 1 cannot be read" in done.out
    assert f"1 table cannot be read: file://{lake}/known" in done.sentence
    assert f"`firnline verify file://{lake}/known` looks for damage" in done.sentence
    assert "settings check" not in done.sentence
    assert firnline("tables", f"file://{lake}", "--shallow").code == 0


def test_of_broken_settings_the_next_step_is_their_check(firnline: Firnline, lake: Path) -> None:
    path = settings_file(
        lake.parent, f"tables:\n  known: {{root: 'file://{lake}/known', nonsense: 1}}\n"
    )
    done = firnline("tables", f"file://{lake}", "--settings", path)
    assert done.code == 1
    step = f"`firnline settings check --settings {path}` says what is wrong in the settings"
    assert step in done.sentence
    assert "verify" not in done.sentence
    assert "nonsense" in firnline("settings", "check", "--settings", path).sentence


def test_a_place_without_tables_is_no_failure_and_a_path_is_no_url(
    firnline: Firnline, tmp_path: Path
) -> None:
    done = firnline("tables", f"file://{tmp_path}/none", "--depth", "1")
    assert (done.code, done.out) == (
        0,
        f"No table at file://{tmp_path}/none or in 1 level of folders below it.\n",
    )
    assert firnline("tables", str(tmp_path)).code == 2
    assert firnline("tables", f"file://{tmp_path}", "--depth", "-1").code == 2
