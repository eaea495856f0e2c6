from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import Connection
from airflow.sdk.execution_time.context import set_current_context

from firnline.airflow import versions
from firnline.airflow.merge import MergeWork
from firnline.airflow.said import SAID
from firnline.airflow.spark_submit import SubmitHook, deploy_options, refuse_unusable
from firnline.airflow.versions import AirflowException, AirflowFailException
from firnline.errors import EnvironmentFaultError
from firnline.processes import SUPERVISORS_VARIABLE, ProcessId, Supervisors
from tests.support.airflow_context import run_context

SECRET = "tell-nobody"


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A spark-submit that does what the tests say: a script in this folder, first on the PATH."""
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    connect(monkeypatch, "local[2]")
    submit_does(tmp_path, "exit 0")
    return tmp_path


def connect(monkeypatch: pytest.MonkeyPatch, host: str, **extra: str) -> None:
    fields = {"conn_type": "spark", "host": host, "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_CLUSTER", json.dumps(fields))


def submit_does(folder: Path, script: str) -> None:
    program = folder / "spark-submit"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)


def hook() -> SubmitHook:
    return SubmitHook(
        driver_env={"AWS_SECRET_ACCESS_KEY": SECRET},
        conn_id="cluster",
        conf={"spark.some": "conf"},
        name="a job",
        application_args=["table", "--run-id=r"],
    )


def failure(script: str, folder: Path) -> AirflowException:
    submit_does(folder, script)
    with pytest.raises(AirflowException) as raised:
        hook().submit("job.py")
    return raised.value


def told(*, retryable: bool) -> str:
    error = {"message": "the store did not answer", "next_step": "wait", "retryable": retryable}
    return f"echo 'other output'; echo '{json.dumps({'error': error})}' >&2; exit 1"


def test_the_driver_has_the_credentials_in_its_environment_and_not_in_its_arguments(
    cluster: Path,
) -> None:
    submit_does(cluster, f'env > {cluster}/env; echo "$@" > {cluster}/args')
    hook().submit("job.py")
    assert f"AWS_SECRET_ACCESS_KEY={SECRET}" in (cluster / "env").read_text().splitlines()
    arguments = (cluster / "args").read_text()
    assert SECRET not in arguments
    assert "--master local[2] --conf spark.some=conf" in arguments
    assert arguments.strip().endswith("job.py table --run-id=r")


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize(
    ("extra", "given", "driver"),
    [
        ({}, {}, sys.executable),
        ({}, {"spark.pyspark.driver.python": "/mine"}, "/mine"),
        ({"deploy-mode": "cluster"}, {}, None),
    ],
)
def test_a_python_of_the_executors_is_not_that_of_a_driver_on_this_machine(
    cluster: Path,
    monkeypatch: pytest.MonkeyPatch,
    extra: dict[str, str],
    given: dict[str, str],
    driver: str | None,
) -> None:
    connect(monkeypatch, "yarn", **extra)
    submit_does(cluster, f'echo "$@" > {cluster}/arguments')
    conf = {"spark.pyspark.python": "./environment/bin/python", **given}
    SubmitHook(driver_env={}, conn_id="cluster", conf=conf, name="a job").submit("job.py")
    words = (cluster / "arguments").read_text().split()
    found = [word for word in words if word.startswith("spark.pyspark.driver.python=")]
    assert found == ([] if driver is None else [f"spark.pyspark.driver.python={driver}"])


def test_a_driver_on_this_machine_is_told_its_supervisors_and_one_elsewhere_is_not(
    cluster: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit_does(cluster, f"env > {cluster}/env")
    hook().submit("job.py")
    (told,) = [
        line.partition("=")[2]
        for line in (cluster / "env").read_text().splitlines()
        if line.startswith(f"{SUPERVISORS_VARIABLE}=")
    ]
    found = Supervisors.told({SUPERVISORS_VARIABLE: told})
    assert found is not None
    assert ProcessId.of(os.getpid()) in found.processes
    connect(monkeypatch, "yarn", **{"deploy-mode": "cluster"})
    hook().submit("job.py")
    assert SUPERVISORS_VARIABLE not in (cluster / "env").read_text()


@pytest.mark.parametrize("host", ["yarn", "spark://host:7077"])
def test_no_cluster_puts_them_into_arguments(
    cluster: Path, monkeypatch: pytest.MonkeyPatch, host: str
) -> None:
    connect(monkeypatch, host)
    submit_does(cluster, f'env > {cluster}/env; echo "$@" > {cluster}/args')
    hook().submit("job.py")
    assert SECRET in (cluster / "env").read_text()
    assert SECRET not in (cluster / "args").read_text()


def test_a_driver_that_runs_elsewhere_is_given_nothing_secret(
    cluster: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect(monkeypatch, "yarn", **{"deploy-mode": "cluster"})
    submit_does(cluster, f'env > {cluster}/env; echo "$@" > {cluster}/args')
    hook().submit("job.py")
    assert SECRET not in (cluster / "env").read_text() + (cluster / "args").read_text()


def test_what_the_job_says_is_the_failure_and_decides_on_a_retry(cluster: Path) -> None:
    passing = failure(told(retryable=True), cluster)
    assert str(passing) == "the store did not answer; wait"
    assert not isinstance(passing, AirflowFailException)
    lasting = failure(told(retryable=False), cluster)
    assert str(lasting) == str(passing)
    assert isinstance(lasting, AirflowFailException)


def test_a_job_that_was_killed_is_tried_again(cluster: Path) -> None:
    error = failure("kill -9 $$", cluster)
    assert "the job a job was killed (exit code -9)" in str(error)
    assert not isinstance(error, AirflowFailException)
    assert "was killed (exit code 137)" in str(failure("exit 137", cluster))


@pytest.mark.parametrize(
    ("try_number", "retries", "follows"),
    [
        (1, 2, "the next try goes on from there"),
        (2, 2, "the next try goes on from there"),
        (3, 2, "no other try follows: clear the task merge, or trigger a new run, to go on"),
        (1, 0, "no other try follows: clear the task merge, or trigger a new run, to go on"),
    ],
)
def test_a_next_try_is_announced_only_where_there_is_one(
    cluster: Path, try_number: int, retries: int, follows: str
) -> None:
    context = run_context(MergeWork())
    ti = context["ti"]
    ti.task_id, ti.task.retries = "merge", retries
    ti.try_number, ti.max_tries = try_number, retries
    with set_current_context(context):
        error = failure("kill -9 $$", cluster)
    assert f"what it had committed stays; {follows}" in str(error)
    assert ti.pushed[SAID] == str(error)


def test_a_failure_of_spark_itself_is_one_sentence(cluster: Path) -> None:
    error = failure("echo 'Exception in thread main'; exit 1", cluster)
    assert "failed with exit code 1 before firnline could say why" in str(error)
    assert "Exception in thread" not in str(error)
    context = run_context(MergeWork())
    context["ti"].task_id = "merge"
    with set_current_context(context):
        failure("exit 1", cluster)
    said = context["ti"].pushed[SAID]
    assert said.endswith("read its output in the log of the task merge"), "a note has no log"


def test_cluster_mode_on_a_standalone_cluster_is_refused(
    cluster: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect(monkeypatch, "spark://host:7077", **{"deploy-mode": "cluster"})
    with pytest.raises(EnvironmentFaultError, match=r"runs no Python application.*deploy-mode"):
        hook().check()


def test_a_machine_without_java_is_told_so(cluster: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(cluster))
    with pytest.raises(EnvironmentFaultError, match=r"no Java under JAVA_HOME=.*install Java 17"):
        hook().check()
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(cluster))
    with pytest.raises(EnvironmentFaultError, match=r"no Java on the PATH"):
        hook().check()


def test_spark_submit_is_found_beside_this_python(
    cluster: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(cluster / "nothing-here"))
    monkeypatch.setenv("JAVA_HOME", str(cluster))
    (cluster / "bin").mkdir()
    (cluster / "bin" / "java").touch()
    found = hook()
    found.check()
    assert found._get_spark_binary_path()[0].endswith("/bin/spark-submit")
    monkeypatch.setattr("sys.executable", str(cluster / "nothing-here" / "python"))
    with pytest.raises(EnvironmentFaultError, match="spark-submit is not on the PATH"):
        hook().check()


@pytest.mark.parametrize(
    ("connection", "options"),
    [
        (Connection(conn_id="c", conn_type="spark", host="local[*]"), {}),
        (Connection(conn_id="c", conn_type="spark", host="yarn"), {}),
        (
            Connection(
                conn_id="c", conn_type="spark", host="yarn", extra='{"deploy-mode": "cluster"}'
            ),
            {"durable": False},
        ),
        (
            Connection(
                conn_id="c",
                conn_type="spark",
                host="k8s://https://h",
                extra='{"deploy-mode": "cluster"}',
            ),
            {"_track_driver_via_k8s_api": True},
        ),
        (
            Connection(conn_id="c", conn_type="k8s", host="h", extra='{"deploy-mode": "cluster"}'),
            {"_track_driver_via_k8s_api": True},
        ),
    ],
    ids=["local", "yarn client", "yarn cluster", "k8s cluster", "k8s cluster from a URI"],
)
def test_a_driver_elsewhere_is_followed_as_its_cluster_allows(
    connection: Connection, options: dict[str, bool]
) -> None:
    assert deploy_options(connection) == options


def test_those_options_are_attributes_of_airflow_s_operator() -> None:
    operator = SparkSubmitOperator(task_id="t")
    if not versions.tracked(operator):
        pytest.skip("this version of Airflow's provider for Spark follows no driver elsewhere")
    for name in ("_track_driver_via_k8s_api", "_yarn_track_via_rm_api"):
        assert isinstance(getattr(operator, name), bool)
    assert isinstance(getattr(operator, "durable", True), bool)  # until 6.1 there is none


@pytest.mark.parametrize(
    ("connection", "says", "next_step"),
    [
        (
            Connection(conn_id="c", conn_type="spark_connect", host="h", port=15002),
            "Spark Connect",
            "spark://",
        ),
        (
            Connection(conn_id="c", conn_type="spark", host="sc://h:15002"),
            "Spark Connect",
            "spark://",
        ),
        (
            Connection(conn_id="c", conn_type="spark", host="k8s://https://h"),
            "provider for Kubernetes",
            "install",
        ),
    ],
)
def test_a_connection_that_cannot_be_used_is_refused_in_a_sentence(
    connection: Connection, says: str, next_step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    with pytest.raises(EnvironmentFaultError, match=says) as refused:
        refuse_unusable(connection)
    assert next_step in refused.value.next_step


@pytest.mark.parametrize("host", ["local[*]", "spark://h:7077", "yarn"])
def test_other_masters_are_left_to_spark(host: str) -> None:
    refuse_unusable(Connection(conn_id="c", conn_type="spark", host=host))
