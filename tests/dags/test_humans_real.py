"""What waits for a person, on a real scheduler: asked, answered by the API, or left alone."""

from __future__ import annotations

from typing import Any

import pytest

from firnline.errors import UsageError
from firnline.history import history
from tests.dags.operated import DAYS, Operated, append_days, partition, rows_by_day

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
