"""An operation as one task of a DAG that is not ours: its pool, its arguments and its course."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import DAG, Asset

from firnline.airflow import Cleanup, Delete, Import, Merge, Restore, Ttl, Verify
from firnline.airflow.versions import AirflowFailException
from firnline.errors import UsageError
from firnline.state.history import history
from firnline.table import Table
from tests.dags.filled import fill, live_keys
from tests.support.their_dags import context_of, run_jobs_here, tables

SETTINGS = """
airflow: {{queue: maintenance, retries: 9, owner: us, tags: [ours]}}
tables:
  events:
    root: 'file://{folder}/events'
    ttl: {{keep: 1h, partition: 'day=(?P<day>.*)'}}
    merge: {{min_inputs: 2, slots: 2}}
    partition: 'day=.*'
    airflow: {{operations: {{merge: {{queue: large}}}}}}
  narrow: {{root: 'file://{folder}/narrow', operations: [verify]}}
"""


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Table:
    """Two partitions of two parts each, one of them long past."""
    found = tables(tmp_path, monkeypatch, SETTINGS)
    fill(found, 2, partitions=("day=2020-01-01", "day=later"))
    run_jobs_here(monkeypatch)
    return found


@pytest.fixture
def dag() -> Iterator[DAG]:
    """Somebody's DAG, whose tasks are in a pool of theirs."""
    with DAG("etl", schedule=None, default_args={"pool": "theirs", "retries": 1}) as made:
        yield made


# --- the pool -------------------------------------------------------------------------------------


def test_a_task_holds_the_lock_of_its_table_whatever_the_dag_says_of_pools(
    table: Table, dag: DAG
) -> None:
    merge, ttl, cleanup, check = (kind(table="events") for kind in (Merge, Ttl, Cleanup, Verify))
    assert [(t.pool, t.pool_slots) for t in (merge, ttl, cleanup, check)] == [
        ("events.merge", 1),
        ("events.merge", 2),
        ("events.cleanup", 1),
        ("events.cleanup", 1),
    ]
    assert Import(table="{{ params.of }}").pool == "theirs"


def test_another_pool_is_refused_when_the_dag_is_made(table: Table) -> None:
    with pytest.raises(UsageError, match=r"given pool 'etl', and the lock .* 'events\.merge'"):
        Merge(table="events", pool="etl")
    with pytest.raises(UsageError, match=r"given pool_slots 1, and the lock .* is pool_slots 2"):
        Ttl(table="events", pool_slots=1)
    assert Ttl(table="events", pool="events.merge", pool_slots=2).pool == "events.merge"


def test_a_task_that_was_moved_out_of_its_pool_does_nothing(table: Table) -> None:
    task = Ttl(table="events")
    task.pool = "default_pool"
    with pytest.raises(AirflowFailException, match="would run beside others that hold it"):
        task.execute(context_of(task))
    assert history(table) == []


def test_a_table_that_only_a_run_knows_has_no_pool(table: Table) -> None:
    with pytest.raises(UsageError, match=r"trigger the DAG merge, whose param `table` names it"):
        Merge(table="{{ params.of }}")
    with pytest.raises(UsageError, match="names table 'evnets', and the settings have no such"):
        Merge(table="evnets")


def test_copies_of_a_task_are_scheduled_in_the_pool_of_their_table(table: Table, dag: DAG) -> None:
    made: Any = Delete.partial(task_id="many", table="events").expand(where=["k = 1", "k = 2"])
    assert (made.pool, made.pool_slots) == ("events.merge", 2)
    with pytest.raises(UsageError, match="give `table` to `partial`"):
        Merge.partial(task_id="some").expand(table=["events"])


def test_a_mistake_in_the_settings_fails_the_task_and_leaves_the_dag(
    table: Table, tmp_path: Path
) -> None:
    (tmp_path / "tables.yaml").write_text("tables: {events: {root: 'nowhere'}}")
    task = Merge(table="events")
    assert task.pool == "events.merge"
    with pytest.raises(AirflowFailException, match=r"tables\.events\.root"):
        task.execute(context_of(task))


def test_an_operation_that_the_table_has_not_is_refused_in_the_run(table: Table) -> None:
    task = Merge(table="narrow")
    with pytest.raises(AirflowFailException, match="no table 'narrow' with the operation merge"):
        task.execute(context_of(task))


# --- arguments ------------------------------------------------------------------------------------


