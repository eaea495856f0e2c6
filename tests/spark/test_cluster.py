"""A real standalone cluster (master and workers) and a real Spark Connect server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
import pyspark
import pytest

from firnline.settings.spark_conf import with_defaults
from tests.spark.conftest import Parts
from tests.support.effort import FULL
from tests.support.programs import HUNG_SECONDS, run_program
from tools.airflow_api import wait_until
from tools.bootstrap import REPO
from tools.s3server import free_port

SPARK_HOME = Path(pyspark.__file__).parent
WORKERS = ("127.0.0.2", "127.0.0.3") if FULL else ("127.0.0.2",)
"""Addresses of this machine: Spark never speculates on the host of the first attempt."""
POLL_SECONDS = 0.05
SEVERAL_EXECUTORS = pytest.mark.full("two workers and much work: executors race, or one is killed")
BOTH_STORES = pytest.mark.parametrize(
    "store_kind",
    ["file", pytest.param("s3", marks=pytest.mark.full("the same groups, another store"))],
    indirect=True,
)

_WORKER = ["--cores", "2", "--memory", "1g", "--webui-port", "0"]


@dataclass
class Cluster:
    """Processes of one cluster, and the environment of their clients."""

    master: str
    env: dict[str, str]
    folder: Path


def _environment(folder: Path) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    return {
        **kept,
        "SPARK_HOME": str(SPARK_HOME),
        "SPARK_LOCAL_IP": "127.0.0.1",
        # A Java that starts as quickly as that of our drivers.
        "SPARK_DAEMON_JAVA_OPTS": with_defaults({})["spark.driver.extraJavaOptions"],
        "SPARK_WORKER_DIR": str(folder / "work"),
        "PYSPARK_PYTHON": sys.executable,
    }


def _alive_workers(page: str) -> int:
    try:
        # Its own server on this machine.
        with urllib.request.urlopen(f"{page}/json/", timeout=2) as answer:  # noqa: S310 -- http
            return int(json.load(answer).get("aliveworkers", 0))
    except (OSError, ValueError):  # nobody there yet, or a page that is not complete yet
        return 0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("cluster")
    env, port, page = _environment(folder), free_port(), free_port()
    spark_class = [str(SPARK_HOME / "bin" / "spark-class")]
    deploy = "org.apache.spark.deploy"
    address = f"spark://127.0.0.1:{port}"
    master = ["--host", "127.0.0.1", "--port", str(port), "--webui-port", str(page)]
    commands = {
        "127.0.0.1": [*spark_class, f"{deploy}.master.Master", *master],
        **{
            host: [*spark_class, f"{deploy}.worker.Worker", "--host", host, *_WORKER, address]
            for host in WORKERS
        },
    }
    with (folder / "log").open("wb") as log:
        processes = [
            subprocess.Popen(command, env={**env, "SPARK_LOCAL_IP": host}, stdout=log, stderr=log)
            for host, command in commands.items()
        ]
        try:
            url = f"http://127.0.0.1:{page}"
            assert wait_until(
                lambda: _alive_workers(url) == len(WORKERS), HUNG_SECONDS, POLL_SECONDS
            )
            yield Cluster(address, env, folder)
        finally:
            for process in processes:
                process.terminate()
            for process in processes:
                process.wait(HUNG_SECONDS)


def client(folder: Path, env: dict[str, str], body: str, parts: Parts, *more: str) -> list[str]:
    """Run a script in a process of its own: a process has one Spark session of one kind."""
    script = folder / "client.py"
    script.write_text(_HEAD + body)
    done = run_program(
        [sys.executable, script, parts.root, parts.scratch, *more],
        {
            **env,
            "PYTHONPATH": str(REPO),
            "FIRNLINE_STORE_ACCESS": parts.access.to_json() if parts.access else "",
        },
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.splitlines()


_HEAD = """
import os, sys
from pathlib import Path
from firnline.spark.engine import SparkEngine
from firnline.spark.session import open_session
from firnline.spark.engine import distribute
from firnline.store.access import StoreAccess
from tests.spark.conftest import Parts

root, scratch, *more = sys.argv[1:]
text = os.environ["FIRNLINE_STORE_ACCESS"]
parts = Parts(root, StoreAccess.from_json(text) if text else None, Path(scratch))

def where(batches):
    import firnline, pyarrow
    for batch in batches:
        yield pyarrow.record_batch({"file": [firnline.__file__]})
"""


_GROUPS = """
good, broken = parts.put([3], [1]), parts.prefix + "in-broken.parquet"
parts.store.put_new(broken, b"this is no Parquet file at all")
tasks = [parts.task(0, good), parts.task(1, [broken]), parts.task(2, good)]
engine = SparkEngine(session, root, parts.access, scratch)
results = {r.group: r for r in engine.run(tasks) if r is not None}
print(sorted(results), results[1].error_type, parts.values(results[0]), parts.values(results[2]))
print(session.range(1).mapInArrow(where, "file string").toArrow()["file"][0])
session.stop()
"""
"""Two groups that can be merged, one that cannot, and whose code the workers run."""


def test_a_cluster_runs_every_group_in_our_version(cluster: Cluster, file_parts: Parts) -> None:
    body = """
