"""The deep part of a check: a Spark job that opens parts after log and objects were compared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.sdk import Param
from msgspec import structs

from firnline.airflow.dags import longest
from firnline.airflow.submit import SubmitJob
from firnline.airflow.tables import DagTable
from firnline.airflow.tasks import RunInTask, conclude
from firnline.airflow.versions import DownstreamTasksSkipped
from firnline.airflow.work import SparkWork
from firnline.airflow.works import VerifyWork
from firnline.operations.registry import VERIFY

if TYPE_CHECKING:
    from airflow.sdk import Context

    from firnline.operations.options import VerifyOptions
    from firnline.settings.load import TableSettings

_DEEP = "verify_deep"
_ELSEWHERE = "the deep check found nothing; what it has read is in the log of its driver"


class FooterWork(SparkWork["VerifyOptions"]):
    """The complete check: executors read footers, the driver reads rows."""

    about = replace(VERIFY, noun="a deep check", job=True)

    def params(self, known: TableSettings | None = None) -> dict[str, Param]:
        """Return the params of the check."""
        return VerifyWork().params(known)

    def report_sentence(self, figures: Mapping[str, Any]) -> str:
        """Return what was read and found, by the job's own report."""
        return self.report_page(figures).sentence

    def options(self, params: Mapping[str, Any], *, dry_run: bool) -> VerifyOptions:
        """Return the options of a deep check; the task before it has asked the witnesses."""
        return structs.replace(super().options(params, dry_run=dry_run), witness=())


class CheckTable(RunInTask):
    """The check that opens no part; skips the deep check unless the run asks for one."""

    def conclude(self, context: Context, table: str, said: str) -> None:
        """Say what was found, unless the deep check says it: that one checks all of it again."""
        if not _is_deep(context):
            super().conclude(context, table, said)

    def execute(self, context: Context) -> dict[str, Any]:
        """Check. A damaged table fails here already, before any JVM starts."""
        figures = super().execute(context)
        if _is_deep(context):
            return figures
        raise DownstreamTasksSkipped(tasks=[_DEEP])  # type: ignore[no-untyped-call] # Airflow's


def _is_deep(context: Context) -> bool:
    return any(context["params"].get(name) for name in ("deep", "rows"))


class SubmitCheck(SubmitJob):
    """Submits the deep check. XCom: the figures of its report, also if it has found something."""

    reports_in = _DEEP

    keeps_report = True

    def concluded(self, context: Context, carried: dict[str, Any]) -> None:  # noqa: ARG002 - as SubmitJob
        """Say what the job has read and found."""
        name, figures = self.table.of_run(context).name, self.report
        conclude(context, name, self.work.report_sentence(figures) if figures else _ELSEWHERE)


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
    deep = SubmitCheck(task_id=_DEEP, work=FooterWork(), jobs=jobs, **common)
    CheckTable(task_id=work.operation, work=work, **common) >> deep
