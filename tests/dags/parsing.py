"""DAG files as a fresh process parses them: no network, what is made, how much work it is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from firnline.airflow.kept import _YOUNG_NS
from tools.bootstrap import REPO

HEAVY = ("pyarrow", "duckdb", "pyspark", "obstore", "pandas", "numpy", "polars", "sqlglot")

PARSER = """
import json, os, socket, sys

def refuse(*args, **kwargs):
    raise AssertionError(f"a request was sent while parsing: {args}")

socket.socket.connect = refuse
socket.getaddrinfo = refuse
import airflow.sdk
from airflow.dag_processing.dagbag import DagBag
from airflow.serialization.serialized_objects import DagSerialization

class Effort:
    # Calls of Python functions, and how often the settings were opened.
    def __init__(self):
        self.calls = self.reads = 0
        sys.addaudithook(self.look)

    def look(self, event, args):
        if event == "open" and args[0] == os.environ["FIRNLINE_TABLES"]:
            self.reads += 1

    def count(self, frame, event, arg):
        self.calls += event == "call"

    def of(self, work):
        self.calls = self.reads = 0
        sys.setprofile(self.count)
        try:
            work()
        finally:
            sys.setprofile(None)
        return [self.calls, self.reads]

def look(dag):
    data = DagSerialization.to_dict(dag)["dag"]
    return {
        "pools": {task.task_id: task.pool for task in dag.tasks},
        "pool_slots": {task.task_id: task.pool_slots for task in dag.tasks},
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
        "outlets": {
            t.task_id: [[a.name, getattr(a, "uri", "")] for a in t.outlets] for t in dag.tasks
        },
        "inlets": {t.task_id: [[a.name, a.uri] for a in t.inlets] for t in dag.tasks},
        "file": dag.fileloc,
        "on_failure": bool(dag.on_failure_callback),
        "deadline": bool(dag.deadline),
        "size": len(json.dumps(data)),
    }

def parse(asked):
    os.environ.update(asked["env"])
    bag = DagBag(asked["dags"], collect_dags=False)
    effort = {}
    if asked["measured"]:
        effort_of = Effort().of
        for name in sorted(os.listdir(asked["dags"])):
            file = os.path.join(asked["dags"], name)
            if name.endswith(".py"):
                # What is done once for each process is done the first time.
                bag.collect_dags(file)
                effort[name] = effort_of(lambda: bag.collect_dags(file, only_if_updated=False))
    else:
        bag.collect_dags(asked["dags"])
    shown = list(bag.dags.values())[: asked["shown"]]
    return {
        "errors": bag.import_errors, "ids": sorted(bag.dags), "effort": effort,
        "dags": {dag.dag_id: look(dag) for dag in shown},
        "modules": sorted(name for name in sys.modules if "." not in name),
    }

for line in sys.stdin:
    # Each parse is a process of its own that has imported Airflow, and nothing of ours.
    child = os.fork()
    if child == 0:
        asked = json.loads(line)
        with open(asked["answer"], "w") as file:
            json.dump(parse(asked), file)
        os._exit(0)
    print(os.waitpid(child, 0)[1], flush=True)
"""


class Parser:
    """A process that has imported Airflow, and parses in forks of it; a context manager.

    Args:
        home: an empty folder.
    """

    def __init__(self, home: Path) -> None:
        self.home = home

    def __enter__(self) -> Self:
        config = {
            "AIRFLOW__CORE__DAGBAG_IMPORT_TIMEOUT": "0",
            # The schedule of backfills is known by it.
            "AIRFLOW__CORE__PLUGINS_FOLDER": str(REPO / "plugins"),
        }
        self._process = subprocess.Popen(
            [sys.executable, "-c", PARSER],
            env={**os.environ, "AIRFLOW_HOME": str(self.home), **config},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # It has nothing to tidy up, which would take it a second.
        self._process.kill()
        self._process.communicate()

    def parse(
        self,
        folder: Path,
        tables: str,
        dags: Path = REPO / "dags",
        *,
        shown: int = 60,
        measured: bool = False,
        task_of: str | None = None,
    ) -> Any:
        """Return what a process finds in dags/ (or one file of it), with these settings.

        Args:
            folder: for the settings file.
            tables: its text.
            dags: which files.
            shown: how many DAGs are described.
            measured: whether to say by file how many functions were called, and how often the
                settings were opened.
            task_of: id of the DAG whose task starts; None: Airflow looks for DAGs.
        """
        file, answer = folder / "tables.yaml", folder / "parsed.json"
        file.write_text(tables)
        if measured:  # a file that was written just now is read anew each time
            time.sleep(_YOUNG_NS / 10**9 + 0.1)
        starting = {"_AIRFLOW_PARSING_CONTEXT_DAG_ID": task_of} if task_of else {}
        asked = {
            "dags": str(dags),
            "shown": shown,
            "measured": measured,
            "env": {"FIRNLINE_TABLES": str(file), **starting},
            "answer": str(answer),
        }
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{json.dumps(asked)}\n")
        self._process.stdin.flush()
        # Airflow may say something before, when it is imported.
        for line in self._process.stdout:
            if line.strip().isdigit():
                assert line.strip() == "0", f"the parse ended with {line}"
                return json.loads(answer.read_text())
        raise AssertionError("the parser ended")
