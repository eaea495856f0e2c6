"""Clean-up, TTL, verify and rebuild on a real scheduler: what they do, refuse, wait for, tell."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from firnline.errors import UsageError
from firnline.log.txn_file import RunIdentity
from firnline.operations.drop.run import run_drop
from firnline.operations.operation import Work
from firnline.operations.options import DropOptions
from firnline.state.history import history
from firnline.table import Table
from tests.dags.filled import fill, live_keys, live_rows
from tests.dags.maintained import Maintained, Run, wait_due
from tools.airflow_api import wait_until

OLD = ("day=2020-01-01", "day=2020-01-02")
"""Partitions that are long past."""


def folder(table: Table) -> Path:
    return Path(table.settings.root.removeprefix("file://"))


def objects(table: Table) -> set[str]:
    return {path.name for path in (folder(table) / "_data").rglob("*.parquet")}


def drop(table: Table, *partitions: str) -> None:
    run_drop(Work(table, RunIdentity(dag_id="by hand")), DropOptions(partitions=partitions))


def span(task: dict[str, Any]) -> tuple[datetime, datetime]:
    found = [datetime.fromisoformat(task[name]) for name in ("start_date", "end_date")]
    return found[0], found[1]


@pytest.fixture(scope="module", autouse=True)
def late(maintained: Maintained) -> Late:
    """A merge that fails, begun first: its deadline passes while the other tests run."""
    return Late(datetime.now(UTC), maintained.merge("late"))


@dataclass
class Late:
    started: datetime
    run: Run


# --- TTL ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def aged(maintained: Maintained) -> Table:
    table = maintained.table("aged")
    fill(table, 2, partitions=(*OLD, "day=b"))
    return table


def test_ttl_by_hand_only_plans_unless_told_otherwise(maintained: Maintained, aged: Table) -> None:
    run = maintained.start("ttl", "aged").ended()
    assert run.tasks == {"plan": "success", "approve": "skipped", "ttl": "skipped"}
    plan = run.xcom("plan")
    assert (plan["dry_run"], plan["parts"], plan["rows"]) == (True, 4, 200)
    assert [each["partition"] for each in plan["partitions"]] == list(OLD)
    assert "partition day=2020-01-01: parts 2, rows 100" in run.log("plan")
    assert len(live_keys(aged)) == 6


def test_ttl_drops_what_is_past_and_says_so(maintained: Maintained, aged: Table) -> None:
    run = maintained.start("ttl", "aged", dry_run=False, partitions=["day=2020-*"])
    # Two thirds of the table: more than goes without a question.
    asked = maintained.question(run, "approve")
    assert asked["subject"] == "Drop 66.67 % of table aged?"
    assert f"| `{OLD[0]}` | 2 | 100 | " in asked["body"]
    assert maintained.stack.api.pools()["aged.merge"]["occupied_slots"] == 0
    maintained.answer(run, "approve", "Approve")
    assert run.ended().state == "success", run.log("ttl")
    assert run.tasks == dict.fromkeys(("plan", "approve", "ttl"), "success"), run.log("ttl")
    (header,) = history(aged)
    figures = run.xcom("ttl")
    assert (header.op, header.run.run_id) == ("ttl", run.run_id)
    assert header.run.approved_by == run.xcom("approve")["by"]
    assert figures["transactions"] == [header.seq]
    assert (figures["parts"], figures["rows"], figures["partition_count"]) == (4, 200, 2)
    assert {key.rpartition("/")[0][-5:] for key in live_keys(aged)} == {"day=b"}
    assert run.task("ttl")["pool"] == "aged.merge"
    path = "/assets/events"
    (event,) = maintained.stack.api.call("GET", path, source_dag_id=run.dag_id)["asset_events"]
    assert event["extra"]["transactions"] == [header.seq]
    # No JVM: measured from the trigger on, most of it the start of two tasks.
    whole = maintained.stack.api.call("GET", f"/dags/{run.dag_id}/dagRuns/{run.run_id}")
    print(f"TTL from trigger to done: {whole['queued_at']} to {whole['end_date']}")


def test_a_task_links_to_the_transactions_of_its_run(maintained: Maintained, aged: Table) -> None:
    run = Run(
        maintained.stack, "ttl__aged", maintained.stack.api.runs("ttl__aged")[-1]["dag_run_id"]
    )
    path = f"/dags/{run.dag_id}/dagRuns/{run.run_id}/taskInstances/ttl/links"
    links = maintained.stack.api.call("GET", path)["extra_links"]
    (address,) = links.values()
    assert list(links) == ["Transactions of this run"]
    page = "dags/ttl__aged/plugin/firnline-table?dag=ttl__aged&run=manual__"
    assert address.startswith(page)
    whole = maintained.stack.api.call("GET", f"/dags/{run.dag_id}/dagRuns/{run.run_id}")
    assert whole["note"].startswith("firnline: dropped: ")


def test_with_nothing_past_a_ttl_run_ends_with_its_plan(
    maintained: Maintained, aged: Table
) -> None:
    run = maintained.start("ttl", "aged", dry_run=False, partitions=["day=b"]).ended()
    assert run.tasks == {"plan": "success", "approve": "skipped", "ttl": "skipped"}
    assert "nothing to do" in run.log("plan")
    (left,) = run.xcom("plan")["undecided"]
    assert left["partition"] == "day=b"


# --- clean-up -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def cleaned(maintained: Maintained) -> Table:
    table = maintained.table("cleaned")
    fill(table, 3)
    drop(table, "day=a")
    wait_due(table, 3)
    return table


def test_clean_up_by_hand_only_plans_unless_told_otherwise(
    maintained: Maintained, cleaned: Table
) -> None:
    run = maintained.start("tombstone_cleanup", "cleaned").ended()
    assert run.tasks == {
        "plan": "success",
        "end": "success",
        "tombstone_cleanup": "skipped",
        "certificates": "skipped",
    }
    assert (run.xcom("plan")["parts"], run.xcom("plan")["dry_run"]) == (3, True)
    assert len(objects(cleaned)) == 6


def test_clean_up_deletes_what_is_due_and_a_second_run_finds_nothing(
    maintained: Maintained, cleaned: Table
) -> None:
    run = maintained.start("tombstone_cleanup", "cleaned", dry_run=False).ended()
    # No key was ever erased from it.
    assert run.tasks == {
        "plan": "success",
        "end": "success",
        "tombstone_cleanup": "success",
        "certificates": "skipped",
    }
    assert run.task("tombstone_cleanup")["pool"] == "cleaned.cleanup"
    figures = run.xcom("tombstone_cleanup")
    assert (figures["parts"], figures["failed"]) == (3, 0)
    assert figures["transactions"] == [history(cleaned)[0].seq]
    assert "deleted: 3 data parts" in run.log("tombstone_cleanup")
    assert objects(cleaned) == {key.rpartition("/")[2] for key in live_keys(cleaned)}
    again = maintained.start("tombstone_cleanup", "cleaned", dry_run=False).ended()
    assert again.xcom("plan")["parts"] == 0


@pytest.mark.parametrize(
    ("operation", "table", "conf"),
    [
        ("tombstone_cleanup", "cleaned", {"max_deletes": 0}),
        ("tombstone_cleanup", "cleaned", {"max_deletes": "many"}),
        ("ttl", "aged", {"partitions": "day=b"}),
        ("verify", "checked", {"deep": "yes"}),
        ("rebuild", "checked", {"include": [7]}),
    ],
    ids=str,
)
def test_a_param_of_the_wrong_form_is_refused_before_there_is_a_run(
    maintained: Maintained, operation: str, table: str, conf: dict[str, Any]
) -> None:
    (name,) = conf
    with pytest.raises(UsageError, match=f"400.*Invalid input for param {name}"):
        maintained.start(operation, table, **conf)


def test_a_param_that_cannot_be_right_fails_the_run_at_once_in_one_sentence(
    maintained: Maintained, aged: Table
) -> None:
    ttl = maintained.start("ttl", "aged", dryrun=False)
    glob = maintained.start("tombstone_cleanup", "cleaned", dry_run=False, partitions=["day=a"])
    assert ttl.ended().state == glob.ended().state == "failed"
    assert ttl.error("plan") == (
        "a TTL run has no param dryrun; use partitions, force, answer_within, dry_run"
    )
    assert glob.error("plan") == ("a clean-up has no param partitions; use max_deletes, dry_run")
    assert ttl.task("plan")["try_number"] == glob.task("plan")["try_number"] == 1


# --- verify and rebuild ---------------------------------------------------------------------------


def test_a_check_of_a_sound_table_succeeds_and_of_a_damaged_one_fails(
    maintained: Maintained,
) -> None:
    table = maintained.table("checked")
    fill(table, 2)
    sound = maintained.start("verify", "checked", deep=True).ended()
    assert sound.state == "success", sound.log("verify")
    assert sound.task("verify")["pool"] == "checked.cleanup"
    report = sound.xcom("verify")
    assert (report["healthy"], report["checked"]["footers"]) == (True, 0)
    assert sound.task("verify_deep")["pool"] == "checked.cleanup"
    assert "checked: footers: 4" in sound.log("verify_deep")
    assert sound.xcom("verify_deep")["checked"]["footers"] == 4
    assert sound.note.count("firnline: ") == 1, "that of the deep check"
    assert "4 footers that state 200 rows; found: nothing" in sound.note
    gone = next((folder(table) / "_data").rglob("*.parquet"))
    kept = gone.read_bytes()
    gone.unlink()
    damaged = maintained.start("verify", "checked").ended()
    assert damaged.state == "failed"
    assert damaged.error("verify").startswith("table checked has 1 error; the first: ")
    assert gone.name in damaged.error("verify")
    assert damaged.task("verify")["try_number"] == 1, "a retry finds the same"
    assert damaged.xcom("verify")["severities"]["error"] == 1
    gone.write_bytes(kept)


def test_a_lost_log_is_rebuilt_and_one_that_is_there_is_not_touched(
    maintained: Maintained,
) -> None:
    table = maintained.table("checked")
    drop(table, "day=a")
    rows = live_rows(table)
    refused = maintained.start("rebuild", "checked").ended()
    assert refused.state == "failed"
    assert "the log of table checked is whole: it is readable" in refused.error("plan")
    shutil.rmtree(folder(table) / "_log")
    planned = maintained.start("rebuild", "checked").ended()
    assert planned.tasks == {"plan": "success", "rebuild": "skipped"}
    included = planned.xcom("plan")["undecided"]
    names = [each["key"].rpartition("/")[2] for each in included]
    done = maintained.start("rebuild", "checked", dry_run=False, include=names).ended()
    assert done.state == "success", done.log("rebuild")
    assert live_rows(maintained.table("checked")) == rows
    (header, *_) = history(table)
    assert (header.op, header.run.run_id) == ("rebuild", done.run_id)
    assert done.xcom("rebuild")["transactions"] == [header.seq]


# --- beside each other ----------------------------------------------------------------------------


@pytest.mark.turn("who waits in the pool of a table")
def test_clean_up_runs_beside_a_merge_and_ttl_waits_for_it(maintained: Maintained) -> None:
    table = maintained.table("busy")
    fill(table, 5, partitions=("day=a", "day=b", *OLD))
    drop(table, OLD[1])
    rows = [row for row in live_rows(table) if row[1] in "ab"]
    wait_due(table, 5)
    with maintained.held("busy"):
        merge = maintained.start("merge", "busy", partitions=["day=[ab]"])
        assert wait_until(lambda: merge.tasks["merge"] == "running")
        ttl = maintained.start("ttl", "busy", dry_run=False, partitions=["day=2020-*"])
        cleanup = maintained.start("tombstone_cleanup", "busy", dry_run=False)
        verify = maintained.start("verify", "busy")
        for run in (cleanup, verify):
            assert run.ended().state == "success", (run.dag_id, run.tasks)
        assert wait_until(lambda: ttl.tasks["plan"] == "success")
    for run in (merge, ttl):
        assert run.ended().state == "success", (run.dag_id, run.tasks)
    merging, dropping = span(merge.task("merge")), span(ttl.task("ttl"))
    cleaning = span(cleanup.task("tombstone_cleanup"))
    checking = span(verify.task("verify"))
    assert merging[0] < cleaning[0] < cleaning[1] < merging[1], "clean-up needs no lock of a merge"
    assert dropping[0] >= merging[1], "TTL holds the merge's pool"
    assert checking[0] >= cleaning[1] or cleaning[0] >= checking[1], "they share the other pool"
    assert cleanup.xcom("tombstone_cleanup")["parts"] == 5
    assert live_rows(table) == rows
    assert len(live_keys(table)) == 2


def test_a_missing_pool_of_a_clean_up_fails_its_run_and_is_told(maintained: Maintained) -> None:
    run = maintained.start("tombstone_cleanup", "lost").ended()
    assert run.state == "failed"
    assert set(run.tasks.values()) == {None}
    assert "the pool lost.cleanup does not exist" in run.note
    mine = "tombstone_cleanup"
    assert wait_until(lambda: mine in {told["dag"] for told in maintained.told})
    told = next(told for told in maintained.told if told["dag"] == mine)
    assert told["reason"] == "pool_wrong"
    assert told["word"] == told["reason"], "a notifier's arguments are templates"


def test_a_widened_pool_of_a_clean_up_is_named_and_the_run_goes_on(
    maintained: Maintained,
) -> None:
    run = maintained.start("tombstone_cleanup", "wide").ended()
    assert run.state == "success"
    assert "the pool wide.cleanup has 2 slots instead of 1" in run.note


# --- alerts ---------------------------------------------------------------------------------------


def test_a_failed_merge_is_told_at_once_and_a_missed_deadline_when_it_passes(
    maintained: Maintained, late: Late
) -> None:
    assert late.run.ended().state == "failed"

    def told() -> list[str]:
        return [each["reason"] for each in maintained.told if each["dag"] == "merge__late"]

    assert wait_until(lambda: "task_failure" in told()), maintained.told
    assert wait_until(lambda: "deadline_missed" in told()), maintained.told
    assert (datetime.now(UTC) - late.started).total_seconds() >= 60
