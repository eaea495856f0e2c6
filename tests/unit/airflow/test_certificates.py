"""The end of an erase: the tasks of a clean-up complete its certificate, note it and tell of it."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from airflow.sdk import DAG

from firnline.airflow import certificates as certificates_task
from firnline.airflow import tasks
from firnline.airflow.certificates import CleanupRun, CompleteCertificates
from firnline.airflow.graphs import tombstone_cleanup
from firnline.airflow.tables import OneTable
from firnline.airflow.versions import (
    AirflowException,
    AirflowFailException,
    AirflowSkipException,
    DownstreamTasksSkipped,
)
from firnline.appends.append import Appender
from firnline.clock import SystemClock
from firnline.commit.base import read_base
from firnline.errors import StoreAccessError, StoreUnavailableError
from firnline.kernel.local import LocalEngine
from firnline.log.txn_file import RunIdentity
from firnline.operations.cleanup.run import run_cleanup
from firnline.operations.erase.certificate import Certificate, list_certificates, read
from firnline.operations.erase.completion import complete_certificate
from firnline.operations.erase.run import EraseFailedError, run_erase
from firnline.operations.fleet.chores import due
from firnline.operations.operation import Work
from firnline.operations.options import CleanupOptions, EraseOptions, SweepOptions
from firnline.operations.registry import CLEANUP
from firnline.operations.sweep.run import run_sweep
from firnline.store.base import Deleted
from firnline.table import Table
from tests.support.airflow_context import run_context
from tests.support.world import Crashed, Fault, FaultyStore, MemoryStore, World, make_world

HOUR = 3_600_000
DAY = 24 * HOUR
KEY = "needle-17"
OTHER_KEY = "needle-18"
SETTINGS: dict[str, Any] = {
    "cleanup": {"grace": "2h"},
    "append": {"ttl": "1h"},
    "commit_ttl": "1h",
    # Its folders have the names of keys.
    "partition_by": ["c"],
}


@pytest.fixture
def told(tmp_path: Path) -> Path:
    return tmp_path / "told"


@pytest.fixture
def world(told: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    arguments = {"file": str(told), "word": "{{ sentence }}"}
    alerts = {"notifier": "tests.support.notifier.Told", "arguments": arguments}
    made = make_world(**SETTINGS, alerts=alerts)
    for module in (tasks, certificates_task):
        monkeypatch.setattr(module, "open_in_task", lambda _: made.table)
    append(made, KEY, OTHER_KEY, "stays")
    return made


def append(world: World, *values: str) -> None:
    world.clock.advance(10)
    Appender(world.table).append(pa.table({"c": list(values), "k": list(range(len(values)))}))


def erase(world: World, scratch: Path, key: str = KEY) -> str:
    """Erase a key; return the id of the certificate."""
    world.clock.advance(10)
    run = RunIdentity(dag_id="erase__t", run_id=f"of {len(list_certificates(world.table))}")
    asked = EraseOptions(columns=("c",), keys=((key,),))
    engine = LocalEngine(lambda: world.store, scratch, world.ids, SystemClock())
    found = run_erase(Work(world.table, run, lambda: engine), asked).certificate
    assert found is not None
    return found


def statuses(world: World) -> dict[str, str]:
    return {each.id: each.status for each in list_certificates(world.table)}


def reasons(told: Path) -> list[tuple[str, str]]:
    lines = told.read_text().splitlines() if told.exists() else []
    plain = map(json.loads, lines)
    return [(each["reason"], each["word"]) for each in plain]


@dataclass
class Ran:
    """What became of the tasks of a run."""

    states: dict[str, str] = field(default_factory=dict)
    said: list[str] = field(default_factory=list)
    xcom: dict[str, Any] = field(default_factory=dict)

    @property
    def note(self) -> str:
        return "; ".join(self.said)

    @property
    def of_certificates(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.xcom["certificates"]["certificates"]
        return found


def dag_of(world: World) -> DAG:
    with DAG("outer"):
        tombstone_cleanup.make(OneTable(world.settings), Path())
    return made[-1]


def execute(dag: DAG, task_id: str, context: Any) -> Any:
    task: Any = dag.task_dict[task_id]
    return task.execute({**context, "dag": dag})


made: list[DAG] = []


@pytest.fixture(autouse=True)
def _dags(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the DAGs that are made: a DAG file hands none on."""
    made.clear()
    enter = DAG.__enter__

    def kept(dag: DAG) -> DAG:
        made.append(dag)
        return enter(dag)

    monkeypatch.setattr(DAG, "__enter__", kept)


