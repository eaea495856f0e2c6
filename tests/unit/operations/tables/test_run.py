"""The tables below a place: what is there, what settings name, and how it is."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import firnline
from firnline.errors import SettingsError, UsageError
from firnline.operations.tables.run import ListedTable, TablesReport, list_below
from firnline.settings.load import load_settings


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """Two tables, one of which is two levels down, and one whose log is torn."""
    folder = tmp_path / "lake"
    for place in ("a", "b c/d%20e", "torn"):
        for _ in range(2):
            firnline.append(f"file://{folder}/{place}", pa.table({"id": [1, 2]}))
    log_file = next((folder / "torn" / "_log").iterdir())
    log_file.write_bytes(log_file.read_bytes()[:-20])
    return folder


def settings(folder: Path, **roots: str) -> Path:
    path = folder / "tables.yaml"
    lines = "".join(f"  {name}: {{root: 'file://{root}'}}\n" for name, root in roots.items())
    path.write_text(f"tables:\n{lines}")
    return path


def by_end(report: TablesReport) -> dict[str, ListedTable]:
    return {each.root.rpartition("/")[2]: each for each in report.tables}


def test_each_table_has_its_name_its_figures_and_its_score(lake: Path) -> None:
    known = load_settings(settings(lake.parent, first=f"{lake}/a"))
    report = list_below(f"file://{lake}", known)
    tables = by_end(report)
    assert list(tables) == ["a", "d%20e", "torn"]
    first = tables["a"]
    assert (first.root, first.name, first.state) == (f"file://{lake}/a", "first", "readable")
    assert (first.parts, first.rows, first.score, first.reason) == (2, 4, 100, "")
    assert first.bytes is not None
    assert first.bytes > 0
    assert first.newest_ms is not None
    assert 0 <= report.looked_ms - first.newest_ms < 600_000
    assert (tables["d%20e"].name, tables["d%20e"].state) == (None, "readable")


def test_one_that_cannot_be_read_says_why_and_hides_no_other(lake: Path) -> None:
    torn = by_end(list_below(f"file://{lake}"))["torn"]
    assert (torn.state, torn.parts, torn.score) == ("unreadable", None, None)
    assert torn.reason.startswith("log file torn/_log/")
    assert "\n" not in torn.reason


def test_what_settings_name_there_and_is_not_is_listed_too(lake: Path) -> None:
    roots = {"gone": f"{lake}/gone", "elsewhere": f"{lake}er/x", "deep": f"{lake}/b c/d%20e"}
    known = load_settings(settings(lake.parent, **roots))
    tables = by_end(list_below(f"file://{lake}", known, depth=1))
    assert list(tables) == ["a", "d%20e", "gone", "torn"]
    assert (tables["gone"].name, tables["gone"].state) == ("gone", "not written")
    assert (tables["d%20e"].name, tables["d%20e"].state) == ("deep", "readable"), "below --depth"


def test_links_are_not_followed_and_each_table_is_listed_once(lake: Path) -> None:
    (lake / "loop").symlink_to(lake)
    firnline.append(f"file://{lake.parent}/far/chosen", pa.table({"id": [1]}))
    (lake / "b c" / "chosen").symlink_to(lake.parent / "far" / "chosen")
    report = list_below(f"file://{lake}")
    assert list(by_end(report)) == ["a", "d%20e", "torn"]
    assert report.links == (f"file://{lake}/loop", f"file://{lake}/b c/chosen")
    assert not any("loop" in command or "chosen" in command for command in report.to_add)
    known = load_settings(settings(lake.parent, chosen=f"{lake}/b c/chosen"))
    chosen = by_end(list_below(f"file://{lake}", known))["chosen"]
    assert (chosen.name, chosen.state) == ("chosen", "readable"), "settings name it"


def test_a_table_with_mistakes_in_its_section_is_unreadable(lake: Path) -> None:
    path = settings(lake.parent)
    path.write_text(f"tables:\n  first: {{root: 'file://{lake}/a', nonsense: 1}}\n")
    first = by_end(list_below(f"file://{lake}", load_settings(path)))["a"]
    assert (first.name, first.state) == ("first", "unreadable")
    assert "tables.yaml" in first.reason
    assert first.broken_settings


def test_shallow_reads_no_log(lake: Path) -> None:
    known = load_settings(settings(lake.parent, gone=f"{lake}/x/y/gone", deep=f"{lake}/b c/d%20e"))
    report = list_below(f"file://{lake}", known, depth=1, shallow=True)
    assert {end: each.state for end, each in by_end(report).items()} == {
        "a": "found",
        "d%20e": "found",
        "torn": "found",
        "gone": "not written",
    }
    # the place and its three folders; and the two tables of the settings below them
    assert (report.requests["list"], report.requests["get"]) == (1 + 3 + 2, 0)


def test_a_table_costs_three_listings_and_its_log_files(lake: Path) -> None:
    report = list_below(f"file://{lake}/a")
    assert (report.requests["list"], report.requests["get"]) == (1 + 3, 2)
    assert report.requests["put"] == report.requests["head"] == 0


def test_there_is_a_command_for_each_that_settings_do_not_have_with_a_name_of_its_own(
    lake: Path,
) -> None:
    firnline.append(f"file://{lake}/other/a", pa.table({"id": [1]}))
    known = load_settings(settings(lake.parent, a=f"{lake}er"))
    assert list_below(f"file://{lake}", known).to_add == (
        f"firnline init a_2 --root file://{lake}/a --yes",
        f"firnline init d-20e --root 'file://{lake}/b c/d%20e' --yes",
        f"firnline init a_3 --root file://{lake}/other/a --yes",
    )


def test_python_lists_them_with_the_settings_file_or_without_one(
    lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = settings(lake.parent, first=f"{lake}/a")
    monkeypatch.delenv("FIRNLINE_TABLES", raising=False)
    monkeypatch.chdir(lake)
    assert [each.name for each in firnline.list_tables(f"file://{lake}", path)] == [
        "first",
        None,
        None,
    ]
    monkeypatch.setenv("FIRNLINE_TABLES", str(path))
    (first,) = firnline.list_tables(f"file://{lake}/a", depth=0, shallow=True)
    assert (first.name, first.state) == ("first", "found")
    with pytest.raises(AttributeError):
        first.name = "x"  # type: ignore[misc]  # it is frozen
    path.write_text("tables: [")
    with pytest.raises(SettingsError):
        firnline.list_tables(f"file://{lake}")


def test_what_is_no_place_is_refused(lake: Path) -> None:
    with pytest.raises(UsageError, match="the least is 0"):
        list_below(f"file://{lake}", depth=-1)
    with pytest.raises(UsageError, match=r"file:///"):
        firnline.list_tables(str(lake))
