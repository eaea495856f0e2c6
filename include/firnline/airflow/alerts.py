"""Alerts for runs that fail or do not succeed in time (``alerts`` of a table's settings)."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import timedelta
from importlib import import_module
from typing import Any

from airflow.sdk.definitions.callback import AsyncCallback
from airflow.sdk.definitions.deadline import DeadlineAlert, DeadlineReference

from firnline.airflow.settings import current_settings
from firnline.operations.dag_ids import parse_dag_id
from firnline.settings.load import BrokenTable, TableSettings

_LOG = logging.getLogger(__name__)


class FailureAlert:
    """A DAG's ``on_failure_callback``: hands Airflow's context to the table's notifier.

    Airflow calls it in the DAG processor, once a run has failed for good.
    """

    def __init__(self, notifier: str, arguments: Mapping[str, str]) -> None:
        self.notifier = notifier
        self.arguments = dict(arguments)

    def __call__(self, context: Mapping[str, object]) -> None:
        """Call the notifier. An exception ends up in the log of the DAG processor."""
        notify(self.notifier, self.arguments, context)


class TableAlert:
    """The ``on_failure_callback`` of a DAG for all tables: the alert of the run's table, if any."""

    def __call__(self, context: Mapping[str, Any]) -> None:
        """Call the notifier of the table that the run names."""
        dag_run = context["dag_run"]
        dag = parse_dag_id(dag_run.dag_id)
        name = None if dag is None else dag.table_of(dag_run.conf)
        settings = current_settings()
        table = settings.tables.get(name or "") or settings.broken.get(name or "")
        alert = None if table is None else failure_alert(table)
        if alert is not None:
            alert(context)


def failure_alert(table: TableSettings | BrokenTable) -> FailureAlert | None:
    """Return the ``on_failure_callback`` of the table's DAGs; None if no notifier is set."""
    alerts = table.alerts
    return FailureAlert(alerts.notifier, alerts.arguments) if alerts.notifier else None


def merge_deadline(table: TableSettings) -> DeadlineAlert | None:
    """Return the ``deadline`` of a merge DAG: the time within which a queued run must succeed.

    Airflow's scheduler looks for missed deadlines and has the triggerer call the notifier. (Not an
    executor: one that knows no callbacks ends the scheduler of Airflow 3.3.2 with an exception.)
    """
    alerts = table.alerts
    if alerts.merge_deadline is None:
        return None
    told = {"notifier": alerts.notifier or "", "arguments": dict(alerts.arguments)}
    return DeadlineAlert(
        reference=DeadlineReference.DAGRUN_QUEUED_AT,
        interval=timedelta(milliseconds=alerts.merge_deadline),
        callback=AsyncCallback(missed_deadline, told),
        name=f"merge of {table.name}",
    )


async def missed_deadline(
    notifier: str, arguments: Mapping[str, str], context: Mapping[str, object]
) -> None:
    """Log a missed deadline and call the notifier, if any.

    Args:
        notifier: dotted path, empty for none: then the miss is in Airflow's own list and log only.
        arguments: of the notifier.
        context: ``dag_run`` and ``deadline`` as plain data; the notifier also gets ``reason``.
    """
    _LOG.warning("a merge has not succeeded in time: %s", context)
    if not notifier:
        return
    from asgiref.sync import sync_to_async

    # A slow notifier must not block the triggerer's event loop, which all triggers share.
    told = {**context, "reason": "deadline_missed"}
    await sync_to_async(notify, thread_sensitive=False)(notifier, arguments, told)


def tell_waiting(table: TableSettings, context: Mapping[str, Any], question: str) -> None:
    """Call the table's notifier, if any, because a task is about to wait for a person.

    It gets the context of the task with ``reason`` (``answer_wanted``) and ``question``. The
    question is asked even if the notifier fails, which the task's log then says.
    """
    alerts = table.alerts
    if not alerts.notifier:
        return
    told = {**context, "reason": "answer_wanted", "question": question}
    try:
        notify(alerts.notifier, alerts.arguments, told)
    except Exception:  # noqa: BLE001 - notifiers are not ours, and the question must not depend on them
        _LOG.exception("the notifier %s of table %s failed", alerts.notifier, table.name)


def notify(notifier: str, arguments: Mapping[str, str], context: Mapping[str, object]) -> None:
    """Call a notifier: ``Class(**arguments)(context)``, or ``function(context, **arguments)``."""
    module, _, name = notifier.rpartition(".")
    # Imported late: notifiers import their provider's libraries, which parsing does not need.
    found: Any = getattr(import_module(module), name)
    if isinstance(found, type):
        found(**arguments)(context)
    else:
        found(context, **arguments)
