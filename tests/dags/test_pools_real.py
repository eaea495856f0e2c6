"""Pools under a real scheduler: rivals queue, and a pool that is wrong is noticed."""

from __future__ import annotations

import json
from datetime import datetime

import pytest

from firnline.errors import UsageError
from firnline.log.txn_file import RunIdentity
from firnline.operations.drop.run import run_drop
from firnline.operations.operation import Work
from firnline.operations.options import DropOptions
from tests.dags.filled import fill, live_keys, live_rows
from tests.dags.maintained import Maintained
from tests.support.cli import program
from tools.airflow_api import wait_until

CREATE_POOLS = "`firnline pools > pools.json` and then `airflow pools import pools.json`"


@pytest.mark.turn("who waits in the pool of a table")
def test_rival_runs_queue_in_the_pool_of_their_table(maintained: Maintained) -> None:
    table = maintained.table("rivals")
    rows = live_rows(table)
    with maintained.held("rivals"):
        runs = [maintained.merge("rivals") for _ in range(2)]
        assert wait_until(lambda: all(run.tasks["plan"] == "success" for run in runs))
    found = [run.ended().task("merge") for run in runs]
    assert [run.state for run in runs] == ["success", "success"]
    assert [task["state"] for task in found] == ["success", "success"], "both were to merge"
    spans = sorted((_time(task["start_date"]), _time(task["end_date"])) for task in found)
    assert spans[0][1] <= spans[1][0], f"the merges overlapped: {spans}"
    # The plans did not wait: both were ready while the first merge was still running.
    plans = [_time(run.task("plan")["end_date"]) for run in runs]
    assert max(plans) < spans[0][1]
    # The second planned the same work, and found it done when its turn came.
    assert [run.tasks["report"] for run in runs].count("success") == 1
    assert (live_rows(table), len(live_keys(table))) == (rows, 2)


def test_the_doctor_asks_airflow_itself_for_pools_and_connections(maintained: Maintained) -> None:
    done = program(
        *("doctor", "rivals", "--settings", maintained.settings_file, "--read-only", "--json"),
        env=maintained.stack.env(),
    )
    found = {check["what"]: check for check in json.loads(done.out)["checks"]}
    assert found["pools"]["state"] == "wrong", "this Airflow lacks pools on purpose"
    assert found["pools"]["next_step"] == CREATE_POOLS
    assert "spark_default" in found["connections"]["found"]
    assert (found["rivals"]["state"], done.code) == ("ok", 1)


@pytest.mark.turn("who waits in the pool of a table")
def test_two_merges_of_a_table_run_at_once_and_what_runs_alone_waits_for_both(
    maintained: Maintained,
) -> None:
    table = maintained.table("shared")
    fill(table, 5, partitions=("day=a", "day=b", "day=gone"))
    rows = live_rows(table)
    run_drop(Work(table, RunIdentity(dag_id="by hand")), DropOptions(partitions=("day=gone",)))
    with maintained.held("shared"):
        merges = [maintained.merge("shared", {"partitions": [f"day={day}"]}) for day in "ab"]
        assert wait_until(lambda: all(run.tasks["merge"] == "running" for run in merges))
        undo = {"to": 0, "partitions": ["day=gone"], "dry_run": False}
        restore = maintained.start("restore", "shared", undo)
        assert wait_until(lambda: restore.tasks["plan"] == "success")
    tasks = [run.ended().task("merge") for run in merges]
    assert [task["state"] for task in tasks] == ["success", "success"]
    assert [task["pool_slots"] for task in tasks] == [1, 1]
    # The policy gives it the slots, and Airflow keeps them until it starts.
    alone = restore.ended().task("restore")
    assert (alone["state"], alone["pool"], alone["pool_slots"]) == ("success", "shared.merge", 2)
    assert _time(alone["start_date"]) >= max(_time(task["end_date"]) for task in tasks)
    assert (live_rows(table), len(live_keys(table))) == (rows, 2 + 5)
    clear = {"dag_run_id": restore.run_id, "only_failed": False, "dry_run": False}
    maintained.stack.api.call("POST", "/dags/restore/clearTaskInstances", clear)
    assert restore.ended().task("restore")["pool_slots"] == 2


