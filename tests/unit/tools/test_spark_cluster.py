"""The cluster of the tests and the demo, as far as it needs no process."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from firnline.spark.executors import ALWAYS
from tools.spark_cluster import HOSTS, SparkCluster, _install_python, _required


def test_what_packages_need_in_turn_is_installed_and_what_is_optional_is_not() -> None:
    assert _required(["obstore"]) == {"obstore", "typing-extensions"}
    assert _required(ALWAYS) == {*ALWAYS, "typing-extensions"}


@pytest.mark.long
def test_a_python_of_its_own_has_nothing_of_this_one(tmp_path: Path) -> None:
    _install_python(tmp_path / "python", ["msgspec"])
    code = "import sys, msgspec; print(sys.prefix, msgspec.__file__); import pyarrow"
    done = subprocess.run(
        [tmp_path / "python" / "bin" / "python", "-c", code],
        check=False,
        capture_output=True,
        text=True,
        env={"PATH": os.defpath},
    )
    prefix, file = done.stdout.split()
    assert prefix == str(tmp_path / "python")
    assert file.startswith(prefix)
    assert "No module named 'pyarrow'" in done.stderr


def test_each_executor_is_counted_by_application_and_host(tmp_path: Path) -> None:
    cluster = SparkCluster(tmp_path)
    one, other = HOSTS
    for host, executor in ((one, "app-1/0"), (other, "app-1/1"), (other, "app-2/0")):
        (cluster.work(host) / executor).mkdir(parents=True)
    assert cluster.ran() == {"app-1": [one, other], "app-2": [other]}
