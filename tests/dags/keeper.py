"""The process that starts the Airflow of a test run, and ends it when the run ends.

    python -m tests.dags.keeper FOLDER PID    for the run whose first process PID is

The tests of a run may be several processes, any of which may end first: so none of them is the one
that has started Airflow. ``tests.dags.shared_stack`` starts this, and attaches to what is written
to ``state.json`` in the folder once all is ready.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from firnline.errors import EnvironmentFaultError
from firnline.operations.pools import pools_json
from firnline.settings.load import load_settings
from tests.dags.filled import fill
from tests.dags.maintained import SPARK, Maintained
from tools.airflow_home import StackOptions
from tools.airflow_stack import AirflowStack
from tools.bootstrap import REPO
from tools.databases import temporary_server
from tools.s3server import S3Server

CONNECTION = "merge_store"
HOOKS = REPO / "tests" / "support" / "driver_hooks"
TABLES = """
fleet: {{schedule: null}}
erasure: {{requests: 'file://{folder}/requests', schedule: null}}
defaults:
  merge: {{schedule: null, kernel_memory: 256MiB}}
  cleanup: {{schedule: null, grace: 1s}}
  verify: {{schedule: null}}
  ttl: null
  operations: [merge]
  own_dags: all
  sort_by: [k]
  partition_by: [day]
  spark: {{conf: {{spark.ui.enabled: false, spark.driver.memory: 600m}}}}
tables:
  # Only the Airflow connection knows the keys of this store.
  secret: {{root: '{store}/secret', connection_id: {connection}}}
  idle:
    root: 'file://{folder}/idle'
    operations: [merge, delete_where]
    merge: {{schedule: '* * * * *'}}
  rivals: {{root: 'file://{folder}/rivals'}}
  bounded: {{root: 'file://{folder}/bounded'}}
  lost:
    root: 'file://{folder}/lost'
    own_dags: []
    operations: [merge, tombstone_cleanup]
    alerts: {told}
  wide:
    root: 'file://{folder}/wide'
    operations: [merge, tombstone_cleanup, delete_where]
  unsafe: {{root: 'file://{folder}/unsafe', locking: pool-only}}
  # Two merges at once; the pool of the second table has one slot all the same.
  shared: {{root: 'file://{folder}/shared', operations: [merge, restore], merge: {{slots: 2}}}}
  lean: {{root: 'file://{folder}/lean', operations: [restore], merge: {{slots: 2}}}}
  unconnected: {{root: 'file://{folder}/unconnected', connection_id: nobody_made_it}}
  clusterless: {{root: 'file://{folder}/clusterless', spark: {{conn_id: no_cluster}}}}
  broken: {{root: 'file://{folder}/broken'}}
  aged:
    root: 'file://{folder}/aged'
    operations: [ttl]
    ttl: {{keep: 1h, partition: 'day=(?P<day>.*)', schedule: null}}
  cleaned: {{root: 'file://{folder}/cleaned', operations: [tombstone_cleanup]}}
  hourly:
    root: '{store}/hourly'
    connection_id: {connection}
    operations: [replace, restore]
    partition_by: [day(ts)]
  # Their folders are beside them: TABLE-in.
  fed:
    root: 'file://{folder}/fed'
    operations: [merge, import]
    import: {{source: 'file://{folder}/fed-in'}}
  poured: {{root: 'file://{folder}/poured', operations: [import], own_dags: []}}
  faded: {{root: 'file://{folder}/faded', operations: [restore]}}
  checked: {{root: 'file://{folder}/checked', operations: [verify, rebuild]}}
  busy:
    root: 'file://{folder}/busy'
    operations: [merge, tombstone_cleanup, ttl, verify]
    ttl: {{keep: 1h, partition: 'day=(?P<day>.*)', schedule: null}}
  late:
    root: 'file://{folder}/late'
    spark: {{conn_id: no_cluster}}
    alerts: {{notifier: told_by.Told, arguments: {{file: '{folder}/told'}}, merge_deadline: 1m}}
  # Of the fleet, without DAGs of their own: one with something to merge, one with nothing, one
  # whose log a test tears. That a merge is started is all that the second has to show.
  needy: {{root: 'file://{folder}/needy', merge: {{schedule: fleet}}, own_dags: []}}
  content:
    root: 'file://{folder}/content'
    own_dags: []
    merge: {{schedule: fleet}}
    spark: {{conn_id: no_cluster}}
  torn: {{root: 'file://{folder}/torn', merge: {{schedule: fleet}}, own_dags: []}}
  past:
    own_dags: []
    root: 'file://{folder}/past'
    operations: [ttl]
    ttl: {{keep: 1h, partition: 'day=(?P<day>.*)', max_removed_fraction: 1}}
  asleep: {{root: 'file://{folder}/asleep', partition_by: [day(ts)]}}
  removed: {{root: 'file://{folder}/removed', operations: [remove_partitions], {by_day}}}
  guarded:
    root: 'file://{folder}/guarded'
    operations: [remove_partitions]
    partition_by: [day(ts)]
    approvers: [bo, cy]
  rewritten:
    root: 'file://{folder}/rewritten'
    operations: [rewrite_partitions]
    mirror: [delta]
    partition_by: [day(ts)]
  erased:
    root: 'file://{folder}/erased'
    operations: [erase, delete_where]
    {by_day}
    spark:
      conf:
        spark.eventLog.enabled: 'true'
        spark.eventLog.dir: 'file://{folder}/events'
        spark.eventLog.compress: 'false'
  # Of people, who are erased from both together.
  people: {{root: 'file://{folder}/people', {of_people}, {by_day}}}
  guests: {{root: 'file://{folder}/guests', {of_people}, {by_day}}}
  swept: {{root: 'file://{folder}/swept', operations: [orphan_sweep], {by_day}}}
  # A task of a DAG that is not firnline's merges it.
  loaded: {{root: 'file://{folder}/loaded', own_dags: []}}
