"""What waits for a person, on a real scheduler: asked, answered by the API, or left alone."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import pytest

from firnline.airflow.answers import NONE
from firnline.commit.base import take_base
from firnline.commit.transaction import Change, commit
from firnline.errors import UsageError
from firnline.log.txn_file import Counts, RunIdentity
from firnline.operations.erasure.ask import AskOptions, ask
from firnline.operations.erasure.folder import open_folder
from firnline.operations.erasure.run import People
from firnline.settings.load import load_settings
from firnline.state.history import history
from tests.dags.days import DAYS, append_days, part_files, partition, rows_by_day
from tests.dags.maintained import Maintained, Run, files_in
from tools.airflow_api import wait_until

DAY_MS = 86_400_000
WAIT = {"dry_run": False, "answer_within": "1h"}
IMPATIENT = {"dry_run": False, "answer_within": "10s"}
"""Not shorter: Airflow fails a task that is resumed before the process that paused it has ended."""


@pytest.fixture(scope="module")
def removed(maintained: Maintained) -> Maintained:
    """A table of seven days with 20 rows each."""
    append_days(maintained.table("removed"), DAYS)
    return maintained


@pytest.fixture(scope="module", autouse=True)
def silent(removed: Maintained) -> tuple[Run, Run]:
    """Removals without an answer and with one and then none, begun first: silence takes its time.

    It is long enough to give the one answer on a machine that does much else.
    """
    conf = {"dry_run": False, "answer_within": "60s", "partitions": [f"*={DAYS[4]}"]}
    once = removed.start("remove_partitions", "removed", conf)
    assert removed.question(once, "pick")["options"] == [partition(DAYS[4]), NONE]
    removed.answer(once, "pick", partition(DAYS[4]))
    return removed.start("remove_partitions", "removed", {**conf, **IMPATIENT}), once


def test_a_removal_asks_twice_and_takes_what_was_picked_and_nothing_else(
    removed: Maintained,
) -> None:
    run = removed.start("remove_partitions", "removed", WAIT)
    pick = removed.question(run, "pick")
    assert pick["options"] == [*(partition(day) for day in DAYS), NONE]
    assert pick["multiple"] is True
    assert f"| `{partition(DAYS[0])}` | 1 | 20 | " in pick["body"]
    removed.answer(run, "pick", partition(DAYS[0]), partition(DAYS[2]))
    approve = removed.question(run, "approve")
    assert (approve["options"], approve["defaults"]) == (["Approve", "Reject"], ["Reject"])
    assert approve["subject"] == "Remove 2 partitions of table removed?"
    assert "**40 rows, " in approve["body"]
    assert "**They can be brought back for 1s** after the removal" in approve["body"]
    assert partition(DAYS[1]) not in approve["body"]
    # Nobody holds the lock while a person thinks.
    assert removed.stack.api.pools()["removed.merge"]["occupied_slots"] == 0
    assert len(rows_by_day(removed.table("removed"))) == 7
    removed.answer(run, "approve", "Approve")
    assert run.ended().state == "success", run.log("remove_partitions")
    assert list(rows_by_day(removed.table("removed"))) == [DAYS[1], *DAYS[3:]]
    (header, *_) = history(removed.table("removed"))
    assert (header.op, header.run.run_id) == ("drop", run.run_id)
    assert header.run.approved_by == run.xcom("approve")["by"]
    assert run.task("remove_partitions")["pool"] == "removed.merge"
    assert run.xcom("remove_partitions")["transactions"] == [header.seq]


def test_after_an_approval_by_nobody_of_the_approvers_the_run_asks_again(
    maintained: Maintained,
) -> None:
    append_days(maintained.table("guarded"), DAYS[:2])
    run = maintained.start("remove_partitions", "guarded", WAIT)
    maintained.question(run, "pick")
    maintained.answer(run, "pick", partition(DAYS[0]))
    asked = maintained.question(run, "approve")
    assert asked["body"].endswith("Only an approval by `bo`, `cy` counts.")
    maintained.answer(run, "approve", "Approve")
    refused = "who is not among its approvers, which does not count"
    assert wait_until(lambda: refused in run.log("approve"))
    # The answer that did not count is taken back right after it was logged.
    assert wait_until(lambda: not maintained.question(run, "approve")["response_received"])
    assert maintained.question(run, "approve")["subject"] == asked["subject"]
    assert run.tasks["remove_partitions"] is None
    assert len(rows_by_day(maintained.table("guarded"))) == 2


@pytest.mark.turn("a plan that a person rejects")
def test_a_rejected_removal_removes_nothing(removed: Maintained) -> None:
    before = rows_by_day(removed.table("removed"))
    run = removed.start("remove_partitions", "removed", WAIT)
    removed.question(run, "pick")
    with pytest.raises(UsageError, match=r"400.*Invalid options"):
        removed.answer(run, "pick", "ts_day=1999-01-01")
    removed.answer(run, "pick", partition(DAYS[3]))
    removed.question(run, "approve")
    removed.answer(run, "approve", "Reject")
    assert run.ended().state == "success"
    assert run.tasks["remove_partitions"] == "skipped"
    assert run.xcom("approve")["approved"] is False
    assert rows_by_day(removed.table("removed")) == before


def test_a_partition_that_changed_meanwhile_is_named_and_nothing_is_removed(
    removed: Maintained,
) -> None:
    run = removed.start("remove_partitions", "removed", WAIT)
    removed.question(run, "pick")
    removed.answer(run, "pick", partition(DAYS[5]), partition(DAYS[6]))
    removed.question(run, "approve")
    append_days(removed.table("removed"), [DAYS[6]], rows=1, first=1000)
    before = rows_by_day(removed.table("removed"))
    removed.answer(run, "approve", "Approve")
    assert run.ended().state == "failed"
    assert run.error("remove_partitions").startswith(
        "1 of 2 partitions changed after the list was made: "
        f"{partition(DAYS[6])} has 2 parts now (21 rows, "
    )
    assert run.task("remove_partitions")["try_number"] == 1
    assert rows_by_day(removed.table("removed")) == before


def test_a_removal_begins_as_a_dry_run_that_asks_nobody(removed: Maintained) -> None:
    run = removed.start("remove_partitions", "removed").ended()
    assert run.tasks == {
        "list": "success",
        "pick": "skipped",
        "approve": "skipped",
        "remove_partitions": "skipped",
    }
    assert f"partition {partition(DAYS[3])}: parts 1, rows 20" in run.log("list")


@pytest.mark.parametrize(
    ("conf", "said"),
    [
        ({"answer_within": "soon"}, "400.*Invalid input for param answer_within"),
        ({"partitions": "ts_day=*"}, "400.*Invalid input for param partitions"),
        ({"dry_run": 0}, "400.*Invalid input for param dry_run"),
    ],
    ids=str,
)
def test_a_param_of_the_wrong_form_is_refused_before_there_is_a_run(
    removed: Maintained, conf: dict[str, Any], said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        removed.start("remove_partitions", "removed", conf)


def test_a_param_that_cannot_be_right_fails_before_anybody_is_asked(removed: Maintained) -> None:
    conf = {"dry_run": False, "partitions": ["ts_day=1999-*"]}
    unknown = removed.start("remove_partitions", "removed", conf)
    mistyped = removed.start("remove_partitions", "removed", {"dryrun": False})
    assert unknown.ended().state == mistyped.ended().state == "failed"
    assert unknown.error("list").startswith("no partition of the table matches 'ts_day=1999-*'; ")
    assert mistyped.error("list").startswith("a removal of partitions has no param dryrun; use ")


@pytest.fixture(scope="module")
def orphans(maintained: Maintained) -> list[Path]:
    """Three parts that nobody names, ten days old, and one of today; a transaction in between."""
    table = maintained.table("swept")
    append_days(table, DAYS[:1])
    nothing = Change(op="analyze", replaces=(), adds=(), counts=Counts())
    commit(table, take_base(table), nothing, RunIdentity(user="test"))
    now = table.clock.now_ms()
    folder = Path(urlparse(table.settings.root).path)
    for file in (*folder.glob("_txn/*"), *folder.glob("_log/*_m_*")):
        os.utime(file, (now / 1000 - 5 * 86_400, now / 1000 - 5 * 86_400))
    names = [table.ids.uuid7(now - 10 * DAY_MS) for _ in range(3)] + [table.ids.uuid7(now)]
    files = part_files(table, [table.paths.data_part(partition(DAYS[0]), name) for name in names])
    for file in files:
        file.write_bytes(b"left behind")
    for file in files[:3]:
        os.utime(file, (now / 1000 - 864_000, now / 1000 - 864_000))
    return files


def test_a_sweep_deletes_exactly_what_was_approved(
    maintained: Maintained, orphans: list[Path]
) -> None:
    run = maintained.start("orphan_sweep", "swept", WAIT)
    asked = maintained.question(run, "approve")
    assert asked["subject"] == "Delete 3 orphans of table swept?"
    assert "**3 objects, 33 B,**" in asked["body"]
    assert "- 3 parts that no log file names" in asked["body"]
    # An orphan that nobody has seen on the list.
    later = orphans[0].with_name(f"00{orphans[0].name[2:]}")
    shutil.copy2(orphans[0], later)
    maintained.answer(run, "approve", "Approve")
    assert run.ended().state == "success", (run.tasks, run.log("orphan_sweep"))
    assert [file.exists() for file in orphans] == [False, False, False, True]
    assert later.exists()
    assert run.task("orphan_sweep")["pool"] == "swept.cleanup"
    assert run.xcom("orphan_sweep")["deleted"] == 3
    assert rows_by_day(maintained.table("swept")) == {DAYS[0]: 20}


def test_a_sweep_that_nobody_approves_deletes_nothing(
    maintained: Maintained, orphans: list[Path]
) -> None:
    left = list(orphans[0].parent.iterdir())
    look = maintained.start("orphan_sweep", "swept")
    silent = maintained.start("orphan_sweep", "swept", IMPATIENT)
    # Somebody marks the question as answered, without an answer.
    marked = maintained.start("orphan_sweep", "swept", WAIT)
    maintained.question(marked, "approve")
    path = f"/dags/{marked.dag_id}/dagRuns/{marked.run_id}/taskInstances/approve"
    maintained.stack.api.call("PATCH", path, {"new_state": "success"})
    assert marked.ended().state == "failed"
    assert marked.error("orphan_sweep").startswith(
        f"nobody approved run {marked.run_id}, so nothing "
    )
    assert look.ended().tasks == {
        "plan": "success",
        "approve": "skipped",
        "orphan_sweep": "skipped",
    }
    assert look.xcom("plan")["orphans_asked"] == 1
    assert (silent.ended().state, silent.tasks["orphan_sweep"]) == ("success", "skipped")
    assert list(orphans[0].parent.iterdir()) == left


SECRET_KEY = 7_654_321
LONG_KEY = 8_765_432_109_876_543
"""Stands nowhere by chance."""


@pytest.fixture(scope="module")
def erased(maintained: Maintained) -> Maintained:
    """Two days of 20 keys each, and a key that must go on both of them."""
    table = maintained.table("erased")
    append_days(table, DAYS[:2])
    append_days(table, DAYS[:2], rows=1, first=SECRET_KEY)
    return maintained


@pytest.mark.turn("a plan that a person rejects")
def test_an_erase_that_is_rejected_erases_nothing(erased: Maintained) -> None:
    before = rows_by_day(erased.table("erased"))
    conf = {**WAIT, "columns": ["k"], "keys": [SECRET_KEY]}
    run = erased.start("erase", "erased", conf)
    asked = erased.question(run, "approve")
    assert asked["subject"] == "Erase 1 key from table erased?"
    assert str(SECRET_KEY) not in asked["body"]
    erased.answer(run, "approve", "Reject")
    assert run.ended().state == "success"
    assert (run.tasks["erase"], run.tasks["report"]) == ("skipped", "skipped")
    assert rows_by_day(erased.table("erased")) == before


@pytest.mark.turn("a job that waits for an approval")
def test_an_approved_erase_takes_the_keys_of_a_file_and_names_its_certificate(
    erased: Maintained, tmp_path: Path
) -> None:
    keys = tmp_path / "keys.csv"
    keys.write_text(f"k\n{SECRET_KEY}\n3\n")
    conf = {**WAIT, "columns": ["k"], "keys_file": str(keys)}
    run = erased.start("erase", "erased", conf)
    assert "All rows of **2 keys** of `k` go for good." in erased.question(run, "approve")["body"]
    erased.answer(run, "approve", "Approve")
    assert run.ended().state == "success", run.log("erase")
    assert rows_by_day(erased.table("erased")) == {DAYS[0]: 19, DAYS[1]: 19}
    report = run.xcom("report")
    (certificate,) = report["certificates"]
    # This table has no clean-up in Airflow.
    assert f"; certificate {certificate}: `firnline certificate erased {certificate}`" in run.note
    (header, *_) = history(erased.table("erased"))
    assert (header.op, header.run.approved_by) == ("erase", run.xcom("approve")["by"])
    # Here one and the same person, under one name.
    assert header.run.approved_by == header.run.user
    assert report["transactions"] == [header.seq]
    logged = "".join(run.log(task) for task in ("plan", "approve", "erase", "report"))
    assert str(SECRET_KEY) not in logged


@pytest.mark.turn("a job that waits for an approval")
def test_a_key_is_in_nothing_that_airflow_and_spark_store_however_its_erase_ends(
    erased: Maintained, tmp_path: Path
) -> None:
    table, keys, text = erased.table("erased"), tmp_path / "keys.csv", str(LONG_KEY).encode()
    append_days(table, DAYS[:1], rows=1, first=LONG_KEY)
    before, conf = rows_by_day(table), {**WAIT, "columns": ["k"], "keys_file": str(keys)}
    keys.write_text(f"k\n{LONG_KEY}x\n")
    wrong = erased.start("erase", "erased", conf)
    assert wrong.ended().state == "failed"
    keys.write_text(f"k\n{LONG_KEY}\n")
    changed, run = erased.start("erase", "erased", conf), erased.start("erase", "erased", conf)
    erased.question(changed, "approve")
    keys.unlink()
    erased.answer(changed, "approve", "Approve")
    assert changed.ended().state == "failed"
    assert rows_by_day(table) == before
    keys.write_text(f"k\n{LONG_KEY}\n")
    erased.question(run, "approve")
    erased.answer(run, "approve", "Approve")
    assert run.ended().state == "success", run.log("erase")
    assert rows_by_day(table) == {**before, DAYS[0]: before[DAYS[0]] - 1}
    events = dict(files_in(erased.settings_file.parent / "tables" / "events"))
    assert b"SparkListenerJobEnd" in b"".join(events.values())
    kept = erased.kept()
    for each in (wrong, changed, run):
        assert any(each.run_id in where or each.run_id.encode() in kept[where] for where in kept)
    assert any(str(keys).encode() in content for content in kept.values()), "params are kept"
    shown = [where for where, content in (kept | events).items() if text in content]
    assert shown == []


@pytest.mark.turn("a job that waits for an approval")
def test_people_are_erased_from_all_their_tables_by_one_approval(
    maintained: Maintained, tmp_path: Path
) -> None:
    for name in ("people", "guests"):
        append_days(maintained.table(name), DAYS[:1])
    keys = tmp_path / "keys.csv"
    keys.write_text("k\n3\n4\n")
    settings = load_settings(maintained.settings_file)
    people = People(open_folder(settings.erasure), settings, maintained.table)
    options = AskOptions(keys=str(keys), reference="T-1")
    taken = ask(people, options, RunIdentity(run_id="asks"))
    run = maintained.erase_people(answer_within="1h")
    asked = maintained.question(run, "approve")
    assert asked["subject"] == "Erase 1 request from 2 tables?"
    assert "| `guests` | 1 | 2 | 1 | " in asked["body"]
    maintained.answer(run, "approve", "Approve")
    assert run.ended().state == "success", run.log("start")
    assert run.xcom("start")["started"] == ["guests", "people"]
    by = run.xcom("approve")["by"]
    for name in ("guests", "people"):
        erase = Run(maintained.stack, "erase", f"person__{run.run_id}__{name}")
        assert erase.ended().state == "success", erase.log("erase")
        assert rows_by_day(maintained.table(name)) == {DAYS[0]: 18}
        (header, *_) = history(maintained.table(name))
        assert (header.op, header.run.approved_by) == ("erase", by)
    # Nobody has approved it by naming a run that was not.
    request = run.xcom("plan")["erases"][0]["requests"]
    conf = {**WAIT, "columns": ["k"], "requests": request, "asked_in": "manual__other"}
    forged = maintained.start("erase", "people", conf)
    assert forged.ended().state == "failed"
    assert "nobody approved run manual__other" in forged.error("approve")
    assert maintained.erase_people().ended().tasks == {
        "plan": "success",
        "approve": "skipped",
        "start": "skipped",
    }
    assert taken.request.id in run.log("plan") or "T-1" in run.log("plan")


@pytest.mark.turn("a DAG whose job rewrites rows")
def test_a_delete_by_hand_deletes_what_its_condition_says(erased: Maintained) -> None:
    table = erased.table("erased")
    conf = {"where": "k >= 15 and k < 20", "partitions": [partition(DAYS[0])]}
    plan = erased.start("delete_where", "erased", conf)
    wrong = erased.start("delete_where", "erased", {"where": "no_such = 1"})
    assert plan.ended().tasks == {"plan": "success", "delete_where": "skipped", "report": "skipped"}
    assert wrong.ended().state == "failed"
    assert "no_such" in wrong.error("plan")
    before = rows_by_day(table)
    run = erased.start("delete_where", "erased", {**conf, "dry_run": False}).ended()
    assert run.state == "success", run.log("delete_where")
    assert rows_by_day(table) == {**before, DAYS[0]: before[DAYS[0]] - 5}
    assert run.xcom("report")["counts"]["rows_deleted"] == 5
    with pytest.raises(UsageError, match=r"400.*Invalid input for param where"):
        erased.start("delete_where", "erased")


def test_silence_removes_nothing_whichever_question_it_meets(
    removed: Maintained, silent: tuple[Run, Run]
) -> None:
    never, once = silent
    assert never.ended().state == "success"
    assert never.tasks == {
        "list": "success",
        "pick": "success",
        "approve": "skipped",
        "remove_partitions": "skipped",
    }
    assert never.xcom("pick") == {"picked": [], "by": None, "timed_out": True}
    assert once.ended().state == "success"
    assert once.xcom("pick")["picked"] == [partition(DAYS[4])]
    assert once.tasks["remove_partitions"] == "skipped"
    assert once.xcom("approve") == {"approved": False, "by": None, "timed_out": True}
    assert rows_by_day(removed.table("removed"))[DAYS[4]] == 20
