"""The planner of the fleet on a real scheduler: which merges it starts, and which it does not."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from firnline.state.history import history
from tests.dags.filled import fill, live_keys
from tests.dags.maintained import Maintained, Run
from tools.airflow_api import wait_until


def plan(maintained: Maintained, **params: object) -> Run:
    """Start the planner by hand, and wait for its end."""
    return maintained.plan_fleet(**params)


def merges(maintained: Maintained, table: str) -> list[Run]:
    """Merges that the planner has started, oldest first."""
    return maintained.runs(table, "operator_triggered")


@pytest.fixture(scope="module")
def twice(maintained: Maintained) -> tuple[Run, Run]:
    """The planner, twice in a row, while the driver of the merge that it starts waits."""
    fill(maintained.table("past"), 1, partitions=["day=2020-01-01", "day=2020-01-02"])
    with maintained.held("needy"):
        first = plan(maintained)
        second = plan(maintained)
    return first, second


def test_a_dry_run_starts_nothing(maintained: Maintained) -> None:
    run = plan(maintained, dry_run=True)
    assert run.state == "success", run.log("plan")
    figures = run.xcom("plan")
    assert [row["table"] for row in figures["starts"]] == ["needy"]
    assert "started" not in figures
    assert merges(maintained, "needy") == []


def test_a_merge_starts_where_there_is_something_to_merge_and_only_there(
    maintained: Maintained, twice: tuple[Run, Run]
) -> None:
    first, _ = twice
    assert first.state == "success", first.log("plan")
    figures = first.xcom("plan")
    assert figures["started"] == ["needy"]
    # One of them is looked at for its mirror alone.
    assert (figures["tables"], figures["idle"]) == (5, 4)
    (run,) = merges(maintained, "needy")
    assert (run.dag_id, run.run_id) == ("merge", f"fleet__{first.run_id}__needy")
    assert run.ended().state == "success", run.tasks
    assert "Started by fleet__merge: 10 parts become 2" in run.note
    assert merges(maintained, "content") == []
    assert [h.run.run_id for h in history(maintained.table("needy"))] == [run.run_id]
    assert len(live_keys(maintained.table("needy"))) == 2


def test_a_merge_under_way_is_not_started_again(
    maintained: Maintained, twice: tuple[Run, Run]
) -> None:
    first, second = twice
    figures = second.xcom("plan")
    assert (figures["starts"], figures["started"]) == ([], [])
    (waiting,) = figures["waiting"]
    assert waiting["reason"] == "a run of merge is queued or running for it"
    assert [run.run_id for run in merges(maintained, "needy")] == [f"fleet__{first.run_id}__needy"]


def test_what_is_due_is_started_once_a_day(maintained: Maintained, twice: tuple[Run, Run]) -> None:
    first, second = twice
    assert [run.xcom("plan")["begun"] for run in (first, second)] == [["ttl of past"], []]
    # The planner has no schedule here, so the table has a DAG of its own for it, with a clock.
    runs = maintained.stack.api.runs("ttl__past")
    ids = [run["dag_run_id"] for run in runs if run["run_type"] == "operator_triggered"]
    (row,) = first.xcom("plan")["due"]
    day = datetime.fromtimestamp(row["since_ms"] / 1000, UTC)
    assert ids == [f"fleet__{day:%Y-%m-%dT%H:%M:%S}"]
    run = Run(maintained.stack, "ttl__past", ids[0]).ended()
    assert run.state == "success", run.tasks
    assert "Started by fleet__merge: parts in 2 partitions are past" in run.note
    assert live_keys(maintained.table("past")) == []


def test_a_run_that_is_cleared_starts_nothing_twice(
    maintained: Maintained, twice: tuple[Run, Run]
) -> None:
    first, _ = twice
    merges(maintained, "needy")[0].ended()
    fill(maintained.table("needy"), 5)
    api = maintained.stack.api
    api.call(
        "POST",
        f"/dags/{first.dag_id}/clearTaskInstances",
        {"dry_run": False, "dag_run_id": first.run_id, "only_failed": False},
    )
    assert wait_until(lambda: first.task("plan")["try_number"] == 2)
    assert first.ended().state == "success"
    assert len(merges(maintained, "needy")) == 1


def test_a_merge_whose_dag_is_paused_waits(maintained: Maintained, twice: tuple[Run, Run]) -> None:
    assert twice
    api = maintained.stack.api
    fill(maintained.table("content"), 5)
    api.call("PATCH", "/dags/merge", {"is_paused": True})
    try:
        waiting = plan(maintained).xcom("plan")["waiting"]
    finally:
        api.call("PATCH", "/dags/merge", {"is_paused": False})
    reasons = {row["table"]: row["reason"] for row in waiting}
    assert reasons["content"] == "the DAG merge is paused"
    assert merges(maintained, "content") == []


def test_a_table_that_cannot_be_read_fails_the_run_after_all_others_were_handled(
    maintained: Maintained, twice: tuple[Run, Run]
) -> None:
    assert twice
    table = maintained.table("torn")
    (log_file,) = Path(table.settings.root.removeprefix("file://"), "_log").iterdir()
    log_file.write_bytes(log_file.read_bytes()[:-20])
    run = plan(maintained)
    assert run.state == "failed"
    assert run.task("plan")["try_number"] == 1
    assert "1 of 5 tables could not be read: torn" in run.error("plan")
    figures = run.xcom("plan")
    assert [row["table"] for row in figures["unreadable"]] == ["torn"]
    assert "content" in figures["started"]
    (started,) = merges(maintained, "content")
    assert started.ended().tasks["plan"] == "success"
    assert "'no_cluster'" in started.error("merge")


def test_a_param_that_does_not_exist_fails_the_run(maintained: Maintained) -> None:
    run = plan(maintained, dryrun=True)
    assert run.state == "failed"
    assert run.error("plan").startswith("fleet__merge has no param dryrun; use dry_run")
