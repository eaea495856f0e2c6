"""Runs of merge DAGs, as a task asks Airflow about them; that Airflow answers so is seen in
tests/dags/test_fleet_real.py."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowRuntimeError, ErrorType
from airflow.sdk.execution_time import task_runner
from airflow.sdk.execution_time.comms import ErrorResponse, OKResponse, TriggerDagRun

from firnline.airflow import versions
from firnline.airflow.triggering import BEGUN, PlannedRuns
from firnline.errors import EnvironmentFaultError
from firnline.operations.fleet.plan import Held


def failed(status: int) -> AirflowRuntimeError:
    detail = {"status_code": status, "message": "so it is"}
    return AirflowRuntimeError(ErrorResponse(error=ErrorType.API_SERVER_ERROR, detail=detail))


def runs(
    *, paused: bool = False, under_way: int = 0, error: Exception | None = None
) -> PlannedRuns:
    """The runs of a DAG in this state."""

    def get_dag(dag_id: str) -> Any:
        if error is not None:
            raise error
        return SimpleNamespace(dag_id=dag_id, is_paused=paused)

    def get_dr_count(
        dag_id: str, states: list[str] | None = None, run_ids: list[str] | None = None
    ) -> int:
        assert dag_id == "merge__t"
        assert states is None or states == ["queued", "running"]
        return under_way if run_ids is None else run_ids.count("there")

    ti: Any = SimpleNamespace(get_dag=get_dag, get_dr_count=get_dr_count)
    return PlannedRuns(ti)


class Supervisor:
    """Remembers what it was sent."""

    def __init__(self, answer: object) -> None:
        self.answer = answer
        self.sent: list[TriggerDagRun] = []

    def send(self, msg: TriggerDagRun) -> object:
        self.sent.append(msg)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def start(monkeypatch: pytest.MonkeyPatch, answer: object) -> tuple[bool, TriggerDagRun]:
    supervisor = Supervisor(answer)
    monkeypatch.setattr(task_runner, "SUPERVISOR_COMMS", supervisor, raising=False)
    made = runs().start("merge__t", "fleet__1", {"max_bytes": "5"}, "why")
    (sent,) = supervisor.sent
    return made, sent


def test_a_dag_with_nothing_under_way_is_not_held() -> None:
    assert runs().held("merge__t") is None


def test_a_run_under_way_holds_it_and_counts_into_the_budget() -> None:
    expected = Held("a run of merge__t is queued or running", under_way=True)
    assert runs(under_way=1).held("merge__t") == expected
    assert runs(under_way=1, paused=True).held("merge__t") == expected


def test_of_a_table_whose_merges_share_its_pool_as_many_runs_may_be_under_way() -> None:
    assert runs(under_way=1).held("merge__t", 2) is None
    expected = Held("2 runs of merge__t are queued or running", under_way=True)
    assert runs(under_way=2).held("merge__t", 2) == expected
    paused = Held("the DAG merge__t is paused") if versions.AIRFLOW_3_2_PLUS else None
    assert runs(under_way=1, paused=True).held("merge__t", 2) == paused


def test_a_run_that_there_is_is_not_started_again() -> None:
    assert runs().held("merge__t", run_id="another") is None
    assert runs().held("merge__t", run_id="there") == Held("its run there is over")


CAN_ASK = pytest.mark.skipif(
    not versions.AIRFLOW_3_2_PLUS, reason="a task asks about a DAG from Airflow 3.2 on"
)


@CAN_ASK
def test_a_paused_dag_is_held() -> None:
    assert runs(paused=True).held("merge__t") == Held("the DAG merge__t is paused")


def test_where_a_task_cannot_ask_a_paused_dag_is_not_held(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until Airflow 3.1. Its run is queued, and starts when the DAG goes on."""
    monkeypatch.setattr(versions, "AIRFLOW_3_2_PLUS", False)
    assert runs(paused=True).held("merge__t") is None


@CAN_ASK
def test_a_dag_that_airflow_has_not_parsed_yet_is_held() -> None:
    assert runs(error=failed(404)).held("merge__t") == Held("Airflow has no DAG merge__t yet")


@CAN_ASK
def test_an_airflow_that_cannot_answer_fails_the_task() -> None:
    with pytest.raises(AirflowRuntimeError):
        runs(error=failed(500)).held("merge__t")


def test_a_run_is_started_by_one_message(monkeypatch: pytest.MonkeyPatch) -> None:
    made, sent = start(monkeypatch, OKResponse(ok=True))
    assert made
    assert (sent.dag_id, sent.run_id) == ("merge__t", "fleet__1")
    # Until 3.1 the message has no note.
    assert getattr(sent, "note", None) == ("why" if versions.AIRFLOW_3_2_PLUS else None)
    assert sent.conf == {"max_bytes": "5"}
    assert not sent.reset_dag_run


def test_a_run_that_exists_is_left_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    made, _ = start(monkeypatch, ErrorResponse(error=ErrorType.DAGRUN_ALREADY_EXISTS))
    assert not made


def test_a_run_that_airflow_refuses_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(EnvironmentFaultError, match="did not start run fleet__1 of merge__t"):
        start(monkeypatch, failed(400))


def test_of_a_dag_for_all_tables_only_the_runs_that_are_named_count() -> None:
    assert runs(under_way=9).held("merge__t", begun=()) is None
    expected = Held("a run of merge__t is queued or running for it", under_way=True)
    assert runs().held("merge__t", begun=["there"]) == expected
    assert runs().held("merge__t", begun=["gone"]) is None


class Variables:
    """Airflow's variables, one of them."""

    text = "{}"

    @classmethod
    def get(cls, key: str, default: None) -> str:
        assert (key, default) == (BEGUN, None)
        return cls.text

    @classmethod
    def set(cls, key: str, value: str, description: str) -> None:
        assert (key, bool(description)) == (BEGUN, True)
        cls.text = value


def test_merges_that_were_begun_are_remembered(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("airflow.sdk.Variable", Variables)
    runs().remember({"t": ["fleet__1"]})
    assert runs().begun() == {"t": ["fleet__1"]}
    for other in ("[]", "{", '{"t": 1}'):
        Variables.text = other
        assert runs().begun() == {}
    assert caplog.text.count("is not as it was written") == 3
