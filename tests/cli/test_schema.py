"""``firnline schema``: what it shows of a conflict, what it asks, and one sentence otherwise."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from firnline.appends.append import Appender
from firnline.ids import SystemIds
from firnline.settings.load import find_table
from firnline.state.snapshot import read_snapshot
from firnline.table import Table, open_table
from tests.support.cli import LogOnlyTable, Outcome, content_of, settings_file

Firnline = Callable[..., Outcome]


def opened(settings: Path) -> Table:
    return open_table(find_table("t", settings))


@pytest.fixture
def settings(tmp_path: Path) -> Path:
    """Numbers by two appends of ours, texts by a client of log version 1 on another host."""
    path = settings_file(tmp_path, f"tables: {{t: {{root: 'file://{tmp_path}/t', sort_by: [n]}}}}")
    appender = Appender(opened(path))
    for n in (1, 3):
        appender.append(pa.table({"id": [n, n + 1], "n": [n, n + 1]}), partition="d=1")
    foreign(path, ["5", "6"])
    return path


def foreign(settings: Path, texts: list[str], host: str = "old-job-7") -> str:
    """Write a part and a log file as such a client does; returns the name of the log file."""
    table = opened(settings)
    folder = settings.parent
    t = table.clock.now_ms() + 1
    key = table.paths.data_part("d=1", SystemIds().uuid7(t))
    pq.write_table(pa.table({"id": [9] * len(texts), "n": texts}), folder / key)
    header = {"v": "1", "t": t, "sch": 1, "f": 2}
    marker = {"p": key, "b": (folder / key).stat().st_size, "t": t}
    lines = [header, {"id": "BIGINT", "n": "VARCHAR"}, marker]
    name = f"{t}_{host}.jsonl"
    (folder / table.paths.log_dir / name).write_text("\n".join(map(json.dumps, lines)))
    return name


def numbers(settings: Path) -> list[object]:
    table = opened(settings)
    found: list[object] = []
    for key in read_snapshot(table.store, table.paths).live:
        found += pq.read_table(settings.parent / key, partitioning=None).column("n").to_pylist()
    return sorted(found, key=str)


def test_it_shows_who_states_what_with_the_parts_behind_it(
    firnline: Firnline, settings: Path
) -> None:
    shown = firnline("schema", "show", "t", "--settings", settings)
    assert shown.code == 0, shown.err
    assert "n       BIGINT or VARCHAR  sort" in shown.out
    rows = [line.split() for line in shown.out.splitlines()]
    assert any(row[:5] == ["n", "BIGINT", "2", "2", "4"] for row in rows)
    assert any(row[:5] == ["n", "VARCHAR", "1", "1", "?"] for row in rows)
    assert "_old-job-7.jsonl  old-job-7" in shown.out
    assert "firnline schema fix" in shown.out


def test_one_command_line_repairs_all_columns_and_can_be_copied(
    firnline: Firnline, table: LogOnlyTable
) -> None:
    table.append({"d=1": [9_000_000]}, schema={"ts": "DATE", "v": "VARCHAR"})
    given = f"firnline schema fix {table.root} --column ts --type"
    refused = firnline("merge", table.root)
    assert "on 2 columns: ts (TIMESTAMP and DATE); v (INTEGER and VARCHAR)" in refused.sentence
    assert f"`{given} TIMESTAMP --column v --type INTEGER`" in refused.sentence
    assert f"`firnline schema show {table.root}`" in refused.sentence
    shown = firnline("schema", table.root)
    assert f"`{given} TIMESTAMP --column v --type VARCHAR`" in shown.out
    new = table.folder.parent / "new.parquet"
    pq.write_table(pa.table({"v": [1]}), new)
    assert "on 2 columns: ts " in firnline("append", table.root, new).sentence


def test_json_has_every_log_file_with_writer_and_time(firnline: Firnline, settings: Path) -> None:
    data = firnline("schema", "show", "t", "--json", "--settings", settings).data
    assert [c["column"] for c in data["columns"]] == ["id"]
    (conflict,) = data["conflicts"]
    assert (conflict["column"], conflict["used_for"]) == ("n", ["sort"])
    ours, theirs = conflict["types"]
    assert (ours["type"], ours["parts"], ours["rows"]) == ("BIGINT", 2, 4)
    assert (theirs["type"], theirs["parts"], theirs["rows"]) == ("VARCHAR", 1, None)
    assert [f["writer"] for f in ours["log_files"]] == ["firnline", "firnline"]
    (file,) = theirs["log_files"]
    assert file["writer"] == "old-job-7"
    assert file["key"].endswith(f"/_log/{file['t']}_old-job-7.jsonl")


def test_without_a_word_between_it_shows(firnline: Firnline, table: LogOnlyTable) -> None:
    shown = firnline("schema", table.root)
    assert shown == firnline("schema", "show", table.root)
    assert "TIMESTAMP" in shown.out
    assert firnline("schema", "--json", table.root).data["conflicts"] == []


def test_every_other_command_names_the_way_out(firnline: Firnline, settings: Path) -> None:
    before = content_of(settings.parent / "t")
    for arguments in (["parts", "t"], ["merge", "t"], ["drop", "t", "d=1", "--yes"]):
        shown = firnline(*arguments, "--settings", settings)
        assert shown.code == 1
        assert "column 'n' is BIGINT in log file t/_log/" in shown.sentence
        assert "but VARCHAR in log file t/_log/" in shown.sentence
        assert (
            f"`firnline schema fix t --settings {settings} --column n --type BIGINT`"
            in shown.sentence
        )
    assert content_of(settings.parent / "t") == before


def test_a_type_for_all_is_reported_and_shown_afterwards(
    firnline: Firnline, settings: Path
) -> None:
    asked = ("--column", "n", "--type", "bigint", "--settings", settings)
    before = content_of(settings.parent / "t")
    plan = firnline("schema", "fix", "t", *asked, "--dry-run")
    assert "1 of 1 part looked at would be rewritten" in plan.out
    assert "old-job-7" in plan.out
    assert content_of(settings.parent / "t") == before
    done = firnline("schema", "fix", "t", *asked, "--yes")
    assert done.code == 0, done.err
    assert "repaired     n is BIGINT" in done.out
    assert numbers(settings) == [1, 2, 3, 4, 5, 6]
    for flags in ((), ("--yes",)):  # nobody has to be asked
        again = firnline("schema", "fix", "t", *asked, *flags)
        said = "Nothing to repair in t: n is BIGINT, as its log files say."
        assert (again.code, again.out.strip()) == (0, said)
    assert firnline("schema", "t", "--json", "--settings", settings).data["conflicts"] == []
    assert "schema-fix" in firnline("history", "t", "--settings", settings).out


def test_a_second_name_keeps_every_value(firnline: Firnline, settings: Path) -> None:
    foreign(settings, ["n/a"])
    asked = ("--column", "n", "--rename", "n_text", "--yes", "--json", "--settings", settings)
    done = firnline("schema", "fix", "t", *asked).data
    assert (done["counts"]["parts_in"], done["conflict"]) == (2, None)
    columns = firnline("schema", "t", "--json", "--settings", settings).data["columns"]
    assert {c["column"]: c["type"] for c in columns} == {
        "id": "BIGINT",
        "n": "BIGINT",
        "n_text": "VARCHAR",
    }


def test_a_value_that_does_not_fit_is_shown_and_nothing_changes(
    firnline: Firnline, settings: Path
) -> None:
    foreign(settings, ["n/a"])
    before = content_of(settings.parent / "t")
    asked = ("--column", "n", "--type", "BIGINT", "--yes", "--settings", settings)
    done = firnline("schema", "fix", "t", *asked)
    assert done.code == 1
    assert "1 value that BIGINT cannot hold exactly, such as 'n/a'" in done.out
    assert "nothing was changed in t" in done.sentence
    as_json = firnline("schema", "fix", "t", *asked, "--json")
    assert as_json.error["type"] == "SchemaFixFailedError"
    assert as_json.data["failures"][0]["error"] == "PartSchemaError"
    assert content_of(settings.parent / "t") == before


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--type", "BIGINT"], "missing option"),
        (["--column", "n"], "1 --column, 0 --type and 0 --rename"),
        (["--column", "n", "--type", "BIGINT", "--rename", "m"], "do not go together"),
        (["--column", "n", "--column", "id", "--type", "BIGINT"], "2 --column, 1 --type"),
        (["--column", "n", "--type", "BIGINT"], "--yes"),
        (["--column", "m", "--type", "BIGINT", "--yes"], "no log file states a column 'm'"),
        (["--column", "n", "--type", "what", "--yes"], "'what' is not a SQL type"),
    ],
)
def test_what_is_wrong_is_one_sentence(
    firnline: Firnline, settings: Path, options: list[str], says: str
) -> None:
    before = content_of(settings.parent / "t")
    done = firnline("schema", "fix", "t", *options, "--settings", settings)
    assert done.code == 2
    assert says in done.sentence.lower() or says in done.sentence
    assert content_of(settings.parent / "t") == before
