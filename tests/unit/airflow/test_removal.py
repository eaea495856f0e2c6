from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import DAG

from firnline.airflow.removal import (
    MOST_LISTED,
    ApproveRemoval,
    ListPartitions,
    RemoveWork,
    newest_transaction,
    rows_of,
)
from firnline.airflow.tables import OneTable
from firnline.airflow.tasks import RunInTask
from firnline.airflow.versions import AirflowFailException, DownstreamTasksSkipped
from firnline.errors import PlanChangedError, UsageError
from firnline.settings.load import TableSettings
from firnline.state.history import history
from firnline.table import Table, open_table
from tests.dags.filled import fill, live_keys
from tests.support.airflow_context import run_context
from tests.support.tables import one

REMOVE = RemoveWork()
ACT = {"dry_run": False}
NOON = 1_795_521_600_000
"""2026-11-24 12:00 UTC, unix ms."""


@pytest.fixture
def settings(tmp_path: Path) -> TableSettings:
    return one(tmp_path, "locking: fenced").model_copy(update={"root": f"file://{tmp_path}/t"})


@pytest.fixture
def table(settings: TableSettings) -> Table:
    return open_table(settings)


def list_task(settings: TableSettings) -> ListPartitions:
    with DAG("remove_partitions__t", schedule=None):
        listing = ListPartitions(task_id="list", work=REMOVE, table=OneTable(settings))
        listing >> ApproveRemoval(task_id="approve", work=REMOVE, table=OneTable(settings))
    return listing


def listed(settings: TableSettings, conf: dict[str, Any]) -> tuple[dict[str, Any], list[Any]]:
    """Figures and rows that ``list`` hands on."""
    context = run_context(REMOVE, conf)
    return list_task(settings).execute(context), context["ti"].pushed["listed"]


def answered(rows: list[Any], *picked: str, approved: bool = True) -> dict[str, Any]:
    """XCom of a run in which a person has answered."""
    return {
        "list": {"seq": 0, "grace_ms": 86_400_000},
        "list/listed": rows,
        "pick": {"picked": list(picked)},
        "approve": {"approved": approved, "by": "bo"},
    }


def test_the_list_has_sizes_and_the_version_that_is_confirmed(
    table: Table, settings: TableSettings, caplog: pytest.LogCaptureFixture
) -> None:
    fill(table, 2)
    with caplog.at_level(logging.INFO):
        figures, rows = listed(settings, ACT)
    assert (figures["partitions"], figures["unlisted"], figures["parts"]) == (2, 0, 4)
    assert [(row["name"], row["parts"], row["rows"]) for row in rows] == [
        ("day=a", 2, 100),
        ("day=b", 2, 100),
    ]
    assert len({row["version"] for row in rows}) == 2
    assert any(
        message.startswith("partition day=a: parts 2, rows 100, ") for message in caplog.messages
    )


@pytest.mark.long
def test_a_table_of_more_partitions_than_anybody_picks_from_says_so(
    table: Table, settings: TableSettings
) -> None:
    fill(table, 1, rows=1, partitions=[f"day={number:04d}" for number in range(MOST_LISTED + 5)])
    figures, rows = listed(settings, ACT)
    assert (figures["partitions"], figures["unlisted"], len(rows)) == (305, 5, MOST_LISTED)
    narrowed, rows = listed(settings, {**ACT, "partitions": ["day=030?"]})
    assert (narrowed["unlisted"], rows[0]["name"]) == (0, "day=0300")


def test_a_table_without_partitions_can_be_picked_by_a_name(
    table: Table, settings: TableSettings
) -> None:
    fill(table, 1, partitions=[""])
    _, rows = listed(settings, ACT)
    assert (rows[0]["name"], rows[0]["partition"]) == ("(none)", "")
    asked = REMOVE.parse_params(run_context(REMOVE, ACT, **answered(rows, "(none)")))
    assert asked.options.partitions == ("",)


