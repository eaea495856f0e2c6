"""DAGs with people and backfills as Airflow parses them, without running anything."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest

from firnline.operations.pools import NO_TABLE
from tests.dags.parsing import Parser

OPERATIONS = (
    "remove_partitions, rewrite_partitions, delete_where, replace, restore, erase, orphan_sweep, "
    "ttl, update_where"
)
TABLES = f"""
defaults: {{operations: [{OPERATIONS}], own_dags: [rewrite_partitions], ttl: {{keep: 90d}}}}
tables:
  daily: {{root: 's3://b/daily', partition_by: [day(ts)], sweep: {{schedule: '3 5 * * 0'}}}}
  monthly: {{root: 's3://b/monthly', partition_by: [carrier, month(ts)]}}
  timeless: {{root: 's3://b/timeless'}}
"""
CHAINS = {
    "remove_partitions": ["list", "pick", "approve", "remove_partitions"],
    "orphan_sweep": ["plan", "approve", "orphan_sweep"],
    "erase": ["plan", "approve", "erase", "report"],
    "ttl": ["plan", "approve", "ttl"],
    "delete_where": ["plan", "delete_where", "report"],
    "replace": ["plan", "replace", "report"],
    "restore": ["plan", "restore"],
    "rewrite_partitions": ["plan", "rewrite_partitions", "approve", "commit", "report"],
    "update_where": ["plan", "update_where", "approve", "commit", "report"],
}


@pytest.fixture(scope="module")
def parsed(parser: Parser, tmp_path_factory: pytest.TempPathFactory) -> Any:
    return parser.parse(tmp_path_factory.mktemp("home"), TABLES)


def of(parsed: Any, operation: str) -> Any:
    """The DAG of an operation for all tables."""
    return parsed["dags"][operation]


def test_each_operation_has_a_dag_for_all_tables_and_those_that_were_asked_for(parsed: Any) -> None:
    assert parsed["errors"] == {}
    rewrites = [f"rewrite_partitions__{table}" for table in ("daily", "monthly", "timeless")]
    assert parsed["ids"] == sorted([*CHAINS, *rewrites, "orphan_sweep__daily", "fleet__merge"])


@pytest.mark.parametrize("operation", CHAINS)
def test_the_work_comes_after_the_answers_and_only_it_holds_the_pool(
    parsed: Any, operation: str
) -> None:
    dag, chain = of(parsed, operation), CHAINS[operation]
    for task, after in pairwise(chain):
        assert after in dag["downstream"][task]
    locked = {operation, "commit"}
    assert dag["pools"] == {task: NO_TABLE if task in locked else "default_pool" for task in chain}


@pytest.mark.parametrize("operation", ["remove_partitions", "orphan_sweep", "erase", "ttl"])
def test_a_question_is_asked_once(parsed: Any, operation: str) -> None:
    retries = of(parsed, operation)["retries"]
    assert {task: retries[task] for task in retries if task in ("pick", "approve")} == {
        task: 0 for task in CHAINS[operation] if task in ("pick", "approve")
    }
    assert retries[operation] == 3


@pytest.mark.parametrize("operation", CHAINS)
def test_a_person_s_run_begins_as_a_dry_run(parsed: Any, operation: str) -> None:
    params = of(parsed, operation)["params"]
    assert params["dry_run"][0] is True
    assert params.get("answer_within", ["24h"])[0] == "24h"


def test_a_rewrite_has_the_data_interval_of_its_partitions(parsed: Any) -> None:
    times = {
        table: json.dumps(parsed["dags"][f"rewrite_partitions__{table}"]["timetable"])
        for table in ("daily", "monthly", "timeless")
    }
    assert "0 0 * * *" in times["daily"]
    assert "firnline.airflow.backfills.BackfillOnly" in times["daily"]
    assert "0 0 1 * *" in times["monthly"]
    assert "NullTimetable" in times["timeless"]


def test_what_a_person_starts_has_no_schedule_and_a_sweep_may_have_one(parsed: Any) -> None:
    for operation in ("remove_partitions", "delete_where", "replace", "restore", "erase"):
        assert "NullTimetable" in json.dumps(of(parsed, operation)["timetable"])
    times = [parsed["dags"][name]["timetable"] for name in ("orphan_sweep__daily", "orphan_sweep")]
    assert "3 5 * * 0" in json.dumps(times[0])
    assert "NullTimetable" in json.dumps(times[1])
    assert "orphan_sweep__monthly" not in parsed["ids"]


def test_the_docs_say_what_an_answer_does_and_how_a_backfill_is_made(parsed: Any) -> None:
    for operation in ("remove_partitions", "orphan_sweep", "erase"):
        assert "**Without an answer**" in of(parsed, operation)["doc"]
    assert "`keys` are stored in Airflow's database" in of(parsed, "erase")["doc"]
    doc = parsed["dags"]["rewrite_partitions__daily"]["doc"]
    assert "airflow backfill create --dag-id rewrite_partitions__<table>" in doc
