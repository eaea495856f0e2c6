"""The DAGs, plugin and policy of an image, with the tables of its settings file.

`astro dev pytest` runs these tests in the image: they need nothing that it does not install.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

HOME = Path(__file__).resolve().parent.parent.parent
"""The clone, or the home of Airflow in the image: it has ``dags``, ``plugins`` and ``include``."""
BIN = Path(sys.executable).parent
LOOK = Path(__file__).with_name("look.py")


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """That of the image, but for a home of Airflow that nobody uses."""
    tables = str(HOME / "include" / "tables.yaml")
    return {
        "FIRNLINE_TABLES": tables,
        **os.environ,
        "PATH": f"{BIN}:{os.environ['PATH']}",
        "AIRFLOW_HOME": str(tmp_path_factory.mktemp("airflow")),
        "AIRFLOW__CORE__DAGS_FOLDER": str(HOME / "dags"),
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(HOME / "plugins"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
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


def test_airflow_starts_and_says_nothing_of_firnline(environment: dict[str, str]) -> None:
    done = run(environment, "airflow", "version")
    assert done.returncode == 0, done.stderr
    assert "firnline" not in done.stdout + done.stderr


def test_the_settings_have_no_mistake(environment: dict[str, str]) -> None:
    done = run(environment, "firnline", "settings", "check")
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_dag_file_is_read_and_every_dag_can_be_stored(seen: dict[str, Any]) -> None:
    assert seen["errors"] == {}
    assert seen["problems"] == {}
    assert {"merge", "tombstone_cleanup", "verify", "fleet__merge"} <= set(seen["dags"])


def test_plugin_and_policy_are_registered(seen: dict[str, Any]) -> None:
    assert {path: why for path, why in seen["plugins"].items() if "firnline" in path + why} == {}
    assert "pool_guard" in seen["plugin"]["listeners"]
    assert "firnline" in seen["hooks"], "tasks would not get the pool of their table"


def test_spark_has_a_java_that_it_takes(environment: dict[str, str]) -> None:
    java = Path(environment["JAVA_HOME"], "bin", "java") if "JAVA_HOME" in environment else "java"
    done = run(environment, str(java), "-version")
    found = re.search(r'version "(\d+)', done.stderr)
    assert found, done.stderr
    assert int(found[1]) >= 17


def test_one_pyspark_is_installed(environment: dict[str, str]) -> None:
    code = "from firnline.extras import two_pysparks as two; wrong = two(); assert not wrong, wrong"
    done = run(environment, sys.executable, "-c", code)
    assert done.returncode == 0, done.stderr
