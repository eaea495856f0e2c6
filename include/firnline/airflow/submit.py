"""Submitting a Spark job of ours: with the store's credentials, and with failures told apart.

Client mode (local, standalone, and the default everywhere): the driver is a child of the task and
gets the credentials through its environment. Cluster modes: the driver runs elsewhere and uses the
identity of its platform; nothing secret is passed.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from airflow.sdk import Connection
from airflow.sdk.exceptions import AirflowException

from firnline.airflow.failures import as_airflow
from firnline.airflow.job_output import JobFailure, failure_in
from firnline.errors import EnvironmentFaultError

_RETRY_EXIT_CODES = range(128, 256)
"""Ended by a signal (128 + its number): the out-of-memory killer, a worker that was drained."""


class SubmitHook(SparkSubmitHook):
    """Airflow's hook, which cannot hand over an environment without showing it on some masters.

    Args:
        driver_env: environment of the driver in client mode, secrets included; over the task's.
        more: as for SparkSubmitHook.
    """

    def __init__(self, *, driver_env: Mapping[str, str], **more: Any) -> None:
        super().__init__(**more)
        self._driver_env = dict(driver_env)
        self._told: JobFailure | None = None

    @property
    def is_client_mode(self) -> bool:
        """Whether the driver is a child of this process."""
        return bool(self._connection["deploy_mode"] != "cluster")

    def check(self) -> None:
        """See before anything starts that it can.

        Raises:
            EnvironmentFaultError: no spark-submit, no Java, or a master that runs no Python.
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
        """Run spark-submit to its end.

        Raises:
            AirflowFailException: the job said why it failed, and a retry cannot mend that.
            AirflowException: it failed for a reason that may pass, or none was given.
        """
        if self.is_client_mode:
            kwargs["env"] = self._client_environment()
        try:
            # Airflow's hook is typed without its return value.
            driver: str | None = super().submit(application, **kwargs)
        except AirflowException as error:
            raise self._as_told(error) from None
        return driver

    def _client_environment(self) -> dict[str, str]:
        env = {**os.environ, **self._driver_env}
        # The driver needs the packages that this task has; executors only where they share its
        # machine, elsewhere spark.pyspark.python or the image says which Python they run.
        env.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
        if str(self._connection["master"]).startswith("local"):
            env.setdefault("PYSPARK_PYTHON", sys.executable)
        return env

    def _process_spark_submit_log(self, itr: Iterable[Any]) -> None:
        super()._process_spark_submit_log(self._listen(itr))

    def _listen(self, lines: Iterable[Any]) -> Iterator[Any]:
        for line in lines:
            self._told = failure_in(str(line)) or self._told
            yield line

    def _as_told(self, error: AirflowException) -> AirflowException:
        if self._told is not None:
            return as_airflow(self._told.sentence, retryable=self._told.retryable)
        code = self._submit_sp.returncode if self._submit_sp is not None else None
        if code is not None and (code < 0 or code in _RETRY_EXIT_CODES):
            return AirflowException(
                f"the Spark application {self._name} was killed (exit code {code}); what it had "
                "committed stays, the next try goes on from there"
            )
        if code:
            return AirflowException(
                f"the Spark application {self._name} failed with exit code {code} before firnline "
                "could say why; read what Spark says above"
            )
        return error


def refuse_unusable(connection: Connection) -> None:
    """Before Airflow's hook stumbles over it.

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
    """Attributes of Airflow's operator that a driver which runs elsewhere asks for.

    The operator wants to know them when the DAG is made, and refuses them where they do not fit;
    but the kind of cluster stands in the connection, which is read when the task runs.
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
    # Without that address nobody can ask for a job of an earlier try: spark-submit itself waits.
    return {"durable": False}


def _spark_submit(binary: str) -> str:
    # Beside this Python is where pip puts it; a worker's PATH often lacks that folder.
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
