"""Open the Spark session of a job: by spark-submit, by master, or on a Connect server."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import warnings
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from firnline.errors import EnvironmentFaultError, first_line
from firnline.extras import require, two_pysparks
from firnline.settings.spark_conf import with_defaults

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_INSTALL_JAVA = (
    "install a Java 17 or 21 runtime (openjdk-17-jre-headless on Debian) or point JAVA_HOME at one"
)


def is_submitted(environ: Mapping[str, str] | None = None) -> bool:
    """Return True if spark-submit started this process: then the JVM is running already."""
    return "PYSPARK_GATEWAY_PORT" in (os.environ if environ is None else environ)


def open_session(
    name: str,
    conf: Mapping[str, str],
    master: str | None = None,
    remote: str | None = None,
) -> SparkSession:
    """Open a session for one job.

    Args:
        name: name in Spark's web UI.
        conf: Spark settings; see ``spark_conf.with_defaults``.
        master: Spark master without spark-submit; None: ``conf`` or ``local[*]``.
        remote: URL of a Connect server (``sc://host:15002``): no JVM starts here at all.

    Raises:
        EnvironmentFaultError: Java is missing or too old, pyspark is a mixture of two versions, or
            no client of Spark Connect, or Spark cannot be reached.
    """
    require("pyspark")
    remote = remote or os.environ.get("SPARK_REMOTE")
    if remote is not None:
        from firnline.spark.versions import refuse_connect

        refuse_connect()
        require("grpc")
    if remote is None and not is_submitted():
        check_java()
    # pyspark warns about the pandas version; no pandas object is created here.
    warnings.filterwarnings("ignore", ".*pandas", FutureWarning)
    import pyspark
    from pyspark.sql import SparkSession

    _refuse_overwritten(pyspark)
    builder = SparkSession.builder.appName(name)
    if remote is not None:
        builder = builder.remote(remote)
    else:
        for key, value in _of_driver(conf, master).items():
            builder = builder.config(key, value)
    try:
        session: SparkSession = builder.getOrCreate()
        session.conf.get("spark.sql.session.timeZone")  # the first request to a Connect server
    except Exception as error:
        where = remote or master or conf.get("spark.master") or "the configured master"
        text = first_line(error)
        raise EnvironmentFaultError(
            f"no Spark session on {where}: {text}",
            next_step="check the master's or server's address and its log, then run again",
        ) from error
    return session


def given_session(name: str) -> SparkSession:
    """Return the session of the platform that started this driver, with its configuration.

    Raises EnvironmentFaultError: it has none.
    """
    require("pyspark")
    from pyspark.sql import SparkSession

    try:
        return SparkSession.builder.appName(name).getOrCreate()
    except Exception as error:
        text = first_line(error)
        raise EnvironmentFaultError(
            f"this driver has no Spark session: {text}",
            next_step="read the log of the driver above this line, then run again",
        ) from error


def keeps_session() -> bool:
    """Return True if other jobs go on with the session: a cluster of Databricks has one."""
    return "DATABRICKS_RUNTIME_VERSION" in os.environ


def _of_driver(conf: Mapping[str, str], master: str | None) -> dict[str, str]:
    """Return the settings for a driver in this process."""
    wanted = with_defaults(conf)
    if not is_submitted():
        wanted["spark.master"] = master or wanted.get("spark.master") or "local[*]"
        if python := wanted.get("spark.pyspark.python"):
            # As spark-submit does: without it, pyspark itself looks at the variable alone.
            os.environ["PYSPARK_PYTHON"] = python
    place = wanted.get("spark.master", os.environ.get("MASTER", ""))
    if not place.startswith("local"):
        return wanted
    _fit_into(place, wanted)
    # Through TCP, every task waits 40 ms for the acknowledgement of a packet (Nagle's algorithm).
    wanted.setdefault("spark.python.unix.domain.socket.enabled", "true")
    # The workers must be this very Python: the default is the first python3 on the PATH.
    if os.environ.setdefault("PYSPARK_PYTHON", sys.executable) == sys.executable:
        wanted.setdefault("spark.python.daemon.module", "firnline.spark.daemon")
    return wanted


_CORES = re.compile(r"local(?:\[(?P<cores>\d+|\*)(?:,.*)?\])?")


def _fit_into(master: str, conf: dict[str, str]) -> None:
    """Let a task take no more cores than a local master has: Spark refuses to start otherwise."""
    found = _CORES.fullmatch(master)
    if found is None or "spark.task.cpus" not in conf:
        return
    stated = found["cores"] or "1"
    cores = (os.cpu_count() or 1) if stated == "*" else int(stated)
    conf["spark.task.cpus"] = str(max(1, min(cores, int(conf["spark.task.cpus"]))))


def _refuse_overwritten(package: ModuleType) -> None:
    """Raise EnvironmentFaultError if files of pyspark-client lie over the pyspark that is used.

    A cluster's own pyspark, of $SPARK_HOME, comes before what pip has installed here.
    """
    fault = two_pysparks()
    if fault is not None and version("pyspark-client") == package.__version__:
        raise fault


def check_java(environ: Mapping[str, str] | None = None) -> int:
    """Return the major version of the Java that Spark would start.

    Raises:
        EnvironmentFaultError: there is no Java, or it is too old.
    """
    env = os.environ if environ is None else environ
    home = env.get("JAVA_HOME")
    found = str(Path(home, "bin", "java")) if home else shutil.which("java", path=env.get("PATH"))
    if found is None or not os.access(found, os.X_OK):
        where = f"under JAVA_HOME={home}" if home else "on the PATH, and JAVA_HOME is not set"
        raise EnvironmentFaultError(
            f"Spark needs Java and there is none {where}", next_step=_INSTALL_JAVA
        )
    from firnline.spark.versions import OLDEST_JAVA

    java = _version(Path(found).resolve())
    if java < OLDEST_JAVA:
        raise EnvironmentFaultError(
            f"Spark needs Java {OLDEST_JAVA} or newer and {found} is Java {java}",
            next_step=_INSTALL_JAVA,
        )
    return java


def _version(java: Path) -> int:
    """Read the version from the release file, which costs nothing, else from Java itself."""
    release = java.parent.parent / "release"
    text = release.read_text(errors="replace") if release.is_file() else ""
    match = re.search(r'JAVA_VERSION="(?:1\.)?(\d+)', text)
    if match is None:
        try:
            done = subprocess.run(
                [java, "-version"], capture_output=True, text=True, check=False, timeout=30
            )
            match = re.search(r'version "(?:1\.)?(\d+)', done.stderr)
        except (OSError, subprocess.TimeoutExpired):
            match = None
    if match is None:
        raise EnvironmentFaultError(
            f"{java} does not say which Java it is", next_step=_INSTALL_JAVA
        )
    return int(match[1])
