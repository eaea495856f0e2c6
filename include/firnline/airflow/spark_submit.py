"""spark-submit in a task: the hook, and what is checked before it starts.

Client mode (local, standalone, and the default everywhere): the driver is a child of the task and
gets the credentials through its environment. Cluster modes: the driver runs elsewhere and uses the
identity of its platform; no secret is passed.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from airflow.sdk import Connection

from firnline.airflow.job_output import JobOutput
from firnline.airflow.said import say_failure
from firnline.airflow.supervisors import job_environment
from firnline.airflow.versions import AirflowException
from firnline.errors import EnvironmentFaultError


class SubmitHook(SparkSubmitHook):
    """Airflow's hook plus a private driver environment, which on some masters it would expose.

    Args:
        driver_env: variables of the driver in client mode, secrets included; override the task's.
        more: as for SparkSubmitHook.
    """

    def __init__(self, *, driver_env: Mapping[str, str], **more: Any) -> None:
        super().__init__(**more)
        self._driver_env = dict(driver_env)
        self.output = JobOutput()
        """What the job has said; without a report if its driver runs elsewhere."""

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
        env = job_environment(self._driver_env)
        # The driver needs the packages of this task. Executors need them only on the same machine;
        # elsewhere spark.pyspark.python or the image determines their Python.
        env.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
        if str(self._connection["master"]).startswith("local"):
            env.setdefault("PYSPARK_PYTHON", sys.executable)
        return env

    def _process_spark_submit_log(self, itr: Iterable[Any]) -> None:
        super()._process_spark_submit_log(self.output.listen(itr))

    def _as_told(self, error: AirflowException) -> AirflowException:
        code = self._submit_sp.returncode if self._submit_sp is not None else None
        return self.output.failure(self._name, code) or error


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
