"""A task whose job runs elsewhere: begun, waited for, put off, resumed, cancelled."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from airflow.exceptions import TaskDeferred

from firnline.airflow import versions
from firnline.airflow.merge import MergeWork
from firnline.airflow.submit import SubmitJob
from firnline.airflow.tables import OneTable
from firnline.airflow.versions import AirflowException, AirflowFailException
from firnline.airflow.waiting import LATE, LOST, JobTrigger
from firnline.errors import EnvironmentFaultError
from firnline.launch.desk import Failure, Outcome
from firnline.launch.launcher import Found, Progress
from firnline.launch.remote import POLL_S
from firnline.settings.load import TableSettings
from firnline.settings.model import TableSettings as Model
from tests.support.airflow_context import run_context
from tests.support.launching import DONE, RUNNING, Platform, published
from tests.support.tables import loaded
from tests.support.world import SetClock
from tests.unit.airflow.test_submit_job import KEY, Keyed

ROLE = "arn:aws:iam::123456789012:role/firnline"
FAILED = Outcome(error=Failure(message="the disk is full", next_step="take a larger one"))


class World:
    """A table whose jobs run on a platform that does what a test says."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, more: str = "") -> None:
        self.folder, self.desk = folder, published(folder)
        self.platform = Platform(desk=self.desk)
        section = f"emr_serverless: {{application: a, role: '{ROLE}'}}{more}"
        spark = f"{{package: '{self.desk.url}', {section}}}"
        text = f"tables: {{t: {{root: 'file://{folder}/t', spark: {spark}}}}}"
        self.settings: TableSettings = loaded(folder, text).table("t")
        monkeypatch.setattr("firnline.airflow.elsewhere.open_platform", lambda *_: self.platform)

    def task(self, work: Any = None) -> SubmitJob:
        return SubmitJob(
            task_id="merge",
            work=work or MergeWork(),
            table=OneTable(self.settings),
            jobs=Path("spark_jobs"),
        )

    def context(self, number: int = 1) -> Any:
        found = run_context(MergeWork())
        found["ti"].task_id, found["ti"].try_number = "merge", number
        return found


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    return World(tmp_path, monkeypatch)


@pytest.fixture
def deferring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    if not versions.AIRFLOW_3_3_PLUS:
        pytest.skip("from Airflow 3.3 on")
    return World(tmp_path, monkeypatch, ", deferrable: true")


def put_off(world: World) -> TaskDeferred:
    with pytest.raises(TaskDeferred) as raised:
        world.task().execute(world.context())
    return raised.value


def test_the_job_is_told_table_options_and_run_and_no_connection(world: World) -> None:
    world.platform.desk = None
    with pytest.raises(AirflowException):
        world.task().execute(world.context())
    (started,) = world.platform.started
    request = world.desk.request(started.name)
    assert Model.model_validate_json(bytes(request.settings)) == world.settings
    assert request.operation == "merge"
    assert (request.run.dag_id, request.run.run_id, request.run.user) == (
        "merge__t", "manual__1", "ana",
    )  # fmt: skip
    assert started.conf["spark.executor.memoryOverhead"]
    assert started.minutes > 360


def test_a_failure_of_the_job_is_that_of_the_task(world: World) -> None:
    world.platform.outcome = FAILED
    world.platform.looks = [Progress("failed", "FAILED")]
    with pytest.raises(AirflowFailException, match="the disk is full; take a larger one"):
        world.task().execute(world.context())


def test_one_that_may_pass_is_tried_again(world: World) -> None:
    world.platform.outcome = Outcome(
        error=Failure(message="no answer", next_step="wait", retryable=True)
    )
    with pytest.raises(AirflowException) as raised:
        world.task().execute(world.context())
    assert not isinstance(raised.value, AirflowFailException)


def test_a_success_of_the_platform_that_the_job_does_not_confirm_is_none(world: World) -> None:
    world.platform.desk = None
    with pytest.raises(AirflowException, match="ended as SUCCESS and told nothing"):
        world.task().execute(world.context())


def test_what_nobody_may_read_is_not_left_in_a_bucket(world: World) -> None:
    with pytest.raises(AirflowFailException) as raised:
        world.task(Keyed("name a file of keys")).execute(run_context(Keyed()))
    assert "would be kept in an object beside the published package" in str(raised.value)
    assert KEY not in str(raised.value)
    assert world.platform.started == []


@pytest.mark.parametrize("ends", [True, False])
def test_a_task_that_is_ended_ends_its_job(world: World, ends: bool) -> None:
    task, world.platform.cancel_ends_driver = world.task(), ends

    class Ended(BaseException):
        pass

    def look(job: str) -> Progress:
        task.on_kill()
        raise Ended

    world.platform.look = look  # type: ignore[method-assign]
    with pytest.raises(Ended):
        task.execute(world.context())
    assert world.platform.cancelled == ["j1"]
    assert world.desk.stopped(world.platform.started[0].name) is not ends


def test_a_task_whose_job_is_over_cancels_nothing(world: World) -> None:
    task = world.task()
    task.execute(world.context())
    task.on_kill()
    assert world.platform.cancelled == []


