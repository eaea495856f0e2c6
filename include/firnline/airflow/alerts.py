"""Alerts for runs that fail or do not succeed in time (``alerts`` of a table's settings).

Airflow gives each kind of callback another context. A notifier of ours finds the same names in all
of them (``Told``), so that one template fits every reason.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import timedelta
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from firnline.airflow.runs import field_of, operation_of
from firnline.airflow.settings import current_settings
from firnline.airflow.versions import deadline_alert, sdk_conf
from firnline.airflow.within import LIMIT, call_within
from firnline.operations.dag_ids import FLEET, parse_dag_id, run_of, table_in_run_id
from firnline.settings.load import BrokenTable, Settings, TableSettings
from firnline.settings.notifiers import NotifierSettings
from firnline.units import format_duration

if TYPE_CHECKING:
    from firnline.airflow.versions import DeadlineAlert

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Told:
    """Values of a notifier's context that are there whatever the reason of the call."""

    dag_id: str
    run_id: str
    table: str
    """Empty for a run of no table."""
    reason: str
    """``task_failure`` and others of Airflow, ``deadline_missed``, ``answer_wanted``,
    ``pool_wrong``, ``silent``, ``recovered``, ``erased`` or ``files_left_out``."""
    sentence: str
    link: str
    """Address of the run, or of the DAG if it is about no run; empty if Airflow has no
    ``[api] base_url``."""

    @classmethod
    def of(cls, context: Mapping[str, Any], reason: str, sentence: str = "") -> Told:
        """Return what is told of a context of any kind; without a sentence that of a failure."""
        run = context.get("dag_run")
        name = field_of(context.get("dag"), "dag_id", run)
        run_id = str(context.get("run_id") or "") or field_of(run, "run_id")
        # As plain data for a missed deadline a run has the names of Airflow's REST API.
        run_id = run_id or field_of(run, "dag_run_id")
        table = table_of(context)
        sentence = sentence or _failed(name, table, reason)
        return cls(name, run_id, table, reason, sentence, _link(name, run_id))


def table_of(context: Mapping[str, Any]) -> str:
    """Return the table of the run of a context of any kind; empty if it names none."""
    run = context.get("dag_run")
    dag = operation_of(context)
    given = run.get("conf") if isinstance(run, Mapping) else getattr(run, "conf", None)
    return (None if dag is None else dag.table_of(given)) or ""


def _failed(dag_id: str, table: str, reason: str) -> str:
    dag = parse_dag_id(dag_id)
    what = f"the planner {FLEET}" if dag_id == FLEET else dag_id
    if dag is not None and table:
        what = f"{dag.operation} of table {table}"
    return f"{what} failed ({reason}); the note of the run says why"


def _link(dag: str, run_id: str) -> str:
    base = sdk_conf.get("api", "base_url", fallback="").rstrip("/")
    of_run = f"/runs/{quote(run_id, safe='')}" if run_id else ""
    return f"{base}/dags/{quote(dag)}{of_run}" if base else ""


class FailureAlert:
    """A DAG's ``on_failure_callback``: hands Airflow's context to the table's notifier.

    Airflow calls it in the DAG processor, once a run has failed for good.
    """

    def __init__(self, notifier: str, arguments: Mapping[str, str]) -> None:
        self.notifier = notifier
        self.arguments = dict(arguments)

    def __call__(self, context: Mapping[str, object]) -> None:
        """Call the notifier. An exception ends up in the log of the DAG processor."""
        told = Told.of(context, str(context.get("reason") or "failed"))
        notify(self.notifier, self.arguments, context, told)


class TableAlert:
    """The ``on_failure_callback`` of a DAG for all tables: the alert of the run's table, if any."""

    def __call__(self, context: Mapping[str, Any]) -> None:
        """Call the notifier of the table that the run names."""
        settings = current_settings()
        name = table_of(context) or _in_run_id(context, [*settings.tables, *settings.broken])
        table = table_to_tell(settings, name)
        alert = None if table is None else failure_alert(table)
        if alert is not None:
            alert(context)


def table_to_tell(settings: Settings, name: str) -> TableSettings | BrokenTable | None:
    """Return the table with a name, also one whose section has mistakes; None if there is none."""
    return settings.tables.get(name) or settings.broken.get(name)


def _in_run_id(context: Mapping[str, Any], tables: Iterable[str]) -> str:
    """Return the table with which the planner ends the id of a run; empty if there is none.

    Airflow leaves ``dag_run`` out where it knows no task of the run.
    """
    if context.get("dag_run") is not None:
        return ""
    return table_in_run_id(str(context.get("run_id") or ""), tables)


def failure_alert(table: TableSettings | BrokenTable) -> FailureAlert | None:
    """Return the ``on_failure_callback`` of the table's DAGs; None if no notifier is set."""
    alerts = table.alerts
    return FailureAlert(alerts.notifier, alerts.arguments) if alerts.notifier else None


