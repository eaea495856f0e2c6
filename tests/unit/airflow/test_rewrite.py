from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from firnline.airflow.rewrite import RewriteWork, interval_of
from firnline.airflow.runs import kind_of_run
from firnline.appends.append import Appender
from firnline.errors import UsageError
from firnline.operations.options import RewriteOptions
from tests.dags.filled import fill
from tests.support.airflow_context import run_context
from tests.support.tables import one
from tests.support.world import make_world

REWRITE = RewriteWork()
MARCH_1, MARCH_2 = (datetime(2024, 3, day, tzinfo=UTC) for day in (1, 2))
MARCH_1_MS, DAY_MS = 1_709_251_200_000, 86_400_000


def context(conf: dict[str, Any], kind: str, start: datetime | None = MARCH_1) -> Any:
    found = run_context(REWRITE, conf, kind)
    found["ti"].task, found["ti"].max_tries = SimpleNamespace(retries=3), 3
    found["dag_run"].data_interval_start = start
    found["dag_run"].data_interval_end = MARCH_2
    return found


def test_a_backfill_rewrites_what_its_data_interval_holds_and_only_when_told_so() -> None:
    asked = REWRITE.parse_params(context({"where": "k > 1"}, "backfill"))
    assert asked == RewriteOptions(
        where="k > 1", start_ms=MARCH_1_MS, end_ms=MARCH_1_MS + DAY_MS, first_try=1, dry_run=True
    )
    conf = {"sql": "select * from _rows", "partitions": ["*"], "force": True, "dry_run": False}
    assert REWRITE.parse_params(context(conf, "backfill")) == RewriteOptions(
        sql="select * from _rows",
        partitions=("*",),
        force=True,
        start_ms=MARCH_1_MS,
        end_ms=MARCH_1_MS + DAY_MS,
        first_try=1,
    )


@pytest.mark.parametrize(
    ("tries", "max_tries", "first"),
    [(1, 3, 1), (2, 3, 1), (2, 4, 2), (5, 6, 4), (1, 0, 1)],
    ids=["first", "retry", "cleared", "retry after a clear", "without retries"],
)
def test_a_retry_knows_where_its_execution_began(tries: int, max_tries: int, first: int) -> None:
    again = context({"where": "k > 1"}, "backfill")
    again["ti"].try_number, again["ti"].max_tries = tries, max_tries
    assert REWRITE.parse_params(again).first_try == first


def test_a_run_by_hand_takes_the_partitions_that_it_names() -> None:
    conf = {"where": "k > 1", "partitions": ["day=a"], "dry_run": False}
    for kind in ("manual", "operator_triggered"):
        asked = REWRITE.parse_params(context(conf, kind))
        assert asked == RewriteOptions(where="k > 1", partitions=("day=a",), first_try=1)
    with pytest.raises(UsageError, match="a rewrite by hand needs partitions"):
        REWRITE.parse_params(context({"where": "k > 1"}, "manual"))


def test_a_param_that_a_rewrite_does_not_have_is_refused() -> None:
    with pytest.raises(UsageError, match="a rewrite has no param filter; use where, sql, "):
        REWRITE.parse_params(context({"where": "k > 1", "filter": "k"}, "backfill"))


@pytest.mark.parametrize("conf", [{}, {"where": "k > 1", "sql": "select 1"}], ids=str)
def test_a_rewrite_takes_a_condition_or_a_query(conf: dict[str, Any]) -> None:
    asked = REWRITE.parse_params(context({**conf, "partitions": ["*"]}, "manual"))
    table = make_world().table
    Appender(table).append(pa.table({"k": [1]}))
    with pytest.raises(UsageError, match=r"takes a condition \(where\) or a query \(sql\)"):
        REWRITE.preview(table, asked)


def test_a_backfill_without_an_interval_rewrites_nothing() -> None:
    with pytest.raises(UsageError, match="has no data interval"):
        REWRITE.parse_params(context({"where": "k > 1"}, "backfill", None))


def test_a_run_is_told_by_its_kind_and_not_by_its_id() -> None:
    processed_again = context({}, "backfill")
    processed_again["run_id"] = "scheduled__2024-03-01"
    assert kind_of_run(processed_again) == "backfill"
    processed_again["dag_run"].run_type = SimpleNamespace(value="scheduled")
    assert kind_of_run(processed_again) == "scheduled"


@pytest.mark.parametrize(
    ("fields", "cron"),
    [
        ("hour(ts)", "0 * * * *"),
        ("day(ts)", "0 0 * * *"),
        ("month(ts)", "0 0 1 * *"),
        ("year(ts)", "0 0 1 1 *"),
        ("year(ts), month(ts), day(ts)", "0 0 * * *"),
        ("carrier, month(ts)", "0 0 1 * *"),
        # The planner reads the first of two times.
        ("month(ts), hour(seen)", "0 0 1 * *"),
    ],
)
def test_the_data_interval_holds_whole_partitions(tmp_path: Path, fields: str, cron: str) -> None:
    interval = interval_of(
        one(tmp_path, f"partition_by: ['{fields.replace(', ', chr(39) + ', ' + chr(39))}']")
    )
    assert interval is not None
    assert interval.summary == cron
    assert interval.serialize() == {"expression": cron, "timezone": "UTC"}


@pytest.mark.parametrize(
    "settings", ["partition_by: [carrier]", "partition: 'd=.*'", "sort_by: []"]
)
def test_a_table_without_time_in_its_partitions_has_no_backfills(
    tmp_path: Path, settings: str
) -> None:
    assert interval_of(one(tmp_path, settings)) is None


def test_the_plan_says_what_is_read() -> None:
    world = make_world()
    fill(world.table, 2)
    conf = {"where": "k < 60", "partitions": ["day=a"]}
    plan = REWRITE.preview(world.table, REWRITE.parse_params(context(conf, "manual")))
    page = REWRITE.plan_page(world.table, REWRITE.plan_figures(plan))
    said = list(page.lines())
    assert page.sentence.startswith("in 1 partition 2 parts of t would be read (about ")
    assert any("day=a" in line for line in said)
    assert not any("day=b" in line for line in said)
