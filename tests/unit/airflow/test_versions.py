"""What differs between versions of Airflow, also as those see it that are not installed here."""

from __future__ import annotations

import subprocess
import sys
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.models import import_all_models
from airflow.models.base import Base
from airflow.models.dagrun import DagRun
from airflow.models.taskinstance import TaskInstance
from sqlalchemy import create_engine, insert, select
from sqlalchemy.orm import Session

from firnline import airflow
from firnline.airflow import pool_guard, versions
from firnline.airflow.approvals import refuse_asking
from firnline.errors import EnvironmentFaultError
from firnline.operations.pools import NO_TABLE

NOT_IN_3_0 = {"AsyncCallback", "DeadlineAlert", "DeadlineReference", "HITLDetail"}


@pytest.mark.long
def test_the_policy_is_registered_also_where_we_are_imported_before_airflow() -> None:
    """Importing Airflow loads the policy, which asks for the version."""
    code = (
        "from firnline.airflow import versions; from airflow import settings, __version__;"
        "found = getattr(settings, 'get_policy_plugin_manager', None);"
        "manager = settings.POLICY_PLUGIN_MANAGER if found is None else found();"
        "hooks = manager.hook.task_instance_mutation_hook.get_hookimpls();"
        "names = [each.plugin_name for each in hooks];"
        "print('SEEN', versions.VERSION == __version__, 'firnline' in names)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert "SEEN True True" in done.stdout


@pytest.mark.parametrize(
    ("version", "numbers"), [("3.0.6", (3, 0)), ("3.4.0b2", (3, 4)), ("2.11.2", (2, 11))]
)
def test_a_beta_has_what_its_release_has(version: str, numbers: tuple[int, int]) -> None:
    assert versions._parsed(version) == numbers


def test_every_name_is_where_it_is_said_to_be() -> None:
    there = set(versions._PLACES) - (set() if versions.AIRFLOW_3_1_PLUS else NOT_IN_3_0)
    assert all(getattr(versions, name) is not None for name in there)
    assert set(versions._PLACES) <= set(versions.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = versions.nothing


@pytest.fixture
def until_3_2(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(versions, "AIRFLOW_3_3_PLUS", False)


@pytest.fixture
def until_3_1(monkeypatch: pytest.MonkeyPatch, until_3_2: None) -> None:
    monkeypatch.setattr(versions, "AIRFLOW_3_2_PLUS", False)


@pytest.fixture
def in_3_0(monkeypatch: pytest.MonkeyPatch, until_3_1: None) -> None:
    monkeypatch.setattr(versions, "AIRFLOW_3_1_PLUS", False)


def test_until_3_1_a_task_does_not_ask_whether_a_dag_is_paused(until_3_1: None) -> None:
    ti: Any = SimpleNamespace()  # has no get_dag
    assert versions.is_paused(ti, "merge") is False


def test_until_3_1_a_run_is_started_without_a_note(until_3_1: None) -> None:
    sent = versions.trigger("merge", "r", {"table": "t"}, "why")
    assert (sent.dag_id, sent.run_id, sent.conf) == ("merge", "r", {"table": "t"})
    assert getattr(sent, "note", None) is None


def test_until_3_1_all_events_come_and_the_newest_are_taken(until_3_1: None) -> None:
    assert list(versions.newest([1, 2, 3], 2)) == [3, 2]


def test_airflow_s_gauges_take_tags_and_names_are_made_fit_for_them() -> None:
    gauge, normalise = versions.gauges()
    gauge("firnline.parts", 1, tags={"table": "t"})
    assert normalise("ünd so") == "_nd_so"


@pytest.mark.skipif(not versions.AIRFLOW_3_1_PLUS, reason="Airflow 3.0 has no deadlines")
def test_until_3_2_a_deadline_has_no_name(until_3_2: None) -> None:
    async def missed(context: object) -> None: ...

    alert: Any = versions.deadline_alert(timedelta(hours=1), missed, {}, "a merge")
    assert alert.interval == timedelta(hours=1)
    assert getattr(alert, "name", None) is None


def test_3_0_refuses_what_needs_an_answer(in_3_0: None) -> None:
    with pytest.raises(EnvironmentFaultError) as refused:
        refuse_asking("an erase")
    assert str(refused.value) == (
        f"a question on an erase needs Airflow 3.1 or newer and this is {versions.VERSION}, so "
        "nobody is asked and nothing is done; upgrade Airflow, or do it with the command line"
    )


@pytest.fixture
def session() -> Iterator[Session]:
    """A session of Airflow's database, in which a run of ``restore`` has two tasks."""
    import_all_models()  # type: ignore[no-untyped-call]
    engine = create_engine("sqlite://")
    Base.metadata.create_all(engine)
    with Session(engine) as session:
        for run_id in ("r", "other"):
            about = {"run_type": "manual", "state": "queued", "run_after": datetime.now(UTC)}
            session.add(DagRun("restore", run_id=run_id, conf={"table": "t"}, **about))  # type: ignore[arg-type]
            session.flush()
            for task_id, pool in (("plan", "default_pool"), ("restore", NO_TABLE)):
                one = {"id": uuid.uuid4(), "task_id": task_id, "map_index": -1, "pool": pool}
                values = {"dag_id": "restore", "run_id": run_id, "pool_slots": 1, **one}
                if not versions.AIRFLOW_3_2_PLUS:
                    values["id"] = str(values["id"])
                session.execute(insert(TaskInstance).values(**values))
        yield session
    engine.dispose()


def the_run(session: Session) -> DagRun:
    return session.scalars(select(DagRun).where(DagRun.run_id == "r")).one()


def pools(session: Session, run_id: str = "r") -> dict[str, tuple[str, int]]:
    columns = TaskInstance.task_id, TaskInstance.pool, TaskInstance.pool_slots
    rows = session.execute(select(*columns).where(TaskInstance.run_id == run_id))
    return {task: (pool, slots) for task, pool, slots in rows}


@pytest.mark.long
def test_until_3_2_the_tasks_of_a_run_get_their_pool_when_it_starts(
    session: Session, until_3_2: None
) -> None:
    assert versions.late_pools(the_run(session), NO_TABLE, "t.merge", 4)
    assert pools(session) == {"plan": ("default_pool", 1), "restore": ("t.merge", 4)}
    assert pools(session, "other")["restore"] == (NO_TABLE, 1)


@pytest.mark.long
@pytest.mark.skipif(not versions.AIRFLOW_3_3_PLUS, reason="from Airflow 3.3 on")
def test_from_3_3_on_the_policy_has_done_it(session: Session) -> None:
    assert not versions.late_pools(the_run(session), NO_TABLE, "t.merge", 4)
    assert pools(session)["restore"] == (NO_TABLE, 1)


def test_a_task_that_stands_in_the_database_tells_its_run(session: Session) -> None:
    """One that is cleared; a new one is in no session yet."""
    row = session.scalars(select(TaskInstance).where(TaskInstance.run_id == "r")).first()
    assert versions._run_of(row) is the_run(session)
    assert versions._run_of(SimpleNamespace()) is None


@pytest.mark.long
@pytest.mark.parametrize("broken", [False, True])
def test_the_guard_gives_the_pool_before_it_looks_for_it(
    session: Session,
    until_3_2: None,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Any,
    broken: bool,
) -> None:
    """Not if the settings of the table do not read: how many slots it takes is not known."""
    text = "slotz" if broken else "slots"
    (tmp_path / "tables.yaml").write_text(
        f"tables: {{t: {{root: 's3://b/t', partition_by: [d], merge: {{{text}: 2}}}}}}"
    )
    monkeypatch.setenv("FIRNLINE_TABLES", str(tmp_path / "tables.yaml"))
    monkeypatch.setattr("firnline.airflow.ours.has_tag", lambda _: True)
    monkeypatch.setattr(pool_guard, "read_slots", lambda: {"t.merge": 2, NO_TABLE: 1})
    monkeypatch.setattr(pool_guard, "read_pools", lambda *_: {"default_pool": 1, NO_TABLE: 1})
    failed: list[str] = []
    monkeypatch.setattr(
        "firnline.airflow.failing.fail", lambda _run, _table, _reason, why: failed.append(why)
    )
    monkeypatch.setattr("firnline.airflow.failing.note", lambda *_: None)
    pool_guard.on_dag_run_running(the_run(session), "")
    assert pools(session)["restore"] == ((NO_TABLE, 1) if broken else ("t.merge", 2))
    assert bool(failed) is broken


@pytest.mark.parametrize("name", ["Merge", "dag_factory", "maintain", "Drop"])
def test_beside_airflow_2_what_is_imported_says_what_to_do(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(versions, "AIRFLOW_3_0_PLUS", False)
    monkeypatch.setattr(versions, "VERSION", "2.11.0")
    with pytest.raises(EnvironmentFaultError) as found:
        getattr(airflow, name)
    assert str(found.value) == (
        "DAGs and operators of firnline need Airflow 3, and this is Airflow 2.11.0; run the "
        "command line in a BashOperator, as docs/support.md shows it"
    )


@pytest.mark.long
@pytest.mark.parametrize("name", ["dag_factory", "Merge"])
def test_without_a_provider_an_import_names_its_package(name: str) -> None:
    code = (
        "import sys, importlib.metadata as m; known = m.version\n"
        "sys.modules['airflow.providers.apache'] = None\n"
        "def version(name):\n"
        "    if name.endswith('providers-apache-spark'): raise m.PackageNotFoundError(name)\n"
        "    return known(name)\n"
        "m.version = version\n"
        f"from firnline.airflow import {name} as found\n"
        "found()"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert done.stderr.splitlines()[-1].startswith(
        "firnline.errors.EnvironmentFaultError: the provider apache-airflow-providers-apache-spark "
        "of Airflow is not installed; install it with pip install"
    )
