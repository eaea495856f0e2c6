"""The import of folders as DAG tasks see it: the store copies files, and Spark reads the others."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NoReturn

from firnline.airflow.access import open_in_task
from firnline.airflow.alerts import tell
from firnline.airflow.failures import airflow_failures
from firnline.airflow.figures import shortened
from firnline.airflow.runs import first_try, run_identity
from firnline.airflow.said import say
from firnline.airflow.submit import SubmitJob
from firnline.airflow.tasks import conclude, log_page, progress_log
from firnline.airflow.versions import AirflowSkipException
from firnline.airflow.work import SparkWork
from firnline.errors import FirnlineError
from firnline.operations.import_options import ImportFoldersOptions
from firnline.operations.operation import Work, decided
from firnline.operations.registry import IMPORT

if TYPE_CHECKING:
    from airflow.sdk import Context

    from firnline.airflow.tables import DagTable
    from firnline.operations.operation import Figures
    from firnline.settings.load import TableSettings

_LOG = logging.getLogger(__name__)

LEFT_OUT = "files_left_out"
"""Reason with which a notifier is called for files that cannot be taken."""
_ELSEWHERE = "imported; how much is in the log of its driver"


class _SparkNeededError(FirnlineError):
    """Rows have to be read, which the task does not do itself."""


class ImportWork(SparkWork[ImportFoldersOptions]):
    """Takes the new files of folders into the table."""

    about = IMPORT

    def report_sentence(self, figures: Mapping[str, Any]) -> str:
        """Return totals with what was left out, by the report of the job or the task."""
        return self.report_page(figures).sentence


def _needs_spark() -> NoReturn:
    """Stand for the engine while files are only copied. Raises _SparkNeededError."""
    raise _SparkNeededError("a file has to be read", next_step="let a Spark job read it")


class ImportFolders(SubmitJob):
    """Imports: copies within the task itself, and submits a Spark job where rows have to be read.

    XCom and asset event: the report's figures (``operations.import_files.folders``); ``said``.

    Args:
        work: the work to do.
        table: the table that the DAG works on; the asset of its rows is an outlet.
        plan: id of the task whose XCom says whether rows have to be read.
        more: as for SubmitJob.
    """

    reports_in: str = IMPORT.dag
    keeps_report = True

    def __init__(
        self, *, work: ImportWork, table: DagTable, plan: str = "plan", **more: Any
    ) -> None:
        super().__init__(work=work, table=table, outlets=list(table.outlets(work.about)), **more)
        self.plan = plan

    def execute(self, context: Context) -> None:
        """Import and report. Skips itself if nothing was to be taken: then there is no event."""
        figures: dict[str, Any] = {}
        complete = False
        if not self._reads_rows(context):
            figures, complete = self._copy(context)
        if complete:
            self._conclude(context, figures)
        else:
            self.launch(context, figures)

    def concluded(self, context: Context, carried: dict[str, Any]) -> None:
        """Report what was copied before the job together with what the job has read."""
        self._conclude(context, _added(carried, self.report or {}))

    def _conclude(self, context: Context, figures: dict[str, Any]) -> None:
        settings = self.table.of_run(context)
        if figures:
            self._tell(context, settings, figures)
        self.table.report(context, self.work.about, shortened(figures))
        said = self.work.report_sentence(figures) if figures else _ELSEWHERE
        conclude(context, settings.name, said)

    def _reads_rows(self, context: Context) -> bool:
        planned = context["ti"].xcom_pull(task_ids=self.plan)
        return bool(isinstance(planned, dict) and planned.get("anew"))

    def _copy(self, context: Context) -> tuple[dict[str, Any], bool]:
        """Import without Spark; return figures, and False if some file has to be read after all."""
        report: Figures | None = None
        complete = True
        with airflow_failures():
            options, settings = self.work.parse_params(context), self.table.of_run(context)
            table, run = open_in_task(settings), run_identity(context)
            try:
                work = Work(table, run, _needs_spark, progress_log(table.clock), consent=decided)
                report = self.work.about.load().run(work, options)
            except FirnlineError as error:
                report, complete = getattr(error, "report", None), False
                if not isinstance(error, _SparkNeededError):
                    self._log_figures(context, report)
                    raise
                _LOG.info("a file that came after the plan has to be read, which Spark does")
        return self._log_figures(context, report), complete

    def _log_figures(self, context: Context, report: Figures | None) -> dict[str, Any]:
        if report is None:
            return {}
        figures = report.to_json()
        log_page(self.work.report_page(figures))
        # Pushed here: a task that fails or skips itself returns no value.
        context["ti"].xcom_push("return_value", shortened(figures))
        return figures

    def _tell(self, context: Context, settings: TableSettings, figures: dict[str, Any]) -> None:
        """Tell of files that cannot be taken; skip if the run has imported nothing."""
        from firnline.operations.import_files.pages import bad_text

        context["ti"].xcom_push("return_value", shortened(figures))
        if bad := bad_text(figures["bad"]):
            sentence = f"an import into table {settings.name} has left out {bad}"
            tell(settings.alerts, f"table {settings.name}", context, LEFT_OUT, sentence)
        # An earlier try may have imported the files and died before it reported.
        if not figures["log_files"] and context["ti"].try_number == first_try(context):
            said = "; ".join(filter(None, ("nothing was to be imported", bad)))
            say(context, said)
            raise AirflowSkipException(f"{settings.name}: {said}")


def _added(first: Mapping[str, Any], then: dict[str, Any]) -> dict[str, Any]:
    """Return the figures of what was copied before a Spark job with those of the job."""
    if not first or not then:
        return {**first, **then}
    return {
        name: first[name] + value if name in _SUMMED or isinstance(value, list) else value
        for name, value in then.items()
    }


_SUMMED = ("files", "rows", "bytes", "copies", "anew", "parts_written")
