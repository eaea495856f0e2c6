"""Backfills of a real scheduler: the dates choose the partitions, in order, in reverse, again."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Collection
from typing import Any

import pytest

from firnline.errors import EnvironmentFaultError, PreparedChangeError, UsageError
from firnline.log.txn_file import RunIdentity
from firnline.mirror.delta.head import read_head
from firnline.operations.prepared.run import commit_prepared
from firnline.operations.prepared.waiting import waiting
from firnline.state.history import history
from firnline.state.snapshot import read_snapshot
from firnline.table import Table
from tests.dags.days import DAYS, append_days, partition, rows_by_day
from tests.dags.maintained import Maintained, Run
from tests.support.effort import FULL, sample
from tools.airflow_api import HUNG_SECONDS
from tools.airflow_backfill import create_backfill

DAG_ID = "rewrite_partitions__rewritten"
AFTER_PLAN = ("rewrite_partitions", "approve", "commit", "report", "mirror")
SPAN = DAYS[1:6] if FULL else DAYS[1:3]
"""The days of the first backfill; each of them starts a JVM."""
AGAIN = DAYS[1:3] if FULL else DAYS[1:2]
"""Those of them that are done a second time."""


@pytest.fixture(scope="module")
def rewritten(maintained: Maintained) -> Maintained:
    """A table of seven days with 20 rows each."""
    append_days(maintained.table("rewritten"), DAYS)
    return maintained


def command(maintained: Maintained, days: tuple[str, ...], conf: dict[str, Any]) -> None:
    """The command of docs/backfills.md."""
    maintained.stack.api.wait_dag(DAG_ID)
    create_backfill(maintained.stack, DAG_ID, (days[0], days[-1]), conf)


def backfill(
    maintained: Maintained, days: tuple[str, ...], conf: dict[str, Any] | None, **more: Any
) -> None:
    """What that command sends, without the seconds that it takes to start.

    Args:
        maintained: the stack.
        days: first and last of the dates.
        conf: params of every run; None as the form sends them where nobody overrides them.
        more: further fields of the request.
    """
    body = {
        "dag_id": DAG_ID,
        "from_date": f"{days[0]}T00:00:00Z",
        "to_date": f"{days[-1]}T00:00:00Z",
        "dag_run_conf": conf,
        "max_active_runs": 1,
        **more,
    }
    maintained.stack.api.call("POST", "/backfills", body)


def ended(maintained: Maintained) -> list[Run]:
    """Runs of the newest backfill, by date, once it is complete."""
    api = maintained.stack.api
    found = api.call("GET", "/backfills", dag_id=DAG_ID)["backfills"]
    newest = max(found, key=lambda each: int(each["id"]))
    first, last = newest["from_date"], newest["to_date"]
    runs = [
        Run(maintained.stack, DAG_ID, run["dag_run_id"]).ended()
        for run in sorted(api.runs(DAG_ID), key=lambda run: str(run["logical_date"]))
        if run["run_type"] == "backfill" and first <= run["logical_date"] <= last
    ]
    # Airflow looks for complete ones every 30 s, and takes no other one before.
    with contextlib.suppress(UsageError):  # it has just looked
        api.call("PUT", f"/backfills/{newest['id']}/cancel")
    return runs


def rewrites(maintained: Maintained) -> list[tuple[str, str]]:
    """(run id, partition) of the rewrites that were committed, in their order."""
    headers = reversed(history(maintained.table("rewritten")))
    return [(h.run.run_id, p) for h in headers if h.op == "rewrite" for p in h.partitions]


def mirrored(table: Table) -> int | None:
    """The newest transaction that the Delta mirror shows."""
    head = read_head(table.store, table.paths)
    return None if head is None else head.position.seq


def test_a_backfill_rewrites_exactly_the_partitions_of_its_days_in_order(
    rewritten: Maintained,
) -> None:
    table = rewritten.table("rewritten")
    before = set(read_snapshot(table.store, table.paths).live)
    command(rewritten, SPAN, {"where": "k >= 5", "dry_run": False})
    runs = ended(rewritten)
    assert [run.state for run in runs] == ["success"] * len(SPAN), runs[0].log("rewrite_partitions")
    # A transaction for each run, in the order of the days.
    assert rewrites(rewritten) == [
        (run.run_id, partition(day)) for run, day in zip(runs, SPAN, strict=True)
    ]
    assert rows_by_day(table) == {**dict.fromkeys(DAYS, 20), **dict.fromkeys(SPAN, 15)}
    stayed = before & set(read_snapshot(table.store, table.paths).live)
    assert sorted(key.split("/")[-2] for key in stayed) == [
        partition(day) for day in DAYS if day not in SPAN
    ]
    report = runs[0].xcom("report")
    assert report["counts"]["rows_removed"] == 5
    assert runs[0].task("rewrite_partitions")["pool"] == "rewritten.merge"
    # Without a question the job has committed, and the mirror does not wait for `commit`.
    assert {run.tasks["commit"] for run in runs} == {"skipped"}
    assert {run.tasks["mirror"] for run in runs} == {"success"}
    assert mirrored(table) == history(table)[0].seq


def test_the_form_over_all_runs_redoes_nothing_that_is_done(rewritten: Maintained) -> None:
    """What it sends without "Override parameters": no conf, so that each run keeps its old one."""
    done, rows = rewrites(rewritten), rows_by_day(rewritten.table("rewritten"))
    append_days(rewritten.table("rewritten"), DAYS[1:3])
    again = {"reprocess_behavior": "completed", "run_backwards": True}
    backfill(rewritten, DAYS[1:3], None, **again)
    runs = ended(rewritten)
    begun = [str(run.task("plan")["start_date"]) for run in runs]
    assert begun == sorted(begun, reverse=True), "the newest day first"
    for run in runs:
        assert run.state == "success"
        skipped = dict.fromkeys(AFTER_PLAN, "skipped")
        assert run.tasks == {"plan": "success", **skipped, "end": "success"}
        said = run.xcom("plan")["done_before"]
        assert f"run {run.run_id} of {DAG_ID} was done on " in said
        (seq,) = run.xcom("plan")["transactions"]
        assert f"as transaction {seq}, and is not done again" in said
        assert said in run.log("plan")
        # Below what the run did when it was not done before.
        assert run.note.endswith(f"firnline: {said}.")
    assert rewrites(rewritten) == done
    assert rows_by_day(rewritten.table("rewritten"))[DAYS[1]] == rows[DAYS[1]] + 20


def test_days_that_are_done_are_done_again_when_asked_for_and_in_reverse(
    rewritten: Maintained,
) -> None:
    done = rewrites(rewritten)
    conf = {"where": "k >= 8", "dry_run": False}
    backfill(rewritten, AGAIN, conf)
    ended(rewritten)
    assert rewrites(rewritten) == done, "runs that exist are left alone unless told otherwise"
    conf["again"] = True
    again = {"reprocess_behavior": "completed", "run_backwards": True}
    backfill(rewritten, AGAIN, conf, **again)
    runs = ended(rewritten)
    assert [run.state for run in runs] == ["success"] * len(AGAIN)
    redone = rewrites(rewritten)[len(done) :]
    assert [name for _, name in redone] == [partition(day) for day in reversed(AGAIN)]
    assert [run for run, _ in redone] == [run.run_id for run in reversed(runs)]
    assert rows_by_day(rewritten.table("rewritten"))[DAYS[1]] == 24
    # What the run did this time, not what it did the first time.
    assert runs[0].xcom("report")["counts"]["rows_removed"] == 11
    # Their conf is one with `again` now, and is followed no second time.
    done = rewrites(rewritten)
    backfill(rewritten, AGAIN, None, reprocess_behavior="completed")
    said = [run.xcom("plan")["done_before"] for run in ended(rewritten)]
    assert rewrites(rewritten) == done
    assert all("(told `again: true`)" in each for each in said)


def test_a_backfill_is_a_dry_run_unless_told_otherwise(rewritten: Maintained) -> None:
    before = rows_by_day(rewritten.table("rewritten"))
    backfill(rewritten, DAYS[:1], {"where": "k >= 5"})
    (run,) = ended(rewritten)
    skipped = dict.fromkeys(AFTER_PLAN, "skipped")
    assert run.tasks == {"plan": "success", **skipped, "end": "success"}
    plan = run.xcom("plan")
    assert (plan["dry_run"], plan["partitions"][0]["partition"]) == (True, partition(DAYS[0]))
    assert rows_by_day(rewritten.table("rewritten")) == before


def test_a_dag_for_backfills_has_no_runs_of_its_own(rewritten: Maintained) -> None:
    api = rewritten.stack.api
    dag = api.call("GET", f"/dags/{DAG_ID}")
    assert (dag["is_paused"], dag["timetable_summary"]) == (False, "0 0 * * *")
    assert dag["next_dagrun_logical_date"] is None
    assert [run for run in api.runs(DAG_ID) if run["run_type"] == "scheduled"] == []


def test_params_of_the_wrong_form_are_refused_before_there_is_a_backfill(
    rewritten: Maintained,
) -> None:
    before = len(rewritten.stack.api.runs(DAG_ID))
    if FULL:  # a process that imports Airflow to say the same
        with pytest.raises(EnvironmentFaultError, match=r"Invalid input for param force"):
            command(rewritten, DAYS[:1], {"where": "k >= 5", "force": "very"})
    with pytest.raises(UsageError, match=r"42[02].*Invalid input for param where"):
        backfill(rewritten, DAYS[:1], {"where": ""})
    assert len(rewritten.stack.api.runs(DAG_ID)) == before


MISTAKES: dict[str, dict[str, Any]] = {
    "a rewrite by hand needs partitions, and none was named; ": {"where": "k >= 5"},
    "a rewrite takes a condition (where) or a query (sql); ": {"partitions": ["*"]},
    "no_such": {"partitions": ["*"], "where": "no_such > 5"},
    "a rewrite has no param dryrun": {"partitions": ["*"], "where": "k > 5", "dryrun": False},
}


@pytest.mark.parametrize("said", sample(list(MISTAKES), 1, "mistakes"))
def test_what_cannot_be_meant_fails_the_run_at_once_in_one_sentence(
    rewritten: Maintained, said: str
) -> None:
    run = rewritten.start("rewrite_partitions", "rewritten", MISTAKES[said]).ended()
    assert run.state == "failed"
    assert said in run.error("plan")
    assert "\n" not in run.error("plan").strip()
    assert run.task("plan")["try_number"] == 1


@pytest.mark.turn("a DAG whose job rewrites rows")
def test_by_hand_named_partitions_are_rewritten_by_a_query(rewritten: Maintained) -> None:
    table = rewritten.table("rewritten")
    before = rows_by_day(table)
    conf = {
        "partitions": [partition(DAYS[6])],
        "sql": "select * replace (k + 100 as k) from _rows where k < 12",
        "dry_run": False,
    }
    run = rewritten.start("rewrite_partitions", "rewritten", conf).ended()
    assert run.state == "success", run.log("rewrite_partitions")
    assert rows_by_day(table) == {**before, DAYS[6]: 12}
    assert run.xcom("report")["partitions"] == [partition(DAYS[6])]


@pytest.mark.turn("a DAG whose job rewrites rows")
def test_a_rewrite_that_removes_too_much_needs_force(rewritten: Maintained) -> None:
    table = rewritten.table("rewritten")
    before = rows_by_day(table)
    conf = {"partitions": [partition(DAYS[0])], "where": "k > 900", "dry_run": False}
    run = rewritten.start("rewrite_partitions", "rewritten", conf).ended()
    assert run.state == "failed"
    assert "force" in run.error("rewrite_partitions")
    assert rows_by_day(table) == before


@pytest.mark.turn("a job that waits for an approval")
def test_an_approved_rewrite_shows_its_rows_and_commits_exactly_the_parts_that_were_shown(
    rewritten: Maintained, record_property: Callable[[str, object], None]
) -> None:
    table = rewritten.table("rewritten")
    before = rows_by_day(table)
    day = DAYS[6]
    conf = {
        "partitions": [f"*={day}"],
        "sql": "select * replace (k + 1000 as k) from _rows where k >= 0",
        "approve": True,
        "answer_within": "1h",
        "assert": ["select count(*) = 0 from after where k < 1000"],
        "keys": ["ts"],
        "force": True,
        "dry_run": False,
    }
    run = rewritten.start("rewrite_partitions", "rewritten", conf)
    asked = rewritten.question(run, "approve")
    assert asked["subject"].startswith("Rewrite rows (")
    assert f"| `{partition(day)}` | {before[day]} → " not in asked["body"]
    assert f"| `{partition(day)}` | {before[day]} | " in asked["body"]
    assert "select count(*) = 0 from after where k < 1000" in asked["body"]
    # Nobody sees it, and nobody holds the lock while a person thinks.
    assert rows_by_day(table) == before
    assert rewritten.stack.api.pools()["rewritten.merge"]["occupied_slots"] == 0
    assert not run.tasks["mirror"]
    answered = time.time()
    rewritten.answer(run, "approve", "Approve")
    assert run.ended().state == "success", run.log("commit")
    (header, *_) = history(table)
    assert (run.tasks["mirror"], mirrored(table)) == ("success", header.seq)
    shown = run.xcom("approve")["prepared"]
    assert header.why == f"as prepared: {shown}"
    assert header.run.approved_by == run.xcom("approve")["by"]
    made = run.xcom("commit")
    assert (made["transactions"], made["prepared"]) == ([header.seq], shown)
    # What a person waits for: mostly two tasks that Airflow starts (docs/backfills.md).
    waited = header.t / 1000 - answered
    record_property("seconds from the approval to the transaction", round(waited, 1))
    print(
        f"committed {waited:.1f} s after the approval, {made['seconds']:.1f} s of them the commit"
    )
    assert 0 < waited < HUNG_SECONDS
    assert rows_by_day(table)[day] == header.counts.rows_out
    assert run.task("commit")["pool"] == "rewritten.merge"
    assert run.xcom("report")["transactions"] == [header.seq]


def test_a_rejected_rewrite_leaves_the_table_as_it_was_to_the_object(
    rewritten: Maintained,
) -> None:
    table = rewritten.table("rewritten")
    before = {meta.key: meta.size for meta in table.store.list(table.paths.prefix)}
    conf = {
        "partitions": [f"*={DAYS[5]}"],
        "where": "k >= 5",
        "approve": True,
        "answer_within": "1h",
        "dry_run": False,
    }
    run = rewritten.start("rewrite_partitions", "rewritten", conf)
    rewritten.question(run, "approve")
    (waits,) = waiting(table).prepared
    prepared = {meta.key for meta in table.store.list(table.paths.prefix)} - before.keys()
    assert prepared == {table.paths.prepared(waits.id), *new_parts(table, before)}
    assert len(prepared) == 2
    rewritten.answer(run, "approve", "Reject")
    assert run.ended().state == "success", run.log("approve")
    assert {run.tasks[name] for name in ("commit", "report", "mirror")} == {"skipped"}
    assert "1 prepared part deleted: rejected by" in run.log("approve")
    # What stays says who decided; a sweep takes it when nobody can ask for it any more.
    after = {meta.key: meta.size for meta in table.store.list(table.paths.prefix)}
    decision = table.paths.prepared(waits.id, "decision")
    assert after == {**before, decision: after[decision]}
    with pytest.raises(PreparedChangeError, match=r"it was discarded \(rejected by"):
        commit_prepared(table, waits.id, RunIdentity(run_id="by hand"))
    assert {meta.key: meta.size for meta in table.store.list(table.paths.prefix)} == after


def new_parts(table: Table, before: Collection[str]) -> set[str]:
    """Keys of the parts that came."""
    return {meta.key for meta in table.store.list(table.paths.data_dir)}.difference(before)
