"""Submits firnline's Spark jobs with the store's credentials, and classifies their failures.

Client mode (local, standalone, and the default everywhere): the driver is a child of the task and
gets the credentials through its environment. Cluster modes: the driver runs elsewhere and uses the
identity of its platform; no secret is passed.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import Connection

from firnline.airflow.access import driver_environment, open_in_task, spark_connection, store_access
from firnline.airflow.failures import JobFailure, airflow_failures, as_airflow, failure_in
from firnline.airflow.figures import job_lines, report_in, shortened
from firnline.airflow.links import RunLink
from firnline.airflow.runs import run_identity, where_logged, who_goes_on
from firnline.airflow.said import say_failure
from firnline.airflow.settings import environment
from firnline.airflow.supervisors import supervisors_environment
from firnline.airflow.tables import DagTable
from firnline.airflow.tasks import begin, committed, mirrored_partly
from firnline.airflow.versions import AirflowException, tracked
from firnline.airflow.work import SparkWork
from firnline.errors import EnvironmentFaultError
from firnline.operations.job_variables import OPTIONS_VARIABLE
from firnline.settings.load import TableSettings
from firnline.settings.spark_conf import conf_of

if TYPE_CHECKING:
    from airflow.sdk import Context

    from firnline.airflow.once import Once

_RETRY_EXIT_CODES = range(128, 256)
"""Ended by a signal (128 + its number): the out-of-memory killer or a drained worker."""


class SubmitHook(SparkSubmitHook):
    """Airflow's hook plus a private driver environment, which on some masters it would expose.

    Args:
        driver_env: variables of the driver in client mode, secrets included; override the task's.
        more: as for SparkSubmitHook.
    """

    def __init__(self, *, driver_env: Mapping[str, str], **more: Any) -> None:
        super().__init__(**more)
        self._driver_env = dict(driver_env)
        self._told: JobFailure | None = None
        self.report: dict[str, Any] | None = None
        """Figures of the job's report; None before it, and always if its driver runs elsewhere."""

    @property
    def is_client_mode(self) -> bool:
        """Return True if the driver is a child of this process."""
        return bool(self._connection["deploy_mode"] != "cluster")

    def check(self) -> None:
        """Check that the job can start, before anything is started.

        Raises:
            EnvironmentFaultError: no spark-submit, no Java, or a master that cannot run Python.
        """
        master = str(self._connection["master"])
        if not self.is_client_mode and master.startswith("spark://"):
            raise EnvironmentFaultError(
                f"the Airflow connection {self._conn_id!r} asks for cluster mode on {master}, and "
                "a standalone cluster runs no Python application that way",
                next_step='set "deploy-mode": "client" in the extra of the connection',
            )
        self._connection["spark_binary"] = _spark_submit(str(self._connection["spark_binary"]))
        _check_java()

    def submit(self, application: str = "", **kwargs: Any) -> str | None:
        """Run spark-submit and wait for its end.

        Raises:
            AirflowFailException: the job reported a failure that a retry cannot help.
            AirflowException: it failed for a transient or an unknown reason.
        """
        if self.is_client_mode:
            kwargs["env"] = self._client_environment()
            if "spark.pyspark.python" in self._conf:
                # Of the executors: Spark would start the driver with it, too.
                self._conf.setdefault("spark.pyspark.driver.python", sys.executable)
        try:
            # Airflow's hook is typed without its return value.
            driver: str | None = super().submit(application, **kwargs)
        except AirflowException as error:
            told = self._as_told(error)
            if told is not error:
                say_failure(str(told))
            raise told from None
        return driver

    def _client_environment(self) -> dict[str, str]:
        env = {**os.environ, **environment(), **supervisors_environment(), **self._driver_env}
        # The driver needs the packages of this task. Executors need them only on the same machine;
        # elsewhere spark.pyspark.python or the image determines their Python.
        env.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
        if str(self._connection["master"]).startswith("local"):
            env.setdefault("PYSPARK_PYTHON", sys.executable)
        return env

    def _process_spark_submit_log(self, itr: Iterable[Any]) -> None:
        super()._process_spark_submit_log(self._listen(itr))

    def _listen(self, lines: Iterable[Any]) -> Iterator[Any]:
        for line in lines:
            self._told = failure_in(str(line)) or self._told
            self.report = report_in(str(line)) or self.report
            yield from job_lines(str(line))

    def _as_told(self, error: AirflowException) -> AirflowException:
        if self._told is not None:
            return as_airflow(self._told.sentence, retryable=self._told.retryable)
        code = self._submit_sp.returncode if self._submit_sp is not None else None
        if code is not None and (code < 0 or code in _RETRY_EXIT_CODES):
            return AirflowException(
                f"the Spark application {self._name} was killed (exit code {code}); what it had "
                f"committed stays; {who_goes_on()}"
            )
        if code:
            return AirflowException(
                f"the Spark application {self._name} failed with exit code {code} before firnline "
                f"could say why; read what Spark says {where_logged()}"
            )
        return error


