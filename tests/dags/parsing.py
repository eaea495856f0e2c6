"""DAG files as a fresh process parses them: no network, what is made, how long it takes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from firnline_dev.bootstrap import REPO

HEAVY = ("pyarrow", "duckdb", "pyspark", "obstore", "pandas", "numpy", "polars", "sqlglot")

PARSE = """
import json, socket, sys, time

def refuse(*args, **kwargs):
    raise AssertionError(f"a request was sent while parsing: {args}")

socket.socket.connect = refuse
socket.getaddrinfo = refuse
import airflow.sdk
from airflow.dag_processing.dagbag import DagBag
started = time.process_time()
bag = DagBag(sys.argv[1], collect_dags=False)
bag.collect_dags(sys.argv[1])
seconds = time.process_time() - started  # other work on this machine does not count
from airflow.serialization.serialized_objects import DagSerialization

shown = {}
for dag in list(bag.dags.values())[:60]:
    data = DagSerialization.to_dict(dag)["dag"]
    shown[dag.dag_id] = {
        "pools": {task.task_id: task.pool for task in dag.tasks},
        "doc": dag.doc_md,
        "owner": dag.owner,
        "tags": sorted(dag.tags),
        "max_active_runs": dag.max_active_runs,
        "catchup": dag.catchup,
        "timetable": data["timetable"],
        "params": {
            name: [dag.params.get_param(name).value, dag.params.get_param(name).schema]
            for name in dag.params
        },
        "timeouts": [t.task_id for t in dag.tasks if not t.execution_timeout],
        "retries": {task.task_id: task.retries for task in dag.tasks},
        "downstream": {task.task_id: sorted(task.downstream_task_ids) for task in dag.tasks},
        "outlets": {t.task_id: [[a.name, a.uri] for a in t.outlets] for t in dag.tasks},
        "inlets": {t.task_id: [[a.name, a.uri] for a in t.inlets] for t in dag.tasks},
        "file": dag.fileloc,
        "on_failure": bool(dag.on_failure_callback),
        "deadline": bool(dag.deadline),
        "size": len(json.dumps(data)),
    }
print(json.dumps({
    "errors": bag.import_errors, "ids": sorted(bag.dags), "dags": shown, "seconds": seconds,
    "files": {stat.file.strip("/"): stat.duration.total_seconds() for stat in bag.dagbag_stats},
    "modules": sorted(name for name in sys.modules if "." not in name),
}))
"""


def parse(folder: Path, tables: str, dags: Path = REPO / "dags", **env: str) -> Any:
    """What a fresh process finds in dags/ (or one file of it), with these settings."""
    file = folder / "tables.yaml"
    file.write_text(tables)
    done = subprocess.run(
        [sys.executable, "-c", PARSE, str(dags)],
        env={**os.environ, "AIRFLOW_HOME": str(folder), "FIRNLINE_TABLES": str(file), **env},
        check=True,
        capture_output=True,
        text=True,
    )
    return json.loads(done.stdout.splitlines()[-1])
