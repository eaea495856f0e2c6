"""Spark's S3 connector for tests: that of the Hadoop which PySpark brings, and what it needs."""

from __future__ import annotations

from pathlib import Path

from tools.gotools import cached
from tools.maven import ensure_jars, read_list

HADOOP = "3.5.0"
"""Of PySpark 4.3.0: the connector has to be of its version."""
JARS = Path(__file__).with_suffix(".sha256")


def ensure() -> str:
    """Return the jars as Spark's setting ``spark.jars`` has them, fetched on first use (690 MB).

    Raises EnvironmentFaultError.
    """
    return ",".join(map(str, ensure_jars(read_list(JARS), cached(f"sparks3-{HADOOP}"))))
