"""What waits for a person, on a real scheduler: asked, answered by the API, or left alone."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from firnline.errors import UsageError
from firnline.history import history
from tests.dags.operated import (
    DAYS,
    Operated,
    append_days,
    part_files,
    partition,
    rows_by_day,
)

DAY_MS = 86_400_000
WAIT = {"dry_run": False, "answer_within": "10m"}


@pytest.fixture(scope="module")
def removed(operated: Operated) -> Operated:
    """A table of seven days with 20 rows each."""
    append_days(operated.table("removed"), DAYS)
    return operated


def test_a_removal_asks_twice_and_takes_what_was_picked_and_nothing_else(
    removed: Operated,
) -> None:
    run = removed.trigger("remove_partitions", "removed", WAIT)
    pick = removed.question(run, "pick")
    assert pick["options"] == [partition(day) for day in DAYS]
    assert pick["multiple"] is True
    assert f"| `{partition(DAYS[0])}` | 1 | 20 | " in pick["body"]
    removed.answer(run, "pick", partition(DAYS[0]), partition(DAYS[2]))
    approve = removed.question(run, "approve")
    assert (approve["options"], approve["defaults"]) == (["Approve", "Reject"], ["Reject"])
    assert approve["subject"] == "Remove 2 partitions of table removed?"
    assert "**40 rows, " in approve["body"]
    assert partition(DAYS[1]) not in approve["body"]
    # Nobody holds the lock while a person thinks.
    assert removed.stack.api.pools()["removed.merge"]["occupied_slots"] == 0
    assert len(rows_by_day(removed.table("removed"))) == 7
    removed.answer(run, "approve", "Approve")
    assert run.ended().state == "success", run.log("remove_partitions")
    assert list(rows_by_day(removed.table("removed"))) == [DAYS[1], *DAYS[3:]]
    (header, *_) = history(removed.table("removed"))
    assert (header.op, header.run.run_id) == ("drop", run.run_id)
    assert header.run.user == run.xcom("approve")["by"]
    assert run.task("remove_partitions")["pool"] == "removed.merge"
    assert run.xcom("remove_partitions")["transactions"] == [header.seq]


def test_a_rejected_removal_removes_nothing(removed: Operated) -> None:
    before = rows_by_day(removed.table("removed"))
    run = removed.trigger("remove_partitions", "removed", WAIT)
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


def test_silence_removes_nothing_whichever_question_it_meets(removed: Operated) -> None:
    before = rows_by_day(removed.table("removed"))
    conf = {"dry_run": False, "answer_within": "1s", "partitions": [f"*={DAYS[4]}"]}
    run = removed.trigger("remove_partitions", "removed", conf).ended()
    assert run.state == "success"
    assert run.tasks == {
        "list": "success",
        "pick": "success",
        "approve": "skipped",
        "remove_partitions": "skipped",
    }
    assert run.xcom("pick") == {"picked": [], "by": None, "timed_out": True}
    run = removed.trigger("remove_partitions", "removed", {**conf, "answer_within": "8s"})
    assert removed.question(run, "pick")["options"] == [partition(DAYS[4])]
    removed.answer(run, "pick", partition(DAYS[4]))
    assert run.ended().state == "success"
    assert run.tasks["remove_partitions"] == "skipped"
    assert run.xcom("approve") == {"approved": False, "by": None, "timed_out": True}
    assert rows_by_day(removed.table("removed")) == before


def test_a_partition_that_changed_meanwhile_is_named_and_nothing_is_removed(
    removed: Operated,
) -> None:
    run = removed.trigger("remove_partitions", "removed", WAIT)
    removed.question(run, "pick")
    removed.answer(run, "pick", partition(DAYS[5]), partition(DAYS[6]))
    removed.question(run, "approve")
    append_days(removed.table("removed"), [DAYS[6]], rows=1, first=1000)
    before = rows_by_day(removed.table("removed"))
    removed.answer(run, "approve", "Approve")
    assert run.ended().state == "failed"
    assert run.error("remove_partitions").startswith(
        "1 of 2 partitions changed since they were listed: "
        f"{partition(DAYS[6])} has 2 parts now (21 rows, "
    )
    assert run.task("remove_partitions")["try_number"] == 1
    assert rows_by_day(removed.table("removed")) == before


def test_a_removal_begins_as_a_dry_run_that_asks_nobody(removed: Operated) -> None:
    run = removed.trigger("remove_partitions", "removed").ended()
    assert run.tasks == {
        "list": "success",
        "pick": "skipped",
        "approve": "skipped",
        "remove_partitions": "skipped",
    }
    assert f"{partition(DAYS[3])}: 1 parts, 20 rows" in run.log("list")


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
    removed: Operated, conf: dict[str, Any], said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        removed.trigger("remove_partitions", "removed", conf)


def test_a_param_that_cannot_be_right_fails_before_anybody_is_asked(removed: Operated) -> None:
    conf = {"dry_run": False, "partitions": ["ts_day=1999-*"]}
    unknown = removed.trigger("remove_partitions", "removed", conf)
    assert unknown.ended().state == "failed"
    assert unknown.error("list").startswith("no partition of the table matches 'ts_day=1999-*'; ")
    mistyped = removed.trigger("remove_partitions", "removed", {"dryrun": False}).ended()
    assert mistyped.error("list").startswith("a removal of partitions has no param dryrun; use ")


@pytest.fixture(scope="module")
def orphans(operated: Operated) -> list[Path]:
    """Three parts that nobody names, ten days old, and one of today."""
    table = operated.table("swept")
    append_days(table, DAYS[:1])
    now = table.clock.now_ms()
    names = [table.ids.uuid7(now - 10 * DAY_MS) for _ in range(3)] + [table.ids.uuid7(now)]
    files = part_files(table, [table.paths.data_part(partition(DAYS[0]), name) for name in names])
    for file in files:
        file.write_bytes(b"left behind")
    for file in files[:3]:
        os.utime(file, (now / 1000 - 864_000, now / 1000 - 864_000))
    return files


def test_a_sweep_deletes_exactly_what_was_approved(operated: Operated, orphans: list[Path]) -> None:
    run = operated.trigger("orphan_sweep", "swept", WAIT)
    asked = operated.question(run, "approve")
    assert asked["subject"] == "Delete 3 orphans of table swept?"
    assert "**3 objects, 33 B,**" in asked["body"]
    assert "- 3 parts that no log file names" in asked["body"]
    # An orphan that nobody has seen on the list.
    later = orphans[0].with_name(f"00{orphans[0].name[2:]}")
    shutil.copy2(orphans[0], later)
    operated.answer(run, "approve", "Approve")
    assert run.ended().state == "success", (run.tasks, run.log("orphan_sweep"))
    assert [file.exists() for file in orphans] == [False, False, False, True]
    assert later.exists()
    assert run.task("orphan_sweep")["pool"] == "swept.cleanup"
    assert run.xcom("orphan_sweep")["deleted"] == 3
    assert rows_by_day(operated.table("swept")) == {DAYS[0]: 20}


def test_a_sweep_that_nobody_approves_deletes_nothing(
    operated: Operated, orphans: list[Path]
) -> None:
    left = list(orphans[0].parent.iterdir())
    look = operated.trigger("orphan_sweep", "swept").ended()
    assert look.tasks == {"plan": "success", "approve": "skipped", "orphan_sweep": "skipped"}
    assert look.xcom("plan")["orphans_asked"] == 1
    run = operated.trigger("orphan_sweep", "swept", {**WAIT, "answer_within": "1s"}).ended()
    assert (run.state, run.tasks["orphan_sweep"]) == ("success", "skipped")
    # Somebody marks the question as answered, without an answer.
    run = operated.trigger("orphan_sweep", "swept", WAIT)
    operated.question(run, "approve")
    path = f"/dags/{run.dag_id}/dagRuns/{run.run_id}/taskInstances/approve"
    operated.stack.api.call("PATCH", path, {"new_state": "success"})
    assert run.ended().state == "failed"
    assert run.error("orphan_sweep").startswith(f"nobody approved run {run.run_id}, so nothing ")
    assert list(orphans[0].parent.iterdir()) == left


SECRET_KEY = 7_654_321


@pytest.fixture(scope="module")
def erased(operated: Operated) -> Operated:
    """Two days of 20 keys each, and a key that must go on both of them."""
    table = operated.table("erased")
    append_days(table, DAYS[:2])
    append_days(table, DAYS[:2], rows=1, first=SECRET_KEY)
    return operated


def test_an_erase_that_is_rejected_erases_nothing(erased: Operated) -> None:
    conf = {**WAIT, "columns": ["k"], "keys": [SECRET_KEY]}
    run = erased.trigger("erase", "erased", conf)
    asked = erased.question(run, "approve")
    assert asked["subject"] == "Erase 1 keys from table erased?"
    assert str(SECRET_KEY) not in asked["body"]
    erased.answer(run, "approve", "Reject")
    assert run.ended().state == "success"
    assert (run.tasks["erase"], run.tasks["report"]) == ("skipped", "skipped")
    assert rows_by_day(erased.table("erased")) == {DAYS[0]: 21, DAYS[1]: 21}


def test_an_approved_erase_takes_the_keys_of_a_file_and_names_its_certificate(
    erased: Operated, tmp_path: Path
) -> None:
    keys = tmp_path / "keys.csv"
    keys.write_text(f"k\n{SECRET_KEY}\n3\n")
    conf = {**WAIT, "columns": ["k"], "keys_file": str(keys)}
    run = erased.trigger("erase", "erased", conf)
    assert "All rows of **2 keys** of `k` go for good." in erased.question(run, "approve")["body"]
    erased.answer(run, "approve", "Approve")
    assert run.ended().state == "success", run.log("erase")
    assert rows_by_day(erased.table("erased")) == {DAYS[0]: 19, DAYS[1]: 19}
    report = run.xcom("report")
    (certificate,) = report["certificates"]
    assert f"firnline certificate erased {certificate}" in run.log("report")
    (header, *_) = history(erased.table("erased"))
    assert (header.op, header.run.user) == ("erase", run.xcom("approve")["by"])
    assert report["transactions"] == [header.seq]
    logged = "".join(run.log(task) for task in ("plan", "approve", "erase", "report"))
    assert str(SECRET_KEY) not in logged


def test_a_delete_by_hand_deletes_what_its_condition_says(erased: Operated) -> None:
    table = erased.table("erased")
    conf = {"where": "k >= 15", "partitions": [partition(DAYS[0])]}
    plan = erased.trigger("delete_where", "erased", conf).ended()
    assert plan.tasks == {"plan": "success", "delete_where": "skipped", "report": "skipped"}
    before = rows_by_day(table)
    run = erased.trigger("delete_where", "erased", {**conf, "dry_run": False}).ended()
    assert run.state == "success", run.log("delete_where")
    assert rows_by_day(table) == {**before, DAYS[0]: before[DAYS[0]] - 5}
    assert run.xcom("report")["counts"]["rows_deleted"] == 5
    with pytest.raises(UsageError, match=r"400.*Invalid input for param where"):
        erased.trigger("delete_where", "erased")
    wrong = erased.trigger("delete_where", "erased", {"where": "no_such = 1"}).ended()
    assert "no_such" in wrong.error("plan")
