"""Spark's S3 connector for tests: that of the Hadoop which PySpark brings, and what it needs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tools.gotools import cached, caches
from tools.maven import ensure_jars, read_list

HADOOP = "3.5.0"
"""Of PySpark 4.3.0: the connector has to be of its version."""
JARS = Path(__file__).with_suffix(".sha256")


_FOLDER = f"sparks3-{HADOOP}"
WHY_FULL = "fetches Spark's S3 connector, 690 MB, once for a user"
"""Of tests that need it, for a user who does not have it."""
_NAMED = "org.apache.hadoop:hadoop-aws"
"""What users name in ``spark.jars.packages``; the other jars come with it."""


def is_there() -> bool:
    """True if the jars have been fetched."""
    return any((folder / _FOLDER).exists() for folder in caches())


def ensure() -> str:
    """Return the jars as Spark's setting ``spark.jars`` has them, fetched on first use (690 MB).

    Raises EnvironmentFaultError.
    """
    return ",".join(map(str, ensure_jars(read_list(JARS), cached(_FOLDER))))


def repository(home: Path) -> Path:
    """Make a home of Ivy in which ``spark.jars.packages`` finds the connector without a network.

    Args:
        home: what Spark's setting ``spark.jars.ivy`` is to be.

    Returns ``home``. Raises EnvironmentFaultError as ``ensure``.
    """
    jars = read_list(JARS)
    others = [jar for jar in jars if not jar.startswith(f"{_NAMED}:")]
    for jar, file in zip(jars, ensure_jars(jars, cached(_FOLDER)), strict=True):
        group, name, version = jar.split(":")
        module = home / "local" / group / name / version
        for folder in ("jars", "ivys"):
            (module / folder).mkdir(parents=True)
        (module / "jars" / f"{name}.jar").symlink_to(file)
        needs = [] if jar in others else others
        (module / "ivys" / "ivy.xml").write_text(_described(jar, needs), encoding="utf-8")
    return home


def _described(jar: str, needs: Sequence[str]) -> str:
    """Return the file in which Ivy reads what a jar is and what it needs."""
    group, name, version = jar.split(":")
    needed = (each.split(":") for each in needs)
    dependencies = "".join(
        f'<dependency org="{org}" name="{other}" rev="{rev}" conf="default->default"/>'
        for org, other, rev in needed
    )
    return (
        f'<ivy-module version="2.0"><info organisation="{group}" module="{name}" '
        f'revision="{version}"/><configurations><conf name="default"/></configurations>'
        f'<publications><artifact name="{name}" type="jar" ext="jar" conf="default"/>'
        f"</publications><dependencies>{dependencies}</dependencies></ivy-module>"
    )
