"""A real standalone cluster (master and workers) and a real Spark Connect server.

The cluster's Python is not the driver's: it has the packages that docs/deploy.md asks for.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

import pyspark
import pytest

from firnline.airflow.merge import MergeWork
from firnline.airflow.submit import SubmitJob
from firnline.airflow.tables import OneTable
from firnline.settings.spark_conf import with_defaults
from firnline.spark.executors import ALWAYS, READING, SPLITTING
from firnline.state.history import history
from firnline.store.access import StoreAccess
from firnline.table import open_table
from tests.spark.conftest import Parts
from tests.support.airflow_context import run_context
from tests.support.jobs import run_job
from tests.support.on_store import filled, opened
from tests.support.programs import HUNG_SECONDS, run_program
from tests.support.reading import visible_by_partition
from tests.support.tables import loaded
from tools.airflow_api import wait_until
from tools.bootstrap import REPO
from tools.s3server import StoreRoot, free_port
from tools.spark_cluster import HOSTS, SparkCluster

POLL_SECONDS = 0.05
SEVERAL_EXECUTORS = pytest.mark.full("two workers and much work: executors race, or one is killed")
BOTH_STORES = pytest.mark.parametrize(
    "store_kind",
    ["file", pytest.param("s3", marks=pytest.mark.full("the same groups, another store"))],
    indirect=True,
)


def environment(python: Path | str = sys.executable) -> dict[str, str]:
    """The environment of a client whose executors have this Python."""
    kept = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": str(python)}


def client(folder: Path, env: Mapping[str, str], body: str, parts: Parts, *more: str) -> list[str]:
    """Run a script in a process of its own: a process has one Spark session of one kind."""
    script = folder / "client.py"
    script.write_text(_HEAD + body)
    done = run_program(
        [sys.executable, script, parts.root, parts.scratch, *more],
        {
            **env,
            "PYTHONPATH": f"{REPO / 'include'}{os.pathsep}{REPO}",
            "FIRNLINE_STORE_ACCESS": parts.access.to_json() if parts.access else "",
        },
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.splitlines()


_HEAD = """
import json, os, sys
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


@pytest.mark.full("the same executors; what a local Spark says of such groups, too")
def test_a_cluster_runs_every_group_in_our_version(
    cluster: SparkCluster, file_parts: Parts, tmp_path: Path
) -> None:
    body = """
conf = {"spark.executor.memory": "512m", "spark.cores.max": "2", "spark.log.level": "OFF"}
session = open_session("cluster", conf, more[0])
"""
    env = environment(cluster.python)
    said = client(tmp_path, env, body + _GROUPS, file_parts, cluster.master)
    assert said[0] == "[0, 1, 2] PartUnreadableError [1, 3] [1, 3]"
    assert "firnline.zip" in said[1]


@pytest.mark.turn("executors of another process")
def test_a_local_master_whose_python_is_another_one_runs_our_version(
    cluster: SparkCluster, file_parts: Parts, tmp_path: Path
) -> None:
    body = """
session = open_session("local", {"spark.log.level": "OFF"}, "local[2]")
"""
    said = client(tmp_path, environment(cluster.python), body + _GROUPS, file_parts)
    assert said[0] == "[0, 1, 2] PartUnreadableError [1, 3] [1, 3]"
    assert "firnline.zip" in said[1]


