"""The pool that a task of a DAG for all tables gets from Airflow's policy."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import airflow.policies
import airflow.settings
import pluggy
import pytest

from firnline.airflow import policy, versions
from firnline.operations.pools import NO_TABLE


@pytest.fixture(autouse=True)
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "tables.yaml"
    file.write_text(
        "tables:\n  flights: {root: 's3://b/flights'}\n"
        "  shared: {root: 's3://b/shared', partition_by: [d], merge: {slots: 4}}\n"
    )
    monkeypatch.setenv("FIRNLINE_TABLES", str(file))
    return file


def asked(dag_id: str, conf: dict[str, Any] | None, given: str = NO_TABLE) -> Any:
    """Return a task after Airflow has asked."""
    task: Any = SimpleNamespace(dag_id=dag_id, pool=given, pool_slots=1)
    run: Any = SimpleNamespace(conf=conf)
    policy.set_pool(task, run)
    return task


def pool(dag_id: str, conf: dict[str, Any] | None, given: str = NO_TABLE) -> str:
    """Return the pool of a task after Airflow has asked."""
    return str(asked(dag_id, conf, given).pool)


def test_a_task_gets_the_pool_of_the_table_that_its_run_names() -> None:
    assert pool("restore", {"table": "flights"}) == "flights.merge"
    assert pool("rebuild", {"table": "flights"}) == "flights.cleanup"


def test_a_task_takes_all_slots_of_a_pool_that_merges_share() -> None:
    assert asked("restore", {"table": "shared"}).pool_slots == 4
    assert asked("rebuild", {"table": "shared"}).pool_slots == 1
    assert asked("restore", {"table": "flights"}).pool_slots == 1


def test_without_readable_settings_a_task_stays_where_nothing_runs(settings: Path) -> None:
    """Not an error: it would stop the scheduler, which creates the tasks of all DAGs."""
    settings.write_text("tables: {shared: {merge: {slots: many}}}")
    task = asked("restore", {"table": "shared"})
    assert (task.pool, task.pool_slots) == (NO_TABLE, 1)


@pytest.mark.parametrize("conf", [None, {}, {"table": 7}])
def test_a_task_of_a_run_without_a_table_stays_where_nothing_runs(
    conf: dict[str, Any] | None,
) -> None:
    assert pool("restore", conf) == NO_TABLE


@pytest.mark.parametrize("given", ["default_pool", "flights.merge"])
def test_no_other_task_is_touched(given: str) -> None:
    assert pool("restore", {"table": "other"}, given) == given
    assert pool("somebody_elses", {"table": "other"}) == NO_TABLE


def test_a_task_without_a_run_is_left_as_it_is() -> None:
    task: Any = SimpleNamespace(dag_id="restore", pool=NO_TABLE)
    policy.set_pool(task, None)
    assert task.pool == NO_TABLE


def test_airflow_finds_the_policy_and_asks_it() -> None:
    """Also where there is no airflow_local_settings.py: Airflow would skip the policies there."""
    (found,) = entry_points(group="airflow.policy", name="firnline")
    assert found.load() is policy
    is_noop = airflow.settings.task_instance_mutation_hook.is_noop  # type: ignore[attr-defined] # set on a function
    assert is_noop is not versions.AIRFLOW_3_3_PLUS


HOOK = "task_instance_mutation_hook"
GROUP = "airflow.policy"
specified = pluggy.HookspecMarker(GROUP)


def policies_with(*hooks: Callable[..., None]) -> ModuleType:
    """Return a module of policies as another Airflow may have it."""
    module: Any = ModuleType("airflow.policies")
    module.hookimpl = pluggy.HookimplMarker(GROUP)
    for hook in hooks:
        setattr(module, hook.__name__, specified(hook))
    return module  # type: ignore[no-any-return] # Any, so that attributes can be set


def of_3_2() -> ModuleType:
    """Until Airflow 3.2 the hook is not told of the run."""

    def task_instance_mutation_hook(task_instance: object) -> None: ...

    return policies_with(task_instance_mutation_hook)


def of_one_with_other_arguments() -> ModuleType:
    def task_instance_mutation_hook(row: object) -> None: ...

    return policies_with(task_instance_mutation_hook)


def of_one_without_the_hook() -> ModuleType:
    def task_policy(task: object) -> None: ...

    return policies_with(task_policy)


def of_one_without_hooks_of_packages() -> ModuleType:
    module = of_3_2()
    del module.hookimpl
    return module


def of_a_later_one() -> ModuleType:
    def task_instance_mutation_hook(task_instance: object, dag_run: object, more: int) -> None: ...

    return policies_with(task_instance_mutation_hook)


@pytest.fixture
def loaded(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[ModuleType], Any]]:
    """Load the entry point as an Airflow with these policies does; return what calls its hooks."""
    known = airflow.settings.task_instance_mutation_hook
    before = known.is_noop  # type: ignore[attr-defined] # set on a function

    def load(policies: ModuleType) -> Any:
        monkeypatch.setitem(sys.modules, "airflow.policies", policies)
        monkeypatch.setattr(airflow, "policies", policies)
        monkeypatch.delitem(sys.modules, "firnline.airflow.policy")
        manager = pluggy.PluginManager(GROUP)
        manager.add_hookspecs(policies)
        assert manager.load_setuptools_entrypoints(GROUP, name="firnline") == 1
        return manager.hook

    yield load
    known.is_noop = before  # type: ignore[attr-defined] # set on a function
    monkeypatch.undo()
    import firnline.airflow

    firnline.airflow.policy = policy


@pytest.mark.parametrize(
    ("airflow_of", "reason"),
    [
        (of_one_with_other_arguments, "Argument(s) {'task_instance'} are declared in the hookimpl"),
        (of_one_without_the_hook, "has no attribute 'task_instance_mutation_hook'"),
        (of_one_without_hooks_of_packages, "has no attribute 'hookimpl'"),
    ],
)
def test_an_airflow_that_is_not_known_starts_without_the_hook_and_says_so(
    loaded: Callable[[ModuleType], Any],
    caplog: pytest.LogCaptureFixture,
    airflow_of: Callable[[], ModuleType],
    reason: str,
) -> None:
    """An error of the entry point would stop every command of that Airflow."""
    airflow.settings.task_instance_mutation_hook.is_noop = True  # type: ignore[attr-defined]
    hooks = loaded(airflow_of())
    known = getattr(hooks, HOOK, None)
    assert known is None or known.get_hookimpls() == []
    assert airflow.settings.task_instance_mutation_hook.is_noop is True  # type: ignore[attr-defined]
    (line,) = caplog.records
    assert (line.levelno, line.name) == (logging.WARNING, "firnline.pools")
    assert reason in line.getMessage()
    assert "registered nothing" in line.getMessage()
    assert "\n" not in line.getMessage()


def test_airflow_2_starts_without_the_hook_and_without_a_word(
    loaded: Callable[[ModuleType], Any],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its hook has the arguments of that of 3.2."""
    monkeypatch.setattr(versions, "AIRFLOW_3_0_PLUS", False)
    assert loaded(of_3_2()).task_instance_mutation_hook.get_hookimpls() == []
    assert caplog.records == []


