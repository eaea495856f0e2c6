"""The task that publishes the mirrors of a table after a DAG has committed to it.

A task of its own: a publication needs no lock, may be repeated and killed, and if it fails, what
was committed stands, and only this task is tried again.
"""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from firnline.airflow.access import open_in_task
from firnline.airflow.ending import then_end
from firnline.airflow.failures import airflow_failures
from firnline.airflow.figures import shortened
from firnline.airflow.runs import run_identity
from firnline.airflow.said import say
from firnline.airflow.tables import MIRROR, DagTable
from firnline.airflow.versions import AirflowSkipException
from firnline.operations.operation import Work
from firnline.settings.load import TableSettings

if TYPE_CHECKING:
    from airflow.sdk import Context

_LOG = logging.getLogger(__name__)

LONGEST = timedelta(hours=1)
"""Time limit; a first version of a large table takes longest."""


class PublishMirror(BaseOperator):
    """Publishes the newest state of the run's table in each of its mirrors, outside the pool.

    XCom: the report's figures (``operations.mirror.run.MirrorReport``); ``said``. Without an
    outlet: a mirror changes no row, and an event would start merges.

    Args:
        table: the table that the DAG works on.
        more: as for BaseOperator.
    """

    def __init__(self, *, table: DagTable, **more: Any) -> None:
        super().__init__(inlets=list(table.inlets), **more)
        self.table = table

    def execute(self, context: Context) -> dict[str, Any]:
        """Publish and report. Skips itself for a table whose settings name no mirror."""
        with airflow_failures():
            settings = self.table.of_run(context)
            if not settings.mirrors:
                raise AirflowSkipException(f"{settings.name} has no mirror")
            figures = shortened(publish(settings, context))
        for warning in figures["warnings"]:
            _LOG.warning("%s", warning)
        say(context, figures["said"])
        _LOG.info("%s", figures["said"])
        return figures


def publish(settings: TableSettings, context: Context) -> dict[str, Any]:
    """Publish the mirrors of a table; return the report's figures and ``said``, a sentence.

    Requests: those of ``run_mirror``. Raises as that does.
    """
    from firnline.operations.mirror.run import run_mirror
    from firnline.operations.mirror.words import sentence
    from firnline.operations.options import MirrorOptions

    report = run_mirror(Work(open_in_task(settings), run_identity(context)), MirrorOptions())
    plain = report.to_json()
    return {**plain, "said": sentence(plain).removesuffix(".")}


def then_mirror(table: DagTable, *committing: BaseOperator) -> None:
    """Create the task after those that commit; none where no table has a mirror.

    It runs once all of them have ended, if one succeeded and none failed: those that were skipped
    have committed nothing, and one that fails publishes what it has committed itself
    (``tasks.mirrored_partly``). This task would be the last one of the run and make it a success.
    """
    if table.mirrored:
        publish = PublishMirror(
            task_id=MIRROR,
            table=table,
            execution_timeout=LONGEST,
            trigger_rule="none_failed_min_one_success",
        )
        list(committing) >> publish
        then_end(*committing)  # of a table without a mirror that task is skipped beforehand