@pytest.mark.parametrize("partitions", [[], ["day=a"]], ids=["empty", "dry run"])
def test_nobody_is_asked_of_an_empty_table_or_in_a_dry_run(
    table: Table, settings: TableSettings, partitions: list[str]
) -> None:
    if partitions:
        fill(table, 1, partitions=partitions)
    context = run_context(REMOVE, {} if partitions else ACT)
    with pytest.raises(DownstreamTasksSkipped) as skipped:
        list_task(settings).execute(context)
    assert list(skipped.value.tasks) == ["approve"]
    said = context["ti"].pushed["said"]
    assert said.startswith("dry run, nothing removed: 1 partition" if partitions else "the table")


@pytest.mark.parametrize(
    ("conf", "said"),
    [
        ({"partitions": ["day=z*"]}, "no partition of the table matches 'day=z"),
        ({"answer_within": "90d"}, "answer_within is 90d"),
        ({"partition": ["day=a"]}, "a removal of partitions has no param partition"),
    ],
    ids=str,
)
def test_what_cannot_be_meant_is_refused_before_anybody_is_asked(
    table: Table, settings: TableSettings, conf: dict[str, Any], said: str
) -> None:
    fill(table, 1)
    with pytest.raises(AirflowFailException, match=said):
        listed(settings, conf)


def test_the_question_has_the_totals_of_what_was_picked(
    table: Table, settings: TableSettings
) -> None:
    fill(table, 2)
    _, rows = listed(settings, ACT)
    approve = ApproveRemoval(task_id="approve", work=REMOVE, table=OneTable(settings))
    context = run_context(REMOVE, ACT, **answered(rows, "day=b"))
    subject, body = REMOVE.question(settings, approve.figures(context), NOON)
    assert subject == "Remove 1 partition of table t?"
    assert "**100 rows, " in body
    assert "in 2 parts go in one transaction" in body
    # The grace is that of the table: one day.
    assert "**They can be brought back for 1d**" in body
    assert "approved now, until 2026-11-25 12:00:00 UTC" in body
    assert "`table: t`" in body
    assert "(0, if nothing else is committed until then)" in body
    assert "day=a" not in body
    assert rows_of([{"rows": 1}, {"rows": None}]) is None


def test_what_people_confirmed_is_dropped_and_history_names_them(
    table: Table, settings: TableSettings
) -> None:
    fill(table, 2)
    _, rows = listed(settings, ACT)
    remove = RunInTask(task_id="remove", work=REMOVE, table=OneTable(settings), plan="list")
    context = run_context(REMOVE, ACT, **answered(rows, "day=b"))
    figures = remove.execute(context)
    (header,) = history(table)
    assert (header.op, header.partitions) == ("drop", ("day=b",))
    assert (header.run.user, header.run.approved_by) == ("ana", "bo")
    assert figures["transactions"] == [header.seq] == [newest_transaction(table)]
    assert all("day=a" in key for key in live_keys(table))
    said = context["ti"].pushed["said"]
    assert said.startswith("dropped: 2 parts with 100 rows (")
    assert f" of 1 partition; transaction 1 (digest {figures['head']['digest'][:16]}…)" in said


def test_what_changed_since_is_not_dropped(table: Table, settings: TableSettings) -> None:
    fill(table, 2)
    _, rows = listed(settings, ACT)
    fill(table, 1, partitions=["day=b"])
    asked = REMOVE.parse_params(run_context(REMOVE, ACT, **answered(rows, "day=b")))
    with pytest.raises(PlanChangedError, match="day=b has 3 parts now"):
        REMOVE.preview(table, asked)


def test_without_approval_nothing_is_even_looked_at() -> None:
    with pytest.raises(UsageError, match="nobody approved"):
        REMOVE.parse_params(run_context(REMOVE, ACT, **answered([], "day=b", approved=False)))


def test_the_task_that_drops_looks_itself_who_approved(
    table: Table, settings: TableSettings
) -> None:
    fill(table, 2)
    _, rows = listed(settings, ACT)
    guarded = settings.model_copy(update={"approvers": ("cy",)})
    remove = RunInTask(task_id="remove", work=REMOVE, table=OneTable(guarded), plan="list")
    with pytest.raises(AirflowFailException, match=r"bo approved it, .* have cy answer it"):
        remove.execute(run_context(REMOVE, ACT, **answered(rows, "day=b")))
    assert history(table) == []
