"""Backfills of a real scheduler: the dates choose the partitions, in order, in reverse, again."""

from __future__ import annotations

from typing import Any

import pytest

from firnline.errors import EnvironmentFaultError, UsageError
from firnline.history import history
from firnline.snapshot import read_snapshot
from firnline_dev.airflow_api import wait_until
from firnline_dev.airflow_backfill import create_backfill
from tests.dags.conftest import Run
from tests.dags.operated import DAYS, Operated, append_days, partition, rows_by_day

DAG_ID = "rewrite_partitions__rewritten"


@pytest.fixture(scope="module")
def rewritten(operated: Operated) -> Operated:
    """A table of seven days with 20 rows each."""
    append_days(operated.table("rewritten"), DAYS)
    return operated


def backfill(operated: Operated, days: tuple[str, ...], conf: dict[str, Any], *more: str) -> None:
    """The command of docs/backfills.md."""
    operated.stack.api.wait_dag(DAG_ID)
    create_backfill(operated.stack, DAG_ID, (days[0], days[-1]), conf, *more)


def ended(operated: Operated, seconds: float = 900) -> list[Run]:
    """Runs of the newest backfill, by date, once it is complete."""
    api = operated.stack.api

    def newest() -> dict[str, Any]:
        found: list[dict[str, Any]] = api.call("GET", "/backfills", dag_id=DAG_ID)["backfills"]
        return max(found, key=lambda each: int(each["id"]))

    assert wait_until(lambda: newest()["completed_at"] is not None, seconds), newest()
    first, last = newest()["from_date"], newest()["to_date"]
    return [
        Run(operated.stack, DAG_ID, run["dag_run_id"])
        for run in sorted(api.runs(DAG_ID), key=lambda run: str(run["logical_date"]))
        if run["run_type"] == "backfill" and first <= run["logical_date"] <= last
    ]


def rewrites(operated: Operated) -> list[tuple[str, str]]:
    """(run id, partition) of the rewrites that were committed, in their order."""
    headers = reversed(history(operated.table("rewritten")))
    return [(h.run.run_id, p) for h in headers if h.op == "rewrite" for p in h.partitions]


def test_a_backfill_rewrites_exactly_the_partitions_of_its_days_in_order(
    rewritten: Operated,
) -> None:
    table = rewritten.table("rewritten")
    before = set(read_snapshot(table.store, table.paths).live)
    backfill(rewritten, DAYS[1:6], {"where": "k >= 5", "dry_run": False})
    runs = ended(rewritten)
    assert [run.state for run in runs] == ["success"] * 5, runs[0].log("rewrite_partitions")
    # A transaction for each run, in the order of the days.
    assert rewrites(rewritten) == [
        (run.run_id, partition(day)) for run, day in zip(runs, DAYS[1:6], strict=True)
    ]
    assert rows_by_day(table) == {DAYS[0]: 20, **dict.fromkeys(DAYS[1:6], 15), DAYS[6]: 20}
    stayed = before & set(read_snapshot(table.store, table.paths).live)
    assert sorted(key.split("/")[-2] for key in stayed) == [
        partition(DAYS[0]),
        partition(DAYS[6]),
    ]
    report = runs[0].xcom("report")
    assert report["counts"]["rows_removed"] == 5
    assert runs[0].task("rewrite_partitions")["pool"] == "rewritten.merge"


def test_days_that_are_done_are_done_again_when_asked_for_and_in_reverse(
    rewritten: Operated,
) -> None:
    done = rewrites(rewritten)
    conf = {"where": "k >= 8", "dry_run": False}
    backfill(rewritten, DAYS[1:3], conf)
    ended(rewritten)
    assert rewrites(rewritten) == done, "runs that exist are left alone unless told otherwise"
    backfill(rewritten, DAYS[1:3], conf, "--reprocess-behavior", "completed", "--run-backwards")
    runs = ended(rewritten)
    assert [run.state for run in runs] == ["success"] * 2
    again = rewrites(rewritten)[len(done) :]
    assert [name for _, name in again] == [partition(DAYS[2]), partition(DAYS[1])]
    assert [run for run, _ in again] == [runs[1].run_id, runs[0].run_id]
    assert rows_by_day(rewritten.table("rewritten"))[DAYS[1]] == 12
    # What the run did this time, not what it did the first time.
    assert runs[0].xcom("report")["counts"]["rows_removed"] == 3