def test_an_airflow_whose_hook_is_not_told_of_the_run_asks_without_it(
    loaded: Callable[[ModuleType], Any], caplog: pytest.LogCaptureFixture
) -> None:
    """A new task stays where nothing runs until its run starts."""
    task = SimpleNamespace(dag_id="restore", pool=NO_TABLE, pool_slots=1)
    loaded(of_3_2()).task_instance_mutation_hook(task_instance=task)
    assert task.pool == NO_TABLE
    assert not caplog.records


def test_an_airflow_without_the_module_of_policies_starts(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "airflow.policies", None)
    monkeypatch.delattr(airflow, "policies")
    assert policy.make_hook() is None
    assert len(caplog.records) == 1


def test_an_airflow_where_imports_of_ours_fail_starts(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "firnline.airflow.dialect", None)
    assert policy.make_hook() is None
    assert "firnline.airflow.dialect" in caplog.text


def test_a_later_airflow_whose_hook_is_told_more_is_asked(
    loaded: Callable[[ModuleType], Any], caplog: pytest.LogCaptureFixture
) -> None:
    hooks = loaded(of_a_later_one())
    task = SimpleNamespace(dag_id="restore", pool=NO_TABLE, pool_slots=1)
    run = SimpleNamespace(conf={"table": "flights"})
    hooks.task_instance_mutation_hook(task_instance=task, dag_run=run, more=1)
    assert task.pool == "flights.merge"
    assert not caplog.records


def test_a_task_of_a_table_with_a_mistake_stays_where_nothing_runs_and_others_do_not(
    settings: Path,
) -> None:
    """How many slots its pool has is not known: one of four would not be the lock of a restore."""
    text = settings.read_text().replace("slots: 4", "slotz: 4")
    assert "slotz" in text
    settings.write_text(text)
    assert pool("restore", {"table": "shared"}) == NO_TABLE
    assert pool("restore", {"table": "flights"}) == "flights.merge"
