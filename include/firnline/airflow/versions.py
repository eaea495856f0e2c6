"""The differences between versions of Airflow, from 3.0 on.

The only module that names a version, and the only one that imports a name which has moved between
them: all others take such names from here. They are imported when somebody asks for one, since
listeners and DAG files are loaded again and again.

Airflow 3.0 has no questions to people, no deadlines and no pages of plugins; what would need them
says so (``needs``). Beside an Airflow 2 there is the command line only (``refuse_old``).
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import timedelta
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from inspect import signature
from typing import TYPE_CHECKING, Any

from firnline.errors import EnvironmentFaultError

if TYPE_CHECKING:
    from airflow.dag_processing.dagbag import DagBag
    from airflow.models.hitl import HITLDetail
    from airflow.providers.standard.operators.hitl import ApprovalOperator, HITLOperator
    from airflow.sdk import AssetOrTimeSchedule, BaseHook, CronTriggerTimetable
    from airflow.sdk.configuration import conf as sdk_conf
    from airflow.sdk.definitions.callback import AsyncCallback
    from airflow.sdk.definitions.deadline import DeadlineAlert, DeadlineReference
    from airflow.sdk.exceptions import (
        AirflowException,
        AirflowFailException,
        AirflowNotFoundException,
        AirflowSkipException,
        DownstreamTasksSkipped,
        ParamValidationError,
        TaskAwaitingInput,
    )
    from airflow.sdk.execution_time.comms import TriggerDagRun
    from airflow.sdk.types import RuntimeTaskInstanceProtocol
    from airflow.serialization.serialized_objects import DagSerialization
    from sqlalchemy.orm import Session


__all__ = [
    "AIRFLOW_3_0_PLUS",
    "AIRFLOW_3_1_PLUS",
    "AIRFLOW_3_2_PLUS",
    "AIRFLOW_3_3_PLUS",
    "AWAITS_INPUT",
    "BACKOFF",
    "VERSION",
    "AirflowException",
    "AirflowFailException",
    "AirflowNotFoundException",
    "AirflowSkipException",
    "ApprovalOperator",
    "AssetOrTimeSchedule",
    "AsyncCallback",
    "BaseHook",
    "CronTriggerTimetable",
    "DagBag",
    "DagSerialization",
    "DeadlineAlert",
    "DeadlineReference",
    "DownstreamTasksSkipped",
    "HITLDetail",
    "HITLOperator",
    "ParamValidationError",
    "TaskAwaitingInput",
    "deadline_alert",
    "gauges",
    "ids_in_file",
    "is_paused",
    "late_pools",
    "needs",
    "newest",
    "policy_hook",
    "reduced",
    "refuse_old",
    "sdk_conf",
    "tracked",
    "trigger",
]


def _installed() -> str:
    """Return the version of Airflow; not by importing it, which loads our policy, which asks."""
    try:
        return version("apache-airflow-core")
    except PackageNotFoundError:  # until 2.11 it is one distribution
        return version("apache-airflow")


def _parsed(text: str) -> tuple[int, int]:
    """Return major and minor number: a beta has what its release will have."""
    major, minor = re.findall(r"\d+", text)[:2]
    return int(major), int(minor)


VERSION = _installed()
_NUMBERS = _parsed(VERSION)
AIRFLOW_3_0_PLUS = _NUMBERS >= (3, 0)
AIRFLOW_3_1_PLUS = _NUMBERS >= (3, 1)
AIRFLOW_3_2_PLUS = _NUMBERS >= (3, 2)
AIRFLOW_3_3_PLUS = _NUMBERS >= (3, 3)

_SDK_ERRORS = "airflow.sdk.exceptions" if AIRFLOW_3_2_PLUS else "airflow.exceptions"
_HITL = "airflow.providers.standard.operators.hitl"
_CALLBACKS = "callback" if AIRFLOW_3_2_PLUS else "deadline"
_DEADLINES = "airflow.sdk.definitions.deadline"
_STORED = "airflow.serialization.serialized_objects"
_PLACES: Mapping[str, str] = {
    "DagBag": "airflow.dag_processing.dagbag" if AIRFLOW_3_2_PLUS else "airflow.models.dagbag",
    "AirflowException": _SDK_ERRORS,
    "AirflowFailException": _SDK_ERRORS,
    "AirflowNotFoundException": _SDK_ERRORS,
    "AirflowSkipException": _SDK_ERRORS,
    "DownstreamTasksSkipped": _SDK_ERRORS,
    "ParamValidationError": _SDK_ERRORS,
    # Until 3.2 a task that waits for a person is deferred.
    "TaskAwaitingInput": f"{_SDK_ERRORS}:{'' if AIRFLOW_3_3_PLUS else 'TaskDeferred'}",
    "AssetOrTimeSchedule": "airflow.sdk" if AIRFLOW_3_2_PLUS else "airflow.timetables.assets",
    "CronTriggerTimetable": "airflow.sdk" if AIRFLOW_3_2_PLUS else "airflow.timetables.trigger",
    "BaseHook": "airflow.sdk" if AIRFLOW_3_1_PLUS else "airflow.hooks.base",
    "sdk_conf": f"airflow{'.sdk' * AIRFLOW_3_2_PLUS}.configuration:conf",
    "AsyncCallback": f"airflow.sdk.definitions.{_CALLBACKS}",
    "DeadlineAlert": _DEADLINES,
    "DeadlineReference": _DEADLINES,
    "DagSerialization": f"{_STORED}:{'' if AIRFLOW_3_2_PLUS else 'SerializedDAG'}",
    "HITLDetail": "airflow.models.hitl",
    "HITLOperator": _HITL if AIRFLOW_3_1_PLUS else "firnline.airflow.unasked",
    "ApprovalOperator": _HITL if AIRFLOW_3_1_PLUS else "firnline.airflow.unasked",
}
"""Name -> module in this version, and after a colon its name there if it is another one."""


def __getattr__(name: str) -> Any:  # noqa: ANN401 - whatever has the name
    """Import a name of ``_PLACES``. Raises AttributeError for any other."""
    place = _PLACES.get(name)
    if place is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, _, there = place.partition(":")
    found = getattr(import_module(module), there or name)
    globals()[name] = found
    return found


BACKOFF: float = 2 if AIRFLOW_3_2_PLUS else True
"""``retry_exponential_backoff``: each delay is twice the one before; until 3.1 it is on or off."""
AWAITS_INPUT = "awaiting_input" if AIRFLOW_3_3_PLUS else "deferred"
"""State of a task that waits for a person."""
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_.-]")


def needs(since: str, what: str, without: str) -> str:
    """Return the sentence on what this Airflow has not got.

    Args:
        since: the first version that has it: ``3.1``.
        what: what it is, as the subject: ``a question to a person``.
        without: what that means here, as a clause.
    """
    return f"{what} needs Airflow {since} or newer and this is {VERSION}, so {without}"


def refuse_old(what: str) -> None:
    """Refuse what an Airflow 2 cannot run.

    Args:
        what: as the subject, in the plural: ``DAGs and operators``.

    Raises:
        EnvironmentFaultError: this is one.
    """
    if not AIRFLOW_3_0_PLUS:
        raise EnvironmentFaultError(
            f"{what} of firnline need Airflow 3, and this is Airflow {VERSION}",
            next_step="run the command line in a BashOperator, as docs/support.md shows it",
        )


def reduced() -> str:
    """Return what this Airflow has not got, as a clause; empty for one that has everything."""
    if not AIRFLOW_3_0_PLUS:
        return "which runs the command line only: DAGs and operators need Airflow 3"
    if not AIRFLOW_3_1_PLUS:
        return "without questions to people, deadlines and the page, which need Airflow 3.1"
    return ""


def deadline_alert(
    interval: timedelta,
    missed: Callable[..., Awaitable[None]],
    told: dict[str, Any],
    name: str,
) -> DeadlineAlert:
    """Return a deadline that counts from when a run is queued; until 3.2 without its name.

    Args:
        interval: the time in which the run must succeed.
        missed: what Airflow's triggerer calls after it, with the context.
        told: its further arguments, plain data.
        name: of the deadline.

    Raises ImportError in 3.0, which has no deadlines.
    """
    module = import_module(_DEADLINES)
    callback = import_module(_PLACES["AsyncCallback"]).AsyncCallback(missed, told)
    named: dict[str, Any] = {"name": name} if AIRFLOW_3_3_PLUS else {}
    alert: DeadlineAlert = module.DeadlineAlert(
        reference=module.DeadlineReference.DAGRUN_QUEUED_AT,
        interval=interval,
        callback=callback,
        **named,
    )
    return alert


def ids_in_file() -> frozenset[str]:
    """Return the ids of the DAGs that the file which Airflow reads just now has made so far.

    Nothing outside of Airflow's own reading, as in a test of a DAG file.
    """
    context: Any = import_module("airflow.sdk.definitions._internal.contextmanager").DagContext
    reads = context.current_autoregister_module_name
    if reads is None:
        return frozenset()
    return frozenset(dag.dag_id for dag, of in context.autoregistered_dags if of.__name__ == reads)


def is_paused(ti: RuntimeTaskInstanceProtocol, dag_id: str) -> bool:
    """Return True if a DAG is paused; one request to the API server.

    False until 3.1, where a task cannot ask: a run of a paused DAG is queued until it goes on.
    Raises AirflowRuntimeError with the status 404 if there is no such DAG.
    """
    asked: Any = ti
    return AIRFLOW_3_2_PLUS and bool(asked.get_dag(dag_id).is_paused)


def trigger(dag_id: str, run_id: str, conf: dict[str, Any], note: str) -> TriggerDagRun:
    """Return the message that starts a run; until 3.1 it carries no note."""
    from airflow.sdk.execution_time.comms import TriggerDagRun

    noted: dict[str, Any] = {"note": note} if AIRFLOW_3_2_PLUS else {}
    return TriggerDagRun(dag_id=dag_id, run_id=run_id, conf=conf, **noted)


def newest(events: Any, most: int) -> Iterable[Any]:  # noqa: ANN401 - of any version
    """Return the newest events on an asset, the newest first.

    Args:
        events: what ``InletEventsAccessors`` has for the asset.
        most: how many; until 3.1 Airflow hands all of them over first, the oldest first.
    """
    if AIRFLOW_3_2_PLUS:
        found: Iterable[Any] = events.ascending(False).limit(most)
        return found
    return list(reversed(events))[:most]


def gauges() -> tuple[Callable[..., None], Callable[[str], str]]:
    """Return what sets a gauge of Airflow's metrics, and what makes a name fit for one.

    Not the copy in Airflow's SDK: the API server sets up this one.
    """
    if AIRFLOW_3_3_PLUS:
        from airflow.observability import stats

        return stats.gauge, lambda name: str(
            stats.normalize_name_for_stats(name, log_warning=False)
        )
    place = "airflow.observability.stats" if AIRFLOW_3_2_PLUS else "airflow.stats"
    return import_module(place).Stats.gauge, lambda name: _NOT_IN_NAMES.sub("_", name)


def policy_hook(policies: Any, set_pool: Callable[[Any, Any], None]) -> Any:  # noqa: ANN401 - modules of any version
    """Return ``task_instance_mutation_hook`` with the arguments that this Airflow gives.

    Until 3.2 it is not told of the run, which a new task does not know either (``late_pools``).

    Args:
        policies: Airflow's module of that name.
        set_pool: is given the task and its run, None where that is not known.

    Raises:
        AttributeError: this Airflow has no such hook.
    """
    if "dag_run" in signature(policies.task_instance_mutation_hook).parameters:

        def task_instance_mutation_hook(task_instance: Any, dag_run: Any) -> None:  # noqa: ANN401 - as above
            set_pool(task_instance, dag_run)

        return policies.hookimpl(task_instance_mutation_hook)

    def hook_without_run(task_instance: Any) -> None:  # noqa: ANN401 - as above
        set_pool(task_instance, _run_of(task_instance))

    hook_without_run.__name__ = "task_instance_mutation_hook"
    return policies.hookimpl(hook_without_run)


def _run_of(task_instance: Any) -> Any:  # noqa: ANN401 - the ORM's rows
    """Return the run of a task that stands in the database; None for a new one."""
    from sqlalchemy import inspect

    state: Any = inspect(task_instance, raiseerr=False)
    if state is None or state.session is None:
        return None
    # A flush in the middle of Airflow's own changes would write rows that are not complete.
    with state.session.no_autoflush:
        return task_instance.dag_run


def late_pools(dag_run: Any, no_table: str, pool: str, slots: int) -> bool:  # noqa: ANN401 - as above
    """Give the tasks of a run that just starts the pool that the policy could not give them.

    Until 3.2 (see ``policy_hook``); from 3.3 on nothing is left to do.

    Args:
        dag_run: of the scheduler's session, which saves it.
        no_table: the pool of tasks that wait for their own.
        pool: their own.
        slots: that each of them takes.

    Returns:
        True if they have it now.
    """
    from sqlalchemy import inspect

    state: Any = None if AIRFLOW_3_3_PLUS else inspect(dag_run, raiseerr=False)
    session: Session | None = None if state is None else state.session
    if session is None:
        return False
    from airflow.models.taskinstance import TaskInstance
    from sqlalchemy import update

    wait = (
        TaskInstance.dag_id == dag_run.dag_id,
        TaskInstance.run_id == dag_run.run_id,
        TaskInstance.pool == no_table,
    )
    with session.no_autoflush:
        session.execute(update(TaskInstance).where(*wait).values(pool=pool, pool_slots=slots))
    return True


def tracked(operator: Any) -> dict[str, bool]:  # noqa: ANN401 - an operator of the Spark provider
    """Return how a driver elsewhere is followed, as the hook of the operator's provider takes it.

    Nothing if the provider is older than 6.1, where spark-submit itself waits for the driver.
    """
    from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook

    known = signature(SparkSubmitHook.__init__).parameters
    names = ("track_driver_via_k8s_api", "yarn_track_via_rm_api")
    return {name: bool(getattr(operator, f"_{name}")) for name in names if name in known}