def merge_deadline(limit: int, table: TableSettings | None) -> DeadlineAlert:
    """Return a ``deadline`` of a merge DAG: the time within which a queued run must succeed.

    Airflow's scheduler looks for missed deadlines and has the triggerer call the notifier. (Not an
    executor: one that knows no callbacks ends the scheduler of Airflow 3.3.2 with an exception.)

    Args:
        limit: the time, ms.
        table: the table of the DAG; None for that for all tables, where it counts for runs of the
            tables whose settings have this limit when it is missed.
    """
    name = f"merge of {'a table' if table is None else table.name}"
    interval = timedelta(milliseconds=limit)
    if table is None:
        return deadline_alert(interval, missed_of_run, {"limit": limit}, name)
    alerts = table.alerts
    told = {
        "notifier": alerts.notifier or "",
        "arguments": dict(alerts.arguments),
        "sentence": _missed(table.name, limit),
    }
    return deadline_alert(interval, missed_deadline, told, name)


def _missed(table: str, limit: int) -> str:
    return (
        f"a merge of table {table} has not succeeded within {format_duration(limit)} of its start"
    )


async def missed_of_run(limit: int, context: Mapping[str, Any]) -> None:
    """Tell of a missed deadline in the DAG for all tables, if it is that of the run's table.

    Args:
        limit: the deadline, ms.
        context: ``dag_run`` and ``deadline`` as plain data.
    """
    from asgiref.sync import sync_to_async

    # The file of the settings is read, which must not block the triggerer's event loop either.
    settings = await sync_to_async(current_settings, thread_sensitive=False)()
    table = settings.tables.get(table_of(context))
    if table is None or table.alerts.merge_deadline != limit:
        return
    alerts, sentence = table.alerts, _missed(table.name, limit)
    await missed_deadline(alerts.notifier or "", alerts.arguments, context, sentence)


async def missed_deadline(
    notifier: str,
    arguments: Mapping[str, str],
    context: Mapping[str, object],
    sentence: str = "a merge has not succeeded in time",
) -> None:
    """Log a missed deadline and call the notifier, if any.

    Args:
        notifier: dotted path, empty for none: then the miss is in Airflow's own list and log only.
        arguments: of the notifier.
        context: ``dag_run`` and ``deadline`` as plain data.
        sentence: what is told.
    """
    _LOG.warning("%s: %s", sentence, context)
    if not notifier:
        return
    from asgiref.sync import sync_to_async

    # A slow notifier must not block the triggerer's event loop, which all triggers share, and one
    # that exits must not end it.
    told = Told.of(context, "deadline_missed", sentence)
    call = partial(notify, notifier, arguments, context, told)
    await sync_to_async(call_within, thread_sensitive=False)(LIMIT, call)


def tell_waiting(table: TableSettings, context: Mapping[str, Any], question: str) -> None:
    """Call the table's notifier, if any, because a task is about to wait for a person.

    The question is its ``sentence``. It is asked even if the notifier fails, which the task's log
    then says.
    """
    given = {**context, "question": question}
    tell(table.alerts, f"table {table.name}", given, "answer_wanted", question)


def tell(
    alerts: NotifierSettings, whose: str, context: Mapping[str, Any], reason: str, sentence: str
) -> None:
    """Call a notifier, if any, for what goes on if it fails, as a task does: the log says so.

    It goes on after ``LIMIT`` at the latest.

    Args:
        alerts: which notifier.
        whose: names it in the log: ``table flights``.
        context: Airflow's.
        reason: of the call.
        sentence: what is told.
    """
    if not alerts.notifier:
        return
    told = Told.of(context, reason, sentence)
    try:
        call_within(LIMIT, partial(notify, alerts.notifier, alerts.arguments, context, told))
    except Exception:  # noqa: BLE001 - notifiers are not ours, and the task must not depend on them
        _LOG.exception("the notifier %s of %s failed", alerts.notifier, whose)


def notify(
    notifier: str, arguments: Mapping[str, str], given: Mapping[str, object], told: Told
) -> None:
    """Call a notifier: ``Class(**arguments)(context)``, or ``function(context, **arguments)``.

    Args:
        notifier: its dotted path.
        arguments: its arguments.
        given: Airflow's context.
        told: becomes a part of the context.
    """
    # Imported late: notifiers import their provider's libraries, which parsing does not need.
    found = import_notifier(notifier)
    context = {**given, **asdict(told)}
    if isinstance(found, type):
        found(**arguments)(context)
    else:
        found(context, **arguments)


def try_alert(table: TableSettings) -> dict[str, str]:
    """Call the notifier of a table with the reason ``test``; return what it was told.

    Raises whatever the notifier raises.
    """
    merge = run_of("merge", table)
    run = {"dag_id": merge.dag_id, "run_id": "test", "conf": merge.conf}
    sentence = f"this is a test of the alerts of table {table.name}: nothing has happened"
    told = Told.of({"dag_run": run}, "test", sentence)
    notify(table.alerts.notifier or "", table.alerts.arguments, {}, told)
    return asdict(told)


def import_notifier(notifier: str) -> Any:  # noqa: ANN401 - a class or function of somebody else
    """Return the notifier with a dotted path. Raises ImportError, AttributeError, and its own."""
    module, _, name = notifier.rpartition(".")
    return getattr(import_module(module), name)
