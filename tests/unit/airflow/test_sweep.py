from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import DAG

from firnline.airflow import sweep
from firnline.airflow.approvals import Approve
from firnline.airflow.sweep import ApprovedSweep, PlanSweep, SweepWork
from firnline.airflow.tables import OneTable
from firnline.airflow.tasks import RunInTask
from firnline.airflow.versions import AirflowFailException, DownstreamTasksSkipped
from firnline.commit.base import take_base
from firnline.commit.transaction import Change, commit
from firnline.errors import UsageError
from firnline.log.txn_file import Counts, RunIdentity
from firnline.settings.load import TableSettings
from firnline.table import Table, open_table
from tests.dags.filled import fill
from tests.support.airflow_context import run_context
from tests.support.tables import one

SWEEP, APPROVED = SweepWork(), ApprovedSweep()
ACT = {"dry_run": False}
DAY = 86_400


@pytest.fixture
def settings(tmp_path: Path) -> TableSettings:
    return one(tmp_path, "locking: fenced").model_copy(update={"root": f"file://{tmp_path}/t"})


@pytest.fixture
def table(settings: TableSettings) -> Table:
    table = open_table(settings)
    fill(table, 1)
    commit_days_ago(table, 5)  # what is older is an orphan at once
    return table


def leave(table: Table, count: int) -> list[str]:
    """Keys of parts, ten days old, that nobody names."""
    now = table.clock.now_ms()
    keys = []
    for _ in range(count):
        key = table.paths.data_part("day=a", table.ids.uuid7(now - 10 * DAY * 1000))
        table.store.put_new(key, b"left")
        file = Path(table.settings.root.removeprefix("file://")).parent / key
        os.utime(file, (now / 1000 - 10 * DAY,) * 2)
        keys.append(key)
    return sorted(keys)


def commit_days_ago(table: Table, days: int) -> None:
    """One transaction, made so long ago."""
    change = Change(op="analyze", replaces=(), adds=(), counts=Counts())
    made = commit(table, take_base(table), change, RunIdentity(run_id="r"))
    then = table.clock.now_ms() / 1000 - days * DAY
    for key in (table.paths.txn(made.header.seq), made.header.log):
        os.utime(Path(table.settings.root.removeprefix("file://")).parent / key, (then,) * 2)


def plan(settings: TableSettings, context: Any) -> dict[str, Any]:
    with DAG("orphan_sweep__t", schedule=None):
        first = PlanSweep(task_id="plan", work=SWEEP, table=OneTable(settings))
        first >> Approve(task_id="approve", work=SWEEP, table=OneTable(settings))
    return first.execute(context)


def test_the_list_is_what_is_approved_and_what_is_deleted(
    table: Table, settings: TableSettings, caplog: pytest.LogCaptureFixture
) -> None:
    keys = leave(table, 3)
    context = run_context(SWEEP, ACT)
    figures = plan(settings, context)
    assert (figures["orphans_asked"], figures["bytes_asked"], figures["later"]) == (3, 12, 0)
    assert context["ti"].pushed["listed"] == keys
    subject, body = SWEEP.question(settings, figures, figures["planned_ms"])
    assert subject == "Delete 3 orphans of table t?"
    assert all(key in body for key in keys)
    later = leave(table, 1)
    said: dict[str, Any] = {"plan/listed": keys, "approve": {"approved": True, "by": "bo"}}
    answered = run_context(SWEEP, ACT, **said)
    task = RunInTask(task_id="sweep", work=APPROVED, table=OneTable(settings))
    done = task.execute(answered)
    assert (done["deleted"], done["left"]) == (3, {"was not approved": 1})
    assert [m.key for m in table.store.list(table.paths.data_dir) if m.size == 4] == later
    assert answered["ti"].pushed["said"] == "deleted: 3 orphans (12 B); 1 left"
    assert "left: 1: was not approved" in caplog.messages


def test_an_approval_without_a_list_is_about_no_object() -> None:
    answered = run_context(SWEEP, ACT, approve={"approved": True, "by": "bo"})
    assert APPROVED.parse_params(answered).options.approved == ()


def test_without_approval_nothing_is_swept() -> None:
    listed: dict[str, Any] = {"plan/listed": ["t/_data/x"]}
    with pytest.raises(UsageError, match="nobody approved"):
        APPROVED.parse_params(run_context(SWEEP, ACT, **listed))


def test_more_than_one_approval_can_be_about_waits(
    table: Table,
    settings: TableSettings,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(sweep, "MOST_APPROVED", 2)
    keys = leave(table, 3)
    context = run_context(SWEEP, ACT)
    figures = plan(settings, context)
    assert (figures["orphans_asked"], figures["bytes_asked"], figures["later"]) == (2, 8, 1)
    assert context["ti"].pushed["listed"] == keys[:2]
    assert SWEEP.question(settings, figures, figures["planned_ms"])[1].endswith(
        "1 further orphan: for another run."
    )
    later = "1 of them wait for another run: nobody is asked about more than 2 at once."
    assert caplog.messages[-1] == later


@pytest.mark.parametrize(
    ("conf", "run_type", "asks"),
    [({}, "manual", False), (ACT, "manual", True), ({}, "scheduled", True)],
)
def test_a_person_s_run_only_lists_and_the_clock_s_asks(
    table: Table, settings: TableSettings, conf: dict[str, Any], run_type: str, asks: bool
) -> None:
    leave(table, 1)
    context = run_context(SWEEP, conf, run_type)
    if asks:
        assert plan(settings, context)["dry_run"] is False
        return
    with pytest.raises(DownstreamTasksSkipped) as skipped:
        plan(settings, context)
    assert list(skipped.value.tasks) == ["approve"]
    assert context["ti"].pushed["return_value"]["orphans_asked"] == 1
    assert context["ti"].pushed["said"] == (
        "dry run, nothing deleted: 1 orphan (4 B) would be deleted"
    )


def test_what_a_process_that_slept_may_name_is_marked_for_a_later_sweep_without_a_question(
    settings: TableSettings,
) -> None:
    table = open_table(settings)
    fill(table, 1)
    leave(table, 3)
    with pytest.raises(DownstreamTasksSkipped):
        plan(settings, run_context(SWEEP))
    assert take_base(table).seq == 0, "a person's run only lists"
    with pytest.raises(DownstreamTasksSkipped):
        plan(settings, run_context(SWEEP, ACT))
    base = take_base(table)
    assert (base.seq, base.snapshot.fence.seq) == (1, 0)


def test_nobody_is_asked_when_there_is_no_orphan(table: Table, settings: TableSettings) -> None:
    with pytest.raises(DownstreamTasksSkipped):
        plan(settings, run_context(SWEEP, ACT))


@pytest.mark.parametrize(
    ("conf", "said"),
    [
        ({"older_than": "1h"}, "an orphan of t cannot be as young as 1h"),
        ({"answer_within": "90d"}, "answer_within is 90d"),
    ],
    ids=str,
)
def test_what_cannot_be_meant_is_refused_before_anybody_is_asked(
    table: Table, settings: TableSettings, conf: dict[str, Any], said: str
) -> None:
    with pytest.raises(AirflowFailException, match=said):
        plan(settings, run_context(SWEEP, {**ACT, **conf}))


def test_an_age_reaches_the_operation() -> None:
    assert (
        SWEEP.parse_params(run_context(SWEEP, {"older_than": "7d"})).options.older_than
        == 604_800_000
    )
    assert SWEEP.parse_params(run_context(SWEEP)).options.older_than is None