def clean_up(world: World, conf: dict[str, Any] | None = None, run_id: str = "scheduled__1") -> Ran:
    """Run the tasks of the DAG in their order, as Airflow would."""
    dag, ran = dag_of(world), Ran()
    skipped: set[str] = set()
    for task_id in ("plan", "tombstone_cleanup", "certificates"):
        if task_id in skipped:
            ran.states[task_id] = "skipped"
            continue
        context = context_of(conf, run_id, **ran.xcom)
        try:
            context["ti"].pushed["return_value"] = execute(dag, task_id, context)
            ran.states[task_id] = "success"
        except DownstreamTasksSkipped as error:
            ran.states[task_id] = "success"
            skipped |= {str(each) for each in error.tasks}
        except AirflowSkipException:
            ran.states[task_id] = "skipped"
        ran.xcom[task_id] = context["ti"].pushed.get("return_value")
        ran.said += [context["ti"].pushed["said"]] if "said" in context["ti"].pushed else []
    return ran


def context_of(conf: dict[str, Any] | None, run_id: str, **earlier: Any) -> Any:
    context = run_context(CleanupRun(), conf, "scheduled", **earlier)
    return {**context, "run_id": run_id}


def complete(world: World, run_id: str = "scheduled__1", ids: list[str] | None = None) -> Any:
    """Run the last task alone, with what a plan has found; return its context."""
    ids = list(statuses(world)) if ids is None else ids
    context = context_of(None, run_id, plan={"certificates": ids})
    execute(dag_of(world), "certificates", context)
    return context