def refuse_unusable(connection: Connection) -> None:
    """Refuse a connection that Airflow's hook cannot use, with a clear error.

    Raises:
        EnvironmentFaultError: a Spark Connect server, to which no application can be submitted, or
            Kubernetes without Airflow's provider for it.
    """
    if connection.conn_type == "spark_connect" or (connection.host or "").startswith("sc://"):
        raise EnvironmentFaultError(
            f"the Airflow connection {connection.conn_id!r} names a Spark Connect server, and the "
            "jobs are submitted as applications",
            next_step="make one of type spark whose host is the master: spark://HOST:7077, yarn, "
            "k8s://..., local[*]",
        )
    on_kubernetes = "k8s" in f"{connection.conn_type}:{connection.host}"
    if on_kubernetes and not _has_kubernetes():
        raise EnvironmentFaultError(
            f"the Airflow connection {connection.conn_id!r} names a Kubernetes master, and this "
            "worker lacks Airflow's provider for Kubernetes",
            next_step="install apache-airflow-providers-cncf-kubernetes where the worker runs",
        )


def _has_kubernetes() -> bool:
    try:
        return importlib.util.find_spec("airflow.providers.cncf.kubernetes") is not None
    except ModuleNotFoundError:  # not even the package around it
        return False


def deploy_options(connection: Connection) -> dict[str, bool]:
    """Return the attributes of Airflow's operator that a remote driver needs.

    The operator takes them when the DAG is made, and refuses those that do not fit the cluster;
    but the kind of cluster is in the connection, which is read when the task runs.
    """
    extra = connection.extra_dejson
    if extra.get("deploy-mode") != "cluster":
        return {}
    master = f"{connection.conn_type}:{connection.host}"
    if "k8s" in master:
        return {"_track_driver_via_k8s_api": True}
    if "yarn" not in master:
        return {}
    if extra.get("yarn_resourcemanager_webapp_address"):
        return {"_yarn_track_via_rm_api": True}
    # Without that address the job of an earlier try cannot be polled: spark-submit itself waits.
    return {"durable": False}


def _spark_submit(binary: str) -> str:
    # pip installs it next to this Python; a worker's PATH often lacks that folder.
    beside = Path(sys.executable).parent / binary
    found = shutil.which(binary) or (str(beside) if beside.is_file() else None)
    if found is None:
        raise EnvironmentFaultError(
            f"the program {binary} is not on the PATH of this Airflow worker",
            next_step="install pyspark where the worker runs",
        )
    return found


def _check_java() -> None:
    home = os.environ.get("JAVA_HOME")
    there = Path(home, "bin", "java").is_file() if home else shutil.which("java") is not None
    if not there:
        where = f"under JAVA_HOME={home}" if home else "on the PATH, and JAVA_HOME is not set"
        raise EnvironmentFaultError(
            f"this Airflow worker has no Java {where}, and Spark needs it",
            next_step="install Java 17 or newer where the worker runs and set JAVA_HOME to it",
        )


