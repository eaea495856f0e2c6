"""Convert settings of DAGs and tasks to what Airflow takes: times, dates, functions and pods."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from importlib import import_module
from typing import Any

from firnline.errors import SettingsError, UsageError
from firnline.settings.airflow import DagSection, moment

OF_DAGS = (
    "tags",
    "start_date",
    "max_active_tasks",
    "on_failure_callback",
    "on_success_callback",
    "schedule",
)
OF_TASKS = tuple(sorted(DagSection.model_fields.keys() - set(OF_DAGS)))
KEYS = (*OF_TASKS, *OF_DAGS, "default_args")
"""Keys of a level, as Airflow calls them."""
TIMES = ("retry_delay", "max_retry_delay")
CALLBACKS = ("on_failure_callback", "on_success_callback", "on_retry_callback")


def of_airflow(said: Mapping[str, Any]) -> dict[str, Any]:
    """Return what settings say as Airflow takes it."""
    return {key: _value(key, value) for key, value in said.items()}


def _value(key: str, value: Any) -> Any:  # noqa: ANN401 - of any kind
    if value is None:
        return None
    if key in TIMES:
        return timedelta(milliseconds=value)
    if key in CALLBACKS:
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