_OPERATIONS = """
from firnline.operations.merge.run import run_merge
from firnline.operations.operation import Work
from firnline.operations.options import MergeOptions, RewriteOptions, VerifyOptions
from firnline.operations.rewrite.prepare import run_prepare
from firnline.operations.rewrite.run import run_rewrite
from firnline.operations.verify.run import run_verify
from firnline.spark.footers import footers_by
from firnline.spark.source import register
from tests.support.on_store import RUN, opened
from tools.s3server import StoreRoot

conf = {"spark.executor.memory": "512m", "spark.log.level": "OFF"}
session = open_session("operations", conf, more[0])
table = opened(StoreRoot("s3" if parts.access else "file", root, os.environ))
engine = lambda: SparkEngine(session, table.settings.root, table.access)
merged = run_merge(Work(table, RUN, engine), MergeOptions())
rewritten = run_rewrite(Work(table, RUN, engine), RewriteOptions(where="id < 20"))
verified = run_verify(Work(table, footers=footers_by(engine)), VerifyOptions(deep=True))
wanted = RewriteOptions(sql="select * replace (-id as id) from _rows", prepare=True)
prepared = run_prepare(Work(table, RUN, engine), wanted)

def about(batches):
    import pyarrow, sys
    from importlib.metadata import distributions
    for batch in batches:
        names = sorted({d.name for d in distributions() if "zip" not in str(d.locate_file(""))})
        yield pyarrow.record_batch({"prefix": [sys.prefix], "names": [json.dumps(names)]})

about = session.range(1).mapInArrow(about, "prefix string, names string").toArrow().to_pylist()[0]
session.conf.set("spark.sql.execution.pyspark.python", more[1])
register(session, table.access)
rows = session.read.format("firnline").option("bytesPerTask", "1").load(table.settings.root)

print(json.dumps({
    "merged": [merged.groups_done, merged.counts.rows_out, len(merged.failures)],
    "rewritten": rewritten.counts.rows_removed,
    "verified": [verified.checked.footers, len(verified.findings)],
    "prepared": [prepared.evidence.removed, prepared.evidence.added],
    "read": sorted(row["id"] for row in rows.collect()),
    "tasks": rows.rdd.getNumPartitions(),
    "prefix": about["prefix"],
    "packages": json.loads(about["names"]),
    "application": session.conf.get("spark.app.id"),
}))
session.stop()
"""


@pytest.mark.turn("executors of another process")
@BOTH_STORES
def test_merge_rewrite_prepare_verify_and_source_run_on_executors_with_a_python_of_their_own(
    cluster: SparkCluster, store_root: StoreRoot, tmp_path: Path
) -> None:
    table = filled(opened(store_root), 6)
    access = StoreAccess.from_env(store_root.env) if store_root.env else None
    parts = Parts(store_root.url, access, tmp_path / "scratch")
    env: dict[str, str] = {**environment(), **store_root.env}
    # By one name driver and executors find a Python each: the driver's plans reads.
    env |= {"PYSPARK_PYTHON": "python3", "PATH": f"{Path(sys.executable).parent}:{env['PATH']}"}
    source_python = str(cluster.source_python)
    (text,) = client(tmp_path, env, _OPERATIONS, parts, cluster.master, source_python)
    said = json.loads(text)
    assert said["merged"] == [2, 24, 0]
    assert said["rewritten"] == 4
    assert said["verified"] == [2, 0]
    assert said["prepared"] == [19, 19]  # the id 0 stays as it is
    assert said["read"] == list(range(20))
    assert said["tasks"] == 2
    assert said["prefix"] == str(cluster.folder / "python") != sys.prefix
    assert said["packages"] == sorted([*ALWAYS, READING, SPLITTING, "typing_extensions"])
    assert cluster.ran()[said["application"]] == list(HOSTS)
    assert {header.op for header in history(table)} == {"rewrite", "merge"}


@SEVERAL_EXECUTORS
def test_speculation_on_a_cluster_doubles_nothing(
    cluster: SparkCluster, parts: Parts, tmp_path: Path
) -> None:
    """Attempts race on the slow group; both may upload, one result counts."""
    (tmp_path / "events").mkdir()
    body = """
session = open_session("cluster", {
    "spark.executor.memory": "512m",
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
    events, env = str(tmp_path / "events"), environment(cluster.python)
    said = client(tmp_path, env, body, parts, cluster.master, events)
    assert said == ["[0, 1, 2, 3, 4, 5] []", str(4 * 400_000 + 10)]
    logged = [p for p in Path(events).rglob("*") if p.is_file()]
    assert any('"Speculative":true' in path.read_text(errors="replace") for path in logged)
    assert 6 <= len(parts.outputs()) <= 12


def _kill_one_at_work(cluster: SparkCluster, scratch: Path, killed: list[str]) -> None:
    # A group is under way once something is staged, on one executor or the other.
    def at_work() -> bool:
        return any(scratch.rglob("*.parquet")) and len(list(cluster.executors())) == len(HOSTS)

    if wait_until(at_work, HUNG_SECONDS, POLL_SECONDS):
        host, executor = next(cluster.executors())
        executor.kill()
        killed.append(host)


@SEVERAL_EXECUTORS
def test_an_executor_killed_in_the_middle_costs_time_and_no_row(
    cluster: SparkCluster, parts: Parts, tmp_path: Path
) -> None:
    body = """