class SubmitJob(SparkSubmitOperator):
    """Runs ``spark_jobs/<job>`` on the table's cluster.

    It has no XCom: a ``ReportRun`` after it reads the run's commits. It is skipped if the run was
    done before (``firnline.airflow.once``); a run that succeeds is recorded as done.

    Args:
        work: the work to do.
        table: the table that the DAG works on.
        jobs: the folder ``spark_jobs``.
        more: as for SparkSubmitOperator; ``pool`` among it.
    """

    operator_extra_links = (RunLink(),)
    reports_in = "report"
    """Id of the ReportRun after it."""

    def __init__(self, *, work: SparkWork[Any], table: DagTable, jobs: Path, **more: Any) -> None:
        super().__init__(
            application=str(jobs / work.job),
            name=f"firnline {work.operation}",
            inlets=list(table.inlets),
            **more,
        )
        self.work = work
        self.table = table
        self._options: str | None = None
        self._access: dict[str, str] = {}

    def execute(self, context: Context) -> None:
        """Submit the job and wait for its end; the run's identity goes into the table's history."""
        with airflow_failures():
            options = self.work.parse_params(context)
            table = self.table.of_run(context)
            self.work.permit(context, table)
            before = self._begin(table, context)
            if before is not None and before.is_done:
                return
            connection = spark_connection(table)
            refuse_unusable(connection)
            in_cluster = connection.extra_dejson.get("deploy-mode") == "cluster"
            self._take_settings(table, in_cluster=in_cluster)
            self.application_args = [
                *job_arguments(table, context),
                *self.work.job_arguments(options),
            ]
            self._options = self.work.job_options(options)
            if in_cluster:
                self._tell_elsewhere(options, table)
            for name, value in deploy_options(connection).items():
                setattr(self, name, value)
            self._hook = self._get_hook()
            self._hook.check()
        with mirrored_partly(self.table, context):
            super().execute(context)
        if before is not None and self.work.completes(options):
            with airflow_failures():
                before.record(committed(before.table, context))

    def execute_and_report(self, context: Context) -> dict[str, Any]:
        """Submit the job; return the figures of its report, whose XCom is cut, even if it fails.

        Empty if its driver runs elsewhere, and no report came back.
        """
        figures: dict[str, Any] = {}
        try:
            SubmitJob.execute(self, context)  # not that of a subclass, which may call this
        finally:
            if isinstance(self._hook, SubmitHook) and self._hook.report is not None:
                figures = self._hook.report
                context["ti"].xcom_push("return_value", shortened(figures))
        return figures

    def _begin(self, table: TableSettings, context: Context) -> Once | None:
        return begin(self.work, open_in_task(table), context) if self.work.once else None

    def _take_settings(self, table: TableSettings, *, in_cluster: bool) -> None:
        """Set the operator's attributes that depend on the table, which only a run may name."""
        self._conn_id = table.spark.conn_id
        self.name = f"firnline {self.work.operation} {table.name}"
        # Nine of ten lines of a driver are Spark's own otherwise. In cluster mode Airflow reads the
        # id of the application from them.
        quiet = {} if in_cluster else {"spark.log.level": "WARN"}
        self.conf = {**quiet, **conf_of(table)}
        self._access = driver_environment(store_access(table))

    def _tell_elsewhere(self, options: object, table: TableSettings) -> None:
        """Pass the options as arguments: a remote driver does not get this environment."""
        instead = self.work.confidential(options)
        if instead is not None:
            raise EnvironmentFaultError(
                f"the Airflow connection {table.spark.conn_id!r} asks for cluster mode, where "
                f"what {self.work.noun} of table {table.name} is to do would stand in "
                "argument lists",
                next_step=instead,
            )
        self.application_args = [*(self.application_args or []), f"--options={self._options}"]
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


def job_arguments(table: TableSettings, context: Context) -> list[str]:
    """Return the job's arguments: the table and the identity of the run; no secrets."""
    run = run_identity(context)
    arguments = {
        "--dag-id": run.dag_id,
        "--run-id": run.run_id,
        "--task-id": run.task_id,
        "--try-number": str(run.try_number),
        "--user": run.user,
    }
    return [table.name, *(f"{name}={value}" for name, value in arguments.items() if value)]
