"""A TTL of more than may go waits for a person in Airflow, and any other asks nobody."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import DAG

from firnline.airflow import approvals
from firnline.airflow.answers import answer_lines
from firnline.airflow.tables import OneTable
from firnline.airflow.tasks import PlanOperation, RunInTask
from firnline.airflow.ttl import ApprovedTtl, ApproveMuch, AskingTtl
from firnline.airflow.versions import AirflowFailException, ApprovalOperator
from firnline.settings.load import TableSettings
from firnline.state.history import history
from firnline.table import Table, open_table
from tests.dags.filled import fill
from tests.support.airflow_context import run_context
from tests.support.tables import one

ASKING, APPROVED = AskingTtl(), ApprovedTtl()
ACT = {"dry_run": False}
OLD, YOUNG = "d=2013-01-01", "d=2999-01-01"


@pytest.fixture
def settings(tmp_path: Path) -> TableSettings:
    ttl = r"ttl: {keep: 90d, partition: 'd=(?P<day>\d{4}-\d{2}-\d{2})'}"
    made = one(tmp_path, f"locking: fenced, {ttl}")
    return made.model_copy(update={"root": f"file://{tmp_path}/t"})


def filled(settings: TableSettings, old: int) -> Table:
    """Two parts, so many of which are past."""
    table = open_table(settings)
    for number in range(2):
        fill(table, 1, partitions=(OLD if number < old else YOUNG,))
    return table


def plan(settings: TableSettings, conf: dict[str, Any]) -> dict[str, Any]:
    with DAG("ttl__t", schedule=None):
        first = PlanOperation(task_id="plan", work=ASKING, table=OneTable(settings))
    return first.execute(run_context(ASKING, conf))


def asked(settings: TableSettings, figures: dict[str, Any]) -> Any:
    """What the task that asks returns."""
    with DAG("ttl__t", schedule=None):
        task = ApproveMuch(task_id="approve", work=ASKING, table=OneTable(settings))
    return task.execute(run_context(ASKING, ACT, plan=figures))


def run(settings: TableSettings, **earlier: Any) -> dict[str, Any]:
    context = run_context(APPROVED, ACT, **earlier)
    task = RunInTask(task_id="ttl", work=APPROVED, table=OneTable(settings))
    return task.execute(context)


def test_half_of_a_table_goes_without_a_question(settings: TableSettings) -> None:
    table = filled(settings, old=1)
    figures = plan(settings, ACT)
    answer = asked(settings, figures)
    assert (figures["too_much"], answer["approved"]) == (False, False)
    assert run(settings, plan=figures, approve=answer)["parts"] == 1
    assert history(table)[0].run.approved_by == ""


def test_a_whole_table_waits_for_a_person_whom_the_history_names(
    settings: TableSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = filled(settings, old=2)
    figures = plan(settings, ACT)
    waits: list[str] = []
    monkeypatch.setattr(approvals, "tell_waiting", lambda _, __, subject: waits.append(subject))
    monkeypatch.setattr(ApprovalOperator, "execute", lambda *_: waits.append("parked"))
    assert asked(settings, figures) is None
    assert waits == ["Drop all of table t?", "parked"]
    with pytest.raises(AirflowFailException, match="max_removed_fraction allows"):
        run(settings, plan=figures, approve={"approved": False})
    assert len(history(table)) == 0
    assert run(settings, plan=figures, approve={"approved": True, "by": "bo"})["parts"] == 2
    assert history(table)[0].run.approved_by == "bo"


def test_the_question_says_how_much_goes_and_what_an_answer_does(settings: TableSettings) -> None:
    filled(settings, old=2)
    figures = plan(settings, ACT)
    subject, body = ASKING.question(settings, figures, 0)
    assert subject == "Drop all of table t?"
    assert "**2 parts with 100 rows," in body
    assert "That is **all** of it, more than `ttl.max_removed_fraction`" in body
    assert f"| `{OLD}` | 2 |" in body
    lines = answer_lines("ttl", settings, figures, 0)
    assert "drops what is past then (2 parts now) in one transaction" in lines


def test_the_question_names_the_holds_whose_rows_stay(settings: TableSettings) -> None:
    filled(settings, old=2)
    hides = {"rows": None, "parts": 1, "column": "ts", "before": "2024-01-01", "holds": ["case|1"]}
    figures = {**plan(settings, ACT), "hides": hides}
    _, body = ASKING.question(settings, figures, 0)
    assert "Rows of 1 part that would stay, with `ts` before 2024-01-01, would be hidden." in body
    assert "Rows under legal holds stay: `case\\|1`. So do those of which a null leaves" in body
    figures["hides"] = {**hides, "holds": []}
    assert "legal hold" not in ASKING.question(settings, figures, 0)[1]


def test_force_asks_nobody(settings: TableSettings) -> None:
    filled(settings, old=2)
    conf = {**ACT, "force": True}
    assert asked(settings, plan(settings, conf))["approved"] is False
    context = run_context(APPROVED, conf, approve={"approved": False})
    task = RunInTask(task_id="ttl", work=APPROVED, table=OneTable(settings))
    assert task.execute(context)["parts"] == 2


def test_only_approvers_of_the_table_may_agree(settings: TableSettings) -> None:
    table = filled(settings, old=2)
    strict = settings.model_copy(update={"approvers": ("ann",)})
    with pytest.raises(AirflowFailException, match="bo approved it, who is not among"):
        run(strict, plan={"fraction": 1.0}, approve={"approved": True, "by": "bo"})
    assert len(history(table)) == 0
