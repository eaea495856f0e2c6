"""Apply the section ``airflow`` of the settings: queue, retries, callbacks and the like.

It comes from the section ``airflow`` of the settings, and from a DAG file (``dag_factory``), which
can say what no file of settings can: an object. Four levels hold for a DAG, each before the one
above: all DAGs, an operation, a table, an operation of a table. Within a level the DAG file goes
before the settings. ``operation_dag`` makes a DAG with it, and nothing else does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from firnline.airflow.arguments import OF_TASKS, of_airflow
from firnline.airflow.settings import current_settings
from firnline.airflow.told import BELOW, NOTHING, Told
from firnline.errors import SettingsError
from firnline.settings.airflow import AirflowSettings
from firnline.settings.load import TableSettings


@dataclass(frozen=True, slots=True)
class Overrides:
    """The overrides of one DAG and its tasks, of all levels together."""

    said: Mapping[str, Any] = field(default_factory=dict)

    @property
    def default_args(self) -> dict[str, Any]:
        """Return arguments of its tasks."""
        named = {key: self.said[key] for key in OF_TASKS if key in self.said}
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
        found |= {k: v for k, v in said.items() if k not in BELOW}
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
        yield of_airflow(level)
        yield more


def _both(section: AirflowSettings, operation: str | None) -> list[dict[str, Any]]:
    found = list(section.levels(operation))
    return [*found, {}][:2]


def task_overrides(operation: str, table: TableSettings | None) -> dict[str, Any]:
    """Return what the settings say of a task in a DAG that is not ours; nothing if they do not.

    Nothing either where they do not read.
    """
    try:
        return overrides(operation, table).default_args
    except SettingsError:
        return {}
