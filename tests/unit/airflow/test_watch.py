"""What the scheduler's thread sees in Airflow's database, notes and tells, without a scheduler."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.jobs.job import Job
from airflow.models import import_all_models
from airflow.models.base import Base
from airflow.models.dag import DagModel, DagTag
from airflow.models.dagrun import DagRun
from airflow.models.pool import Pool
from airflow.models.taskinstance import TaskInstance
from sqlalchemy import Engine, create_engine, delete, insert, update
from sqlalchemy.orm import Session

from firnline.airflow import versions
from firnline.airflow.settings import read_settings
from firnline.airflow.telling import Call
from firnline.airflow.watch import EVERY_MS, Watch, call_soon
from firnline.operations.dag_ids import FLEET
from firnline.operations.pools import NO_TABLE, NO_TABLE_TAKES
from firnline.units import DAY_MS
from tests.support.world import SetClock

SETTINGS = """
fleet: {alerts: {notifier: of.fleet}}
tables:
  t: {root: 's3://b/t', alerts: {notifier: of.t, arguments: {a: b}}}
  quiet: {root: 's3://b/quiet'}
"""
ME = 7
HOUR_MS = DAY_MS // 24


@pytest.fixture(scope="module")
def tables() -> Iterator[Engine]:
    """A database with Airflow's tables."""
    import_all_models()  # type: ignore[no-untyped-call]
    engine = create_engine("sqlite://")
    Base.metadata.create_all(engine)
    yield engine
    engine.dispose()


def task_key() -> Any:
    """The id of a row of a task, which is text until Airflow 3.1."""
    return uuid.uuid4() if versions.AIRFLOW_3_2_PLUS else str(uuid.uuid4())


@dataclass
class Airflow:
    """The watch of a scheduler, and the database that it looks at."""

    engine: Engine
    settings_file: Path
    clock: SetClock = field(default_factory=SetClock)
    calls: list[Call] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.watch = self.another(ME)

    def another(self, me: int) -> Watch:
        def settings() -> Any:
            return read_settings(self.settings_file)

        return Watch(
            lambda: ("SchedulerJob", me), self.sessions, settings, self.clock, self.calls.extend
        )

    @contextmanager
    def sessions(self) -> Iterator[Session]:
        with Session(self.engine) as session, session.begin():
            yield session

    def do(self, statement: Any) -> None:
        with self.sessions() as session:
            session.execute(statement)

    def time(self, ms: int = 0) -> datetime:
        """So long from now."""
        return datetime.fromtimestamp((self.clock.now + ms) / 1000, UTC)

    def beats(self, job: int, ago_ms: int = 0, kind: str = "SchedulerJob") -> None:
        """The heart of a job has beaten."""
        self.do(delete(Job).where(Job.id == job))
        values = {"id": job, "job_type": kind, "state": "running"}
        self.do(insert(Job).values(**values, latest_heartbeat=self.time(-ago_ms)))

    def waits(
        self, dag_id: str, pool: str, takes: int = 1, tag: str = "firnline", **conf: Any
    ) -> None:
        """A run of a DAG with this tag has a task that waits in a pool."""
        self.do(insert(DagTag).values(dag_id=dag_id, name=tag))
        values = {"run_type": "manual", "state": "running", "run_after": self.time()}
        with self.sessions() as session:
            session.add(DagRun(dag_id, run_id="r", conf=conf or None, **values))  # type: ignore[arg-type]
        one = {"id": task_key(), "dag_id": dag_id, "run_id": "r", "task_id": "work"}
        task = {**one, "map_index": -1, "state": "scheduled", "pool": pool, "pool_slots": takes}
        self.do(insert(TaskInstance).values(**task))

    def pool(self, name: str, slots: int) -> None:
        self.do(delete(Pool).where(Pool.pool == name))
        self.do(insert(Pool).values(pool=name, slots=slots, include_deferred=True))

    def note(self, dag_id: str) -> str:
        with self.sessions() as session:
            (run,) = [run for run in session.query(DagRun) if run.dag_id == dag_id]
            return run.note or ""

    def planner(self, next_ms: int | None, **more: Any) -> None:
        """Airflow has the planner's DAG, whose next run is so long from now."""
        self.do(delete(DagModel))
        values = {"dag_id": FLEET, "is_paused": False, "is_stale": False, "bundle_name": "b"}
        values |= {"last_parsed_time": self.time(), "max_active_tasks": 1}
        values |= {"max_consecutive_failed_dag_runs": 0, "has_task_concurrency_limits": False}
        due = None if next_ms is None else self.time(next_ms)
        self.do(insert(DagModel).values({**values, "next_dagrun_create_after": due, **more}))

    def look(self, times: int = 1) -> list[tuple[str, str, str]]:
        """Look; return reason, notifier and sentence of the calls."""
        self.calls.clear()
        for _ in range(times):
            self.clock.now += EVERY_MS
            self.watch.look()
        return [(each.reason, each.notifier, each.sentence) for each in self.calls]


