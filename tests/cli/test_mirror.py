"""``firnline mirror`` on a folder: what it publishes, what it waits for, what a check says."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import firnline as product
from firnline.appends.append import Appender
from firnline.errors import RunFailedError
from firnline.operations.options import MergeOptions
from firnline.settings.load import find_table, settings_for_root
from firnline.table import open_table
from tests.support.cli import Outcome, settings_file

Firnline = Callable[..., Outcome]


@pytest.fixture
def settings(tmp_path: Path) -> Path:
    """A table of before it had a mirror, and settings that want one."""
    root = f"file://{tmp_path}/events"
    append(tmp_path, 0)
    return settings_file(
        tmp_path, f"tables: {{events: {{root: '{root}', mirror: [delta], statistics: [x]}}}}"
    )


def append(tmp_path: Path, first: int) -> None:
    table = open_table(settings_for_root(f"file://{tmp_path}/events"))
    Appender(table).append(pa.table({"x": [first, first + 1]}))


def test_the_first_run_records_the_property_and_later_ones_publish(
    firnline: Firnline, settings: Path, tmp_path: Path
) -> None:
    asked = ("--settings", settings)
    refused = firnline("mirror", "events", "--dry-run", *asked)
    assert refused.code == 2
    assert "firnline properties apply events" in refused.err
    first = firnline("mirror", "events", *asked)
    assert first.code == 0
    assert "The Delta mirror of events has a new version: 1 file more, 0 files less" in first.out
    assert firnline("mirror", "events", "--check", *asked).code == 0
    append(tmp_path, 10)
    behind = firnline("mirror", "events", "--check", *asked)
    assert behind.code == 1
    assert "1 live part is missing" in behind.err
    planned = firnline("mirror", "events", "--dry-run", *asked).out
    assert "The Delta mirror of events would get a new version: 1 file more" in planned
    data = firnline("mirror", "events", "--json", *asked).data
    assert (data["delta"]["version"], data["delta"]["adds"], data["applied"]) == (1, 1, None)
    again = firnline("mirror", "events", *asked).out
    assert "The Delta mirror of events shows its newest state." in again
    assert sorted(path.name for path in (tmp_path / "events/_delta_log").iterdir()) == [
        "00000000000000000000.json",
        "00000000000000000001.json",
    ]


def test_a_mirror_that_waits_says_why_and_since_when(firnline: Firnline, settings: Path) -> None:
    asked = ("--settings", settings)
    firnline("mirror", "events", *asked)
    deleted = firnline("delete", "events", "--where", "x = 1", "--lazy", "--yes", *asked)
    assert deleted.code == 0
    told = firnline("mirror", "events", *asked)
    assert told.code == 0
    assert "The Delta mirror of events waits: " in told.out
    assert "waits since" in told.out
    ended = firnline("mirror", "events", "--check", "--json", *asked)
    assert ended.code == 1
    assert "merge the table, then run `firnline mirror " in ended.err
    assert not ended.data["same"]


def test_the_first_version_tells_how_far_it_is(firnline: Firnline, settings: Path) -> None:
    told = firnline("mirror", "events", "--progress", "json", "--settings", settings)
    first, last = (json.loads(line)["progress"] for line in told.err.splitlines())
    assert (first["action"], first["done"], first["total"]) == ("mirroring", 0, 1)
    assert last["detail"] == "1 of 1 files written to the Delta mirror"


def test_a_check_is_no_dry_run(firnline: Firnline, settings: Path) -> None:
    assert firnline("mirror", "events", "--check", "--dry-run", "--settings", settings).code == 2


def published(tmp_path: Path) -> int:
    return len(list((tmp_path / "events" / "_delta_log").glob("*.json")))


def test_a_command_that_commits_publishes_and_one_that_only_looks_does_not(
    firnline: Firnline, settings: Path, tmp_path: Path
) -> None:
    asked = ("--settings", settings)
    firnline("mirror", "events", *asked)
    append(tmp_path, 10)
    for looks in (("merge", "events", "--full", "--dry-run"), ("cleanup", "events", "--dry-run")):
        assert firnline(*looks, *asked).code == 0
    assert published(tmp_path) == 1
    merged = firnline("merge", "events", "--full", *asked)
    assert "The Delta mirror of events has a new version: 1 file more, 1 file less." in merged.out
    assert published(tmp_path) == 2
    deleted = firnline("delete", "events", "--where", "x = 1", "--yes", "--json", *asked)
    assert deleted.data["table"] == "events"  # nothing but JSON
    assert published(tmp_path) == 3
    assert firnline("mirror", "events", "--check", *asked).code == 0


@pytest.fixture
def half(tmp_path: Path) -> Path:
    """Two partitions with a mirror, of which one has a part that does not read."""
    root = f"file://{tmp_path}/events"
    settings = settings_file(
        tmp_path, f"tables: {{events: {{root: '{root}', mirror: [delta], partition_by: [p]}}}}"
    )
    table = open_table(find_table("events", settings))
    for n in range(2):
        Appender(table).append(pa.table({"x": [n, n], "p": ["good", "bad"]}))
    broken = next((tmp_path / "events/_data/p=bad").iterdir())
    broken.write_bytes(broken.read_bytes()[:-9])
    return settings


def test_of_a_merge_that_fails_half_way_the_committed_half_is_published(
    firnline: Firnline, half: Path, tmp_path: Path
) -> None:
    asked = ("--settings", half)
    assert firnline("mirror", "events", *asked).code == 0
    failed = firnline("merge", "events", "--full", *asked)
    assert failed.code not in {0, 2}
    assert "p=bad" in failed.err
    assert "The Delta mirror of events has a new version: 1 file more, 2 files less" in failed.out
    assert published(tmp_path) == 2


def test_the_error_of_a_run_is_that_of_the_run_though_nothing_can_be_published(
    firnline: Firnline, half: Path, tmp_path: Path
) -> None:
    asked = ("--settings", half)
    assert firnline("mirror", "events", *asked).code == 0
    (tmp_path / "events/_delta_log/00000000000000000000.json").write_text("damaged")
    failed = firnline("merge", "events", "--full", *asked)
    assert failed.code not in {0, 2}
    assert "the mirror of events was not published: " in failed.err
    assert "p=bad" in failed.err


def test_of_a_function_that_fails_half_way_the_committed_half_is_published(
    firnline: Firnline, half: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FIRNLINE_TABLES", str(half))
    assert firnline("mirror", "events").code == 0
    with pytest.raises(RunFailedError, match="p=bad"):
        product.merge("events", MergeOptions(full=True))
    assert published(tmp_path) == 2


def test_a_mirror_that_only_the_table_states_is_published_too(
    firnline: Firnline, settings: Path, tmp_path: Path
) -> None:
    """A command that is given the root has no settings file that would name it."""
    firnline("mirror", "events", "--settings", settings)
    root = f"file://{tmp_path}/events"
    deleted = firnline("delete", root, "--where", "x = 1", "--yes")
    assert "The Delta mirror of events has a new version: 1 file more, 1 file less." in deleted.out
    assert firnline("mirror", root, "--check").code == 0
    ended = settings_file(tmp_path, f"tables: {{events: {{root: '{root}', mirror: []}}}}")
    end = firnline("properties", "apply", "events", "--yes", "--settings", ended)
    assert (end.code, end.err) == (0, "")
    after = firnline("delete", root, "--where", "x = 0", "--yes")
    assert (published(tmp_path), "mirror" in after.out + after.err) == (2, False)


def test_settings_that_leave_the_mirror_out_do_not_end_it_and_the_answer_says_what_does(
    firnline: Firnline, settings: Path, tmp_path: Path
) -> None:
    firnline("mirror", "events", "--settings", settings)
    root = f"file://{tmp_path}/events"
    silent = settings_file(tmp_path, f"tables: {{events: {{root: '{root}'}}}}")
    answer = firnline("properties", "apply", "events", "--yes", "--settings", silent)
    assert answer.code == 0
    assert "events says what the settings say: nothing to do." in answer.out
    assert "events states mirror: [delta], and the settings do not name it: it goes" in answer.out
    assert "write mirror without delta into the settings file ([] if none is left; " in answer.out
    ends = settings_file(tmp_path, f"tables: {{events: {{root: '{root}', mirror: []}}}}")
    ended = firnline("properties", "apply", "events", "--yes", "--settings", ends)
    assert "goes on" not in ended.out
    again = firnline("properties", "apply", "events", "--yes", "--settings", silent)
    assert "mirror" not in again.out


def test_an_import_publishes(firnline: Firnline, settings: Path, tmp_path: Path) -> None:
    asked = ("--settings", settings)
    firnline("mirror", "events", *asked)
    old = tmp_path / "old"
    old.mkdir()
    pq.write_table(pa.table({"x": [7]}), old / "one.parquet")
    planned = firnline("import", "events", f"file://{old}", "--dry-run", *asked)
    assert (planned.code, published(tmp_path)) == (0, 1)
    imported = firnline("import", "events", f"file://{old}", *asked)
    assert "The Delta mirror of events has a new version: 1 file more, 0 files" in imported.out
    assert firnline("mirror", "events", "--check", *asked).code == 0


def test_an_append_publishes_when_it_is_asked_to(
    firnline: Firnline, settings: Path, tmp_path: Path
) -> None:
    asked = ("--settings", settings)
    file = tmp_path / "new.parquet"
    pq.write_table(pa.table({"x": [7]}), file)
    assert firnline("append", "events", file, *asked).code == 0
    assert published(tmp_path) == 0
    told = firnline("append", "events", file, "--mirror", *asked)
    assert "The Delta mirror of events has a new version: 3 files more, 0 files less." in told.out
    refused = firnline("append", f"file://{tmp_path}/other", file, "--mirror")
    assert refused.code == 2
    assert "name no mirror" in refused.err
    assert not (tmp_path / "other").exists()


def test_what_was_committed_stands_though_its_mirror_cannot_be_published(
    firnline: Firnline, settings: Path, tmp_path: Path
) -> None:
    asked = ("--settings", settings)
    firnline("mirror", "events", *asked)
    version = tmp_path / "events" / "_delta_log" / f"{0:020d}.json"
    version.write_text("{}\n")
    done = firnline("delete", "events", "--where", "x = 1", "--yes", *asked)
    assert done.code == 0
    assert "the mirror of events was not published: " in done.err
    assert f"`firnline mirror events --settings {settings}` publishes it" in done.err


def test_a_table_in_a_catalog_is_published_and_compared(
    firnline: Firnline, settings: Path, tmp_path: Path
) -> None:
    where = f"catalog: lake, name: 'ns.{{table}}', properties: {{uri: 'sqlite:///{tmp_path}/c.db'}}"
    root = f"file://{tmp_path}/events"
    text = f"tables: {{events: {{root: '{root}', mirror: [delta, {{iceberg: {{{where}}}}}]}}}}"
    asked = ("--settings", settings_file(tmp_path, text))
    told = firnline("mirror", "events", *asked)
    assert told.code == 0, told.err
    assert "The Delta mirror of events has a new version: 1 file more" in told.out
    assert "The Iceberg mirror of events has a new snapshot: 1 file more" in told.out
    assert firnline("mirror", "events", "--check", *asked).code == 0
    append(tmp_path, 10)
    behind = firnline("mirror", "events", "--check", "--json", *asked)
    assert behind.code == 1
    found = [behind.data[name]["missing"] for name in ("delta", "iceberg")]
    assert (behind.data["same"], found) == (False, [1, 1])


def test_a_command_without_the_catalog_says_what_was_not_published_and_how_to(
    firnline: Firnline, tmp_path: Path
) -> None:
    append(tmp_path, 0)
    root = f"file://{tmp_path}/events"
    where = f"catalog: lake, name: 'ns.{{table}}', properties: {{uri: 'sqlite:///{tmp_path}/c.db'}}"
    alone = settings_file(
        tmp_path, f"tables: {{events: {{root: '{root}', mirror: [{{iceberg: {{{where}}}}}]}}}}"
    )
    assert firnline("mirror", "events", "--settings", alone).code == 0
    done = firnline("delete", root, "--where", "x = 1", "--yes")
    assert done.code == 0
    assert done.err == (
        "firnline: the Iceberg mirror of events was not published: these settings do not say where "
        f"it is; what was committed stands, and `firnline mirror {root}` with the settings file "
        "that names its catalog publishes it\n"
    )
    both = settings_file(
        tmp_path,
        f"tables: {{events: {{root: '{root}', mirror: [delta, {{iceberg: {{{where}}}}}]}}}}",
    )
    assert firnline("mirror", "events", "--settings", both).code == 0
    done = firnline("delete", root, "--where", "x = 0", "--yes")
    assert "The Delta mirror of events has a new version" in done.out
    assert done.err.startswith("firnline: warning: the Iceberg mirror of events was not published:")
    assert "with the settings file that names its catalog publishes it\n" in done.err


def test_a_check_shows_one_mirror_where_the_catalog_of_the_other_fails(
    firnline: Firnline, settings: Path, tmp_path: Path
) -> None:
    where = (
        "catalog: lake, name: 'ns.{table}', "
        f"properties: {{uri: 'sqlite:///{tmp_path}/missing/c.db'}}"
    )
    root = f"file://{tmp_path}/events"
    text = f"tables: {{events: {{root: '{root}', mirror: [delta, {{iceberg: {{{where}}}}}]}}}}"
    asked = ("--settings", settings_file(tmp_path, text))
    assert firnline("mirror", "events", *asked).code == 1
    told = firnline("mirror", "events", "--check", *asked)
    assert told.code == 1
    assert "The Delta mirror of events shows the newest state." in told.out
    assert "The Iceberg mirror of events was not compared." in told.out
    assert "the Iceberg catalog lake does not answer" in told.err
    data = firnline("mirror", "events", "--check", "--json", *asked).data
    assert (data["same"], data["delta"]["same"], list(data["errors"])) == (False, True, ["iceberg"])
    append(tmp_path, 10)
    assert "1 live part is missing" in firnline("mirror", "events", "--check", *asked).err


def test_the_next_step_of_a_check_is_a_command_that_helps(
    firnline: Firnline, settings: Path, tmp_path: Path
) -> None:
    asked = ("--settings", settings)
    firnline("mirror", "events", *asked)
    version = tmp_path / "events" / "_delta_log" / f"{0:020d}.json"
    lines = version.read_text().splitlines(keepends=True)
    version.write_text("".join(line for line in lines if '"add"' not in line))
    told = firnline("mirror", "events", "--check", *asked)
    assert told.code == 1
    assert "1 live part is missing" in told.err
    assert f"run `firnline mirror events --settings {settings} --repair`" in told.err
    done = firnline("mirror", "events", "--repair", *asked)
    assert "The Delta mirror of events is repaired by a new version: 1 file more" in done.out
    assert firnline("mirror", "events", "--check", *asked).code == 0
    again = firnline("mirror", "events", "--repair", *asked)
    assert "The Delta mirror of events shows its newest state." in again.out
