"""The tasks of every operation's DAG: plan, run (in the task itself), report.

Spark jobs are submitted by ``firnline.airflow.submit``. Figures are plain data, cut for XCom
(``firnline.airflow.figures.shortened``).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from airflow.sdk import BaseOperator

from firnline.airflow.access import open_in_task
from firnline.airflow.failures import airflow_failures
from firnline.airflow.figures import shortened
from firnline.airflow.links import RunLink
from firnline.airflow.mirror import publish
from firnline.airflow.once import Once, as_transactions, once
from firnline.airflow.runs import first_try, run_identity
from firnline.airflow.said import changed_sentence, say, with_head
from firnline.airflow.tables import MIRROR, DagTable
from firnline.airflow.versions import AirflowSkipException, DownstreamTasksSkipped
from firnline.airflow.work import InTaskWork, SparkWork, Work, began_by_itself
from firnline.errors import FirnlineError, NoTableError
from firnline.operations.operation import Figures

if TYPE_CHECKING:
    from airflow.sdk import Context

    from firnline.clock import Clock
    from firnline.log.txn_file import TxnHeader
    from firnline.pages import Page
    from firnline.table import Table

_LOG = logging.getLogger(__name__)

_PROGRESS_MS = 10_000
"""Milliseconds between two progress lines."""


class PlanOperation(BaseOperator):
    """Plans without Spark and outside the pool; the last task if there is nothing to do.

    XCom: the plan's figures and ``dry_run``; ``said`` of a run that ends here
    (``firnline.airflow.said``). With nothing to do, for a dry run and for a run that was done
    before (``firnline.airflow.once``; XCom ``done_before`` says so), the direct downstream tasks
    are skipped, and with them all tasks that need their success.

    Args:
        work: the work to plan.
        table: the table that the DAG works on.
        more: as for BaseOperator.
    """

    def __init__(self, *, work: Work[Any], table: DagTable, **more: Any) -> None:
        super().__init__(**more)
        self.work = work
        self.table = table

    def execute(self, context: Context) -> dict[str, Any]:
        """Plan and log the plan. Skips downstream tasks if there is nothing to do."""
        with airflow_failures():
            options = self.work.parse_params(context)
            if (why := self.idle(context)) is not None:
                self._skip(context, {}, why)
            table = open_in_task(self.table.of_run(context))
            before = self.skip_done(context, table)
            made = self._planned(context, table, options)
            if before is not None and made.idle:
                before.record(())
        made.log()
        if made.ends:
            self._skip(context, made.figures, made.ends, made.said)
        self.skip_spare(context, made.figures)
        return made.figures

    def _planned(self, context: Context, table: Table, options: object) -> MadePlan:
        """Return the plan. A run of the schedule ends here where nobody has appended yet."""
        try:
            return make_plan(self.work, table, options, context)
        except NoTableError:
            if not began_by_itself(context):
                raise
            self._skip(context, {}, "there is no table yet: nobody has appended to it")

    def idle(self, context: Context) -> str | None:  # noqa: ARG002 - for subclasses
        """Return the reason to skip planning; None to plan."""
        return None

    def skip_done(self, context: Context, table: Table) -> Once | None:
        """Skip downstream tasks if the run was done before; return its record otherwise."""
        before = once(self.work, table, context)
        if before is not None and before.is_done:
            self._skip(context, {**before.figures, "dry_run": False}, before.sentence)
        return before

    def spare(self, context: Context, figures: dict[str, Any]) -> list[str]:  # noqa: ARG002 - for subclasses
        """Return the tasks that have nothing to do in a run that goes on.

        That of the mirrors in a DAG for all tables whose run names one without any.
        """
        return [MIRROR] if self.table.mirrored and not self.table.of_run(context).mirrors else []

    def skip_spare(self, context: Context, figures: dict[str, Any]) -> None:
        """Skip the tasks of ``spare``."""
        if spare := self.spare(context, figures):
            context["ti"].xcom_push("return_value", figures)
            raise DownstreamTasksSkipped(tasks=spare)  # type: ignore[no-untyped-call] # Airflow's

    def _skip(
        self, context: Context, figures: dict[str, Any], why: str, said: str | None = None
    ) -> NoReturn:
        context["ti"].xcom_push("return_value", figures)
        say(context, said or why)
        _LOG.info("%s: %s", self.table.of_run(context).name, why)
        raise DownstreamTasksSkipped(  # type: ignore[no-untyped-call] # Airflow's
            tasks=sorted(self.downstream_task_ids)
        )


@dataclass(frozen=True, slots=True)
class MadePlan:
    """What a run would do, and whether it ends there."""

    figures: dict[str, Any]
    """Of the plan, cut for XCom, and ``dry_run``."""
    page: Page
    idle: bool
    """There is nothing to do."""

    @property
    def ends(self) -> str:
        """Return why the run ends with its plan; empty if it goes on."""
        if self.figures["dry_run"]:
            return "a dry run ends here"
        return "nothing to do" if self.idle else ""

    @property
    def said(self) -> str:
        """Return what a run that ends here says for its note."""
        if not self.figures["dry_run"]:
            return self.ends
        said = "nothing to do" if self.idle else f"{self.page.sentence}{self._as_of}"
        return f"dry run, nothing done: {said}"

    @property
    def _as_of(self) -> str:
        return f", as of transaction {self.figures['seq']}" if "seq" in self.figures else ""

    def log(self) -> None:
        """Log the plan as the command line draws it."""
        _LOG.info("the plan%s:", self._as_of)
        log_page(self.page)


def make_plan(work: Work[Any], table: Table, options: object, context: Context) -> MadePlan:
    """Plan, once the table says what the settings say where that is harmless.

    Raises FirnlineError: settings that differ otherwise, and whatever the planner raises.
    """
    dry_run = bool(getattr(options, "dry_run", False))
    if work.about.follows_settings:
        _reconcile(table, context, dry_run=dry_run)
    plan = work.preview(table, options)
    whole = work.plan_figures(plan)
    figures = {**shortened(whole), "dry_run": dry_run}
    return MadePlan(figures, work.plan_page(table, whole), work.is_idle(plan))


def _reconcile(table: Table, context: Context, *, dry_run: bool) -> None:
    """Apply changed settings that are harmless; raise for those that are not."""
    from firnline.operations.properties.run import reconcile

    done = reconcile(table, run_identity(context), dry_run=dry_run)
    for change in () if done is None else done.changes:
        _LOG.info(
            "%s: %s is now %s, as the settings say (it was %s)",
            table.settings.name, change.name, change.settings, change.table,
        )  # fmt: skip


class RunInTask(BaseOperator):
    """Does the work in the task's own process, holding the table's pool; no JVM starts.

    XCom and asset event: the report's figures and, where the work changes the table,
    ``transactions`` and ``counts`` of the whole run (all tries) from the table's own history.

    Args:
        work: the work to do.
        table: the table that the DAG works on; its asset is an outlet where the work changes it.
        plan: id of the task whose XCom holds ``seq``, the transaction the run started from.
        more: as for BaseOperator; ``pool`` among it.
    """

    operator_extra_links = (RunLink(),)

    def __init__(
        self,
        *,
        work: InTaskWork[Any],
        table: DagTable,
        plan: str = "plan",
        **more: Any,
    ) -> None:
        outlets = table.outlets(work.about) if work.about.changes_table else ()
        super().__init__(inlets=list(table.inlets), outlets=list(outlets), **more)
        self.work = work
        self.table = table
        self.plan = plan

    def execute(self, context: Context) -> dict[str, Any]:
        """Do the work and report. Skips itself if nothing changed: then there is no asset event."""
        return run_in_task(self.work, self.table, context, self.plan, self.conclude)

    def conclude(self, context: Context, table: str, said: str) -> None:
        """Say what was done, for the note of the run. Overridden where a later task says more."""
        conclude(context, table, said)


def run_in_task(
    work: InTaskWork[Any],
    of: DagTable,
    context: Context,
    plan: str = "plan",
    tell: Callable[[Context, str, str], None] | None = None,
) -> dict[str, Any]:
    """Do the work in this process and report; return the figures.

    Args:
        work: the work.
        of: the table of its DAG.
        context: Airflow's.
        plan: id of the task whose XCom holds the transaction that the run started from.
        tell: says what was done; None: ``conclude``.

    Raises:
        AirflowSkipException: nothing changed, so there is to be no event.
        AirflowException: with the sentence of a FirnlineError.
    """
    tell = conclude if tell is None else tell
    with mirrored_partly(of, context, plan), airflow_failures():
        options = work.parse_params(context)
        settings = of.of_run(context)
        work.permit(context, settings)
        table = open_in_task(settings)
        before = begin(work, table, context, plan)
        if before is not None and before.is_done:
            return _tell_history(work, of, context, table, plan)
        run, progress = run_identity(context), progress_log(table.clock)
        try:
            report = work.run(table, options, run, progress)
            figures, said = _report_progress(work, of, context, table, report, plan)
            work.verdict(report)
        except FirnlineError as error:
            if (partly := getattr(error, "report", None)) is not None:
                _report_progress(work, of, context, table, partly, plan)
            raise
        if before is not None:
            before.record(figures["transactions"])
    if not work.changed(figures):
        say(context, "nothing was to be done any more")
        raise AirflowSkipException(f"{settings.name}: nothing was to be done any more")
    tell(context, settings.name, said)
    return figures


def _tell_history(
    work: Work[Any], of: DagTable, context: Context, table: Table, plan: str
) -> dict[str, Any]:
    figures = history_figures(context, table, plan)
    of.report(context, work.about, figures)
    conclude(context, table.settings.name, changed_sentence(work.about.name, figures))
    return figures


def _report_progress(
    work: Work[Any], of: DagTable, context: Context, table: Table, report: Figures, plan: str
) -> tuple[dict[str, Any], str]:
    """Log the report and hand it on; return its figures, cut, and its sentence."""
    whole = report.to_json()
    figures = shortened(whole)
    if work.about.changes_table:
        figures |= history_figures(context, table, plan)
        of.report(context, work.about, figures)
    page = work.report_page(whole)
    log_page(page)
    # Pushed here: a task that fails or skips itself returns no value.
    context["ti"].xcom_push("return_value", figures)
    return figures, with_head(page.sentence, figures)


class ReportRun(BaseOperator):
    """Reads the run's commits from the table's own history, even if the run failed half-way.

    XCom and asset event: ``transactions``, ``counts``, ``partitions`` (the first 50) and
    ``partitions_changed`` of the run, over all its tries.

    Args: as for RunInTask.
    """

    operator_extra_links = (RunLink(),)

    def __init__(
        self,
        *,
        work: SparkWork[Any],
        table: DagTable,
        plan: str = "plan",
        **more: Any,
    ) -> None:
        outlets = list(table.outlets(work.about))
        super().__init__(inlets=list(table.inlets), outlets=outlets, **more)
        self.work = work
        self.table = table
        self.plan = plan

    def execute(self, context: Context) -> dict[str, Any]:
        """Report. Skips itself if nothing was committed: then there is no asset event."""
        with airflow_failures():
            table = open_in_task(self.table.of_run(context))
            figures = self.figures(context, table)
        self.table.report(context, self.work.about, figures)
        if not figures["transactions"]:
            context["ti"].xcom_push("return_value", figures)
            say(context, "nothing was committed")
            raise AirflowSkipException(f"this run committed nothing to {table.settings.name}")
        for line in self.work.report_lines(figures):
            _LOG.info(line)
        conclude(context, table.settings.name, self.work.report_sentence(figures))
        return figures

    def figures(self, context: Context, table: Table) -> dict[str, Any]:
        """Return the figures to report."""
        return history_figures(context, table, self.plan)


def history_figures(context: Context, table: Table, plan: str = "plan") -> dict[str, Any]:
    """Return this run's commits so far, over all its tries, as plain data cut for XCom.

    Requests: 1 LIST and one ranged GET per transaction since the run's plan.
    """
    from firnline.state.history import run_report

    report = run_report(table, run_identity(context), _planned_on(context, plan) or 0)
    return {
        **shortened(report.to_json()),
        "transactions": list(report.transactions),
        "partitions_changed": len(report.partitions),
    }


def begin(work: Work[Any], table: Table, context: Context, plan: str = "plan") -> Once | None:
    """Return the run's record before its task works; None for work that may be repeated freely.

    It ``is_done`` if an earlier try of this task has committed everything and died before it
    recorded that: then nothing is left to do.

    Requests: those of ``once``; for a retry of work of one transaction those of
    ``history_figures`` and 1 PUT where it has committed.

    Raises:
        AirflowSkipException: the run was done before.
    """
    before = once(work, table, context)
    if before is None:
        return None
    if before.is_done:
        context["ti"].xcom_push("return_value", before.figures)
        say(context, before.sentence)
        raise AirflowSkipException(before.sentence)
    is_retry = context["ti"].try_number > first_try(context)
    if work.about.one_transaction and is_retry and _planned_on(context, plan) is not None:
        mine = _headers(table, context, plan)
        if any(header.op == work.about.one_transaction for header in mine):
            before = before.record(_numbers(mine))
            _LOG.info("an earlier try of this run committed it %s", as_transactions(_numbers(mine)))
    return before


@contextmanager
def mirrored_partly(table: DagTable, context: Context, plan: str = "plan") -> Iterator[None]:
    """Publish what a task has committed if it fails: the task of the mirrors does not run then.

    An error within is raised as it is. Requests: none unless it fails and the table has a mirror;
    then those of ``history_figures``, and of ``run_mirror`` if the run has committed something.
    """
    try:
        yield
    except (AirflowSkipException, DownstreamTasksSkipped):
        raise
    except Exception:
        _publish_partly(table, context, plan)
        raise


def _publish_partly(table: DagTable, context: Context, plan: str) -> None:
    try:
        settings = table.of_run(context)
        if settings.mirrors and committed(open_in_task(settings), context, plan):
            _LOG.info("%s", publish(settings, context)["said"])
    except Exception:  # noqa: BLE001 - the task fails with its own error, which says what to do
        _LOG.warning("the next publication shows what this run has committed", exc_info=True)


def committed(table: Table, context: Context, plan: str = "plan") -> tuple[int, ...]:
    """Return the run's transactions since its plan, all tries. Requests: as history_figures."""
    return _numbers(_headers(table, context, plan))


