"""`firnline demo`: a table to look around in, without Airflow and Spark."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from firnline.cli import sample
from firnline.cli.commands import demo
from firnline.flights import cut_hours, flights_file, read_flights
from tests.support.cli import Outcome
from tools.s3server import StoreRoot


@pytest.fixture(autouse=True)
def two_days(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forty hours instead of months."""
    hours = cut_hours(read_flights(flights_file()))[:40]
    monkeypatch.setattr(demo, "_hours", lambda _months: hours)


def test_the_merge_changes_what_a_query_costs_and_not_what_it_finds(
    firnline: Callable[..., Outcome], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sample, "QUESTION", "dep_delay > 60")
    folder = tmp_path / "flights"
    data = firnline("demo", "--folder", folder, "--json").data
    assert (data["appends"], data["before"]["parts"], data["after"]["parts"]) == (40, 40, 1)
    assert data["before"]["rows"] == data["after"]["rows"] > 0
    assert data["before"]["requests"] == 40 + 2
    assert data["after"]["requests"] == 3
    settings = ("--settings", folder / "include" / "tables.yaml")
    checked = firnline("verify", "flights", "--deep", *settings)
    assert checked.code == 0, checked.err


def test_its_last_lines_are_commands_that_work(
    firnline: Callable[..., Outcome], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shown = firnline("demo").out
    assert "before the merge" in shown
    lines = [line.strip() for line in shown.partition("look around:\n")[2].splitlines()]
    monkeypatch.chdir(lines[0].removeprefix("cd "))
    for line in lines[1:]:
        words = [word.strip('"') for word in line.partition("--where")[0].split()]
        where = line.partition("--where ")[2].strip('"')
        extra = ["--yes"] if words[1] in ("delete", "restore") else []
        found = firnline(*words[1:], *(["--where", where] if where else []), *extra)
        assert found.code == 0, f"{line}: {found.err}"


def test_a_folder_with_something_in_it_is_left_alone(
    firnline: Callable[..., Outcome], tmp_path: Path
) -> None:
    (tmp_path / "mine.txt").write_text("x")
    found = firnline("demo", "--folder", tmp_path)
    assert (found.code, "not empty" in found.sentence) == (2, True)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_its_table_is_in_a_bucket_where_one_is_given(
    firnline: Callable[..., Outcome], tmp_path: Path, s3_environ: StoreRoot
) -> None:
    folder = tmp_path / "flights"
    data = firnline("demo", "--s3", f"{s3_environ.url}/", "--folder", folder, "--json").data
    assert (data["appends"], data["before"]["parts"], data["after"]["parts"]) == (40, 40, 1)
    assert [path.name for path in folder.rglob("*") if path.is_file()] == ["tables.yaml"]
    settings = ("--settings", folder / "include" / "tables.yaml")
    assert firnline("verify", "flights", "--deep", *settings).code == 0
    assert firnline("verify", f"{s3_environ.url}/flights").code == 0
    again = firnline("demo", "--s3", s3_environ.url, "--folder", tmp_path / "again")
    assert (again.code, "objects below" in again.sentence) == (2, True)
    assert not (tmp_path / "again").exists()


def test_a_bucket_that_it_cannot_have_says_what_makes_one(
    firnline: Callable[..., Outcome], tmp_path: Path, s3_environ: StoreRoot
) -> None:
    del s3_environ
    folder = tmp_path / "flights"
    found = firnline("demo", "--s3", "s3://no-such-bucket", "--folder", folder)
    assert found.code == 2
    assert "NoSuchBucket" in found.sentence
    assert "`make s3` in a clone" in found.sentence
    assert not folder.exists()


@pytest.mark.parametrize("place", ["lake/demo", "gs://lake/demo", "file:///tmp/demo"])
def test_what_is_no_place_on_s3_is_refused(
    firnline: Callable[..., Outcome], tmp_path: Path, place: str
) -> None:
    found = firnline("demo", "--s3", place, "--folder", tmp_path / "flights")
    assert found.code == 2
    assert found.sentence.startswith(f"{place!r} is no place on S3")