conf = {"spark.executor.memory": "512m", "spark.log.level": "OFF"}
session = open_session("killed", conf, more[0])
groups = [parts.random(2, 300_000) for _ in range(4)]
tasks = [parts.task(n, keys, row_group_rows=2048) for n, keys in enumerate(groups)]
results = [r for r in SparkEngine(session, root, parts.access, scratch).run(tasks) if r is not None]
print(sorted(r.group for r in results), [r.error for r in results if r.error])
print([len(parts.values(r)) for r in results])
session.stop()
"""
    killed: list[str] = []
    killer = threading.Thread(target=_kill_one_at_work, args=(cluster, parts.scratch, killed))
    killer.start()
    said = client(tmp_path, environment(cluster.python), body, parts, cluster.master)
    killer.join()
    assert len(killed) == 1
    assert said == ["[0, 1, 2, 3] []", str([600_000] * 4)]
    # What the killed one had uploaded lies there without a marker, at most one object a group.
    assert 4 <= len(parts.outputs()) <= 8


@SEVERAL_EXECUTORS
def test_a_group_that_exceeds_an_executors_memory_is_reported_and_the_others_are_done(
    cluster: SparkCluster, file_parts: Parts, tmp_path: Path
) -> None:
    """The limit is the system's: of the address space of the executor's Python."""
    body = """
conf = {"spark.executor.memory": "512m", "spark.executor.cores": "1", "spark.log.level": "OFF"}
if more[1]:
    conf["spark.executor.pyspark.memory"] = more[1]
session = open_session("memory", conf, more[0])
large, small = parts.random(8, 1_000_000), parts.put([3], [1])
tasks = [parts.task(0, large, memory=2**31), parts.task(1, small), parts.task(2, small)]
results = [r for r in SparkEngine(session, root, parts.access, scratch).run(tasks) if r is not None]
rows = {r.group: sum(part.rows for part in r.parts) for r in results}
told = [[r.error_type, r.error_next_step, rows[r.group]] for r in results]
print(json.dumps([told[at] for at in sorted(range(3), key=lambda at: results[at].group)]))
session.stop()
"""
    env = environment(cluster.python)
    (text,) = client(tmp_path, env, body, file_parts, cluster.master, "2400m")
    (kind, step, rows), *others = json.loads(text)
    assert (kind, rows) == ("KernelError", 0)
    assert "memory" in step
    assert [rows for _, _, rows in others] == [2, 2]
    assert len(file_parts.outputs()) == 2, "what died has left nothing"
    (text,) = client(tmp_path, env, body, file_parts, cluster.master, "")
    assert [rows for _, _, rows in json.loads(text)] == [8_000_000, 2, 2]


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except ConnectionRefusedError:
        return False
    return True


@pytest.fixture(scope="module")
def connect_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("connect")
    home, port = Path(pyspark.__file__).parent, free_port()
    command = [
        str(home / "bin" / "spark-submit"),
        "--class=org.apache.spark.sql.connect.service.SparkConnectServer",
        "--master=local[2]",
        *(f"--conf={key}={value}" for key, value in with_defaults({}).items()),
        f"--conf=spark.connect.grpc.binding.port={port}",
        "spark-internal",
    ]
    env = {**environment(), "SPARK_HOME": str(home)}
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, env=env, stdout=log, stderr=log, cwd=folder)
        try:
            # A client that knocks too early waits longer and longer between its tries.
            wait_until(
                lambda: process.poll() is not None or _listens(port), HUNG_SECONDS, POLL_SECONDS
            )
            assert process.poll() is None, (folder / "log").read_text()[-3000:]
            yield f"sc://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait(HUNG_SECONDS)


NO_JVM = {"JAVA_HOME": "/nowhere"}


@pytest.mark.turn("executors of another process")
@BOTH_STORES
def test_a_connect_server_runs_the_same_groups_and_no_jvm_starts_here(
    connect_server: str, parts: Parts, tmp_path: Path
) -> None:
    body = """
