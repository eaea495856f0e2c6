"""What the DAG files import, imported once by Airflow's DAG processor."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from firnline.airflow.preload import MODULES
from tools.bootstrap import REPO

_FORKS = """
import os, sys
sys.argv = sys.argv[1:]
import airflow.sdk
from firnline.airflow import policy

def loaded():
    return int("firnline.airflow.dags" in sys.modules)

assert policy.task_instance_mutation_hook is not None
before = loaded()
child = os.fork()
if child == 0:
    os._exit(loaded())
print(before, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.long
@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["airflow", "dag-processor", "--num-runs", "1"], "0 1"),
        (["airflow", "scheduler"], "0 0"),
        (["airflow", "dags", "list", "dag-processor"], "0 0"),
    ],
    ids=str,
)
def test_forks_of_a_dag_processor_have_them_and_those_of_others_do_not(
    tmp_path: Path, argv: list[str], said: str
) -> None:
    env = {**os.environ, "AIRFLOW_HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", _FORKS, *argv], capture_output=True, text=True, env=env, check=True
    )
    assert done.stdout.splitlines()[-1] == said


@pytest.mark.long
def test_they_are_what_the_dag_files_import() -> None:
    named = {
        node.module
        for file in (REPO / "dags").glob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("firnline.airflow.")
    }
    code = f"import sys\nfor name in {MODULES!r}: __import__(name)\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert named <= set(done.stdout.split())


_PARSES = """
import os, sys
from pathlib import Path
import structlog
from airflow.dag_processing import manager, processor
from firnline.airflow.preload import before_forks

before_forks(["airflow", "dag-processor"])
for file in map(Path, sys.argv[1:]):
    child = os.fork()
    if child == 0:
        before = set(sys.modules)
        asked = processor.DagFileParseRequest(
            file=str(file), bundle_path=file.parent, bundle_name="dags-folder"
        )
        found = processor._parse_file(asked, structlog.get_logger())
        more = {n for n in set(sys.modules) - before if not n.startswith("unusual_prefix_")}
        made, failed = bool(found.serialized_dags), found.import_errors
        print("PARSED", file.stem, made, failed, *more, flush=True)
        os._exit(0)
    os.waitpid(child, 0)
"""


@pytest.mark.long
def test_parsing_a_file_imports_nothing_more(tmp_path: Path) -> None:
    """Making DAGs and turning them into JSON import as much again as the files name."""
    settings = tmp_path / "tables.yaml"
    given = "partition_by: [day(ts)], ttl: {keep: 9d}, sweep: {schedule: '@daily'}, own_dags: all"
    settings.write_text(f"tables: {{t: {{root: 's3://b/t', {given}}}}}")
    env = {
        **os.environ,
        "AIRFLOW_HOME": str(tmp_path),
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(REPO / "plugins"),
        "FIRNLINE_TABLES": str(settings),
    }
    files = sorted(map(str, (REPO / "dags").glob("*.py")))
    done = subprocess.run(
        [sys.executable, "-c", _PARSES, *files], capture_output=True, text=True, env=env, check=True
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("PARSED ")]
    assert lines == [f"PARSED {Path(file).stem} True {{}}" for file in files]