def log_page(page: Page) -> None:
    """Log the lines of a page."""
    for line in page.lines():
        _LOG.info("%s", line)


def conclude(context: Context, table: str, sentence: str) -> None:
    """Say a sentence on the run of a table, for its note, and log it as the task's last line."""
    say(context, sentence)
    _LOG.info("%s: %s", table, sentence)


def _headers(table: Table, context: Context, plan: str) -> list[TxnHeader]:
    from firnline.state.history import transactions_of

    return transactions_of(table, run_identity(context), _planned_on(context, plan) or 0)


def _numbers(headers: Iterable[TxnHeader]) -> tuple[int, ...]:
    return tuple(sorted(header.seq for header in headers))


def _planned_on(context: Context, plan: str) -> int | None:
    """Return the transaction that the run's plan is based on; None if its XCom has none."""
    planned = context["ti"].xcom_pull(task_ids=plan)
    seq = planned.get("seq") if isinstance(planned, dict) else None
    return None if seq is None else int(seq)


def progress_log(clock: Clock) -> Callable[[object], None]:
    """Return an ``on_progress`` callback that logs progress at most every 10 s."""
    last = clock.elapsed_ms()

    def tell(progress: object) -> None:
        nonlocal last
        now = clock.elapsed_ms()
        if now - last >= _PROGRESS_MS:
            last = now
            _LOG.info("%s", progress)

    return tell