"""
TOLD = "{{notifier: told_by.Told, arguments: {{file: '{folder}/told', word: '{{{{ reason }}}}'}}}}"
# A cluster policy, as operators have them. Runs of some tables may overlap: because their pool is
# to be all that keeps them apart, or because none of the runs gets beyond its plan.
POLICY = """
from datetime import timedelta

OVERLAP = ("merge__rivals", "merge__bounded", "rewrite_partitions__rewritten")
OVERLAP += ("tombstone_cleanup__cleaned",)


def dag_policy(dag):
    if dag.dag_id in OVERLAP:
        dag.max_active_runs = 4


def task_policy(task):
    if task.dag_id == "merge__asleep":
        task.retry_delay = timedelta(seconds=1)
"""
TRIVIAL = '''
"""A DAG of one task that says who runs it, and leaves a process behind."""
import os
import subprocess

from airflow.sdk import Param, dag, task


@dag(dag_id="trivial", schedule=None, params={"word": Param("none", type="string")})
def trivial():
    @task(pool="narrow")
    def say(params=None):
        # As a Spark driver whose supervisor was killed: a session of its own, nobody's child.
        null = subprocess.DEVNULL
        quiet = {"stdin": null, "stdout": null, "stderr": null}
        child = subprocess.Popen(["sleep", "3600"], start_new_session=True, **quiet)
        return {"word": params["word"], "from_env": os.environ["SAY"], "child": child.pid}

    say()


trivial()
'''
THEIRS = '''
"""A DAG that is not firnline's: it appends to a table, and merges it."""
from airflow.sdk import dag, task

from firnline.airflow import Merge


