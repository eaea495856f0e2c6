"""Requests of erasure under Airflow: looked at, approved once for all tables, started by table."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from airflow.sdk import DAG

from firnline.airflow import erasure, triggering
from firnline.airflow.approvals import Approve
from firnline.airflow.erase import ApprovedErase, ApproveErase, EraseWork
from firnline.airflow.erasure import (
    AllTables,
    ErasePeople,
    PlanErasure,
    StartErases,
    people_of,
)
from firnline.airflow.settings import current_settings
from firnline.airflow.tables import OneTable
from firnline.airflow.versions import AirflowFailException, DownstreamTasksSkipped
from firnline.appends.append import Appender
from firnline.errors import EnvironmentFaultError, UsageError
from firnline.log.txn_file import RunIdentity
from firnline.operations.dag_ids import ERASE_PERSON
from firnline.operations.erasure.ask import AskOptions, ask
from firnline.operations.erasure.folder import open_folder
from firnline.table import open_table
from tests.support.airflow_context import XComs, run_context

DAY = 86_400_000
ERASES = [
    {
        "table": "orders",
        "columns": ["customer_id"],
        "requests": [{"id": "r", "digest": "d", "url": "file:///r.keys.csv"}],
        "ids": ["r"],
    }
]


class Runs:
    """Stands for the runs of other DAGs."""

    started: list[tuple[str, str, dict[str, Any]]]
    refusing: set[str]

    def __init__(self, _: object) -> None:
        pass

    def start(self, dag_id: str, run_id: str, conf: dict[str, Any], note: str) -> bool:
        if conf.get("table") in self.refusing:
            raise EnvironmentFaultError("no", next_step="again")
        assert "erase_person" in note
        self.started.append((dag_id, run_id, conf))
        return True


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> type[Runs]:
    Runs.started, Runs.refusing = [], set()
    monkeypatch.setattr(triggering, "PlannedRuns", Runs)
    return Runs


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Settings with two tables of people, each with rows of the persons 0 to 2."""
    write(tmp_path)
    monkeypatch.setenv("FIRNLINE_TABLES", str(tmp_path / "tables.yaml"))
    for name in ("orders", "mails"):
        table = open_table(current_settings().tables[name])
        Appender(table).append(pa.table({"customer_id": [0, 1, 2]}))
    return tmp_path


def write(place: Path, orders: str = "", mails: str = "", erasure: str = "") -> None:
    (place / "tables.yaml").write_text(
        f"erasure: {{requests: 'file://{place}/requests', remind: 1d{erasure}}}\n"
        "tables:\n"
        f"  orders: {{root: 'file://{place}/orders', person: [customer_id]{orders}}}\n"
        f"  mails: {{root: 'file://{place}/mails', person: [customer_id]{mails}}}\n"
        f"  weather: {{root: 'file://{place}/weather'}}\n"
    )


def take(place: Path, **options: Any) -> str:
    keys = place / "keys.csv"
    keys.write_text("customer_id\n1\n")
    settings = current_settings()
    asked = AskOptions(keys=str(keys), **options)
    return ask(people_of(settings), asked, RunIdentity(run_id="asks")).request.id


def context(conf: dict[str, Any] | None = None, **earlier: Any) -> Any:
    found = run_context(EraseWork(), conf, **earlier)
    found["dag"] = SimpleNamespace(dag_id=ERASE_PERSON)
    found["params"] = {"dry_run": False, "answer_within": "1h", **(conf or {})}
    return found


def planned(given: Any) -> tuple[dict[str, Any], bool]:
    """Return the figures of a plan, and whether the rest was skipped."""
    with DAG(ERASE_PERSON, schedule=None):
        task = PlanErasure(task_id="plan")
        task >> StartErases(task_id="start")
    try:
        task.execute(given)
    except DownstreamTasksSkipped as skipped:
        ends = list(skipped.tasks) == ["start"]
    else:
        ends = False
    return given["ti"].pushed["return_value"], ends


def test_a_plan_names_what_is_erased_from_each_table(place: Path) -> None:
    request = take(place)
    figures, ends = planned(context())
    assert not ends
    assert [(each["table"], each["ids"]) for each in figures["erases"]] == [
        ("mails", [request]),
        ("orders", [request]),
    ]
    (asked,) = figures["erases"][0]["requests"]
    assert asked["url"] == f"file://{place}/requests/{request}.keys.csv"


def test_a_run_without_requests_ends_with_its_plan(place: Path) -> None:
    given = context()
    _, ends = planned(given)
    assert ends
    assert "No request is open" in str(given["ti"].pushed)


def test_a_dry_run_ends_with_its_plan(place: Path) -> None:
    take(place)
    figures, ends = planned(context({"dry_run": True}))
    assert ends
    assert len(figures["erases"]) == 2


def test_a_param_that_there_is_not_is_refused(place: Path) -> None:
    with pytest.raises(AirflowFailException, match="erase_person has no param dryrun"):
        planned(context({"dryrun": True}))


def test_requests_that_are_due_are_told(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[Any, ...]] = []
    monkeypatch.setattr(erasure, "tell", lambda *args: told.append(args))
    now = open_folder(current_settings().erasure).clock.now_ms()
    take(place, received_ms=now - 31 * DAY, reference="T-1")
    planned(context({"dry_run": True}))
    assert told == []
    planned(context())
    ((_, _, _, reason, sentence),) = told
    assert (reason, sentence) == ("due", "1 request of erasure: T-1 is 1d overdue, 2 tables to go")


