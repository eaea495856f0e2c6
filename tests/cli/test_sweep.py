"""``firnline sweep``: a list unless told to delete."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from firnline.commit.base import take_base
from firnline.commit.transaction import Change, commit
from firnline.errors import StoreError
from firnline.ids import format_uuid7
from firnline.log.txn_file import Counts, RunIdentity
from firnline.settings.load import TableSettings
from firnline.state.history import history
from firnline.store.base import Deleted
from firnline.store.client import ObjectClient
from firnline.table import open_table
from tests.support.cli import LogOnlyTable, Outcome, content_of

Firnline = Callable[..., Outcome]
DAY_MS = 86_400_000


def put(table: LogOnlyTable, name: str, days: int) -> str:
    """An object that nobody names, so many days old; its key."""
    path = table.folder / "_data" / "d=1" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * 2048)
    past = time.time() - days * 86_400
    os.utime(path, (past, past))
    return f"{table.folder.name}/_data/d=1/{name}"


def commit_days_ago(table: LogOnlyTable, days: int) -> None:
    """One transaction, made so long ago: what is older need not wait for a mark."""
    opened = open_table(TableSettings(name=table.folder.name, root=table.root))
    change = Change(op="analyze", replaces=(), adds=(), counts=Counts())
    made = commit(opened, take_base(opened), change, RunIdentity(run_id="r"))
    then = time.time() - days * 86_400
    for key in (opened.paths.txn(made.header.seq), made.header.log):
        os.utime(table.folder.parent / key, (then, then))


@pytest.fixture
def orphans(table: LogOnlyTable) -> list[str]:
    """An old part of a dead run, an old object of somebody else, a part of a run under way."""
    commit_days_ago(table, 5)
    now = int(time.time() * 1000)
    return [
        put(table, f"{format_uuid7(now - 9 * DAY_MS, 1)}.parquet", 9),
        put(table, "somebody.parquet", 9),
        put(table, f"{format_uuid7(now - DAY_MS, 1)}.parquet", 1),
    ]


def test_orphans_are_listed_with_sizes_and_ages_and_nothing_changes(
    firnline: Firnline, table: LogOnlyTable, orphans: list[str]
) -> None:
    before = content_of(table.folder)
    shown = firnline("sweep", table.root)
    assert shown.code == 0
    for key, kind in zip(orphans[:2], ("part", "foreign"), strict=True):
        (line,) = (line for line in shown.out.splitlines() if line.startswith(key))
        assert line.removeprefix(key).split() == [kind, "2.0", "KiB", "9d"]
    assert "2 in all" in shown.out
    assert f"`firnline sweep {table.root} --delete` deletes them." in " ".join(shown.out.split())
    assert "1 with names that firnline does not give" in shown.out
    assert "1 object (2.0 KiB) that nobody names, not older than 3d" in shown.out
    assert orphans[2] not in shown.out
    assert content_of(table.folder) == before


def test_json_lists_every_orphan(
    firnline: Firnline, table: LogOnlyTable, orphans: list[str]
) -> None:
    data = firnline("sweep", table.root, "--json").data
    assert [o["key"] for o in data["orphans"]] == orphans[:2]
    assert data["orphans"][0]["age"] >= 9 * DAY_MS
    assert (data["bytes"], data["young"], data["grace"]) == (4096, 1, 3 * DAY_MS)


def test_delete_deletes_what_has_our_names_and_a_key_the_others(
    firnline: Firnline, table: LogOnlyTable, orphans: list[str]
) -> None:
    shown = firnline("sweep", table.root, "--delete")
    assert "deleted          1, 2.0 KiB" in shown.out
    assert "somebody has to approve its key" in shown.out
    left = {path.name for path in (table.folder / "_data/d=1").iterdir()}
    assert left == {Path(key).name for key in orphans[1:]}
    given = firnline("sweep", table.root, "--delete", "--key", orphans[1], "--key", "no/such")
    assert "deleted          1, 2.0 KiB" in given.out
    assert "1 key given that is not an orphan (any more)." in given.out
    assert firnline("sweep", table.root).out.startswith("No orphans in events.\n")


def test_a_long_list_is_cut_for_people(firnline: Firnline, table: LogOnlyTable) -> None:
    commit_days_ago(table, 5)
    for number in range(60):
        put(table, f"{number:03d}.parquet", 9)
    shown = firnline("sweep", table.root)
    assert "The first 50 are shown; --json lists 60." in shown.out
    assert "59.parquet" not in shown.out
    assert len(firnline("sweep", table.root, "--json").data["orphans"]) == 60


def test_what_a_process_that_slept_may_name_waits_for_a_later_sweep(
    firnline: Firnline, table: LogOnlyTable
) -> None:
    put(table, f"{format_uuid7(int(time.time() * 1000) - 9 * DAY_MS, 1)}.parquet", 9)
    waits = "1 orphan (2.0 KiB) may still be named by a process that slept: a later sweep deletes"
    before = content_of(table.folder)
    assert waits in " ".join(firnline("sweep", table.root).out.split())
    assert content_of(table.folder) == before
    shown = firnline("sweep", table.root, "--delete").out
    assert waits.replace(" (2.0 KiB)", "") in " ".join(shown.split())
    opened = open_table(TableSettings(name=table.folder.name, root=table.root))
    assert [header.op for header in history(opened)] == ["sweep"], "the mark"


def test_an_age_below_a_day_is_refused(
    firnline: Firnline, table: LogOnlyTable, orphans: list[str]
) -> None:
    shown = firnline("sweep", table.root, "--older-than", "23h", "--delete")
    assert shown.code == 2
    assert "ask for at least 1d" in shown.sentence
    assert firnline("sweep", table.root, "--older-than", "10d").out.startswith("No orphans")
    assert firnline("sweep", table.root, "--older-than", "soon").code == 2


def test_without_a_log_nothing_is_an_orphan(
    firnline: Firnline, table: LogOnlyTable, orphans: list[str]
) -> None:
    for path in (table.folder / "_log").iterdir():
        path.unlink()
    before = content_of(table.folder)
    shown = firnline("sweep", table.root, "--delete")
    assert shown.code == 1
    assert "firnline rebuild" in shown.sentence
    assert content_of(table.folder) == before


def test_orphans_that_cannot_be_deleted_are_listed_and_the_run_fails(
    firnline: Firnline,
    table: LogOnlyTable,
    orphans: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(self: ObjectClient, keys: Sequence[str]) -> Sequence[Deleted]:
        locked = StoreError("the object is locked", next_step="unlock it")
        return [Deleted(key, locked) for key in keys]

    monkeypatch.setattr(ObjectClient, "delete_batch", refuse)
    shown = firnline("sweep", table.root, "--delete")
    assert shown.code == 1
    assert "the object is locked" in shown.out
    assert shown.sentence.startswith("1 orphan of events could not be deleted")
    assert firnline("sweep", table.root, "--delete", "--json").error["type"] == "SweepFailedError"


def test_keys_without_a_deletion_are_refused(
    firnline: Firnline, table: LogOnlyTable, orphans: list[str]
) -> None:
    """The list would have all orphans, as if no key had been given."""
    done = firnline("sweep", table.root, "--key", orphans[1])
    assert done.code == 2
    assert "--key names what --delete may delete" in done.sentence