@dag(dag_id="theirs", schedule=None, default_args={"pool": "narrow"})
def theirs():
    @task
    def load():
        import firnline

        firnline.append("loaded", [{"k": 9_000, "day": "a"}])

    @task
    def tell(figures):
        return figures["counts"]["parts_in"]

    merge = Merge(table="loaded", partitions=["day=*"], full="{{ params.get('full', True) }}")
    load() >> merge
    tell(merge.output)


theirs()
'''
# Many runs at once, and a run as soon as there is a scheduler, which wakes up the next one.
CROWD = '''
"""DAGs whose tasks do nothing, and are tried again at once should they fail."""
from datetime import timedelta

from airflow.sdk import Asset, dag, task

AGAIN = {"retries": 2, "retry_delay": timedelta(seconds=1)}
BEGUN = Asset("begun")


def one(dag_id, schedule, outlets=()):
    @dag(dag_id=dag_id, schedule=schedule, max_active_runs=50, default_args=AGAIN)
    def made():
        @task(outlets=list(outlets))
        def do():
            return dag_id

        do()

    made()


one("crowd", None)
one("at_once", "@once", [BEGUN])
one("woken", [BEGUN])
'''
NARROW = {"slots": 1, "description": "", "include_deferred": False}
# DAGs do not change while the tests run, and nobody is waited for who might have died.
CONFIG: dict[str, dict[str, object]] = {
    "core": {"parallelism": 4},
    "scheduler": {
        "scheduler_idle_sleep_time": 0.4,
        "scheduler_heartbeat_sec": 10,
        "job_heartbeat_sec": 10,
        "scheduler_health_check_threshold": 120,
        # Silence that counts as an answer is looked for so often.
        "trigger_timeout_check_interval": 3,
    },
    "triggerer": {"job_heartbeat_sec": 10, "triggerer_health_check_threshold": 120},
    "dag_processor": {
        "refresh_interval": 86_400,
        "bundle_refresh_check_interval": 10,
        "min_file_process_interval": 86_400,
        "parsing_processes": 2,
        "health_check_threshold": 120,
    },
}
FILLED = {"secret": 6, "idle": 1, "rivals": 5, "bounded": 5, "lost": 5, "wide": 1}
FILLED |= {"unsafe": 1, "unconnected": 5, "clusterless": 5, "broken": 5, "late": 5}
FILLED |= {"needy": 5, "content": 1, "torn": 1, "loaded": 3}
NO_SERVER_SECRET = "nothing-asks-for-this-one-with-files"


def store_connection(server: S3Server | None) -> dict[str, str]:
    """What an operator types into the form of a new connection."""
    where = {"endpoint_url": server.endpoint, "region_name": server.region} if server else {}
    return {
        "connection_id": CONNECTION,
        "conn_type": "aws",
        "login": server.access_key if server else "somebody",
        "password": server.secret_key if server else NO_SERVER_SECRET,
        "extra": json.dumps(where),
    }


def options(folder: Path, database: str | None = None) -> StackOptions:
    """What the shared stack runs, on the database of its server."""
    return StackOptions(
        dags=folder / "dags",
        env={
            "FIRNLINE_TABLES": str(folder / "tables.yaml"),
            "FIRNLINE_TEST_DRIVERS": str(folder),
            # The code under test is what the tests import.
            "PYTHONPATH": os.pathsep.join([str(HOOKS), os.environ.get("PYTHONPATH", "")]),
            "SAY": "hello",
        },
        connections={"spark_default": SPARK},
        pools=folder / "pools.json",
        schedules=True,
        triggerer=True,
        database=database,
        config=CONFIG,
    )


@contextmanager
def running(folder: Path) -> Iterator[Maintained]:
    """Start the stack; everything it writes is below the folder."""
    with ExitStack() as ends:
        server = _store(folder, ends)
        write_files(folder, server)
        stack = AirflowStack(folder / "home", options(folder), temporary_server())
        found = Maintained(stack, folder / "tables.yaml", server)
        try:
            stack.start()
            # While Airflow starts.
            for name, appends in FILLED.items():
                fill(found.table(name), appends)
            stack.wait_ready()
            stack.api.call("POST", "/connections", store_connection(server))
            yield found
        finally:
            stack.stop()


def _store(folder: Path, ends: ExitStack) -> S3Server | None:
    server = S3Server(folder / "s3")
    ends.callback(server.stop)
    try:
        return server.start()
    except EnvironmentFaultError:
        return None


def write_files(folder: Path, server: S3Server | None) -> None:
    """Settings, DAG files, pools and what Airflow itself is configured with."""
    tables, dags, config = folder / "tables", folder / "dags", folder / "home" / "config"
    for each in (tables, tables / "events", dags, config):
        each.mkdir(parents=True)
    settings_file = folder / "tables.yaml"
    settings_file.write_text(
        TABLES.format(
            folder=tables,
            store=server.url("dags") if server else f"file://{tables}",
            connection=CONNECTION,
            told=TOLD.format(folder=tables),
            by_day="partition_by: [day(ts)]",
            of_people="operations: [erase], own_dags: [], person: [k]",
        )
    )
    for file in (REPO / "dags").glob("*.py"):
        (dags / file.name).symlink_to(file)
    (dags / "trivial.py").write_text(TRIVIAL)
    (dags / "crowd.py").write_text(CROWD)
    (dags / "theirs.py").write_text(THEIRS)
    # Airflow has this folder on its path in every process.
    (config / "airflow_local_settings.py").write_text(POLICY)
    shutil.copy(REPO / "tests" / "support" / "notifier.py", config / "told_by.py")
    pools = {**pools_json(load_settings(settings_file)), "narrow": NARROW}
    for name in ("lost.merge", "lost.cleanup"):
        del pools[name]
    for name in ("wide.merge", "wide.cleanup", "unsafe.merge"):
        pools[name]["slots"] = 2
    pools["lean.merge"]["slots"] = 1
    (folder / "pools.json").write_text(json.dumps(pools))


# --- the process ----------------------------------------------------------------------------------


def state_of(found: Maintained) -> dict[str, Any]:
    """What other processes need to know to use the stack."""
    stack, server = found.stack, found.server
    return {
        "port": stack.port,
        "mark": stack.programs.mark,
        "pids": stack.programs.pids,
        "database": stack.options.database,
        "s3": None
        if server is None
        else {name: getattr(server, name) for name in ("port", "access_key", "secret_key")},
    }


def attached(folder: Path, state: dict[str, Any]) -> Maintained:
    """Return the stack that the keeper of the folder has started."""
    stack = AirflowStack(folder / "home", options(folder, state["database"]))
    stack.attach(state["port"], state["mark"], state["pids"])
    server = None
    if state["s3"] is not None:
        server = S3Server(folder / "s3")
        for name, value in state["s3"].items():
            setattr(server, name, value)
    return Maintained(stack, folder / "tables.yaml", server)


class Ended(BaseException):
    """The run has ended, or wants the stack to end."""


def _end(*_: object) -> None:
    # Once is enough: what ends the stack is not to be disturbed.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise Ended


def _end_after(pid: int) -> None:
    """End this process once the other has ended, however it did."""
    try:
        other = os.pidfd_open(pid)
    except ProcessLookupError:
        os.kill(os.getpid(), signal.SIGTERM)
        return
    select.select([other], [], [])
    os.kill(os.getpid(), signal.SIGTERM)


def main(folder: Path, pid: int) -> None:
    """Keep the stack of the folder until the process ends, or this one is sent SIGTERM."""
    signal.signal(signal.SIGTERM, _end)
    threading.Thread(target=_end_after, args=(pid,), daemon=True).start()
    try:
        with running(folder) as found:
            written = folder / "state.new"
            written.touch(mode=0o600)
            written.write_text(json.dumps(state_of(found)))
            written.rename(folder / "state.json")
            while True:
                signal.pause()
    except Ended:
        pass


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