def test_the_question_counts_and_names_no_key(place: Path) -> None:
    take(place)
    figures, _ = planned(context())
    headline, text = ErasePeople().question(AllTables().of_run(context()), figures, 0)
    assert headline == "Erase 1 request from 2 tables?"
    assert "| `mails` | 1 | 1 | 1 | " in text


def test_who_may_approve_is_among_the_approvers_of_every_table(place: Path) -> None:
    assert AllTables().of_run(context()).approvers is None
    write(place, orders=", approvers: [ana, bo]")
    assert AllTables().of_run(context()).approvers == ("ana", "bo")
    write(place, orders=", approvers: [ana, bo]", mails=", approvers: [bo, cy]")
    assert AllTables().of_run(context()).approvers == ("bo",)
    write(place, orders=", approvers: [ana]", mails=", approvers: [bo]")
    with pytest.raises(UsageError, match="nobody is among the approvers of every table"):
        AllTables().of_run(context())


def test_an_erase_of_each_table_is_started_with_its_requests(place: Path, runs: type[Runs]) -> None:
    given = context(approve={"approved": True, "by": "bo"}, plan={"erases": ERASES})
    figures = StartErases(task_id="start").execute(given)
    assert figures["started"] == ["orders"]
    ((dag_id, run_id, conf),) = runs.started
    assert (dag_id, run_id) == ("erase", "person__manual__1__orders")
    assert conf == {
        "table": "orders",
        "dry_run": False,
        "columns": ["customer_id"],
        "requests": ERASES[0]["requests"],
        "asked_in": "manual__1",
    }


def test_nothing_is_started_without_an_approval(place: Path, runs: type[Runs]) -> None:
    with pytest.raises(AirflowFailException, match="nobody approved"):
        StartErases(task_id="start").execute(context(plan={"erases": ERASES}))
    write(place, orders=", approvers: [cy, di]")
    given = context(approve={"approved": True, "by": "bo"}, plan={"erases": ERASES})
    with pytest.raises(AirflowFailException, match="not among its approvers"):
        StartErases(task_id="start").execute(given)
    assert runs.started == []


def test_a_refusal_of_airflow_fails_the_run_after_the_others(place: Path, runs: type[Runs]) -> None:
    runs.refusing = {"orders"}
    both = [*ERASES, {**ERASES[0], "table": "mails"}]
    given = context(approve={"approved": True, "by": "bo"}, plan={"erases": both})
    with pytest.raises(AirflowFailException, match="orders: no"):
        StartErases(task_id="start").execute(given)
    assert [conf["table"] for _, _, conf in runs.started] == ["mails"]


# --- the erase that it has started ----------------------------------------------------------------

THERE = f"{ERASE_PERSON} manual__9"
APPROVED = {
    f"{THERE} approve": {"approved": True, "by": "bo"},
    f"{THERE} plan": {"erases": ERASES},
}
CONF = {
    "table": "orders",
    "columns": ["customer_id"],
    "requests": ERASES[0]["requests"],
    "asked_in": "manual__9",
    "dry_run": False,
}


def started(conf: dict[str, Any], **earlier: Any) -> Any:
    return run_context(EraseWork(), {k: v for k, v in conf.items() if k != "table"}, **earlier)


def approve(given: Any) -> Any:
    with DAG("erase__orders", schedule=None):
        table = OneTable(current_settings().tables["orders"])
        task = ApproveErase(task_id="approve", work=EraseWork(), table=table)
    assert isinstance(task, Approve)
    return task.execute(given)


def test_an_erase_takes_the_approval_of_the_run_that_has_started_it(place: Path) -> None:
    assert approve(started(CONF, **APPROVED)) == {"approved": True, "by": "bo", "timed_out": False}


@pytest.mark.parametrize(
    "change",
    [
        {"columns": ["n"]},
        {"requests": [{"id": "other", "digest": "d", "url": "file:///r.keys.csv"}]},
        {"asked_in": "manual__8"},
    ],
)
def test_an_erase_of_anything_else_is_not_approved(place: Path, change: dict[str, Any]) -> None:
    with pytest.raises(AirflowFailException, match="approved"):
        approve(started({**CONF, **change}, **APPROVED))


def test_an_erase_whose_question_was_rejected_is_not_approved(place: Path) -> None:
    there = {
        f"{THERE} approve": {"approved": False, "by": "bo"},
        f"{THERE} plan": {"erases": ERASES},
    }
    with pytest.raises(AirflowFailException, match="nobody approved run manual__9"):
        approve(started(CONF, **there))


def test_requests_come_from_nowhere_else() -> None:
    work = EraseWork()
    with pytest.raises(UsageError, match="names none of its runs"):
        work.parse_params(started({**CONF, "asked_in": None}))
    with pytest.raises(UsageError, match="the requests of this run are none"):
        work.parse_params(started({**CONF, "requests": [{"id": 1}]}))


def test_requests_may_be_handed_to_a_driver(place: Path) -> None:
    found = ApprovedErase().parse_params(started(CONF, approve={"approved": True, "by": "bo"}))
    assert (found.by, [each.id for each in found.options.requests]) == ("bo", ["r"])
    assert EraseWork().confidential(found) is None


def test_context_of_others(place: Path) -> None:
    assert XComs({"a b c": 1}).xcom_pull("c", dag_id="a", run_id="b") == 1


def test_settings_that_name_no_folder_any_more_are_a_sentence(place: Path) -> None:
    settings = current_settings()
    none = settings.erasure.model_copy(update={"requests": None})
    with pytest.raises(UsageError, match="no folder for requests"):
        people_of(replace(settings, erasure=none))