def test_what_the_author_says_goes_before_the_dag_and_that_before_the_settings(
    table: Table, dag: DAG
) -> None:
    merge = Merge(table="events", execution_timeout=timedelta(minutes=7))
    assert (merge.task_id, merge.queue, merge.retries) == ("merge", "large", 1)
    assert merge.execution_timeout == timedelta(minutes=7)
    assert merge.owner == "us"
    assert Ttl(table="events", owner="me", task_id="t").owner == "me"
    assert Ttl(table="events", queue="mine", retries=0).queue == "mine"
    assert Cleanup(table="events").retry_exponential_backoff


def test_assets_of_the_author_come_besides(table: Table) -> None:
    theirs = Asset("report", uri="s3://lake/report")
    assert [each.name for each in Merge(table="events", outlets=[theirs]).outlets] == [
        "firnline",
        "report",
    ]
    assert [each.name for each in Ttl(table="events", inlets=[theirs]).inlets] == ["report"]


# --- the course -----------------------------------------------------------------------------------


@pytest.mark.long
def test_a_task_ignores_the_conf_of_its_run_and_names_itself_in_the_history(table: Table) -> None:
    task = Ttl(table="events", task_id="drop_old")
    context = context_of(task)
    figures = task.execute(context)
    (header,) = history(table)
    run = header.run
    assert (run.dag_id, run.run_id, run.task_id) == ("etl", "scheduled__1", "drop_old")
    assert figures["transactions"] == [header.seq]
    assert [name for name, _ in context["outlet_events"].added] == ["events"]
    assert len(live_keys(table)) == 2


def test_with_nothing_to_do_a_task_succeeds_without_an_event(table: Table) -> None:
    task = Ttl(table="events", partitions="day=later")
    context = context_of(task)
    assert task.execute(context)["parts"] == 0
    assert context["ti"].pushed["said"] == "nothing to do"
    assert context["outlet_events"].added == []


def test_a_dry_run_only_plans(table: Table) -> None:
    task = Merge(table="events", dry_run="{{ params.only_look }}")
    task.options["dry_run"] = "True"  # as it was rendered
    figures = task.execute(context_of(task))
    assert (figures["dry_run"], figures["parts_in"]) == (True, 4)
    assert history(table) == []


@pytest.mark.long
def test_a_job_reports_from_the_history_of_its_own_task(table: Table) -> None:
    task = Merge(table="events")
    context = context_of(task)
    figures = task.execute(context)
    assert figures["counts"]["parts_in"] == 4
    assert [header.run.task_id for header in history(table)] == ["merge"] * len(
        figures["transactions"]
    )
    assert context["outlet_events"].added == [("events:upkeep", figures)]
    assert context["ti"].pushed["said"].startswith("merged: 4 parts")


@pytest.mark.long
def test_two_tasks_of_a_run_do_not_count_for_each_other(table: Table) -> None:
    first, second = (Delete(table="events", where=f"k = {k}", task_id=f"d{k}") for k in (1, 2))
    assert first.execute(context_of(first))["counts"]["rows_deleted"] == 2
    assert second.execute(context_of(second))["counts"]["rows_deleted"] == 2


@pytest.mark.long
def test_a_completed_task_is_not_repeated_unless_it_is_to_be(table: Table) -> None:
    task = Delete(table="events", where="k = 1")
    task.execute(context_of(task))
    again = context_of(task)
    assert "was done on" in task.execute(again)["done_before"]
    assert len(history(table)) == 1
    fill(table, 1, rows=5)
    cleared = context_of(Delete(table="events", where="k = 1", again=True), 2)
    cleared["ti"].max_tries += 1
    cleared["ti"].task.execute(cleared)
    assert len(history(table)) == 2


def test_a_retry_tells_what_the_first_try_has_committed(table: Table) -> None:
    task = Merge(table="events")
    began = datetime.now(UTC) - timedelta(minutes=1)
    done = task.execute(context_of(task, began=began))
    retry = context_of(task, 2, began)
    figures = task.execute(retry)
    assert figures["transactions"] == done["transactions"]
    assert retry["outlet_events"].added == [("events:upkeep", figures)]


def test_a_failure_is_airflow_s_with_its_sentence(table: Table) -> None:
    task = Restore(table="events", to=99, partitions="*")
    with pytest.raises(AirflowFailException, match="no transaction"):
        task.execute(context_of(task))
