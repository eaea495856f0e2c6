"""Dataproc and Databricks, by clients that note what they are asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from firnline.errors import EnvironmentFaultError, PlatformError
from firnline.launch.databricks import Databricks
from firnline.launch.dataproc import Dataproc
from firnline.launch.launcher import Found, Progress
from firnline.settings.launchers import DatabricksSettings, DataprocSettings
from tests.support.launching import application

ONE = application(**{"spark.executor.cores": "4"})


class GoogleError(Exception):
    """As google.api_core raises it."""

    def __init__(self, code: int) -> None:
        super().__init__(f"{code} somehow")
        self.code = code


@dataclass
class Jobs:
    """A JobControllerClient."""

    state: str = "RUNNING"
    asked: list[tuple[str, Any]] = field(default_factory=list)
    fails: int = 0

    def _note(self, name: str, request: Any) -> None:
        self.asked.append((name, request))
        if self.fails:
            raise GoogleError(self.fails)

    def submit_job(self, request: Any) -> None:
        self._note("submit", request)

    def get_job(self, request: Any) -> Any:
        self._note("get", request)
        state = SimpleNamespace(name=self.state)
        return SimpleNamespace(status=SimpleNamespace(state=state, details="so it is"))

    def cancel_job(self, request: Any) -> None:
        self._note("cancel", request)

    def list_jobs(self, request: Any) -> list[Any]:
        self._note("list", request)
        names = (JOB, "firnline-delete-1-1_0")
        return [SimpleNamespace(reference=SimpleNamespace(job_id=name)) for name in names]


JOB = f"{ONE.name}_{ONE.token}"
CLUSTER = DataprocSettings(project="p", region="r", cluster="c")


def test_dataproc_names_the_job_so_that_a_lost_answer_starts_no_second_one() -> None:
    jobs = Jobs()
    dataproc = Dataproc(jobs, CLUSTER)
    assert dataproc.start(ONE) == JOB
    ((_, request),) = jobs.asked
    assert (request["project_id"], request["region"]) == ("p", "r")
    job = request["job"]
    assert job["reference"]["job_id"] == JOB
    assert job["placement"] == {"cluster_name": "c"}
    assert job["pyspark_job"]["main_python_file_uri"] == ONE.package.entry
    assert job["pyspark_job"]["args"] == ONE.arguments
    assert job["pyspark_job"]["properties"]["spark.submit.deployMode"] == "cluster"
    assert job["pyspark_job"]["properties"]["spark.executor.cores"] == "4"
    jobs.fails = 409
    assert dataproc.start(ONE) == JOB


def test_dataproc_finds_looks_and_cancels() -> None:
    jobs = Jobs()
    dataproc = Dataproc(jobs, CLUSTER)
    assert dataproc.find("firnline-merge-") == [Found(JOB, ONE.name)]
    assert dataproc.look(JOB) == Progress("running", "RUNNING: so it is")
    dataproc.cancel(JOB)
    place = {"project_id": "p", "region": "r", "job_id": JOB}
    assert [each for each in jobs.asked if each[0] == "cancel"] == [("cancel", place)]


def test_dataproc_cancels_nothing_that_is_over() -> None:
    jobs = Jobs(state="ERROR")
    dataproc = Dataproc(jobs, CLUSTER)
    assert dataproc.look(ONE.name).state == "failed"
    dataproc.cancel(ONE.name)
    assert {name for name, _ in jobs.asked} == {"get"}


@pytest.mark.parametrize(("code", "kind"), [(503, PlatformError), (403, EnvironmentFaultError)])
def test_dataproc_tells_what_passes_from_what_does_not(code: int, kind: type[Exception]) -> None:
    dataproc = Dataproc(Jobs(fails=code), CLUSTER)
    with pytest.raises(kind):
        dataproc.look("j")
    with pytest.raises(kind):
        dataproc.start(ONE)


def test_a_fault_of_ours_is_not_called_one_of_dataproc() -> None:
    with pytest.raises(AttributeError):
        Dataproc(None, CLUSTER).look("j")


@dataclass
class Workspace:
    """The Jobs API."""

    answers: Mapping[str, Any] = field(default_factory=dict)
    asked: list[tuple[str, str, Mapping[str, Any]]] = field(default_factory=list)

    def __call__(self, method: str, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        self.asked.append((method, path, body))
        answer: dict[str, Any] = self.answers[path]
        return answer


def test_databricks_submits_one_run_for_a_name() -> None:
    workspace = Workspace({"jobs/runs/submit": {"run_id": 7}})
    settings = DatabricksSettings(new_cluster={"num_workers": 2, "spark_conf": {"spark.a": "b"}})
    assert Databricks(workspace, settings).start(ONE) == "7"
    ((_, _, body),) = workspace.asked
    assert (body["run_name"], body["idempotency_token"]) == (ONE.name, ONE.token)
    assert body["timeout_seconds"] == 75 * 60
    (task,) = body["tasks"]
    assert task["libraries"] == [{"whl": ONE.package.wheel}]
    assert task["spark_python_task"] == {
        "python_file": ONE.package.entry, "parameters": ONE.arguments,
    }  # fmt: skip
    conf = {"spark.executor.cores": "4", "spark.a": "b"}
    assert task["new_cluster"] == {"num_workers": 2, "spark_conf": conf}


@pytest.mark.parametrize(
    ("state", "seen"),
    [
        ({"life_cycle_state": "PENDING"}, "running"),
        ({"life_cycle_state": "TERMINATING", "result_state": "CANCELED"}, "running"),
        ({"life_cycle_state": "TERMINATED", "result_state": "SUCCESS"}, "succeeded"),
        ({"life_cycle_state": "TERMINATED", "result_state": "FAILED"}, "failed"),
        ({"life_cycle_state": "TERMINATED", "result_state": "CANCELED"}, "cancelled"),
        ({"life_cycle_state": "INTERNAL_ERROR"}, "failed"),
    ],
)
def test_databricks_is_over_only_once_the_run_has_terminated(
    state: dict[str, str], seen: str
) -> None:
    workspace = Workspace({"jobs/runs/get": {"state": state}})
    databricks = Databricks(workspace, DatabricksSettings(cluster="c"))
    assert databricks.look("7").state == seen


def test_a_cluster_that_is_there_takes_no_configuration_and_the_log_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    workspace = Workspace({"jobs/runs/submit": {"run_id": 7}})
    one = application(**{"spark.executor.memoryOverhead": "3046m"})
    with caplog.at_level("INFO"):
        Databricks(workspace, DatabricksSettings(cluster="c-7")).start(one)
        assert "c-7" in caplog.text
        assert "spark.conf of the settings is not used" in caplog.text
        assert "3046m" in caplog.text
        caplog.clear()
        Databricks(workspace, DatabricksSettings(new_cluster={"num_workers": 2})).start(one)
        assert not caplog.text
    task = workspace.asked[0][2]["tasks"][0]
    assert task["existing_cluster_id"] == "c-7"
    assert "new_cluster" not in task


def test_databricks_finds_runs_on_every_page() -> None:
    class Pages(Workspace):
        def __call__(self, method: str, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
            self.asked.append((method, path, body))
            if "page_token" in body:
                return {"runs": [{"run_id": 8, "run_name": ONE.name}]}
            return {"runs": [{"run_id": 7, "run_name": "other"}], "next_page_token": "2"}

    found = Databricks(Pages(), DatabricksSettings(cluster="c")).find("firnline-merge-")
    assert found == [Found("8", ONE.name)]
