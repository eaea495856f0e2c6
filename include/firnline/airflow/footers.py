"""The deep part of a check: a Spark job that opens parts after log and objects were compared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.sdk import Param
from airflow.sdk.exceptions import DownstreamTasksSkipped
from msgspec import structs

from firnline.airflow.dags import longest
from firnline.airflow.submit import SubmitJob
from firnline.airflow.tables import DagTable
from firnline.airflow.tasks import RunInTask
from firnline.airflow.work import SparkWork
from firnline.airflow.works import VerifyWork
from firnline.operations.registry import VERIFY

if TYPE_CHECKING:
    from airflow.sdk import Context

    from firnline.operations.options import VerifyOptions
    from firnline.settings.load import TableSettings

_DEEP = "verify_deep"


class FooterWork(SparkWork["VerifyOptions"]):
    """The complete check: executors read footers, the driver reads rows."""

    about = replace(VERIFY, noun="a deep check", job=True)

    def params(self, known: TableSettings | None = None) -> dict[str, Param]:
        """Return the params of the check."""
        return VerifyWork().params(known)

    def options(self, params: Mapping[str, Any], *, dry_run: bool) -> VerifyOptions:
        """Return the options of a deep check; the task before it has asked the witnesses."""
        return structs.replace(super().options(params, dry_run=dry_run), witness=())


class CheckTable(RunInTask):
    """The check that opens no part; skips the deep check unless the run asks for one."""

    def execute(self, context: Context) -> dict[str, Any]:
        """Check. A damaged table fails here already, before any JVM starts."""
        figures = super().execute(context)
        if any(context["params"].get(name) for name in ("deep", "rows")):
            return figures
        raise DownstreamTasksSkipped(tasks=[_DEEP])  # type: ignore[no-untyped-call] # Airflow's


def check(table: DagTable, jobs: Path) -> None:
    """Create the DAG's tasks, both in the pool: ``verify``, and ``verify_deep`` if asked for.

    Args:
        table: the table that the DAG works on.
        jobs: the folder ``spark_jobs``.
    """
    work = VerifyWork()
    common: dict[str, Any] = {
        "table": table,
        "execution_timeout": longest(table),
        **table.lock(work.operation),
    }
    deep = SubmitJob(task_id=_DEEP, work=FooterWork(), jobs=jobs, **common)
    deep.reports_in = work.operation
    CheckTable(task_id=work.operation, work=work, **common) >> deep
