from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from airflow.providers.standard.exceptions import HITLTriggerEventError
from airflow.sdk import DAG
from hypothesis import given
from hypothesis import strategies as st

from firnline.airflow import approvals as humans
from firnline.airflow import versions
from firnline.airflow.answers import NONE
from firnline.airflow.approvals import (
    Approve,
    Pick,
    answer_within,
    answer_within_param,
    approved_by,
    code,
    count,
    partition_table,
    unlisted_lines,
)
from firnline.airflow.erase import ApprovedErase
from firnline.airflow.removal import RemoveWork
from firnline.airflow.sweep import ApprovedSweep, SweepWork
from firnline.airflow.tables import OneTable
from firnline.airflow.versions import (
    AirflowFailException,
    DownstreamTasksSkipped,
    TaskAwaitingInput,
)
from firnline.errors import UsageError
from firnline.settings.load import TableSettings
from firnline.settings.notifiers import AlertSettings
from tests.support.airflow_context import XComs, run_context

SWEEP = SweepWork()
NOW = 1_795_521_600_000
ROWS = [
    {"name": name, "parts": 1, "rows": 20, "bytes": 2048, "newest_ms": NOW - 3 * 86_400_000}
    for name in ("day=a", "(none)")
]
LIST: dict[str, Any] = {"list/listed": ROWS}
TABLE = TableSettings(name="t", root="s3://b/t")
FIGURES = {
    "orphans_asked": 2,
    "bytes_asked": 30,
    "kinds": {"part": 2},
    "later": 0,
    "planned_ms": NOW,
    "orphans": [{"key": "t/_data/a.parquet", "bytes": 30, "age": 90_000_000}],
}


def event(*chosen: str, by: str | None = "ana", timed_out: bool = False) -> dict[str, Any]:
    """What Airflow resumes a task with."""
    return {
        "chosen_options": list(chosen),
        "params_input": {},
        "responded_at": datetime(2026, 1, 1, tzinfo=UTC),
        "responded_by_user": {"id": by, "name": by} if by else None,
        "timedout": timed_out,
    }


@pytest.fixture(autouse=True)
def a_day_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """People are asked a day after the list was made."""
    monkeypatch.setattr(humans, "_now_ms", lambda: NOW + 86_400_000)


