"""The import of folders as DAG tasks see it: the store copies files, and Spark reads the others."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NoReturn

from airflow.sdk.exceptions import AirflowSkipException

from firnline.airflow.access import open_in_task
from firnline.airflow.alerts import tell
from firnline.airflow.failures import airflow_failures
from firnline.airflow.figures import shortened
from firnline.airflow.runs import first_try, run_identity
from firnline.airflow.said import say
from firnline.airflow.submit import SubmitJob
from firnline.airflow.tasks import conclude, progress_log
from firnline.airflow.work import SparkWork
from firnline.errors import FirnlineError
from firnline.operations.import_options import ImportFoldersOptions
from firnline.operations.operation import Work, decided
from firnline.operations.registry import IMPORT
from firnline.units import about_size, counted

if TYPE_CHECKING:
    from airflow.sdk import Context

    from firnline.airflow.tables import DagTable
    from firnline.operations.operation import Figures
    from firnline.settings.load import TableSettings

_LOG = logging.getLogger(__name__)

LEFT_OUT = "files_left_out"
"""Reason with which a notifier is called for files that cannot be taken."""
_SHOWN = 20
_ELSEWHERE = "imported; how much is in the log of its driver"


class _SparkNeededError(FirnlineError):
    """Rows have to be read, which the task does not do itself."""


class ImportWork(SparkWork[ImportFoldersOptions]):
    """Takes the new files of folders into the table."""

    about = IMPORT

    def plan_lines(self, figures: Mapping[str, Any]) -> list[str]:
        """Return totals, each folder, and what is left out."""
        return [_amounts("to import", figures), *_beside(figures)]

    def plan_sentence(self, figures: Mapping[str, Any]) -> str:
        """Return totals with what is left out."""
        return _sentence("to import", figures)

    def report_lines(self, figures: Mapping[str, Any]) -> list[str]:
        """Return totals, each folder, and what was left out."""
        return [_amounts("imported", figures), *_beside(figures)]

    def report_sentence(self, figures: Mapping[str, Any]) -> str:
        """Return totals with what was left out."""
        return _sentence("imported", figures)


def _amounts(done: str, figures: Mapping[str, Any]) -> str:
    rows, size = counted(figures["rows"], "row"), about_size(figures["bytes"])
    anew = f", {figures['anew']:,} written anew" if figures["anew"] else ""
    parts = figures.get("parts_written", 0)
    as_parts = f" as {counted(parts, 'part')}" if parts else ""
    how = f"{figures['copies']:,} copied{anew}{as_parts}"
    return f"{done}: {counted(figures['files'], 'file')} of {rows} ({size}), {how}"


def _beside(figures: Mapping[str, Any]) -> list[str]:
    lines = [
        f"from {each['source']}: {counted(each['files'], 'file')}, {counted(each['rows'], 'row')}"
        for each in figures["folders"]
    ]
    lines += [f"imported before: {counted(figures['known'], 'file')}"] * bool(figures["known"])
    lines += [f"left out: {counted(n, 'object')}: {why}" for why, n in figures["left_out"].items()]
    bad = figures["bad"]
    lines += [f"cannot be taken: {each['reason']}; {each['next_step']}" for each in bad[:_SHOWN]]
    more = _bad_count(figures) - len(bad[:_SHOWN])
    return lines + ([f"cannot be taken: {counted(more, 'file')} more"] if more else [])


def _bad_count(figures: Mapping[str, Any]) -> int:
    return int(figures.get("bad_in_all", len(figures["bad"])))


def _sentence(done: str, figures: Mapping[str, Any]) -> str:
    left_out = ", ".join(
        f"{counted(n, 'object')} ({why})" for why, n in figures["left_out"].items()
    )
    told = [_amounts(done, figures), f"left out: {left_out}" if left_out else "", _bad(figures)]
    return "; ".join(filter(None, told))


def _bad(figures: Mapping[str, Any]) -> str:
    """Return how many files cannot be taken, and why the first; empty without any."""
    count = _bad_count(figures)
    if not count:
        return ""
    which = "that cannot be taken" + ("" if count == 1 else ", the first")
    return f"{counted(count, 'file')} {which}: {figures['bad'][0]['reason']}"


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

    reports_in = IMPORT.dag

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
        if not complete:
            figures = _added(figures, self.execute_and_report(context))
        settings = self.table.of_run(context)
        if figures:
            self._tell(context, settings, figures)
        self.table.report(context, self.work.about, figures)
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
        figures = shortened(report.to_json())
        for line in self.work.report_lines(figures):
            _LOG.info(line)
        # Pushed here: a task that fails or skips itself returns no value.
        context["ti"].xcom_push("return_value", figures)
        return figures

    def _tell(self, context: Context, settings: TableSettings, figures: dict[str, Any]) -> None:
        """Tell of files that cannot be taken; skip if the run has imported nothing."""
        context["ti"].xcom_push("return_value", figures)
        if bad := _bad(figures):
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