def test_a_backfill_is_a_dry_run_unless_told_otherwise(rewritten: Operated) -> None:
    before = rows_by_day(rewritten.table("rewritten"))
    backfill(rewritten, DAYS[:1], {"where": "k >= 5"})
    (run,) = ended(rewritten)
    assert run.tasks == {"plan": "success", "rewrite_partitions": "skipped", "report": "skipped"}
    plan = run.xcom("plan")
    assert (plan["dry_run"], plan["partitions"][0]["partition"]) == (True, partition(DAYS[0]))
    assert rows_by_day(rewritten.table("rewritten")) == before


def test_a_run_of_the_clock_rewrites_nothing_and_can_be_backfilled_nevertheless(
    rewritten: Operated,
) -> None:
    api = rewritten.stack.api

    def scheduled() -> list[dict[str, Any]]:
        return [run for run in api.runs(DAG_ID) if run["dag_run_id"].startswith("scheduled__")]

    assert wait_until(lambda: bool(scheduled()), 300)
    run = Run(rewritten.stack, DAG_ID, scheduled()[0]["dag_run_id"]).ended()
    assert run.state == "success", run.note
    assert run.tasks == {"plan": "success", "rewrite_partitions": "skipped", "report": "skipped"}
    assert "only a backfill, or a run by hand, rewrites anything" in run.log("plan")
    day = scheduled()[0]["logical_date"][:10]
    conf = {"where": "k >= 5", "dry_run": False}
    backfill(rewritten, (day,), conf, "--reprocess-behavior", "completed")
    assert [each.run_id for each in ended(rewritten)] == [run.run_id]
    assert "rewritten: nothing to do" in run.log("plan")


def test_params_of_the_wrong_form_are_refused_before_there_is_a_backfill(
    rewritten: Operated,
) -> None:
    before = len(rewritten.stack.api.runs(DAG_ID))
    with pytest.raises(EnvironmentFaultError, match=r"Invalid input for param force"):
        backfill(rewritten, DAYS[:1], {"where": "k >= 5", "force": "very"})
    body = {
        "dag_id": DAG_ID,
        "from_date": f"{DAYS[0]}T00:00:00Z",
        "to_date": f"{DAYS[0]}T00:00:00Z",
    }
    with pytest.raises(UsageError, match=r"42[02].*Invalid input for param where"):
        rewritten.stack.api.call("POST", "/backfills", {**body, "dag_run_conf": {"where": ""}})
    assert len(rewritten.stack.api.runs(DAG_ID)) == before


@pytest.mark.parametrize(
    ("conf", "said"),
    [
        ({"where": "k >= 5"}, "a rewrite by hand needs partitions, and none was named; "),
        ({"partitions": ["*"]}, "a rewrite takes where or sql, and neither is given; "),
        ({"partitions": ["*"], "where": "no_such > 5"}, "no_such"),
        ({"partitions": ["*"], "where": "k > 5", "dryrun": False}, "a rewrite has no param dryrun"),
    ],
    ids=str,
)
def test_what_cannot_be_meant_fails_the_run_at_once_in_one_sentence(
    rewritten: Operated, conf: dict[str, Any], said: str
) -> None:
    run = rewritten.trigger("rewrite_partitions", "rewritten", conf).ended()
    assert run.state == "failed"
    assert said in run.error("plan")
    assert "\n" not in run.error("plan").strip()
    assert run.task("plan")["try_number"] == 1


def test_by_hand_named_partitions_are_rewritten_by_a_query(rewritten: Operated) -> None:
    table = rewritten.table("rewritten")
    before = rows_by_day(table)
    conf = {
        "partitions": [partition(DAYS[6])],
        "sql": "select * replace (k + 100 as k) from _rows where k < 12",
        "dry_run": False,
    }
    run = rewritten.trigger("rewrite_partitions", "rewritten", conf).ended()
    assert run.state == "success", run.log("rewrite_partitions")
    assert rows_by_day(table) == {**before, DAYS[6]: 12}
    assert run.xcom("report")["partitions"] == [partition(DAYS[6])]


def test_a_rewrite_that_removes_too_much_needs_force(rewritten: Operated) -> None:
    table = rewritten.table("rewritten")
    before = rows_by_day(table)
    conf = {"partitions": [partition(DAYS[0])], "where": "k > 900", "dry_run": False}
    run = rewritten.trigger("rewrite_partitions", "rewritten", conf).ended()
    assert run.state == "failed"
    assert "force" in run.error("rewrite_partitions")
    assert rows_by_day(table) == before