conf = {"spark.executor.memory": "600m", "spark.cores.max": "2", "spark.log.level": "OFF"}
session = open_session("cluster", conf, more[0])
"""
    said = client(cluster.folder, cluster.env, body + _GROUPS, file_parts, cluster.master)
    assert said[0] == "[0, 1, 2] PartUnreadableError [1, 3] [1, 3]"
    assert "firnline.zip" in said[1]


@SEVERAL_EXECUTORS
def test_speculation_on_a_cluster_doubles_nothing(cluster: Cluster, parts: Parts) -> None:
    """Attempts race on the slow group; both may upload, one result counts."""
    (cluster.folder / "events").mkdir(exist_ok=True)
    body = """
session = open_session("cluster", {
    "spark.executor.memory": "600m",
    "spark.speculation": "true",
    "spark.speculation.interval": "50ms",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.quantile": "0.1",
    "spark.speculation.task.duration.threshold": "500ms",
    "spark.eventLog.enabled": "true",
    "spark.eventLog.dir": f"file://{more[1]}",
    "spark.eventLog.compress": "false",
    "spark.log.level": "OFF",
}, more[0])
slow, quick = parts.random(4, 400_000), parts.put([3], [1])
tasks = [parts.task(0, slow, row_group_rows=2048)] + [parts.task(n, quick) for n in range(1, 6)]
results = [r for r in SparkEngine(session, root, parts.access, scratch).run(tasks) if r is not None]
print(sorted(r.group for r in results), [r.error for r in results if r.error])
print(sum(len(parts.values(r)) for r in results))
session.stop()
"""
    events = str(cluster.folder / "events")
    said = client(cluster.folder, cluster.env, body, parts, cluster.master, events)
    assert said == ["[0, 1, 2, 3, 4, 5] []", str(4 * 400_000 + 10)]
    logged = [p for p in Path(events).rglob("*") if p.is_file()]
    assert any('"Speculative":true' in path.read_text(errors="replace") for path in logged)
    assert 6 <= len(parts.outputs()) <= 12


def _executors(folder: Path) -> list[psutil.Process]:
    """The cluster's executors: JVMs that run in its work folder."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        with suppress(psutil.Error):
            command = " ".join(process.info["cmdline"] or [])
            if "CoarseGrainedExecutorBackend" in command and process.cwd().startswith(str(folder)):
                found.append(process)
    return found


def _kill_one_at_work(folder: Path, scratch: Path, killed: list[int]) -> None:
    # A group is under way once something is staged, on one executor or the other.
    def at_work() -> bool:
        return any(scratch.rglob("*.parquet")) and len(_executors(folder)) == len(WORKERS)

    if wait_until(at_work, HUNG_SECONDS, POLL_SECONDS):
        executor = _executors(folder)[0]
        executor.kill()
        killed.append(executor.pid)


@SEVERAL_EXECUTORS
def test_an_executor_killed_in_the_middle_costs_time_and_no_row(
    cluster: Cluster, parts: Parts
) -> None:
    body = """
conf = {"spark.executor.memory": "600m", "spark.log.level": "OFF"}
session = open_session("killed", conf, more[0])
groups = [parts.random(2, 300_000) for _ in range(4)]
tasks = [parts.task(n, keys, row_group_rows=2048) for n, keys in enumerate(groups)]
results = [r for r in SparkEngine(session, root, parts.access, scratch).run(tasks) if r is not None]
print(sorted(r.group for r in results), [r.error for r in results if r.error])
print([len(parts.values(r)) for r in results])
session.stop()
"""
    killed: list[int] = []
    killer = threading.Thread(
        target=_kill_one_at_work, args=(cluster.folder, parts.scratch, killed)
    )
    killer.start()
    said = client(cluster.folder, cluster.env, body, parts, cluster.master)
    killer.join()
    assert len(killed) == 1
    assert said == ["[0, 1, 2, 3] []", str([600_000] * 4)]
    # What the killed one had uploaded lies there without a marker, at most one object a group.
    assert 4 <= len(parts.outputs()) <= 8


@pytest.fixture(scope="module")
def connect_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Cluster]]:
    folder = tmp_path_factory.mktemp("connect")
    env, port = _environment(folder), free_port()
    command = [
        str(SPARK_HOME / "bin" / "spark-submit"),
        "--class=org.apache.spark.sql.connect.service.SparkConnectServer",
        "--master=local[2]",
        *(f"--conf={key}={value}" for key, value in with_defaults({}).items()),
        f"--conf=spark.connect.grpc.binding.port={port}",
        "spark-internal",
    ]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, env=env, stdout=log, stderr=log, cwd=folder)
        try:
            yield f"sc://127.0.0.1:{port}", Cluster("", env, folder)
        finally:
            process.terminate()
            process.wait(HUNG_SECONDS)


@BOTH_STORES
def test_a_connect_server_runs_the_same_groups_and_no_jvm_starts_here(
    connect_server: tuple[str, Cluster], parts: Parts
) -> None:
    url, server = connect_server
    body = """
session = open_session("connect", {}, remote=more[0])
"""
    env = {**server.env, "JAVA_HOME": "/nowhere"}
    said = client(server.folder, env, body + _GROUPS, parts, url)
    assert said[0] == "[0, 1, 2] PartUnreadableError [1, 3] [1, 3]"
    assert "firnline.zip" in said[1]