def test_a_clean_up_after_the_grace_completes_the_certificate_notes_it_and_tells(
    world: World, told: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    certificate = erase(world, tmp_path)
    world.clock.advance(3 * HOUR)
    with caplog.at_level(logging.INFO):
        ran = clean_up(world)
    assert ran.states == dict.fromkeys(ran.states, "success")
    assert statuses(world) == {certificate: "complete"}
    (sentence,) = [each for each in ran.said if "certificate" in each]
    assert sentence.startswith(f"the certificate {certificate} of the erase of 1 key on 20")
    assert sentence.endswith(" UTC is complete")
    assert reasons(told) == [("erased", f"table t: {sentence}")]
    (found,) = ran.of_certificates
    assert (found["id"], found["status"], found["keys"]) == (certificate, "complete", 1)
    assert found["in_the_way"] == []
    completed = read(world.table, world.table.paths.completed_certificate(certificate))
    assert completed is not None
    assert completed.completed_by is not None
    assert (completed.completed_by.dag_id, completed.completed_by.run_id) == (
        "tombstone_cleanup__t",
        "scheduled__1",
    )
    shown = [json.dumps(ran.xcom), ran.note, told.read_text()]
    assert not [text for text in shown if KEY in text]
    ours = [r.getMessage() for r in caplog.records if "airflow" in r.name]
    assert not [line for line in ours if KEY in line]


def test_before_the_grace_is_over_no_certificate_is_tried(
    world: World, told: Path, tmp_path: Path
) -> None:
    certificate = erase(world, tmp_path)
    world.clock.advance(HOUR)
    ran = clean_up(world)
    assert ran.states["certificates"] == "skipped"
    assert ran.xcom["plan"]["certificates"] == []
    assert statuses(world) == {certificate: "waiting"}
    assert reasons(told) == []


def test_a_run_with_nothing_to_delete_still_completes_a_certificate(
    world: World, told: Path, tmp_path: Path
) -> None:
    certificate = erase(world, tmp_path)
    world.clock.advance(30 * DAY)
    while run_cleanup(Work(world.table, RunIdentity(run_id="by hand")), CleanupOptions()).log_files:
        world.clock.advance(DAY)
    ran = clean_up(world)
    assert ran.states == {
        "plan": "success",
        "tombstone_cleanup": "skipped",
        "certificates": "success",
    }
    assert statuses(world) == {certificate: "complete"}
    assert [reason for reason, _ in reasons(told)] == ["erased"]
    world.clock.advance(DAY)
    assert set(clean_up(world).states.values()) == {"success", "skipped"}
    assert len(reasons(told)) == 1, "it is told once"


@pytest.mark.long
def test_what_is_in_the_way_is_noted_and_a_later_run_tries_again(
    world: World, told: Path, tmp_path: Path
) -> None:
    certificate = erase(world, tmp_path)
    stray = f"{world.table.paths.data_dir}c={KEY}/{world.ids.uuid7(world.clock.now)}.parquet"
    world.store.objects[stray] = (b"no footer", world.clock.now)
    world.clock.advance(3 * HOUR)
    ran = clean_up(world)
    assert ran.states["certificates"] == "success"
    assert statuses(world) == {certificate: "waiting"}
    assert f"the certificate {certificate} of the erase of 1 key on " in ran.note
    assert " waits for 1 orphan (named by no log file, and written by somebody who began " in (
        ran.note
    )
    assert ran.note.endswith("; each clean-up tries again")
    (found,) = ran.of_certificates
    (orphan,) = found["in_the_way"]
    assert (orphan["kind"], orphan["count"]) == ("orphan", 1)
    assert not found["rows_left"]
    assert orphan["next_step"] == (
        "run the DAG `orphan_sweep` (table t) from 2023-11-17 22:13:21Z on, when it takes the "
        "youngest, and this again"
    )
    assert not [text for text in (ran.note, json.dumps(ran.xcom)) if KEY in text]
    assert reasons(told) == []
    # The next day it is a reason for a run of its own, and another one the day after.
    for day in (1, 2):
        world.clock.advance(DAY)
        (chore,) = due(read_base(world.table), (CLEANUP.dag,))
        assert chore.operation == "tombstone_cleanup"
        assert clean_up(world, run_id=f"fleet__{day}").states["certificates"] == "success"
    run_sweep(Work(world.table, RunIdentity(run_id="by hand")), SweepOptions(older_than=DAY))
    assert clean_up(world, run_id="fleet__3").of_certificates[0]["status"] == "complete"
    assert [reason for reason, _ in reasons(told)] == ["erased"]


@pytest.mark.long
def test_until_when_something_is_in_the_way_is_noted(
    world: World, told: Path, tmp_path: Path
) -> None:
    certificate = erase(world, tmp_path)
    context = complete(world)
    said = context["ti"].pushed["said"]
    assert certificate in said
    assert "1 replaced part (readers may still use it: the grace is not over), late appends (" in (
        said
    )
    assert "; the first clean-up after 20" in said
    assert said.endswith(" UTC completes it")
    assert reasons(told) == []


@pytest.mark.long
def test_several_certificates_are_completed_in_one_run_each_with_a_call_of_its_own(
    world: World, told: Path, tmp_path: Path
) -> None:
    ids = [erase(world, tmp_path), erase(world, tmp_path, OTHER_KEY)]
    world.clock.advance(3 * HOUR)
    late = erase(world, tmp_path, "stays")
    ran = clean_up(world)
    assert ran.xcom["plan"]["certificates"] == ids, "the oldest first; the last one is too young"
    assert statuses(world) == {**dict.fromkeys(ids, "complete"), late: "waiting"}
    assert [erased in said for erased, (_, said) in zip(ids, reasons(told), strict=True)] == [
        True,
        True,
    ]
    assert all(each in ran.note for each in ids)


def test_a_certificate_that_does_not_read_fails_the_run_after_all_others(
    world: World, told: Path, tmp_path: Path
) -> None:
    broken, whole = erase(world, tmp_path), erase(world, tmp_path, OTHER_KEY)
    world.store.objects[world.table.paths.certificate(broken)] = (b"{", world.clock.now)
    world.clock.advance(3 * HOUR)
    with pytest.raises(AirflowFailException, match="does not read") as failed:
        complete(world)
    assert f"certificate {whole} of the erase of 1 key" in str(failed.value)
    assert statuses(world)[whole] == "complete"
    assert [reason for reason, _ in reasons(told)] == ["erased"]


def test_a_run_that_dies_after_the_clean_up_is_tried_again_and_told_then(
    world: World, told: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate = erase(world, tmp_path)
    world.clock.advance(3 * HOUR)
    whole = world.table

    class Dying(FaultyStore):
        def _next(self, name: str) -> str:
            if ".complete.json" in name and "put" in name and self.fault is None:
                self.fault = Fault(len(self.calls), "after")
            return super()._next(name)

    dying = replace(whole, store=Dying(world.store))
    monkeypatch.setattr(certificates_task, "open_in_task", lambda _: dying)
    with pytest.raises(Crashed):
        complete(world, ids=[certificate])
    assert statuses(world) == {certificate: "complete"}
    assert reasons(told) == []
    monkeypatch.setattr(certificates_task, "open_in_task", lambda _: whole)
    said = complete(world, ids=[certificate])["ti"].pushed["said"]
    assert said.endswith("is complete")
    assert reasons(told) == [("erased", f"table t: {said}")]


def test_who_completed_it_by_hand_is_not_told_but_the_run_notes_it(
    world: World, told: Path, tmp_path: Path
) -> None:
    certificate = erase(world, tmp_path)
    world.clock.advance(3 * HOUR)
    complete_certificate(world.table, certificate, RunIdentity(user="ana"))
    said = complete(world, ids=[certificate])["ti"].pushed["said"]
    assert said.endswith("is complete")
    assert reasons(told) == []


def test_a_store_that_does_not_answer_is_asked_again(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate = erase(world, tmp_path)
    world.clock.advance(3 * HOUR)

    def silent(*_: Any) -> Certificate:
        raise StoreUnavailableError("no answer", next_step="try again")

    monkeypatch.setattr("firnline.operations.erase.attempt.complete_certificate", silent)
    with pytest.raises(AirflowException, match="no answer") as failed:
        complete(world, ids=[certificate])
    assert not isinstance(failed.value, AirflowFailException)
    assert dag_of(world).task_dict["certificates"].retries == 3


def sleeper(world: World) -> Callable[[], None]:
    """An append of the key that has uploaded and sleeps; return what wakes it, and it publishes."""
    twin = MemoryStore(world.clock)
    twin.objects = dict(world.store.objects)
    Appender(replace(world.table, store=twin)).append(pa.table({"c": [KEY], "k": [9]}))
    own = {key: data for key, (data, _) in twin.objects.items() if key not in world.store.objects}

    def wake() -> None:
        world.store.objects |= {key: (data, world.clock.now) for key, data in own.items()}

    return wake


def test_rows_that_come_back_between_two_looks_fail_the_run_and_nobody_is_told_of_an_end(
    world: World, told: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wake = sleeper(world)
    certificate = erase(world, tmp_path)
    world.clock.advance(3 * HOUR)
    looks = list[str]()

    def look(table: Table, erase: str, run: RunIdentity) -> Certificate:
        found = complete_certificate(table, erase, run)
        looks.append(found.status)
        if len(looks) == 1:
            wake()
        return found

    monkeypatch.setattr("firnline.operations.erase.attempt.complete_certificate", look)
    context = context_of(None, "scheduled__1", plan={"certificates": [certificate]})
    with pytest.raises(AirflowFailException) as failed:
        execute(dag_of(world), "certificates", context)
    said = str(failed.value)
    assert said.startswith(
        f"certificate {certificate} states that the rows are gone, and rows of its keys may be "
        "there: 1 late part (published beside or after the erase"
    )
    assert looks == ["complete", "complete"]
    assert context["ti"].pushed["return_value"]["certificates"][0]["rows_left"] is True
    assert KEY not in said
    assert reasons(told) == []


@pytest.mark.long
def test_a_part_that_the_erase_could_not_read_fails_the_run_until_the_keys_are_erased_again(
    world: World, told: Path, tmp_path: Path
) -> None:
    (key,) = [k for k in world.store.objects if f"_data/c={KEY}/" in k]
    whole = world.store.objects[key]
    world.store.objects[key] = (whole[0][:-9], whole[1])
    with pytest.raises(EraseFailedError) as erased:
        erase(world, tmp_path)
    certificate = erased.value.report.certificate
    assert certificate is not None
    world.clock.advance(3 * HOUR)
    for _ in range(2):
        with pytest.raises(AirflowFailException) as failed:
            complete(world, ids=[certificate])
        said = str(failed.value)
        assert said.startswith(
            f"certificate {certificate} stays open, and rows of its keys may be there: 1 unread "
            "part (could not be read by the erase; readers of firnline hide its rows; "
        )
        assert KEY not in said
    assert reasons(told) == []
    world.store.objects[key] = whole
    again = erase(world, tmp_path)
    world.clock.advance(3 * HOUR)
    clean_up(world)
    assert statuses(world) == {certificate: "complete", again: "complete"}
    assert [reason for reason, _ in reasons(told)] == ["erased", "erased"]


def test_what_a_store_refuses_to_delete_is_in_the_way_and_its_key_is_not_shown(
    world: World, told: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate = erase(world, tmp_path)
    world.clock.advance(3 * HOUR)

    def refuse(keys: Iterable[str]) -> Iterator[Deleted]:
        step = "let it delete there"
        return (
            Deleted(key, StoreAccessError(f"no permission to delete {key}", next_step=step))
            for key in keys
        )

    monkeypatch.setattr(world.store, "delete_many", refuse)
    said = complete(world, ids=[certificate])["ti"].pushed["said"]
    assert "1 replaced part (the store did not delete it: no permission to delete …; " in said
    assert said.endswith("; each clean-up tries again")
    assert KEY not in said
    assert (statuses(world), reasons(told)) == ({certificate: "waiting"}, [])


def test_a_dry_run_names_the_certificates_and_completes_none(
    world: World, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    certificate = erase(world, tmp_path)
    world.clock.advance(3 * HOUR)
    with caplog.at_level(logging.INFO):
        ran = clean_up(world, {"dry_run": True})
    assert f"Certificate {certificate} may be complete." in caplog.messages
    assert (ran.states["tombstone_cleanup"], ran.states["certificates"]) == ("skipped", "skipped")
    assert statuses(world) == {certificate: "waiting"}


def test_a_table_without_erases_pays_no_request_for_certificates(
    world: World, tmp_path: Path
) -> None:
    world.clock.advance(DAY)
    base = read_base(world.table)
    before = world.store.counters.as_dict()
    due(base, (CLEANUP.dag,))
    assert world.store.counters.as_dict() == before
    ran = clean_up(world)
    assert ran.states["certificates"] == "skipped"


def test_the_task_holds_no_pool_and_runs_also_after_a_clean_up_that_was_skipped(
    world: World,
) -> None:
    task = dag_of(world).task_dict["certificates"]
    assert isinstance(task, CompleteCertificates)
    assert (task.pool, task.trigger_rule) == ("default_pool", "none_failed")
    assert {each.task_id for each in task.upstream_list} == {"plan", "tombstone_cleanup"}
    assert not task.is_teardown
