"""What users say of our DAGs: which level goes first, and what nobody can take away."""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from airflow import sdk

from firnline.airflow import dag_factory, versions
from firnline.airflow.arguments import Callback, executor_config
from firnline.airflow.overrides import overrides
from firnline.airflow.told import Told
from firnline.errors import SettingsError, UsageError
from firnline.settings.cron import spread
from tests.support.tables import loaded
from tests.support.timetables import cron_of

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
        (
            {"schedule": "@daily"},
            "dag_factory has a schedule, and each operation of each table has",
        ),
        ({"tables": {"a": {"schedule": "@daily"}}}, r"tables\['a'\] has a schedule, and each"),
        ({"operations": {"verify": {"schedule": "@daily"}}}, "for all DAGs of verify"),
        ({"operations": "x"}, "dag_factory has operations 'x' where a mapping is needed"),
        ({"tables": ["a"]}, r"dag_factory has tables \['a'\] where a mapping is needed"),
        ({"tables": {"nope": {"retries": 1}}}, "names 'nope' in tables, and the settings have no"),
        (
            {"tables": {"a": {"operations": {"verify": {"schedule": "0 4 * *"}}}}},
            r"operations\['verify'\] of tables\['a'\] has schedule .* not a schedule; write five",
        ),
        (
            {"tables": {"a": {"operations": {"verify": {"schedule": 5}}}}},
            "has schedule 5: .* is not a schedule; wri",
        ),
        (
            {"tables": {"a": {"operations": {"import": {"schedule": "@daily"}}}}},
            "gives import__a a schedule, and table a names no folder to import from; add a section",
        ),
        (
            {"tables": {"a": {"operations": {"ttl": {"schedule": "@daily"}}}}},
            "gives ttl__a a schedule, and table a has no ttl in the settings; add it",
        ),
        ({"shared": "no"}, "shared of dag_factory is 'no'; write True or False"),
        ({"own": None}, "own of dag_factory is None; write True or False"),
        ({"tags": "lake"}, "dag_factory has tags 'lake'; write a list of texts, such as"),
        ({"tags": ["a", 1]}, "dag_factory has tags .*; write a list of texts, such as"),
        ({"retries": -1}, r"dag_factory\.retries: must be greater than or equal to 0, not -1"),
        ({"owner": 5}, "dag_factory has owner 5; write a text"),
        ({"retry_delay": "5 minutes"}, "'5 minutes' has the unknown unit 'minutes'; write a"),
        ({"retry_delay": -5}, r"dag_factory\.retry_delay: .*-5"),
        ({"retry_delay": True}, "dag_factory has retry_delay True; write a time"),
        ({"on_failure_callback": 5}, "has on_failure_callback 5; write a function, or the name"),
        ({"on_failure_callback": "nomod"}, "on_failure_callback: 'nomod' names no function; write"),
        ({"start_date": "tomorrow"}, "start_date: 'tomorrow' is not a date; write 2026-01-31"),
        ({"default_args": "x"}, "dag_factory has default_args 'x' where a mapping is needed"),
        ({"default_args": {"retries": -1}}, r"default_args of dag_factory\.retries: must be gre"),
        ({"pool": "a.merge"}, "dag_factory has pool 'a.merge', which is a lock of firnline: tasks"),
        ({"default_args": {"pool": "b.cleanup"}}, "has pool 'b.cleanup', which is a lock"),
        (
            {"tables": {"a": {"pool": "firnline.no_table"}}},
            r"tables\['a'\] of dag_factory has pool",
        ),
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


@pytest.mark.long
def test_a_schedule_has_one_owner(monkeypatch: pytest.MonkeyPatch) -> None:
    def told(operation: str) -> dict[str, Any]:
        return {"a": {"operations": {operation: {"schedule": "0 4 * * 6"}}}}

    dags = made(monkeypatch, tables=told("verify"))
    assert cron_of(dags["verify__a"].timetable) == "0 4 * * 6"
    with pytest.raises(UsageError, match=r"cleanup\.schedule of table a has one; leave it out"):
        dag_factory(tables=told("tombstone_cleanup"))


@pytest.mark.long
def test_a_schedule_of_a_dag_file_makes_the_dag_that_has_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    settings = "tables: {b: {root: 's3://b/b', verify: {schedule: null}}}"
    (tmp_path / "tables.yaml").write_text(settings)
    assert "verify__b" not in made(monkeypatch)

    def of_verify(schedule: object) -> dict[str, Any]:
        return {"b": {"operations": {"verify": {"schedule": schedule}}}}

    dag = made(monkeypatch, tables=of_verify("0 4 * * 6"))["verify__b"]
    assert cron_of(dag.schedule) == "0 4 * * 6"
    spread_by_id = made(monkeypatch, tables=of_verify("@weekly"))["verify__b"].schedule
    assert cron_of(spread_by_id) == spread("@weekly", "verify__b")
    assert "verify__b" in made(monkeypatch, tables=of_verify([sdk.Asset("loaded")]))
    assert "verify__b" not in made(monkeypatch, tables=of_verify(None))


def test_a_dag_with_a_schedule_stays_when_its_table_gets_mistakes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    told = {"b": {"operations": {"verify": {"schedule": "@daily"}}}}
    (tmp_path / "tables.yaml").write_text("tables: {b: {root: nowhere}, c: {root: 's3://b/c'}}")
    assert [t.task_id for t in made(monkeypatch, tables=told)["verify__b"].tasks] == ["settings"]


def test_what_the_settings_write_as_text_a_dag_file_may_too() -> None:
    said = {"retry_delay": "5m", "start_date": "2026-01-31", "tags": {"x"}, "max_retry_delay": 90}
    found = of("verify", None, **said)
    assert found["retry_delay"] == timedelta(minutes=5)
    assert found["max_retry_delay"] == timedelta(seconds=90)
    assert found["start_date"] == datetime(2026, 1, 31, tzinfo=UTC)
    assert found["tags"] == ("ours", "x")
    callback = of("verify", None, on_success_callback="our.alerts:page")["on_success_callback"]
    assert (callback.setting, callback.path) == ("on_success_callback", "our.alerts:page")


@pytest.mark.parametrize("more", ["", "queue='b'", "shared=False"])
def test_a_file_that_makes_a_dag_twice_says_so(tmp_path: Path, more: str) -> None:
    folder = tmp_path / "dags"
    folder.mkdir()
    lines = ["from firnline.airflow import dag_factory", "dag_factory()", f"dag_factory({more})"]
    (folder / "ours.py").write_text("\n".join(lines))
    bag: Any = versions.DagBag(str(folder))
    (error,) = bag.import_errors.values()
    assert "this file makes the DAG " in error
    assert "twice, and Airflow would leave one of them out; call dag_factory once" in error


def test_a_file_that_makes_each_half_once_is_read_again_and_again(tmp_path: Path) -> None:
    folder = tmp_path / "dags"
    folder.mkdir()
    halves = "dag_factory(own=False)\ndag_factory(shared=False, queue='b')\n"
    (folder / "ours.py").write_text(f"from firnline.airflow import dag_factory\n{halves}")
    for _ in range(2):
        bag: Any = versions.DagBag(str(folder))
        assert bag.import_errors == {}
        assert {"merge", "merge__a"} <= bag.dags.keys()


@pytest.mark.long
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