session = open_session("connect", {}, remote=more[0])
"""
    said = client(tmp_path, {**environment(), **NO_JVM}, body + _GROUPS, parts, connect_server)
    assert said[0] == "[0, 1, 2] PartUnreadableError [1, 3] [1, 3]"
    assert "firnline.zip" in said[1]


@pytest.mark.turn("executors of another process")
@BOTH_STORES
def test_a_table_is_merged_through_a_connect_server(
    connect_server: str, store_root: StoreRoot
) -> None:
    table = filled(opened(store_root), 4)
    access = StoreAccess.from_env(store_root.env) if store_root.env else None
    env = NO_JVM | ({"FIRNLINE_STORE_ACCESS": access.to_json()} if access else {})
    options = ("--run-id=r 1", f"--remote={connect_server}")
    done = run_job("merge", table.settings.root, *options, env=env)
    assert (done.report["groups_done"], done.report["counts"]["rows_out"]) == (2, 16)
    rows = visible_by_partition(table)
    assert {name: [row["id"] for row in found] for name, found in rows.items()} == {
        "day=mo": list(range(0, 16, 2)),
        "day=tu": list(range(1, 16, 2)),
    }
    (header,) = history(table)
    assert header.op == "merge"


@pytest.mark.turn("executors of another process")
def test_a_task_of_a_dag_merges_through_a_connect_server(
    connect_server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its connection alone makes it a client, for which no Java is needed."""
    about = f"root: 'file://{tmp_path}/t', spark: {{conn_id: connect}}, merge: {{min_inputs: 2}}"
    settings = loaded(tmp_path, f"tables: {{t: {{{about}}}}}").table("t")
    table = filled(open_table(settings), 4)
    for name, value in NO_JVM.items():
        monkeypatch.setenv(name, value)
    host, _, port = connect_server.removeprefix("sc://").rpartition(":")
    connection = {"conn_type": "spark_connect", "host": host, "port": int(port)}
    monkeypatch.setenv("AIRFLOW_CONN_CONNECT", json.dumps(connection))
    monkeypatch.setenv("FIRNLINE_TABLES", str(tmp_path / "tables.yaml"))
    work = MergeWork()
    jobs = REPO / "spark_jobs"
    task = SubmitJob(task_id="merge", work=work, table=OneTable(settings), jobs=jobs)
    task.execute(run_context(work))
    (header,) = history(table)
    assert (header.op, header.run.run_id) == ("merge", "manual__1")


@pytest.mark.turn("executors of another process")
def test_a_rewrite_through_a_connect_server_warns_of_cores_that_the_server_does_not_give(
    connect_server: str, tmp_path: Path
) -> None:
    table = filled(opened(StoreRoot("file", f"file://{tmp_path}/store")), 4)
    about = {"root": table.settings.root, "partition_by": ["day"], "merge": {"kernel_threads": 2}}
    settings = tmp_path / "tables.json"
    settings.write_text(json.dumps({"tables": {"t": about}}))
    options = (f"--settings={settings}", f"--remote={connect_server}")
    done = run_job("rewrite", "t", '--options={"where": "id <> 5"}', *options, env=NO_JVM)
    assert done.report["counts"]["rows_removed"] == 1
    assert "start the server with --conf spark.task.cpus=2" in done.err
    rows = visible_by_partition(table)
    left = sorted(row["id"] for found in rows.values() for row in found)
    assert left == [number for number in range(16) if number != 5]
    assert history(table)[0].op == "rewrite"


@pytest.mark.turn("executors of another process")
def test_a_frame_through_a_connect_server_reads_rows_and_names_a_part_that_is_gone(
    connect_server: str, file_parts: Parts, tmp_path: Path
) -> None:
    filled(opened(StoreRoot("file", file_parts.root)), 2)
    body = """
from firnline.errors import PartGoneError
from firnline.spark.frame import frame
from firnline.state.snapshot import read_snapshot
from tests.support.on_store import opened
from tools.s3server import StoreRoot

session = open_session("frame", {}, remote=more[0])
table = opened(StoreRoot("file", root))
rows = frame(session, table, ["id"], where="id > 1", access=None)
print(sorted(row["id"] for row in rows.collect()))
gone = sorted(read_snapshot(table.store, table.paths).live)[0]
list(table.store.delete_many([gone]))
try:
    frame(session, table, ["id"])
except PartGoneError as error:
    print(gone in str(error))
session.stop()
"""
    env = {**environment(), **NO_JVM}
    said = client(tmp_path, env, body, file_parts, connect_server)
    assert said == [str(list(range(2, 8))), "True"]