def test_a_cancel_that_fails_is_logged_and_hides_nothing(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    task = world.task()

    def cancel(job: str) -> None:
        raise EnvironmentFaultError("no right to", next_step="ask")

    def look(job: str) -> Progress:
        task.on_kill()
        return DONE

    world.platform.cancel = cancel  # type: ignore[method-assign]
    world.platform.look = look  # type: ignore[method-assign]
    with pytest.raises(AirflowException, match="told nothing"):
        task.execute(world.context())
    assert "could not be cancelled and may work on; two of them do no harm" in caplog.text


def test_a_job_that_is_put_off_holds_no_worker_and_is_resumed(deferring: World) -> None:
    deferred = put_off(deferring)
    (started,) = deferring.platform.started
    path, kept = deferred.trigger.serialize()
    assert path == "firnline.airflow.waiting.JobTrigger"
    again = JobTrigger(**json.loads(json.dumps(kept)))
    assert again.serialize() == (path, kept)
    event = event_of(again, deferring)
    assert event == {"state": "succeeded", "detail": "SUCCESS"}
    deferring.task().resume(deferring.context(), event, **(deferred.kwargs or {}))
    assert deferring.desk.names(started.name.rpartition("-")[0]) == []


def event_of(trigger: JobTrigger, world: World) -> Any:
    async def first() -> Any:
        return (await anext(trigger.run())).payload

    return asyncio.run(first())


@pytest.mark.long
def test_a_trigger_looks_again_and_again(deferring: World, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    monkeypatch.setattr("firnline.airflow.waiting.asyncio.sleep", sleep)
    deferred = put_off(deferring)
    deferring.platform.looks = [RUNNING, RUNNING, DONE]
    assert (
        event_of(JobTrigger(**deferred.trigger.serialize()[1]), deferring)["state"] == "succeeded"
    )
    assert waits == [POLL_S, POLL_S]


def test_a_job_that_takes_too_long_is_cancelled(deferring: World) -> None:
    kept = put_off(deferring).trigger.serialize()[1]
    deferring.platform.looks = [RUNNING]
    late = JobTrigger(**kept, clock=SetClock(now=kept["until_ms"] + 1))
    event = event_of(late, deferring)
    assert event["state"] == LATE
    with pytest.raises(AirflowException, match="took longer than the task may and was cancelled"):
        deferring.task().resume(deferring.context(), event, {}, job_of(deferring))
    assert deferring.platform.cancelled == ["j1"]


def job_of(world: World) -> dict[str, str]:
    return Found("j1", world.platform.started[0].name)._asdict()


def test_a_platform_that_nobody_can_ask_any_more_is_told_and_the_job_works_on(
    deferring: World,
) -> None:
    kept = put_off(deferring).trigger.serialize()[1]
    deferring.platform.looks = [EnvironmentFaultError("the role is gone", next_step="make it")]
    event = event_of(JobTrigger(**kept), deferring)
    assert event["state"] == LOST
    with pytest.raises(AirflowException, match="the role is gone"):
        deferring.task().resume(deferring.context(), event, {}, job_of(deferring))
    assert deferring.platform.cancelled == []


def test_whoever_ends_a_task_that_is_put_off_ends_its_job(deferring: World) -> None:
    trigger = JobTrigger(**put_off(deferring).trigger.serialize()[1])
    asyncio.run(trigger.on_kill())
    assert deferring.platform.cancelled == ["j1"]


@pytest.mark.long
def test_an_airflow_whose_triggers_hear_of_no_end_waits_in_the_task(
    deferring: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(versions, "AIRFLOW_3_3_PLUS", False)
    deferring.task().execute(deferring.context())
    assert len(deferring.platform.started) == 1


def test_a_retry_goes_on_with_the_job_of_a_task_that_died(world: World) -> None:
    class Died(BaseException):
        pass

    def look(job: str) -> Progress:
        raise Died

    right, world.platform.look = world.platform.look, look  # type: ignore[method-assign]
    with pytest.raises(Died):
        world.task().execute(world.context())
    world.platform.look = right  # type: ignore[method-assign]
    (started,) = world.platform.started
    world.platform.on_the_way = [Found("j1", started.name)]
    world.task().execute(world.context(2))
    assert len(world.platform.started) == 1


@pytest.mark.parametrize("differs", ["root", "package"])
def test_two_airflows_whose_runs_have_equal_ids_do_not_hear_each_others_jobs(
    world: World, differs: str
) -> None:
    """Staging and production may share a platform and a package."""
    world.task().execute(world.context())
    model = world.settings
    if differs == "root":
        model = model.model_copy(update={"root": f"{model.root}-of-production"})
    else:
        spark = model.spark.model_copy(update={"package": f"{model.spark.package}"[:-1] + "0"})
        world.desk = published(world.folder, str(spark.package)[-12:])
        model = model.model_copy(update={"spark": spark})
    world.settings, world.platform.desk = model, world.desk
    world.task().execute(world.context())
    ours, theirs = world.platform.started
    assert ours.name.rpartition("-")[0] != theirs.name.rpartition("-")[0]


def test_a_cleared_task_does_not_end_with_the_job_that_was_cancelled_with_it(
    world: World,
) -> None:
    """The new try finds the job of the old one while that is being cancelled."""
    desk, world.platform.desk = world.platform.desk, None
    world.platform.looks = [Progress("cancelled", "CANCELLED")]

    def find(beginning: str) -> list[Found]:
        if world.platform.desk is not None:
            return []
        world.platform.desk = desk
        return [Found("old", f"{beginning}1")]

    def look(job: str) -> Progress:
        if job == "old":
            return Progress("cancelled", "CANCELLED")
        (own,) = world.platform.started
        world.desk.tell(own.name, Outcome(report={"seconds": 1.0}))
        return DONE

    world.platform.find = find  # type: ignore[method-assign]
    world.platform.look = look  # type: ignore[method-assign]
    world.task().execute(world.context(2))
    (own,) = world.platform.started
    assert own.name.endswith("-2")


def test_a_job_of_this_very_try_that_somebody_cancels_there_has_failed(world: World) -> None:
    world.platform.desk = None
    world.platform.looks = [Progress("cancelled", "CANCELLED: by the operator")]
    with pytest.raises(AirflowException, match="CANCELLED: by the operator"):
        world.task().execute(world.context())
    assert len(world.platform.started) == 1