@pytest.fixture
def airflow(tables: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Airflow]:
    monkeypatch.setenv("AIRFLOW__LOGGING__BASE_LOG_FOLDER", str(tmp_path / "logs"))
    file = tmp_path / "tables.yaml"
    file.write_text(SETTINGS)
    found = Airflow(tables, file)
    found.planner(HOUR_MS)
    yield found
    with tables.begin() as connection:
        for table in reversed(Base.metadata.sorted_tables):
            connection.execute(delete(table))


# --- pools ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda _: None, "the pool t.merge does not exist, so nothing that needs it can run"),
        (lambda it: it.pool("t.merge", 0), "the pool t.merge has no slot, so nothing can run"),
        (lambda it: it.pool("t.merge", 1), "has 1 slot and a task of this run takes 2, so it"),
    ],
    ids=["deleted", "closed", "narrowed"],
)
def test_a_pool_that_is_gone_after_the_start_of_a_run_is_noted_and_told_once(
    airflow: Airflow, change: Callable[[Airflow], None], says: str
) -> None:
    airflow.waits("ttl", "t.merge", 2, table="t")
    change(airflow)
    ((reason, notifier, sentence),) = airflow.look()
    assert (reason, notifier) == ("pool_wrong", "of.t")
    assert says in sentence
    assert airflow.note("ttl") == f"firnline: {sentence}."
    (call,) = airflow.calls
    assert (call.arguments, call.context) == (
        {"a": "b"},
        {"dag_run": {"dag_id": "ttl", "run_id": "r", "conf": {"table": "t"}}},
    )
    assert airflow.look(3) == []
    airflow.watch = airflow.another(ME)
    assert airflow.look(3) == [], "a scheduler that starts anew reads the note"


def test_the_run_goes_on_when_the_pool_is_back(airflow: Airflow) -> None:
    airflow.waits("merge__t", "t.merge")
    assert len(airflow.look()) == 1
    with airflow.sessions() as session:
        assert [run.state for run in session.query(DagRun)] == ["running"]
    airflow.pool("t.merge", 1)
    assert airflow.look() == []


@pytest.mark.parametrize("slots", [2, 128, -1])
def test_a_task_that_waits_in_a_pool_with_room_for_it_is_left_alone(
    airflow: Airflow, slots: int
) -> None:
    airflow.pool("t.merge", slots)
    airflow.waits("ttl", "t.merge", 2, table="t")
    assert airflow.look() == []
    assert airflow.note("ttl") == ""


def test_a_task_that_was_cleared_without_the_policy_is_noted(airflow: Airflow) -> None:
    airflow.pool(NO_TABLE, 1)
    airflow.waits("ttl", NO_TABLE, NO_TABLE_TAKES, table="t")
    ((_, _, sentence),) = airflow.look()
    assert "the tasks of this run did not get the pool of table t" in sentence


def test_runs_of_others_are_not_touched_and_a_table_without_a_notifier_has_its_note(
    airflow: Airflow,
) -> None:
    airflow.waits("somebody_elses", "none")
    airflow.waits("restore__backup", "none", tag="backups")
    airflow.waits("merge__quiet", "quiet.merge")
    assert airflow.look() == []
    assert airflow.note("somebody_elses") == airflow.note("restore__backup") == ""
    assert "quiet.merge does not exist" in airflow.note("merge__quiet")


def test_a_note_without_room_is_told_once_all_the_same(airflow: Airflow) -> None:
    airflow.waits("merge__t", "t.merge")
    with airflow.sessions() as session:
        (run,) = session.query(DagRun)
        run.note = "x" * 1000
    assert [reason for reason, _, _ in airflow.look()] == ["pool_wrong"]
    assert airflow.look(2) == []


