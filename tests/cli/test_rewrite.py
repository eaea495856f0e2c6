"""``firnline rewrite``: asks, says what vanished, and one sentence where it does not."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from firnline.appends.append import Appender
from firnline.settings.load import find_table
from firnline.state.snapshot import read_snapshot
from firnline.table import open_table
from tests.support.cli import Outcome, content_of, settings_file

DAY = 86_400_000_000
Firnline = Callable[..., Outcome]


@pytest.fixture
def settings(tmp_path: Path) -> Path:
    """A table of three days, four rows each in two parts."""
    text = f"tables:\n  t: {{root: 'file://{tmp_path}/t', partition_by: [day(ts)]}}\n"
    path = settings_file(tmp_path, text)
    appender = Appender(open_table(find_table("t", path)))
    for n in (1, 3):
        times = [day * DAY + 1 for day in (1, 2, 3) for _ in range(2)]
        appender.append(pa.table({"ts": pa.array(times, pa.timestamp("us")), "n": [n, n + 1] * 3}))
    return path


def rows(settings: Path) -> dict[str, int]:
    table = open_table(find_table("t", settings))
    found = read_snapshot(table.store, table.paths).partitions
    return {name[-2:]: sum(m.n or 0 for m in markers) for name, markers in found.items()}


def test_it_reports_what_vanished_by_partition(firnline: Firnline, settings: Path) -> None:
    done = firnline("rewrite", "t", "--where", "n != 2", "--yes", "--settings", settings)
    assert done.code == 0, done.err
    assert "ts_day=1970-01-02  1 → 1  2 → 1         1" in done.out
    assert "3 vanished" in done.out
    assert rows(settings) == {"02": 3, "03": 3, "04": 3}


def test_an_interval_and_a_query_make_json(firnline: Firnline, settings: Path) -> None:
    asked = ("--sql", "from _rows where n > 2", "--from", "1970-01-03", "--until", "1970-01-04")
    done = firnline("rewrite", "t", *asked, "--yes", "--json", "--settings", settings)
    assert [p["partition"] for p in done.data["partitions"]] == ["ts_day=1970-01-03"]
    assert done.data["counts"]["rows_removed"] == 2
    assert rows(settings) == {"02": 4, "03": 2, "04": 4}


def test_a_dry_run_and_a_plan_without_work_change_nothing(
    firnline: Firnline, settings: Path
) -> None:
    before = content_of(settings.parent / "t")
    plan = firnline("rewrite", "t", "--where", "n < 4", "--dry-run", "--settings", settings)
    assert "6 parts of t would be read" in plan.out
    asked = ("--where", "n < 4", "--from", "1980-01-01", "--until", "1980-01-02")
    nothing = firnline("rewrite", "t", *asked, "--dry-run", "--settings", settings)
    assert (nothing.code, nothing.out.strip()) == (0, "Nothing to rewrite in t.")
    nothing = firnline("rewrite", "t", *asked, "--settings", settings)
    assert (nothing.code, nothing.out.strip()) == (0, "Nothing to rewrite in t.")
    refused = firnline("rewrite", "t", "--where", "n < 4", "--settings", settings)
    assert "nobody can be asked whether rows of t may go" in refused.sentence
    assert content_of(settings.parent / "t") == before


def test_too_much_is_shown_and_needs_force(firnline: Firnline, settings: Path) -> None:
    done = firnline("rewrite", "t", "--where", "n = 1", "--yes", "--settings", settings)
    assert done.code == 2
    assert "3 of the 4 rows" in done.out
    assert "--force" in done.err.splitlines()[-1]
    forced = firnline(
        "rewrite", "t", "--where", "n = 1", "--yes", "--force", "--settings", settings
    )
    assert forced.code == 0
    assert rows(settings) == {"02": 1, "03": 1, "04": 1}


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--where", "n = 1"], "--yes"),
        (["--yes"], "a condition (where) or a query (sql)"),
        (["--yes", "--where", "abs(n) = 1"], "takes a query (sql) over _rows"),
        (
            ["--yes", "--where", "n = 1", "--from", "yesterday", "--until", "1980-01-01"],
            "yesterday",
        ),
        (["--yes", "--where", "n = 1", "--from", "1980-01-01"], "give both"),
        (["--yes", "--sql", "from other"], "'other'"),
    ],
)
def test_what_is_wrong_is_one_sentence(
    firnline: Firnline, settings: Path, options: list[str], says: str
) -> None:
    before = content_of(settings.parent / "t")
    done = firnline("rewrite", "t", *options, "--settings", settings)
    assert done.code == 2
    assert says in done.sentence
    assert content_of(settings.parent / "t") == before


def test_a_merge_with_sql_says_what_its_query_removed(firnline: Firnline, settings: Path) -> None:
    sql = "select ts, max(n) as n from source_files group by ts"
    more = f"[day(ts)], merge: {{min_inputs: 2, sql: '{sql}'}}"
    settings.write_text(settings.read_text().replace("[day(ts)]", more))
    plan = firnline("plan", "merge", "t", "--settings", settings)
    assert "merge.sql would be applied to their rows" in plan.out
    done = firnline("merge", "t", "--settings", settings)
    assert "9 removed by merge.sql" in done.out
    assert rows(settings) == {"02": 1, "03": 1, "04": 1}


def prepare(firnline: Firnline, settings: Path, *asked: str) -> str:
    """Prepare a rewrite; return the id that it was given."""
    done = firnline("rewrite", "t", *asked, "--prepare", "--json", "--settings", settings)
    assert done.code == 0, done.err
    return str(done.data["id"])


def test_a_prepare_shows_the_difference_and_names_both_decisions(
    firnline: Firnline, settings: Path
) -> None:
    asked = ("--where", "n != 2", "--samples", "1", "--assert", "select count(*) = 9 from after")
    done = firnline("rewrite", "t", *asked, "--prepare", "--settings", settings)
    assert done.code == 0, done.err
    assert "ts_day=1970-01-02  2 → 1        1      0" in done.out
    assert "Sample rows, of ts_day=1970-01-02:" in done.out
    assert "removed  ts=1970-01-02 00:00:00.000001, n=2" in done.out
    assert "select count(*) = 9 from after" in done.out
    assert "one removed and one added" not in done.out, "no row changes"
    change = done.out.split("--commit ")[1].split()[0]
    assert done.out.endswith(f"  firnline rewrite t --settings {settings} --discard {change}\n")
    listed = firnline("rewrite", "t", "--prepared", "--settings", settings).out
    assert f"prepared   {change}\n" in listed
    assert "where      n != 2\n" in listed
    assert "rows       3 removed, 0 added, in 3 partitions\n" in listed
    assert rows(settings) == {"02": 4, "03": 4, "04": 4}


@pytest.mark.parametrize("by_url", [True, False])
def test_the_commands_that_decide_on_a_change_run_as_they_are_printed(
    firnline: Firnline, settings: Path, by_url: bool
) -> None:
    moved = settings.rename(settings.parent / "my tables.yaml")
    named = [f"file://{settings.parent}/t"] if by_url else ["t", "--settings", moved]
    done = firnline("rewrite", *named, "--where", "n != 2", "--prepare")
    assert done.code == 0, done.err
    printed = [shlex.split(each) for each in done.out.splitlines() if "firnline rewrite" in each]
    commit, discard = ([str(word) for word in words[1:]] for words in printed)
    assert (commit[-2], discard[-2]) == ("--commit", "--discard")
    assert f"A discard of {discard[-1]} would" in firnline(*discard, "--dry-run").out
    assert "committed  transaction 1\n" in firnline(*commit, "--yes").out


def test_a_commit_and_a_discard_say_before_what_they_would_do(
    firnline: Firnline, settings: Path
) -> None:
    kept = prepare(firnline, settings, "--where", "n != 2")
    late = prepare(firnline, settings, "--where", "n != 3")
    look = firnline("rewrite", "t", "--commit", kept, "--dry-run", "--settings", settings)
    assert f"A commit of {kept} would put 3 new parts in the place of 3 parts." in look.out
    done = firnline("rewrite", "t", "--commit", kept, "--yes", "--settings", settings)
    assert "transaction 1" in done.out
    assert rows(settings) == {"02": 3, "03": 3, "04": 3}
    again = firnline("rewrite", "t", "--commit", late, "--yes", "--settings", settings)
    assert again.code == 2
    assert "was replaced or dropped since it was prepared on transaction 0; discard it" in again.err
    assert f"`firnline rewrite t --settings {settings} --discard {late}`" in again.err
    look = firnline("rewrite", "t", "--discard", late, "--dry-run", "--settings", settings)
    assert f"A discard of {late} would delete 3 new parts, which nobody sees." in look.out
    done = firnline("rewrite", "t", "--discard", late, "--settings", settings)
    assert "3 parts" in done.out
    assert rows(settings) == {"02": 3, "03": 3, "04": 3}
    nothing = firnline("rewrite", "t", "--prepared", "--settings", settings)
    assert nothing.out == "Nothing is prepared in t.\n"


def test_an_assertion_that_does_not_hold_prepares_nothing(
    firnline: Firnline, settings: Path
) -> None:
    before = content_of(settings.parent / "t")
    asked = ("--where", "n != 2", "--force", "--assert", "select false", "--yes")
    done = firnline("rewrite", "t", *asked, "--prepare", "--settings", settings)
    assert done.code == 2
    assert "select false" in done.sentence
    assert content_of(settings.parent / "t") == before


@pytest.mark.parametrize("when", ["--yes", "--dry-run"])
@pytest.mark.parametrize(
    "evidence",
    [
        ["--assert", "select false"],
        ["--assert", "select true"],
        ["--key", "n"],
        ["--samples", "2"],
        ["--keep", "2d"],
    ],
)
def test_evidence_of_a_rewrite_that_is_not_prepared_is_refused(
    firnline: Firnline, settings: Path, evidence: list[str], when: str
) -> None:
    """It would commit before anybody has looked: an assertion would be asked of nothing."""
    before = content_of(settings.parent / "t")
    asked = ("--where", "n != 2", "--force", when)
    done = firnline("rewrite", "t", *asked, *evidence, "--settings", settings)
    assert done.code == 2
    assert "are about what is prepared before it is committed" in done.sentence
    assert "--prepare" in done.sentence
    assert content_of(settings.parent / "t") == before


def test_the_progress_of_a_prepare_goes_on_while_rows_are_compared(
    firnline: Firnline, settings: Path
) -> None:
    asked = ("--where", "n != 2", "--prepare", "--progress", "json")
    done = firnline("rewrite", "t", *asked, "--settings", settings)
    last = json.loads(done.err.splitlines()[-1])["progress"]
    assert (last["detail"], last["unit"]) == ("3 of 3 partitions compared", "partition")


def test_the_history_shows_how_many_rows_an_update_changed(
    firnline: Firnline, settings: Path
) -> None:
    shown = firnline(
        "update", "t", "--set", "n = n + 10", "--where", "n = 3", "--yes", "--settings", settings
    )
    assert shown.code == 0
    assert "3 changed" in firnline("history", "t", "--settings", settings).out
    assert firnline("rewrite", "t", "--where", "n > 1", "--yes", "--settings", settings).code == 0
    history = firnline("history", "t", "--settings", settings, "--json").data["transactions"]
    assert [txn["rows_changed"] for txn in history] == [3, *[0] * (len(history) - 1)]
