"""Who is told when a run fails, or has not succeeded in time (``alerts`` of a table's settings)."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import timedelta
from importlib import import_module
from typing import Any

from airflow.sdk.definitions.callback import AsyncCallback
from airflow.sdk.definitions.deadline import DeadlineAlert, DeadlineReference

from firnline.settings.load import TableSettings

_LOG = logging.getLogger(__name__)


class FailureAlert:
    """A DAG's ``on_failure_callback``: hands Airflow's context to the table's notifier.

    Airflow calls it in the DAG processor, once a run has failed for good.
    """

    def __init__(self, notifier: str, arguments: Mapping[str, str]) -> None:
        self.notifier = notifier
        self.arguments = dict(arguments)

    def __call__(self, context: Mapping[str, object]) -> None:
        """Tell. An exception ends up in the log of the DAG processor."""
        notify(self.notifier, self.arguments, context)


def failure_alert(table: TableSettings) -> FailureAlert | None:
    """For ``on_failure_callback``; None where nobody is to be told."""
    alerts = table.alerts
    return FailureAlert(alerts.notifier, alerts.arguments) if alerts.notifier else None


def merge_deadline(table: TableSettings) -> DeadlineAlert | None:
    """For ``deadline`` of a merge's DAG: a run that has not succeeded so long after it was queued.

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
    """The deadline's callback.

    Args:
        notifier: dotted path, empty for none: then the miss is in Airflow's own list and log only.
        arguments: of the notifier.
        context: ``dag_run`` and ``deadline`` as plain data; the notifier also gets ``reason``.
    """
    _LOG.warning("a merge has not succeeded in time: %s", context)
    if not notifier:
        return
    from asgiref.sync import sync_to_async

    # A notifier may take its time, and the triggerer's loop belongs to everybody.
    told = {**context, "reason": "deadline_missed"}
    await sync_to_async(notify, thread_sensitive=False)(notifier, arguments, told)


def notify(notifier: str, arguments: Mapping[str, str], context: Mapping[str, object]) -> None:
    """Call a notifier: ``Class(**arguments)(context)``, or ``function(context, **arguments)``."""
    module, _, name = notifier.rpartition(".")
    # Only now: notifiers import their provider's libraries, and parsing needs none of them.
    found: Any = getattr(import_module(module), name)
    if isinstance(found, type):
        found(**arguments)(context)
    else:
        found(context, **arguments)