@pytest.mark.long
def test_what_could_not_be_saved_is_told_by_the_next_look(
    airflow: Airflow, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    airflow.waits("merge__t", "t.merge")

    @contextmanager
    def failing() -> Iterator[Session]:
        with Session(airflow.engine) as session:
            yield session
            raise OSError("the database is away")

    monkeypatch.setattr(airflow.watch, "_sessions", failing)
    assert airflow.look() == []
    assert "OSError: the database is away" in caplog.text
    monkeypatch.undo()
    assert [reason for reason, _, _ in airflow.look()] == ["pool_wrong"]


def test_a_planner_that_cannot_be_looked_at_does_not_hide_a_pool_that_is_gone(
    airflow: Airflow, monkeypatch: pytest.MonkeyPatch
) -> None:
    airflow.waits("merge__t", "t.merge")

    def fails(_: Session) -> None:
        raise OSError("no key for this variable")

    monkeypatch.setattr("firnline.airflow.watch.read_planner", fails)
    assert [reason for reason, _, _ in airflow.look()] == ["pool_wrong"]
    assert airflow.look() == []


# --- several schedulers ---------------------------------------------------------------------------


@pytest.mark.long
def test_of_several_schedulers_that_with_the_smallest_id_acts(airflow: Airflow) -> None:
    airflow.waits("merge__t", "t.merge")
    airflow.beats(ME)
    airflow.beats(ME - 1, kind="TriggererJob")
    airflow.beats(ME + 1)
    airflow.watch = airflow.another(ME + 1)
    assert airflow.look() == []
    airflow.watch = airflow.another(ME)
    assert len(airflow.look()) == 1


@pytest.mark.long
def test_one_whose_heart_does_not_beat_is_replaced(airflow: Airflow) -> None:
    airflow.waits("merge__t", "t.merge")
    airflow.beats(ME, ago_ms=HOUR_MS)
    assert len(airflow.look()) == 1, "there is no other one"
    airflow.waits("ttl__t", "t.merge")
    airflow.clock.now += HOUR_MS
    airflow.beats(ME + 1)
    assert airflow.look() == []
    airflow.watch = airflow.another(ME + 1)
    assert len(airflow.look()) == 1


# --- runs that fail at their start ----------------------------------------------------------------


def test_a_run_that_failed_at_its_start_is_told_without_a_look(airflow: Airflow) -> None:
    run = {"dag_id": "merge", "run_id": "r", "conf": {"table": "t"}}
    call_soon("t", run, "pool_wrong", "no pool")
    call_soon("quiet", run, "pool_wrong", "no pool")
    airflow.watch.call_asked()
    assert [(each.notifier, each.context, each.sentence) for each in airflow.calls] == [
        ("of.t", {"dag_run": run}, "no pool")
    ]
    airflow.calls.clear()
    airflow.watch.call_asked()
    assert airflow.calls == []


def test_the_thread_goes_on_after_an_exception(
    airflow: Airflow, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    kinds = iter([None, "SchedulerJob", "SchedulerJob", "no more"])
    monkeypatch.setattr(airflow.watch, "_me", lambda: (next(kinds), ME))
    asked: list[None] = []

    def fails() -> None:
        asked.append(None)
        raise OSError("the database is away")

    monkeypatch.setattr(airflow.watch, "call_asked", fails)
    monkeypatch.setattr("firnline.airflow.watch.EVERY_MS", 0)
    monkeypatch.setattr(airflow.watch, "look", lambda: None)
    airflow.watch.run()
    assert len(asked) == 3
    assert caplog.text.count("OSError: the database is away") == 3


@pytest.mark.long
def test_in_what_is_no_scheduler_the_thread_ends_without_a_look(
    airflow: Airflow, monkeypatch: pytest.MonkeyPatch
) -> None:
    airflow.waits("merge__t", "t.merge")
    monkeypatch.setattr("firnline.airflow.watch.EVERY_MS", 0)
    job = SimpleNamespace(kind=None)

    def wait(_: float) -> None:
        # Airflow sets the type of a job after its listeners.
        job.kind = "DagProcessorJob"

    waiting = SimpleNamespace(wait=wait, clear=lambda: None)
    monkeypatch.setattr("firnline.airflow.watch._POKED", waiting)
    monkeypatch.setattr(airflow.watch, "_me", lambda: (job.kind, ME))
    airflow.watch.run()
    assert (airflow.calls, airflow.note("merge__t")) == ([], "")


# --- silence --------------------------------------------------------------------------------------


@pytest.mark.long
def test_a_planner_that_is_never_started_is_told_after_two_hours_and_daily_and_its_end(
    airflow: Airflow,
) -> None:
    airflow.planner(0)
    airflow.clock.now += 2 * HOUR_MS - 20 * EVERY_MS
    assert airflow.look(19) == []
    ((reason, notifier, sentence),) = airflow.look(12)
    assert (reason, notifier) == ("silent", "of.fleet")
    assert sentence.startswith("the run of fleet__merge that was due at 2023-11-14 22:13:20 UTC")
    (call,) = airflow.calls
    assert call.context == {"dag_run": {"dag_id": FLEET, "run_id": "", "conf": {}}}
    airflow.watch = airflow.another(ME)
    assert airflow.look(20) == [], "a scheduler that starts anew knows it"
    airflow.clock.now += DAY_MS
    assert [reason for reason, _, _ in airflow.look(2)] == ["silent"]
    airflow.planner(HOUR_MS)
    assert airflow.look() == [("recovered", "of.fleet", "the planner is no longer silent")]
    assert airflow.look(2) == []


@pytest.mark.long
def test_a_daily_planner_is_not_silent_all_day(airflow: Airflow) -> None:
    airflow.planner(DAY_MS)
    airflow.clock.now += DAY_MS
    assert airflow.look(20) == []


@pytest.mark.long
@pytest.mark.parametrize("state", ["queued", "running"])
def test_a_run_that_never_ends_is_silence(airflow: Airflow, state: str) -> None:
    airflow.planner(DAY_MS)
    with airflow.sessions() as session:
        begun = airflow.time()
        session.add(
            DagRun(FLEET, run_id="r", run_type="manual", state=state, run_after=begun)  # type: ignore[arg-type]
        )
    airflow.do(update(DagRun).values(queued_at=begun))
    airflow.clock.now += 2 * HOUR_MS
    assert [reason for reason, _, _ in airflow.look(12)] == ["silent"]
    airflow.do(update(DagRun).values(state="failed"))
    assert [reason for reason, _, _ in airflow.look()] == ["recovered"]


@pytest.mark.long
def test_a_planner_that_is_paused_or_has_no_clock_is_not_silent(airflow: Airflow) -> None:
    for state in ({"is_paused": True, "next_ms": 0}, {"next_ms": None}):
        airflow.planner(**state)
        airflow.clock.now += DAY_MS
        assert airflow.look(20) == []


@pytest.mark.long
@pytest.mark.parametrize("known", [True, False], ids=["stale", "unknown"])
def test_a_planner_whose_dag_is_gone_is_silent_unless_no_table_needs_one(
    airflow: Airflow, known: bool
) -> None:
    if known:
        airflow.planner(DAY_MS, is_stale=True)
    else:
        airflow.do(delete(DagModel))
    airflow.clock.now += 2 * HOUR_MS
    ((reason, _, sentence),) = airflow.look(12)
    assert (reason, "Airflow has had no DAG fleet__merge since" in sentence) == ("silent", True)
    airflow.settings_file.write_text(f"{SETTINGS}\ndefaults: {{operations: [restore]}}\n")
    assert [reason for reason, _, _ in airflow.look(12)] == ["recovered"]


def test_settings_with_a_mistake_are_told_by_the_notifier_of_the_last_good_ones(
    airflow: Airflow,
) -> None:
    assert airflow.look() == []
    airflow.settings_file.write_text(f"{SETTINGS}\nno_such: 1\n")
    assert airflow.look() == [], "the file may be half written"
    ((reason, notifier, sentence),) = airflow.look()
    assert (reason, notifier) == ("silent", "of.fleet")
    assert "are in force, because" in sentence
    assert airflow.look(3) == []
    airflow.settings_file.write_text(SETTINGS)
    sentence = "the settings in tables.yaml can be read again"
    assert airflow.look() == [("recovered", "of.fleet", sentence)]


def test_settings_that_nothing_stands_in_for_are_an_error_in_the_log_once(
    airflow: Airflow, caplog: pytest.LogCaptureFixture
) -> None:
    airflow.settings_file.write_text("no_such: 1\n")
    airflow.waits("merge__t", "t.merge")
    assert airflow.look(4) == []
    assert caplog.text.count("no_such") == 1
    assert "t.merge does not exist" in airflow.note("merge__t")
