"""A job elsewhere: begun once, found again, heard, cancelled."""

from __future__ import annotations

from pathlib import Path

import pytest

from firnline.errors import EnvironmentFaultError, JobFailedError, PlatformError
from firnline.launch.desk import Failure, Outcome
from firnline.launch.launcher import Found, Progress
from firnline.launch.remote import PATIENCE, POLL_S, Remote, task_name
from tests.support.launching import DONE, LOST, RUNNING, Platform, published, request
from tests.support.world import CountedIds, SetClock

RUN = {"dag": "merge", "run": "r", "task": "merge", "map": -1}
TASK = task_name("merge", RUN, b"{}")


class World:
    """The tries of one task of a run."""

    def __init__(self, folder: Path, **platform: object) -> None:
        self.desk = published(folder)
        self.platform = Platform(desk=self.desk, **platform)  # type: ignore[arg-type]
        self.clock = SetClock(elapsed=0)
        self.remote = Remote(self.platform, self.desk, TASK, self.clock, CountedIds())

    def begin(self, number: int = 1) -> Found:
        return self.remote.begin(number, request(), {"spark.a": "b"}, 75)

    def wait(self, found: Found) -> tuple[Progress, list[str]]:
        told: list[str] = []
        return self.remote.wait(found, lambda each: told.append(each.detail)), told


def test_a_job_is_told_what_to_do_before_it_is_started(tmp_path: Path) -> None:
    world = World(tmp_path)
    found = world.begin()
    (started,) = world.platform.started
    assert found == Found("j1", f"{TASK}-1")
    assert (started.name, started.minutes, started.conf) == (found.name, 75, {"spark.a": "b"})
    assert started.request == f"{world.desk.url}/jobs/{TASK}/1.request.json"
    assert world.desk.request(found.name) == request()


def test_a_retry_goes_on_with_the_job_that_is_still_on_the_way(tmp_path: Path) -> None:
    world = World(tmp_path)
    first = world.begin()
    world.platform.on_the_way = [first]
    assert world.begin(2) == first
    assert len(world.platform.started) == 1


def test_of_two_on_the_way_the_newest_counts(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.platform.on_the_way = [Found("a", f"{TASK}-9"), Found("b", f"{TASK}-10")]
    assert world.begin(11).job == "b"


def test_a_retry_hears_a_job_that_ended_between_the_tries_and_starts_none(tmp_path: Path) -> None:
    world = World(tmp_path)
    first = world.begin()
    world.desk.tell(first.name, Outcome(report={"seconds": 2.0}))
    again = world.begin(2)
    assert (again.job, again.name) == ("", first.name)
    assert world.remote.conclude(again, None).report == {"seconds": 2.0}
    assert world.desk.names(TASK) == []


def test_a_retry_of_a_job_that_failed_or_said_nothing_starts_another(tmp_path: Path) -> None:
    world = World(tmp_path)
    first = world.begin()
    world.desk.tell(first.name, Outcome(error=Failure(message="no", next_step="wait")))
    assert world.begin(2) == Found("j2", f"{TASK}-2")
    assert world.begin(3) == Found("j3", f"{TASK}-3")
    assert world.desk.names(TASK) == [f"{TASK}-3"]


def test_a_run_that_is_made_again_under_its_old_id_takes_nothing_of_the_one_before(
    tmp_path: Path,
) -> None:
    world = World(tmp_path)
    first = world.begin()
    world.desk.tell(first.name, Outcome(report={"seconds": 2.0}))
    assert world.begin() == Found("j2", first.name)
    before, after = world.platform.started
    assert before.token != after.token, "the platform would answer with the job of before"
    assert world.desk.outcome(first.name) is None


def test_an_outcome_that_does_not_read_is_a_failure_that_a_retry_helps(tmp_path: Path) -> None:
    world = World(tmp_path)
    found = world.begin()
    world.desk.store.put_new(world.desk.paths.outcome(found.name), b'{"report":')
    told = world.remote.conclude(found, DONE).error
    assert told is not None
    assert told.retryable
    assert f"from {world.desk.url}/jobs/{TASK}/1.outcome.json: " in told.message
    world.desk.store.put_new(world.desk.paths.outcome(found.name), b'{"report":')
    assert world.begin(2) == Found("j2", f"{TASK}-2")


def test_a_job_that_is_asked_to_stop_finds_that_when_it_looks_though_a_next_try_has_begun(
    tmp_path: Path,
) -> None:
    world = World(tmp_path, cancel_ends_driver=False)
    first = world.begin()
    world.remote.cancel(first)
    assert world.begin(2).job == "j2"
    assert world.desk.stopped(first.name)
    world.desk.tell(first.name, Outcome(error=Failure(message="stopped", next_step="none")))
    world.begin(3)
    assert not world.desk.stopped(first.name)


def test_a_run_that_is_told_something_else_does_not_take_over_the_old_job() -> None:
    assert task_name("merge", RUN, b"{}") != task_name("merge", RUN, b'{"full":true}')
    assert task_name("merge", RUN, b"{}") != task_name("merge", {**RUN, "run": "s"}, b"{}")


def test_waiting_tells_each_state_once_and_looks_less_and_less_often(tmp_path: Path) -> None:
    pending = Progress("running", "PENDING")
    world = World(tmp_path, looks=[pending, *[RUNNING] * 20, DONE])
    end, told = world.wait(world.begin())
    assert end == DONE
    assert told == ["PENDING", "RUNNING", "SUCCESS"]
    assert 15 * POLL_S * 1000 < world.clock.elapsed < 21 * POLL_S * 1000


def test_a_platform_that_is_away_for_a_while_ends_no_wait(tmp_path: Path) -> None:
    world = World(tmp_path, looks=[RUNNING, *[LOST] * (PATIENCE - 1), RUNNING, LOST, DONE])
    assert world.wait(world.begin())[0] == DONE


def test_one_that_stays_away_ends_it_and_the_job_works_on(tmp_path: Path) -> None:
    world = World(tmp_path, looks=[LOST])
    with pytest.raises(PlatformError):
        world.wait(world.begin())
    assert world.platform.cancelled == []


def test_a_job_that_told_nothing_has_failed_whatever_its_platform_says(tmp_path: Path) -> None:
    world = World(tmp_path)
    found = world.begin()
    with pytest.raises(JobFailedError) as raised:
        world.remote.conclude(found, DONE)
    assert raised.value.retryable
    assert "the job j1 of Somewhere ended as SUCCESS and told nothing" in str(raised.value)
    assert str(raised.value).endswith("read the log of j1")


def test_what_a_job_has_told_is_forgotten_once_it_is_heard(tmp_path: Path) -> None:
    world = World(tmp_path)
    found = world.begin()
    end, _ = world.wait(found)
    assert world.remote.conclude(found, end).error is None
    assert world.desk.names(TASK) == []


@pytest.mark.long
@pytest.mark.parametrize("ends", [True, False])
def test_a_cancel_asks_the_job_itself_where_the_platform_does_not_reach_its_driver(
    tmp_path: Path, ends: bool
) -> None:
    world = World(tmp_path, cancel_ends_driver=ends)
    found = world.begin()
    world.remote.cancel(found)
    assert world.platform.cancelled == ["j1"]
    assert world.desk.stopped(found.name) is not ends


def test_nothing_is_started_without_a_published_package(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.desk.store.delete_many([world.desk.paths.file("manifest.json")]).__next__()
    with pytest.raises(EnvironmentFaultError, match="nothing is published at file://"):
        world.begin()
    assert world.platform.started == []
