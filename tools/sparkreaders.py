"""Spark as a reader of mirrors, in an environment of its own.

    python -m tools.sparkreaders    make it, and print the path of its Python

The newest libraries of Delta and Iceberg for Spark do not run with the Spark that firnline is
tested with. So they get a Spark of their own under .cache: pinned versions, jars with checksums.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

from tools import environments
from tools.maven import check, jar_name

PYSPARK = "4.1.4"
PACKAGES = {
    "io.delta:delta-spark_4.1_2.13:4.4.0": (
        "75a9400986853c061f5109f012547de2545a5759e5e752e5ef633dabe16a4f10"
    ),
    "io.delta:delta-storage:4.4.0": (
        "c46735481fa8e326b0957be02b4420cbcab4b325bb08009b7f2045a95133f1cc"
    ),
    "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0": (
        "3123c3798af642dd537230923548e013ef41cc28b6626e5225808cf5670a0f82"
    ),
    # The catalog of the tests is a SQLite database.
    "org.xerial:sqlite-jdbc:3.50.3.0": (
        "a3f53a2aa15ae9425a9e793bbe9c8e5288febeb4b65ef5c1a4e80d4c2045cf08"
    ),
}
"""Package of Maven Central -> SHA-256 of its jar."""
_NAME = f"sparkreaders-{PYSPARK}"
_HOME = environments.home_of(_NAME)


def ensure() -> Path:
    """Return the Python of the environment, made on first use (600 MB).

    Raises EnvironmentFaultError: it cannot be made here, or a jar is not what it was.
    """
    return environments.ensure(_NAME, [f"pyspark=={PYSPARK}"], _complete)


def _complete(python: Path) -> None:
    _fetch(python)
    for package, digest in PACKAGES.items():
        check(_path(package), package, digest)


def jars() -> str:
    """Return the jars as Spark's setting ``spark.jars`` has them."""
    return ",".join(str(_path(package)) for package in PACKAGES)


def _path(package: str) -> Path:
    return _HOME / "ivy" / "jars" / jar_name(package)


def _fetch(python: Path) -> None:
    """Let Spark resolve the packages, as it does for its users."""
    with tempfile.TemporaryDirectory() as folder:
        nothing = Path(folder) / "nothing.py"
        nothing.write_text("", encoding="utf-8")
        settings = ["--master", "local[1]", "--packages", ",".join(PACKAGES)]
        settings += ["--conf", f"spark.jars.ivy={_HOME / 'ivy'}"]
        submit = str(python.with_name("spark-submit"))
        clean = {k: v for k, v in os.environ.items() if k not in ("SPARK_HOME", "PYTHONPATH")}
        # By which spark-submit finds its Spark; else by the first `python3` of the path.
        clean |= dict.fromkeys(("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"), str(python))
        subprocess.run(
            [submit, *settings, str(nothing)], check=True, capture_output=True, env=clean
        )


if __name__ == "__main__":
    print(ensure())