def test_a_run_that_needs_more_slots_than_its_pool_has_fails_at_its_start_and_says_why(
    maintained: Maintained,
) -> None:
    run = maintained.start("restore", "lean", to=0, partitions=["*"]).ended()
    assert (run.state, set(run.tasks.values())) == ("failed", {None})
    assert "the pool lean.merge has 1 slot and a task of this run takes 2" in run.note
    assert CREATE_POOLS in run.note


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)


def test_a_run_on_any_table_holds_the_pool_of_its_own_also_after_a_clear(
    maintained: Maintained,
) -> None:
    """Of the DAGs for all tables; the process that makes or clears the task gives it the pool."""
    api = maintained.stack.api
    runs = {
        table: maintained.start("delete_where", table, where="k > 0") for table in ("idle", "wide")
    }
    for table, run in runs.items():
        assert run.ended().task("delete_where")["pool"] == f"{table}.merge"
        clear = {"dag_run_id": run.run_id, "only_failed": False, "dry_run": False}
        api.call("POST", f"/dags/{run.dag_id}/clearTaskInstances", clear)
        assert run.ended().task("delete_where")["pool"] == f"{table}.merge"
        assert run.task("plan")["pool"] == "default_pool"


@pytest.mark.parametrize("conf", [{}, {"table": "nobody"}, {"table": "rivals"}])
def test_a_run_on_no_table_or_one_without_the_operation_is_refused(
    maintained: Maintained, conf: dict[str, str]
) -> None:
    with pytest.raises(UsageError, match=r"400.*Invalid input for param table"):
        maintained.stack.api.trigger("delete_where", {**conf, "where": "k > 0"})


def test_a_missing_pool_fails_the_run_at_its_start_and_is_named(maintained: Maintained) -> None:
    lost = maintained.merge("lost").ended()
    assert lost.state == "failed"
    assert set(lost.tasks.values()) == {None}
    assert lost.note == (
        "firnline: the pool lost.merge does not exist, so nothing that needs it can run; "
        f"create it with {CREATE_POOLS}."
    )
    pool = {"name": "lost.merge", "slots": 1, "include_deferred": True}
    maintained.stack.api.call("POST", "/pools", pool)
    repaired = maintained.merge("lost", {"dry_run": True}).ended()
    assert repaired.state == "success"
    assert "pool" not in repaired.note


def test_a_widened_pool_is_named_and_the_run_goes_on(maintained: Maintained) -> None:
    # Its commits exclude each other in the store, with or without the pool.
    run = maintained.merge("wide").ended()
    assert run.state == "success"
    assert "the pool wide.merge has 2 slots instead of 1" in run.note
    assert CREATE_POOLS in run.note


def test_a_widened_pool_stops_a_table_that_has_nothing_else(maintained: Maintained) -> None:
    run = maintained.merge("unsafe").ended()
    assert run.state == "failed"
    assert "the pool unsafe.merge has 2 slots instead of 1" in run.note


def test_the_scheduler_s_log_names_every_wrong_pool_when_it_starts(maintained: Maintained) -> None:
    log = (maintained.stack.programs.logs / "scheduler.log").read_text()
    started = log.partition("Starting the scheduler")[0] or log
    for pool in ("lost", "wide", "unsafe"):
        assert f"the pool {pool}.merge" in started


def test_the_plugin_loads(maintained: Maintained) -> None:
    # Airflow says nothing of a plugin that it cannot import, and answers 200 to everything else.
    api = maintained.stack.api
    assert api.call("GET", "/plugins/importErrors")["import_errors"] == []
    (plugin,) = api.call("GET", "/plugins")["plugins"]
    assert plugin["name"] == "firnline"
    assert "firnline.airflow.pool_guard" in str(plugin["listeners"])
    assert api.import_errors() == {}
