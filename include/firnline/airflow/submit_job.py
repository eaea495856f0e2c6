"""The task that submits a Spark job of ours. How it is submitted: ``firnline.airflow.submit``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import Asset

from firnline.airflow.access import driver_environment, open_in_task, spark_connection, store_access
from firnline.airflow.failures import airflow_failures
from firnline.airflow.links import RunLink
from firnline.airflow.runs import run_identity
from firnline.airflow.submit import SubmitHook, deploy_options, refuse_unusable
from firnline.airflow.tasks import begin, committed
from firnline.airflow.work import SparkWork
from firnline.errors import EnvironmentFaultError
from firnline.settings.load import TableSettings
from firnline.settings.spark_conf import with_defaults

if TYPE_CHECKING:
    from airflow.sdk import Context

    from firnline.airflow.once import Once

OPTIONS_VARIABLE = "FIRNLINE_JOB_OPTIONS"
"""The options of the job as JSON: argument lists are for everybody to read, environments not."""


class SubmitJob(SparkSubmitOperator):
    """Runs ``spark_jobs/<job>`` on the table's cluster, once what it needs is known.

    It hands nothing on: a ``ReportRun`` after it reads what the run committed. A run that was done
    before skips it (``firnline.airflow.once``); one that ends well is recorded as done.

    Args:
        work: what to do.
        table: on which table.
        jobs: the folder ``spark_jobs``.
        asset: of the table, as an inlet.
        more: as for SparkSubmitOperator; ``pool`` among it.
    """

    operator_extra_links = (RunLink(),)
    reports_in = "report"
    """Id of the ReportRun after it."""

    def __init__(
        self, *, work: SparkWork[Any], table: TableSettings, jobs: Path, asset: Asset, **more: Any
    ) -> None:
        super().__init__(
            application=str(jobs / work.job),
            conn_id=table.spark.conn_id,
            name=f"firnline {work.operation} {table.name}",
            inlets=[asset],
            **more,
        )
        self.work = work
        self.table = table
        self._options: str | None = None

    def execute(self, context: Context) -> None:
        """Submit and wait for the end. The run's identity goes into the table's history."""
        with airflow_failures():
            options = self.work.asked(context)
            self.work.permit(context, self.table)
            before = self._begin(context)
            if before is not None and before.is_done:
                return
            connection = spark_connection(self.table)
            refuse_unusable(connection)
            merge = self.table.merge
            self.conf = with_defaults(
                self.table.spark.conf, merge.kernel_memory, merge.kernel_threads
            )
            self.application_args = [
                *job_arguments(self.table, context),
                *self.work.job_arguments(options),
            ]
            self._options = self.work.job_options(options)
            if connection.extra_dejson.get("deploy-mode") == "cluster":
                self._tell_elsewhere(options)
            for name, value in deploy_options(connection).items():
                setattr(self, name, value)
            self._hook = self._get_hook()
            self._hook.check()
        super().execute(context)
        if before is not None:
            with airflow_failures():
                before.record(committed(before.table, context))

    def _begin(self, context: Context) -> Once | None:
        return begin(self.work, open_in_task(self.table), context) if self.work.once else None

    def _tell_elsewhere(self, options: object) -> None:
        """The driver runs elsewhere and has another environment: the options become arguments."""
        instead = self.work.confidential(options)
        if instead is not None:
            raise EnvironmentFaultError(
                f"the Airflow connection {self.table.spark.conn_id!r} asks for cluster mode, where "
                f"what {self.work.noun} of table {self.table.name} is to do would stand in "
                "argument lists",
                next_step=instead,
            )
        self.application_args = [*(self.application_args or []), f"--options={self._options}"]
        self._options = None

    def _get_hook(self) -> SubmitHook:
        env = driver_environment(store_access(self.table))
        return SubmitHook(
            driver_env={**env, OPTIONS_VARIABLE: self._options} if self._options else env,
            conf=self.conf,
            conn_id=self._conn_id,
            name=self.name,
            application_args=self.application_args,
            track_driver_via_k8s_api=self._track_driver_via_k8s_api,
            yarn_track_via_rm_api=self._yarn_track_via_rm_api,
        )


def job_arguments(table: TableSettings, context: Context) -> list[str]:
    """Arguments of the job: which table and who works on it; nothing secret."""
    run = run_identity(context)
    arguments = {
        "--dag-id": run.dag_id,
        "--run-id": run.run_id,
        "--try-number": str(run.try_number),
        "--user": run.user,
    }
    return [table.name, *(f"{name}={value}" for name, value in arguments.items() if value)]
