"""The task that runs a Spark job, wherever the settings or the connection of the table say.

By spark-submit, in a child process without Spark or of a Connect server, or on a platform of its
own. Which it is makes no difference to params, history, retries and what a failure says.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import Connection

from firnline.airflow.access import driver_environment, open_in_task, spark_connection, store_access
from firnline.airflow.child import ChildJob
from firnline.airflow.elsewhere import (
    Elsewhere,
    late,
    raise_failure,
    refuse_confidential,
)
from firnline.airflow.failures import airflow_failures
from firnline.airflow.figures import shortened
from firnline.airflow.links import RunLink
from firnline.airflow.platforms import launcher_of
from firnline.airflow.runs import run_identity
from firnline.airflow.spark_submit import SubmitHook, deploy_options, refuse_unusable
from firnline.airflow.tables import DagTable
from firnline.airflow.tasks import begin, committed, mirrored_partly
from firnline.airflow.versions import tracked
from firnline.airflow.waiting import LATE, LOST, JobTrigger
from firnline.airflow.work import SparkWork
from firnline.clock import SystemClock
from firnline.errors import EnvironmentFaultError, JobFailedError, PlatformError
from firnline.operations.job_variables import OPTIONS_VARIABLE
from firnline.settings.launchers import PLATFORMS, Launcher
from firnline.settings.load import TableSettings
from firnline.settings.spark_conf import conf_of

if TYPE_CHECKING:
    from airflow.sdk import Context

    from firnline.airflow.once import Once
    from firnline.launch.launcher import Found, Progress

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Run:
    """What a task of a run is to do."""

    table: TableSettings
    options: Any
    told: str
    """The options as JSON, for the job."""
    approved_by: str
    launcher: Launcher
    before: Once | None


class SubmitJob(SparkSubmitOperator):
    """Runs ``spark_jobs/<job>`` where the table's jobs run.

    It has no XCom: a ``ReportRun`` after it reads the run's commits. It is skipped if the run was
    done before (``firnline.airflow.once``); a run that succeeds is recorded as done.

    Args:
        work: the work to do.
        table: the table that the DAG works on.
        jobs: the folder ``spark_jobs``.
        more: as for SparkSubmitOperator; ``pool`` among it.
    """

    operator_extra_links = (RunLink(),)
    reports_in: str = "report"
    """Id of the ReportRun after it."""
    may_defer = True
    """False for a subclass that goes on with what only this process knows."""
    keeps_report = False
    """True for a subclass whose XCom is the figures of the job's report, also if it fails."""

    def __init__(self, *, work: SparkWork[Any], table: DagTable, jobs: Path, **more: Any) -> None:
        super().__init__(
            application=str(jobs / work.job),
            name=f"firnline {work.operation}",
            inlets=list(table.inlets),
            **more,
        )
        self.work = work
        self.table = table
        self.report: dict[str, Any] | None = None
        """Figures of the job's report, once there are any."""
        self._options: str | None = None
        self._access: dict[str, str] = {}
        self._child: ChildJob | None = None
        self._elsewhere: tuple[Elsewhere, Found] | None = None

    def execute(self, context: Context) -> None:
        """Run the job and wait for its end; the run's identity goes into the table's history."""
        self.launch(context, {})

    def launch(self, context: Context, carried: dict[str, Any]) -> None:
        """Run the job, here or elsewhere, and wait for its end, if need be in a trigger.

        Args:
            context: of the task.
            carried: plain data that ``concluded`` gets.
        """
        run = self._begin(context)
        if run is None:
            self.concluded(context, carried)
            return
        with self._reporting(context):
            if run.launcher == "spark-submit":
                self._submit(context, run)
            elif run.launcher in PLATFORMS:
                self._start_elsewhere(context, run, carried)
            else:
                self._run_child(context, run)
        self._end(context, run, carried)

    def resume(self, context: Context, event: Mapping[str, Any], carried: dict[str, Any],
               job: dict[str, str]) -> None:  # fmt: skip
        """Go on once the trigger has seen the end of the job.

        Args:
            context: of the task.
            event: of ``JobTrigger``.
            carried: as ``launch`` was given it.
            job: id and name of the job, as ``Found`` has them.
        """
        from firnline.launch.launcher import Found

        run = self._begin(context)
        if run is None:
            self.concluded(context, carried)
            return
        with self._reporting(context), airflow_failures():
            self._hear(context, run, event, Found(**job), carried)
        self._end(context, run, carried)

    def concluded(self, context: Context, carried: dict[str, Any]) -> None:
        """Do what a subclass does once the job has succeeded; ``report`` is its, if it came."""

    def on_kill(self) -> None:
        """End the job: the task was cleared, failed, marked or is out of time."""
        if self._elsewhere is not None:
            where, found = self._elsewhere
            where.cancel(found)
        elif self._child is not None:
            self._child.end()
        elif isinstance(self._hook, SubmitHook):
            super().on_kill()

    # --- before and after -------------------------------------------------------------------------

    def _begin(self, context: Context) -> _Run | None:
        """Return what is to be done; None if an earlier try has done it."""
        with airflow_failures():
            options = self.work.parse_params(context)
            table = self.table.of_run(context)
            self.work.permit(context, table)
            before = begin(self.work, open_in_task(table), context) if self.work.once else None
            if before is not None and before.is_done:
                return None
            launcher = launcher_of(table.spark, lambda: spark_connection(table))
            told, by = self.work.job_options(options), self.work.approved_by(options)
            return _Run(table, options, told, by, launcher, before)

    @contextmanager
    def _reporting(self, context: Context) -> Iterator[None]:
        """Keep the figures of the report, and publish what a job that fails has committed."""
        try:
            with mirrored_partly(self.table, context):
                yield
        finally:
            if self.keeps_report and self.report is not None:
                context["ti"].xcom_push("return_value", shortened(self.report))

    def _end(self, context: Context, run: _Run, carried: dict[str, Any]) -> None:
        if run.before is not None and self.work.completes(run.options):
            with airflow_failures():
                run.before.record(committed(run.before.table, context))
        self.concluded(context, carried)

    # --- by spark-submit --------------------------------------------------------------------------

    def _submit(self, context: Context, run: _Run) -> None:
        with airflow_failures():
            connection = spark_connection(run.table)
            refuse_unusable(connection)
            self._take_settings(context, run, connection)
            for name, value in deploy_options(connection).items():
                setattr(self, name, value)
            self._hook = self._get_hook()
            self._hook.check()
        try:
            super().execute(context)
        finally:
            self.report = self._hook.output.report

    def _take_settings(self, context: Context, run: _Run, connection: Connection) -> None:
        """Set the operator's attributes that depend on the table, which only a run may name."""
        table = run.table
        in_cluster = connection.extra_dejson.get("deploy-mode") == "cluster"
        self._conn_id = table.spark.conn_id
        self.name = f"firnline {self.work.operation} {table.name}"
        # Nine of ten lines of a driver are Spark's own otherwise. In cluster mode Airflow reads the
        # id of the application from them.
        quiet = {} if in_cluster else {"spark.log.level": "WARN"}
        self.conf = {**quiet, **conf_of(table)}
        self._access = driver_environment(store_access(table))
        self.application_args = job_arguments(table, context, run.approved_by)
        self._options = run.told
        if in_cluster:
            self._tell_elsewhere(run)

    def _tell_elsewhere(self, run: _Run) -> None:
        """Pass the options as arguments: a remote driver does not get this environment."""
        instead = self.work.confidential(run.options)
        if instead is not None:
            raise EnvironmentFaultError(
                f"the Airflow connection {run.table.spark.conn_id!r} asks for cluster mode, where "
                f"what {self.work.noun} of table {run.table.name} is to do would stand in "
                "argument lists",
                next_step=instead,
            )
        self.application_args = [*(self.application_args or []), f"--options={run.told}"]
        self._options = None

    def _get_hook(self) -> SubmitHook:
        told = {OPTIONS_VARIABLE: self._options} if self._options else {}
        return SubmitHook(
            driver_env={**self._access, **told},
            conf=self.conf,
            conn_id=self._conn_id,
            name=self.name,
            application_args=self.application_args,
            **tracked(self),
        )

    # --- in a child process -----------------------------------------------------------------------

    def _run_child(self, context: Context, run: _Run) -> None:
        """Run the job's file by a Python of this machine."""
        table = run.table
        with airflow_failures():
            env = {**driver_environment(store_access(table)), OPTIONS_VARIABLE: run.told}
            arguments = job_arguments(table, context, run.approved_by)
            if run.launcher == "connect":
                env["SPARK_REMOTE"] = connect_url(spark_connection(table))
            else:
                arguments.append("--no-spark")
            name = f"firnline {self.work.operation} {table.name}"
            command = [self.application, *arguments]
            self._child = ChildJob(name, command, env, table.spark.python)
            try:
                self._child.run(_LOG.info)
            finally:
                self.report = self._child.output.report

    # --- elsewhere --------------------------------------------------------------------------------

    def _start_elsewhere(self, context: Context, run: _Run, carried: dict[str, Any]) -> None:
        with airflow_failures():
            instead = self.work.confidential(run.options)
            if instead is not None:
                refuse_confidential(run.table, run.launcher, self.work.noun, instead)
            where = self._of(context, run)
            within = self.execution_timeout or timedelta(milliseconds=run.table.commit_ttl)
            found = where.begin(context, self.work.about.name, run.told, run.approved_by, within)
            if not found.job:
                self._take(context, run, where, found, None, carried)
                return
            if self.may_defer and where.defers():
                self._defer(where, found, carried, within)
            self._elsewhere = (where, found)
            progress = where.wait(found)
            self._elsewhere = None
            self._take(context, run, where, found, progress, carried)

    def _of(self, context: Context, run: _Run) -> Elsewhere:
        return Elsewhere.of(run.table, run.launcher, self.work.about.name, context, run.told)

    def _defer(
        self, where: Elsewhere, found: Found, carried: dict[str, Any], within: timedelta
    ) -> None:
        """Give the worker free until a trigger has seen the end of the job. Raises TaskDeferred."""
        until_ms = SystemClock().now_ms() + int(within.total_seconds() * 1000)
        table = where.table.model_dump_json()
        self.defer(
            trigger=JobTrigger(table, where.launcher, found.job, found.name, until_ms),
            method_name="resume",
            kwargs={"carried": carried, "job": found._asdict()},
        )

    def _hear(
        self,
        context: Context,
        run: _Run,
        event: Mapping[str, Any],
        found: Found,
        carried: dict[str, Any],
    ) -> None:
        """Take what the trigger has seen."""
        from firnline.launch.launcher import Progress

        where, state, detail = self._of(context, run), event["state"], event["detail"]
        if state == LATE:
            where.cancel(found)
            raise late(found, where.remote.launcher.platform)
        if state == LOST:
            raise PlatformError(
                f"nobody could look at the job {found.job} any more: {detail}",
                next_step="the next try goes on with it, or with what it had committed",
            )
        self._take(context, run, where, found, Progress(state, detail), carried)

    def _take(
        self,
        context: Context,
        run: _Run,
        where: Elsewhere,
        found: Found,
        progress: Progress | None,
        carried: dict[str, Any],
    ) -> None:
        """Take the outcome of a job that has ended. Raises its error.

        A task that is cleared begins again while the job of the try before is being cancelled.
        """
        cancelled = progress is not None and progress.state == "cancelled"
        try:
            outcome = where.remote.conclude(found, progress)
        except JobFailedError:
            if not cancelled or found.number == context["ti"].try_number:
                raise
            _LOG.info("the job %s was cancelled with the try before; this try starts its own",
                      found.job)  # fmt: skip
            self._start_elsewhere(context, run, carried)
            return
        self.report = outcome.report
        raise_failure(outcome)


def connect_url(connection: Connection) -> str:
    """Return the URL of the Connect server that a connection names; it may hold a token."""
    if (connection.host or "").startswith("sc://"):
        return str(connection.host)
    from airflow.providers.apache.spark.hooks.spark_connect import SparkConnectHook

    return SparkConnectHook(connection.conn_id).get_connection_url()


def job_arguments(table: TableSettings, context: Context, approved_by: str = "") -> list[str]:
    """Return the job's arguments: the table and the identity of the run; no secrets."""
    run = run_identity(context)
    arguments = {
        "--dag-id": run.dag_id,
        "--run-id": run.run_id,
        "--task-id": run.task_id,
        "--try-number": str(run.try_number),
        "--user": run.user,
        "--approved-by": approved_by,
    }
    return [table.name, *(f"{name}={value}" for name, value in arguments.items() if value)]
