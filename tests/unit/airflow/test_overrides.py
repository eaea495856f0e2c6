"""What users say of our DAGs: which level goes first, and what nobody can take away."""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from airflow import sdk

from firnline.airflow import dag_factory
from firnline.airflow.overrides import Callback, Told, executor_config, overrides
from firnline.errors import SettingsError, UsageError
from tests.support.tables import loaded

SETTINGS = """
airflow:
  queue: all
  retries: 1
  owner: us
  pool: small
  tags: [ours]
  start_date: 2026-01-31
  retry_delay: 5m
  on_failure_callback: our.alerts:page
  operations:
    merge: {queue: merges, priority_weight: 1, tags: [heavy]}
tables:
  a:
    root: 's3://b/a'
    own_dags: all
    partition_by: [day(ts)]
    verify: {schedule: null}
    airflow:
      queue: of_a
      operations:
        merge: {priority_weight: 2}
  b: {root: 's3://b/b'}
"""


@pytest.fixture(autouse=True)
def _settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded(tmp_path, SETTINGS)
    monkeypatch.setenv("FIRNLINE_TABLES", str(tmp_path / "tables.yaml"))


def of(operation: str, table: str | None = None, **told: Any) -> dict[str, Any]:
    from firnline.airflow.settings import current_settings

    known = None if table is None else current_settings().tables[table]
    found = overrides(operation, known, Told.of(told))
    return {**found.said, **found.default_args}


def made(monkeypatch: pytest.MonkeyPatch, **told: Any) -> dict[str, Any]:
    """The DAGs of a DAG file, by id."""
    found: dict[str, Any] = {}
    real: Any = sdk.DAG.__exit__

    def noted(dag: Any, *args: Any) -> None:
        found[dag.dag_id] = dag
        real(dag, *args)

    monkeypatch.setattr(sdk.DAG, "__exit__", noted)
    dag_factory(**told)
    return found


def test_a_table_goes_before_an_operation_and_that_before_all() -> None:
    assert of("ttl")["queue"] == "all"
    assert (of("merge")["queue"], of("merge")["priority_weight"]) == ("merges", 1)
    assert (of("merge", "b")["queue"], of("merge", "b")["priority_weight"]) == ("merges", 1)
    assert (of("merge", "a")["queue"], of("merge", "a")["priority_weight"]) == ("of_a", 2)
    assert of("merge", "a")["tags"] == ("ours", "heavy")


def test_a_dag_file_goes_before_the_settings_on_its_level() -> None:
    assert of("merge", "a", queue="file")["queue"] == "of_a"
    assert of("ttl", None, queue="file")["queue"] == "file"
    told = {"a": {"queue": "file", "operations": {"merge": {"priority_weight": 3}}}}
    assert of("merge", "a", tables=told)["queue"] == "file"
    assert of("merge", "a", tables=told)["priority_weight"] == 3
    assert of("merge", None, operations={"merge": {"queue": None}}).get("queue") is None
    assert of("ttl", None, default_args={"wait_for_downstream": True})["wait_for_downstream"]


@pytest.mark.parametrize(
    ("told", "message"),
    [
        ({"que": "x"}, "dag_factory knows no que"),
        ({"operations": {"merges": {}}}, "names the operation 'merges', which no DAG has"),
        ({"operations": {"merge": {"que": 1}}}, r"operations\['merge'\] of dag_factory knows no"),
        ({"tables": {"a": "x"}}, r"tables\['a'\] has 'x' where a mapping is needed"),
        ({"tables": {"a": {"tables": {}}}}, r"tables\['a'\] knows no tables"),
        ({"schedule": "@daily"}, "a schedule was given for all DAGs"),
        ({"operations": {"verify": {"schedule": "@daily"}}}, "for all DAGs of verify"),
    ],
)
def test_a_dag_file_with_a_mistake_says_which(told: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        dag_factory(**told)


def test_the_dags_have_it_and_keep_what_is_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    dags = made(monkeypatch, tags=["lake"], default_args={"retries": 4})
    shared, own = dags["merge"], dags["merge__a"]
    assert shared.tags >= {"firnline", "merge", "ours", "heavy", "lake"}
    assert shared.start_date == datetime(2026, 1, 31, tzinfo=UTC)
    plan, work, report = (own.task_dict[name] for name in ("plan", "merge", "report"))
    assert (plan.pool, report.pool, work.pool) == ("small", "small", "a.merge")
    assert (plan.queue, plan.owner, plan.retries) == ("of_a", "us", 4)
    assert plan.retry_delay == timedelta(minutes=5)
    assert shared.task_dict["merge"].pool == "firnline.no_table"
    assert [type(each).__name__ for each in shared.on_failure_callback] == [
        "TableAlert",
        "Callback",
    ]
    planner = dags["fleet__merge"]
    assert planner.task_dict["plan"].queue == "all"
    assert planner.task_dict["plan"].retries == 2
    assert dags["rewrite_partitions"].start_date.year == 1970


def test_a_schedule_has_one_owner(monkeypatch: pytest.MonkeyPatch) -> None:
    def told(operation: str) -> dict[str, Any]:
        return {"a": {"operations": {operation: {"schedule": "0 4 * * 6"}}}}

    dags = made(monkeypatch, tables=told("verify"))
    assert "0 4 * * 6" in str(dags["verify__a"].timetable.summary)
    with pytest.raises(UsageError, match=r"cleanup\.schedule of table a has one; leave it out"):
        dag_factory(tables=told("tombstone_cleanup"))


def test_half_of_the_dags_can_be_left_to_another_file(monkeypatch: pytest.MonkeyPatch) -> None:
    own = made(monkeypatch, shared=False)
    assert own
    assert all(name.endswith("__a") for name in own)
    assert not any(name.endswith("__a") for name in made(monkeypatch, own=False))


def test_a_callback_is_imported_when_it_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[object] = []
    module = ModuleType("our_alerts")
    module.page = called.append  # type: ignore[attr-defined]
    module.number = 7  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "our_alerts", module)
    Callback("on_failure_callback", "our_alerts:page")({"run": 1})
    Callback("on_failure_callback", "our_alerts.page")({"run": 2})
    assert called == [{"run": 1}, {"run": 2}]
    with pytest.raises(SettingsError, match=r"airflow\.on_retry_callback is no\.where:f, which"):
        Callback("on_retry_callback", "no.where:f")({})
    with pytest.raises(SettingsError, match="which is no function"):
        Callback("on_retry_callback", "our_alerts:number")({})


def test_a_pod_becomes_what_the_executor_asks_for(monkeypatch: pytest.MonkeyPatch) -> None:
    assert executor_config({"KubernetesExecutor": {"image": "x"}}) == {
        "KubernetesExecutor": {"image": "x"}
    }
    name = "airflow.providers.cncf.kubernetes.pod_generator"
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(UsageError, match="Airflow's provider for Kubernetes is missing"):
        executor_config({"pod_override": {"spec": {}}})
    generator: Any = SimpleNamespace(deserialize_model_dict=lambda pod: ("pod", pod))
    monkeypatch.setitem(sys.modules, "airflow.providers.cncf", ModuleType("cncf"))
    monkeypatch.setitem(sys.modules, "airflow.providers.cncf.kubernetes", ModuleType("k"))
    monkeypatch.setitem(sys.modules, name, SimpleNamespace(PodGenerator=generator))
    assert executor_config({"pod_override": {"spec": {}}}) == {
        "pod_override": ("pod", {"spec": {}})
    }