@pytest.fixture
def questions(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What was asked, without the process that would hand it to Airflow's server."""
    if not versions.AIRFLOW_3_1_PLUS:
        pytest.skip("Airflow 3.0 has no questions")
    asked: list[dict[str, Any]] = []
    monkeypatch.setattr(
        "airflow.providers.standard.operators.hitl.upsert_hitl_detail",
        lambda **detail: asked.append(detail),
    )
    return asked


def tasks() -> tuple[Pick, Approve]:
    if not versions.AIRFLOW_3_1_PLUS:
        pytest.skip("Airflow 3.0 has no questions")
    with DAG("orphan_sweep__t", schedule=None):
        table = OneTable(TABLE)
        pick = Pick(task_id="pick", listed="list", table=table, what="partitions to remove")
        approve = Approve(task_id="approve", work=SWEEP, table=OneTable(TABLE))
        pick >> approve
    return pick, approve


def context(conf: dict[str, Any] | None = None, **earlier: Any) -> Any:
    found = run_context(SWEEP, conf, **earlier)
    found["ti"].id = "ti"
    found["task_instance"] = found["ti"]
    return found


def waits(task: Pick | Approve, parked: Any) -> timedelta | None:
    """Return how long Airflow waits for the answer; until 3.2 its trigger has that of the task."""
    found: timedelta | None = parked.timeout
    return found if versions.AIRFLOW_3_3_PLUS else task.response_timeout


def test_the_options_of_a_pick_are_what_was_listed(questions: list[dict[str, Any]]) -> None:
    pick, _ = tasks()
    with pytest.raises(TaskAwaitingInput) as waiting:
        pick.execute(context({"answer_within": "2h"}, list={"unlisted": 7}, **LIST))
    assert waits(pick, waiting.value) == timedelta(hours=2)
    (asked,) = questions
    assert (asked["options"], asked["multiple"], asked["defaults"]) == (
        ["day=a", "(none)", NONE],
        True,
        [],
    )
    assert asked["subject"] == "Pick partitions to remove of table t"
    assert "| `day=a` | 1 | 20 | 2.0 KiB | 4d ago |" in asked["body"], "a day after it was listed"
    assert "**7 further partitions cannot be picked here:**" in asked["body"]
    # A day after the list was made, and for two hours.
    assert "**No answer** until 2026-11-25 14:00:00 UTC (`answer_within`)" in asked["body"]


def test_what_was_picked_is_read_by_a_process_that_did_not_ask() -> None:
    pick, _ = tasks()
    told = pick.execute_complete(context(**LIST), event("day=a"))
    assert told == {"picked": ["day=a"], "by": "ana", "timed_out": False}


def test_a_pick_of_nothing_skips_all_that_follows() -> None:
    pick, _ = tasks()
    given_up = context(**LIST)
    with pytest.raises(DownstreamTasksSkipped) as skipped:
        pick.execute_complete(given_up, event(by=None, timed_out=True))
    assert list(skipped.value.tasks) == ["approve"]
    assert given_up["ti"].pushed["return_value"] == {"picked": [], "by": None, "timed_out": True}
    assert given_up["ti"].pushed["said"] == "nobody answered in time, so nothing was done"


@pytest.mark.parametrize("others", [(), ("day=a",)])
def test_who_picks_none_of_these_removes_nothing(others: tuple[str, ...]) -> None:
    pick, _ = tasks()
    refused = context(**LIST)
    with pytest.raises(DownstreamTasksSkipped):
        pick.execute_complete(refused, event(*others, NONE))
    told = refused["ti"].pushed["return_value"]
    assert told == {"picked": [], "by": "ana", "timed_out": False}
    assert refused["ti"].pushed["said"] == "ana picked (none of these), so nothing was done"


def test_what_was_not_listed_cannot_be_picked() -> None:
    pick, _ = tasks()
    with pytest.raises(ValueError, match="day=z"):
        pick.execute_complete(context(**LIST), event("day=z"))


def test_an_approval_asks_what_its_work_says_and_silence_is_a_no(
    questions: list[dict[str, Any]],
) -> None:
    _, approve = tasks()
    with pytest.raises(TaskAwaitingInput) as waiting:
        approve.execute(context(plan=FIGURES))
    assert waits(approve, waiting.value) == timedelta(hours=24)
    (asked,) = questions
    assert (asked["options"], asked["defaults"]) == (["Approve", "Reject"], ["Reject"])
    assert asked["subject"] == "Delete 2 orphans of table t?"
    assert "| `t/_data/a.parquet` | 30 B | 2d 1h |" in asked["body"], "a day older than listed"
    assert "**Approve** deletes 2 objects at once and for good" in asked["body"]
    assert "**Reject** changes nothing, and the run ends as a success." in asked["body"]
    assert "**No answer** until 2026-11-26 12:00:00 UTC (`answer_within`)" in asked["body"]


@pytest.mark.parametrize(
    ("answer", "told", "why"),
    [
        (
            event("Reject"),
            {"approved": False, "by": "ana", "timed_out": False},
            "rejected by ana",
        ),
        (
            event("Reject", by=None, timed_out=True),
            {"approved": False, "by": None, "timed_out": True},
            "nobody answered in time",
        ),
    ],
    ids=["a no", "silence"],
)
def test_without_approval_all_that_follows_is_skipped_tear_downs_too(
    answer: dict[str, Any], told: dict[str, Any], why: str
) -> None:
    _, approve = tasks()
    with DAG("d", schedule=None):
        last = Approve(task_id="last", work=SWEEP, table=OneTable(TABLE))
        approve = Approve(task_id="approve", work=SWEEP, table=OneTable(TABLE))
        approve >> last.as_teardown()
    asked = context()
    with pytest.raises(DownstreamTasksSkipped) as skipped:
        approve.execute_complete(asked, answer)
    assert list(skipped.value.tasks) == ["last"]
    assert asked["ti"].pushed["return_value"] == told
    assert asked["ti"].pushed["said"] == f"{why}, so nothing was done"


def test_an_approval_names_who_gave_it() -> None:
    _, approve = tasks()
    told = approve.execute_complete(context(), event("Approve"))
    assert told == {"approved": True, "by": "ana", "timed_out": False}
    assert approved_by(context(approve=told)) == "ana"


@pytest.mark.parametrize("answer", [None, {}, {"approved": False, "by": "ana"}, "Approve"])
def test_nothing_is_done_without_an_approval_in_writing(answer: object) -> None:
    with pytest.raises(UsageError, match=r"nobody approved run manual__1.*clear its task approve"):
        approved_by(context(approve=answer))


def test_an_answer_that_airflow_could_not_read_is_an_error() -> None:
    pick, _ = tasks()
    with pytest.raises(HITLTriggerEventError):
        pick.execute_complete(context(**LIST), {"error": "broken", "error_type": "unknown"})


def test_a_person_s_silence_is_not_tried_again() -> None:
    assert [task.retries for task in tasks()] == [0, 0]


@pytest.mark.parametrize("wait", ["0s", "31d", "0.5s"])
def test_nobody_waits_for_no_time_or_for_ever(wait: str) -> None:
    with pytest.raises(UsageError, match=r"answer_within is .*give a time from 1s to 30d"):
        answer_within({"answer_within": wait})
    _, approve = tasks()
    with pytest.raises(AirflowFailException):
        approve.execute(context({"answer_within": wait}, plan=FIGURES))


def test_a_day_is_waited_for_unless_said_otherwise() -> None:
    assert answer_within({"answer_within": answer_within_param().value}) == timedelta(days=1)
    assert answer_within({}) == timedelta(days=1)


@pytest.mark.long
@given(st.text())
def test_a_name_from_the_table_stays_one_cell_of_text(name: str) -> None:
    (row,) = partition_table([{**ROWS[0], "name": name}], NOW)[2:]
    assert row.replace("\\|", "").count("|") == 6
    assert row.count("`") == 2
    assert row.splitlines() == [row]
    assert code(name).startswith("`")


def test_rows_that_nobody_counted_are_unknown() -> None:
    assert (count(None), count(1234)) == ("unknown", "1,234")
    assert unlisted_lines(0) == []


def test_xcoms_of_other_keys_are_told_apart() -> None:
    assert XComs({"list/listed": 1}).xcom_pull("list", humans.LISTED) == 1


# --- approvers ------------------------------------------------------------------------------------

FOUR_EYES = TABLE.model_copy(update={"approvers": ("ana", "bo", "cy")})


def approval(table: TableSettings) -> Approve:
    with DAG("orphan_sweep__t", schedule=None):
        return Approve(task_id="approve", work=SWEEP, table=OneTable(table))


def test_whoever_started_a_run_may_approve_it_where_no_approvers_are_named() -> None:
    started_by_ana = context()
    assert approval(TABLE).execute_complete(started_by_ana, event("Approve"))["by"] == "ana"


def test_the_question_names_who_may_approve(questions: list[dict[str, Any]]) -> None:
    with pytest.raises(TaskAwaitingInput):
        approval(FOUR_EYES).execute(context(plan=FIGURES))
    assert questions[0]["body"].endswith("\n\nOnly an approval by `bo`, `cy` counts.")


def test_an_approver_s_approval_counts() -> None:
    told = approval(FOUR_EYES).execute_complete(context(), event("Approve", by="bo"))
    assert (told["approved"], told["by"]) == (True, "bo")


@pytest.mark.parametrize(
    ("by", "why"),
    [
        ("ana", "ana started run manual__1 and approved it too"),
        ("dan", "dan approved it, who is not among its approvers"),
        (None, "somebody without a name approved it, who is not among its approvers"),
    ],
)
def test_after_an_approval_by_anybody_else_the_question_is_asked_again(
    by: str | None, why: str, questions: list[dict[str, Any]], caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(TaskAwaitingInput):
        approval(FOUR_EYES).execute_complete(context(plan=FIGURES), event("Approve", by=by))
    assert caplog.messages[-1] == f"{why}, which does not count; the question is asked again"
    assert [asked["subject"] for asked in questions] == ["Delete 2 orphans of table t?"]


@pytest.mark.parametrize("by", ["ana", "dan"])
def test_the_task_that_acts_refuses_such_an_approval_in_one_sentence(by: str) -> None:
    """As where somebody forged what the task before hands on."""
    forged = context(approve={"approved": True, "by": by})
    with pytest.raises(UsageError) as refused:
        ApprovedSweep().permit(forged, FOUR_EYES)
    assert str(refused.value).startswith("a sweep of orphans of table t is not approved: ")
    assert str(refused.value).endswith("clear its task approve and have one of bo, cy answer it")


# --- the notifier ---------------------------------------------------------------------------------

TOLD: list[dict[str, Any]] = []


def tell(context: dict[str, Any], **arguments: str) -> None:
    """Stands in for a notifier."""
    if arguments["fails"] == "yes":
        raise OSError("the channel does not answer")
    TOLD.append(context)


@pytest.mark.parametrize("fails", ["no", "yes"])
def test_a_question_that_waits_tells_somebody_and_is_asked_if_that_fails(
    questions: list[dict[str, Any]], fails: str, caplog: pytest.LogCaptureFixture
) -> None:
    TOLD.clear()
    alerts = AlertSettings(notifier=f"{__name__}.tell", arguments={"fails": fails})
    with pytest.raises(TaskAwaitingInput):
        approval(TABLE.model_copy(update={"alerts": alerts})).execute(context(plan=FIGURES))
    assert len(questions) == 1
    if fails == "yes":
        assert f"the notifier {__name__}.tell of table t failed" in caplog.text
        return
    (told,) = TOLD
    assert (told["reason"], told["question"]) == ("answer_wanted", "Delete 2 orphans of table t?")
    assert told["run_id"] == "manual__1"


def test_everybody_may_reject() -> None:
    with pytest.raises(DownstreamTasksSkipped):
        approval(FOUR_EYES).execute_complete(context(), event("Reject", by="dan"))


def test_a_run_that_its_only_approver_started_asks_nobody(
    questions: list[dict[str, Any]],
) -> None:
    alone = TABLE.model_copy(update={"approvers": ("ana",)})
    with pytest.raises(
        AirflowFailException,
        match="nobody may approve run manual__1: ana, who started it, is the only one among the "
        "approvers of table t; have somebody else start it, or name further approvers",
    ):
        approval(alone).execute(context(plan=FIGURES))
    assert questions == []


def test_a_run_that_nobody_started_may_be_approved_by_any_of_them() -> None:
    clock = context()
    clock["dag_run"].triggering_user_name = None
    assert approval(FOUR_EYES).execute_complete(clock, event("Approve"))["by"] == "ana"


@pytest.mark.parametrize("work", [ApprovedErase(), ApprovedSweep(), RemoveWork()])
def test_all_that_ask_hold_the_answer_against_the_settings(work: Any) -> None:
    mine = run_context(work, approve={"approved": True, "by": "ana"})
    work.permit(mine, TABLE)
    with pytest.raises(UsageError, match="ana started run manual__1 and approved it too"):
        work.permit(mine, FOUR_EYES)
