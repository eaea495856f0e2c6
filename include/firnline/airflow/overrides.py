"""Apply the section ``airflow`` of the settings: queue, retries, callbacks and the like.

It comes from the section ``airflow`` of the settings, and from a DAG file (``dag_factory``), which
can say what no file of settings can: an object. Four levels hold for a DAG, each before the one
above: all DAGs, an operation, a table, an operation of a table. Within a level the DAG file goes
before the settings. ``operation_dag`` makes a DAG with it, and nothing else does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from importlib import import_module
from typing import Any

from firnline.airflow.settings import current_settings
from firnline.errors import SettingsError, UsageError, some
from firnline.settings.airflow import AirflowSettings, DagSection, moment
from firnline.settings.load import TableSettings
from firnline.settings.sections import ALL_OPERATIONS

_OF_DAGS = (
    "tags",
    "start_date",
    "max_active_tasks",
    "on_failure_callback",
    "on_success_callback",
    "schedule",
)
_OF_TASKS = tuple(sorted(DagSection.model_fields.keys() - set(_OF_DAGS)))
KEYS = (*_OF_TASKS, *_OF_DAGS, "default_args")
"""Keys of a level, as Airflow calls them."""
_BELOW = ("operations", "tables")
_TIMES = ("retry_delay", "max_retry_delay")
_CALLBACKS = ("on_failure_callback", "on_success_callback", "on_retry_callback")


@dataclass(frozen=True, slots=True)
class Overrides:
    """The overrides of one DAG and its tasks, of all levels together."""

    said: Mapping[str, Any] = field(default_factory=dict)

    @property
    def default_args(self) -> dict[str, Any]:
        """Return arguments of its tasks."""
        named = {key: self.said[key] for key in _OF_TASKS if key in self.said}
        return {**named, **self.said.get("default_args", {})}

    @property
    def dag_args(self) -> dict[str, Any]:
        """Return arguments of the DAG, but for those that are added to ours, and the schedule."""
        alone = ("start_date", "max_active_tasks", "on_success_callback")
        return {key: self.said[key] for key in alone if key in self.said}

    @property
    def schedule(self) -> dict[str, Any]:
        """Return the schedule as an argument; nothing where none is said."""
        return {key: self.said[key] for key in ("schedule",) if key in self.said}

    def tags(self, ours: set[str]) -> set[str]:
        """Return tags of a DAG with ours."""
        return {*ours, *self.said.get("tags", ())}

    def failure_callbacks(self, ours: object) -> list[Any]:
        """Return what is called after a failed run, ours first."""
        theirs = self.said.get("on_failure_callback")
        several = theirs if isinstance(theirs, Sequence) else [theirs]
        return [each for each in (ours, *several) if each]


NONE = Overrides()


@dataclass(frozen=True, slots=True)
class Told:
    """What a DAG file says (``dag_factory``): of all DAGs, by operation and by table."""

    everywhere: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Told:
        """Return what was given. Raises UsageError for a name that is none."""
        _refuse(given, "dag_factory", _BELOW)
        for name, level in given.get("tables", {}).items():
            _refuse(level, f"tables[{name!r}]", ("operations",))
            _refuse_operations(level, f"tables[{name!r}]")
        _refuse_operations(given, "dag_factory")
        if "schedule" in given:
            _refuse_wide("all DAGs")
        for operation, level in given.get("operations", {}).items():
            if "schedule" in level:
                _refuse_wide(f"all DAGs of {operation}")
        return cls(given)

    def levels(self, operation: str | None, table: str | None) -> list[Mapping[str, Any]]:
        """Return the levels that hold, the widest first: all, operation, table, both."""
        own = self.everywhere.get("tables", {}).get(table, {})
        named = (level.get("operations", {}).get(operation, {}) for level in (self.everywhere, own))
        by_operation, by_both = named
        return [self.everywhere, by_operation, own, by_both]


def _refuse(level: Any, where: str, below: Sequence[str] = ()) -> None:  # noqa: ANN401 - what a DAG file has
    if not isinstance(level, Mapping):
        raise UsageError(
            f"{where} has {level!r} where a mapping is needed",
            next_step="write it as {'queue': 'large'}",
        )
    unknown = sorted(set(map(str, level)) - {*KEYS, *below})
    if unknown:
        raise UsageError(
            f"{where} knows no {some(unknown)}", next_step=f"use {', '.join((*KEYS, *below))}"
        )


def _refuse_operations(level: Mapping[str, Any], where: str) -> None:
    for name, below in level.get("operations", {}).items():
        if name not in ALL_OPERATIONS:
            raise UsageError(
                f"{where} names the operation {name!r}, which no DAG has",
                next_step=f"use {', '.join(ALL_OPERATIONS)}",
            )
        _refuse(below, f"operations[{name!r}] of {where}")


def _refuse_wide(whose: str) -> None:
    raise UsageError(
        f"a schedule was given for {whose}, and a run of a DAG for all tables has to name its "
        "table",
        next_step="give it to an operation of a table: "
        "tables={'events': {'operations': {'verify': {'schedule': ...}}}}",
    )


NOTHING = Told()


def overrides(
    operation: str | None, table: TableSettings | None = None, told: Told = NOTHING
) -> Overrides:
    """Return what holds for a DAG.

    Args:
        operation: of the DAG; None for the planner.
        table: whose own DAG it is; None for a DAG for all tables.
        told: what the DAG file says.

    Raises:
        SettingsError: the settings do not read.
        UsageError: the configuration of an executor needs a package that is not installed.
    """
    return Overrides(dict(_merged(current_settings().airflow, operation, table, told)))


def _merged(
    everywhere: AirflowSettings, operation: str | None, table: TableSettings | None, told: Told
) -> Mapping[str, Any]:
    found: dict[str, Any] = {}
    for said in _levels(everywhere, operation, table, told):
        tags = (*found.get("tags", ()), *(said.get("tags") or ()))
        own_args = {**found.get("default_args", {}), **(said.get("default_args") or {})}
        found |= {k: v for k, v in said.items() if k not in _BELOW}
        found |= {"tags": tags, "default_args": own_args}
    return {key: value for key, value in found.items() if value is not None}


def _levels(
    everywhere: AirflowSettings, operation: str | None, table: TableSettings | None, told: Told
) -> Iterator[Mapping[str, Any]]:
    """Yield the levels, the widest first, and of each the settings before the DAG file."""
    wide = _both(everywhere, operation)
    own = [{}, {}] if table is None else _both(table.airflow, operation)
    theirs = told.levels(operation, None if table is None else table.name)
    for level, more in zip((*wide, *own), theirs, strict=True):
        yield _of_airflow(level)
        yield more


def _both(section: AirflowSettings, operation: str | None) -> list[dict[str, Any]]:
    found = list(section.levels(operation))
    return [*found, {}][:2]


def task_overrides(operation: str, table: TableSettings | None) -> dict[str, Any]:
    """Return what the settings say of a task in a DAG that is not ours; nothing if they do not.

    Nothing either where they do not read. Its owner is that of its DAG.
    """
    try:
        found = overrides(operation, table).default_args
    except SettingsError:
        return {}
    return {key: value for key, value in found.items() if key != "owner"}


def _of_airflow(said: Mapping[str, Any]) -> dict[str, Any]:
    """Return what settings say as Airflow takes it."""
    return {key: _value(key, value) for key, value in said.items()}


def _value(key: str, value: Any) -> Any:  # noqa: ANN401 - of any kind
    if value is None:
        return None
    if key in _TIMES:
        return timedelta(milliseconds=value)
    if key in _CALLBACKS:
        return Callback(key, value)
    if key == "start_date":
        return moment(value)
    return executor_config(value) if key == "executor_config" else value


class Callback:
    """A function of the users, by its path, which is imported when it is called.

    What goes wrong ends up in the log of the process that calls it, with the setting's name.
    """

    def __init__(self, setting: str, path: str) -> None:
        self.setting = setting
        self.path = path

    def __call__(self, context: Any) -> None:  # noqa: ANN401 - Airflow's
        """Call the function with Airflow's context. Raises what it raises."""
        self.function()(context)

    def function(self) -> Any:  # noqa: ANN401 - somebody else's
        """Return the function. Raises SettingsError if there is none that can be called."""
        module, _, name = self.path.replace(":", ".").rpartition(".")
        try:
            found = getattr(import_module(module), name)
        except (ImportError, AttributeError) as error:
            raise SettingsError(
                f"airflow.{self.setting} is {self.path}, which cannot be imported: {error}",
                next_step="correct it, or install its package wherever Airflow runs",
            ) from error
        if not callable(found):
            raise SettingsError(
                f"airflow.{self.setting} is {self.path}, which is no function",
                next_step="name a function that takes Airflow's context",
            )
        return found


_POD = "pod_override"


def executor_config(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the configuration of an executor, with the pod as the object that Airflow asks for.

    Raises UsageError: a pod without Airflow's provider for Kubernetes.
    """
    pod = given.get(_POD)
    if not isinstance(pod, Mapping):
        return dict(given)
    try:
        generator = import_module("airflow.providers.cncf.kubernetes.pod_generator")
    except ImportError:
        raise UsageError(
            f"airflow.executor_config has {_POD}, and Airflow's provider for Kubernetes is missing",
            next_step="install apache-airflow-providers-cncf-kubernetes wherever Airflow runs",
        ) from None
    return {**given, _POD: generator.PodGenerator.deserialize_model_dict(dict(pod))}
