"""firnline in this environment's Airflow: it starts, reads the DAG files, and has what we register.

Needs nothing of the repository's tests and no package that Airflow and firnline do not need.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

versions = pytest.importorskip("firnline.airflow.versions", reason="there is no Airflow here")

REPO = Path(__file__).resolve().parent.parent.parent
LOOK = REPO / "tests" / "smoke" / "look.py"
BIN = Path(sys.executable).parent
TABLES = """\
defaults: {alerts: {merge_deadline: 1h}}
tables:
  shared: {root: 'file:///nowhere/shared', partition_by: [{column: day}]}
  own:
    root: file:///nowhere/own
    partition_by: [{transform: day, column: t}]
    own_dags: [merge, tombstone_cleanup, rewrite_partitions, verify]
    merge: {schedule: '@hourly'}
"""
EXAMPLES = """\
tables:
  events:
    root: s3://lake/events
    partition_by: [{column: day}]
    own_dags: [verify]
    verify: {schedule: null}
  users: {root: s3://lake/users, partition_by: [{transform: day, column: ts}]}
  orders: {root: s3://lake/orders, partition_by: [{column: day}]}
"""
FOR_ALL = {
    "delete_where",
    "erase",
    "fleet__merge",
    "import",
    "merge",
    "orphan_sweep",
    "rebuild",
    "remove_partitions",
    "replace",
    "restore",
    "rewrite_partitions",
    "tombstone_cleanup",
    "update_where",
    "verify",
}
OWN = {"merge__own", "tombstone_cleanup__own", "rewrite_partitions__own", "verify__own"}

READ_EXAMPLES = """
import os
from firnline.airflow.versions import DagBag, DagSerialization

bag = DagBag(os.environ["AIRFLOW__CORE__DAGS_FOLDER"])
assert not bag.import_errors, bag.import_errors
for dag in bag.dags.values():
    DagSerialization.from_dict(DagSerialization.to_dict(dag))
print("READ", *sorted(bag.dags))
"""


MERGED = """\
tables:
  events:
    root: file://HOME/events
    partition_by: [{column: day}]
    merge: {min_inputs: 2, schedule: null}
    spark: {launcher: none}
"""


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A fresh home of Airflow with the DAG files and plugins of the repository."""
    home = tmp_path_factory.mktemp("airflow")
    (home / "tables.yaml").write_text(TABLES)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW")}
    return {
        **kept,
        "PATH": f"{BIN}:{os.environ['PATH']}",
        "PYTHONPATH": str(REPO / "include"),
        "PYTHONWARNINGS": "default::DeprecationWarning:firnline",
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__DAGS_FOLDER": str(REPO / "dags"),
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(REPO / "plugins"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "FIRNLINE_TABLES": str(home / "tables.yaml"),
    }


def run(environment: dict[str, str], *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False, timeout=300
    )


@pytest.fixture(scope="module")
def seen(environment: dict[str, str]) -> dict[str, Any]:
    """What a process of this Airflow has found."""
    done = run(environment, sys.executable, str(LOOK))
    assert done.returncode == 0, done.stderr
    line = next(line for line in done.stdout.splitlines() if line.startswith("SEEN "))
    found: dict[str, Any] = json.loads(line.removeprefix("SEEN "))
    return found


def test_airflow_tells_its_version_and_nothing_of_us(environment: dict[str, str]) -> None:
    """An error in the entry point would stop every command; a warning would stand in each."""
    done = run(environment, str(BIN / "airflow"), "version")
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[-1] == versions.VERSION
    assert "firnline" not in done.stdout + done.stderr


def test_airflow_makes_its_database(environment: dict[str, str]) -> None:
    done = run(environment, str(BIN / "airflow"), "db", "migrate")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "firnline" not in done.stderr


@pytest.mark.turn
def test_a_run_of_the_dag_merges_the_parts_of_its_table(environment: dict[str, str]) -> None:
    home = Path(environment["AIRFLOW_HOME"], "merged")
    home.mkdir()
    (home / "tables.yaml").write_text(MERGED.replace("HOME", str(home)))
    there = {**environment, "FIRNLINE_TABLES": str(home / "tables.yaml"), "AIRFLOW_HOME": str(home)}

    def done(*command: str) -> str:
        done = run(there, *command)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    for k in range(3):
        pq.write_table(pa.table({"day": ["2024-01-01"], "k": [k]}), home / f"{k}.parquet")
        done("firnline", "append", "events", str(home / f"{k}.parquet"))
    done("airflow", "db", "migrate")
    (home / "pools.json").write_text(done("firnline", "pools"))
    done("airflow", "pools", "import", str(home / "pools.json"))
    conf = json.dumps({"table": "events", "dry_run": False})
    done("airflow", "dags", "test", "merge", "--conf", conf)
    (merge,) = json.loads(done("firnline", "history", "events", "--json"))["transactions"]
    assert (merge["op"], merge["run"]["dag_id"]) == ("merge", "merge")
    assert (merge["parts_in"], merge["parts_out"], merge["rows_out"]) == (3, 1, 3)
    (day,) = json.loads(done("firnline", "parts", "events", "--json"))["partitions"]
    assert (day["parts"], day["rows"]) == (1, 3)


def test_every_dag_file_is_read_and_every_dag_can_be_stored(seen: dict[str, Any]) -> None:
    assert seen["errors"] == {}
    assert seen["problems"] == {}
    assert set(seen["dags"]) == FOR_ALL | OWN


def test_every_example_is_read_and_can_be_stored(environment: dict[str, str]) -> None:
    tables = Path(environment["AIRFLOW_HOME"], "examples.yaml")
    tables.write_text(EXAMPLES)
    there = {
        "AIRFLOW__CORE__DAGS_FOLDER": str(REPO / "docs" / "examples" / "airflow"),
        "FIRNLINE_TABLES": str(tables),
    }
    done = run({**environment, **there}, sys.executable, "-c", READ_EXAMPLES)
    assert done.returncode == 0, done.stderr
    assert " load_and_merge " in done.stdout


def test_the_plugin_is_loaded(seen: dict[str, Any]) -> None:
    assert {path: why for path, why in seen["plugins"].items() if "firnline" in path + why} == {}
    assert "BackfillOnly" in seen["plugin"]["timetables"]
    assert "pool_guard" in seen["plugin"]["listeners"]


def test_the_policy_is_registered(seen: dict[str, Any]) -> None:
    assert "firnline" in seen["hooks"]


def test_a_deadline_is_there_or_the_dag_says_that_it_is_not(seen: dict[str, Any]) -> None:
    late = {"merge", "merge__own"}
    has = {name for name, there in seen["deadlines"].items() if there}
    says = {name for name, doc in seen["docs"].items() if "**No deadline:**" in (doc or "")}
    assert (has, says) == ((late, set()) if versions.AIRFLOW_3_1_PLUS else (set(), late))
