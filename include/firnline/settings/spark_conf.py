"""Spark configuration of firnline's jobs, as text: spark-submit needs it before Python runs.

The JVM of a firnline job only schedules work and all rows pass through DuckDB, so only the fast
first tier of the JIT compiler is used. Measured (start of an application, CPU seconds): 10.5 with
Spark's defaults, 5.7 with these, 3.4 with a class archive as well (firnline.spark.archive).
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Mapping
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from firnline.settings.load import TableSettings

OPT_OUT = "spark.firnline.ship"
"""Spark setting; "false" if the executors' image or archive has firnline."""
LIGHT_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_MIB = 2**20
_MEMORY_MARGIN = 1.3
"""Memory limit of a kernel as a multiple of ``kernel_memory`` (firnline.kernel.merge)."""
_LEAST_MARGIN = 64 * _MIB
"""Bytes that a kernel may use beyond ``kernel_memory`` at least."""

_DEFAULTS = {
    "spark.driver.extraJavaOptions": LIGHT_JVM,
    "spark.executor.extraJavaOptions": LIGHT_JVM,
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Queries return one row of JSON: generating and compiling code for them costs seconds.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


def conf_of(table: TableSettings, *, elsewhere: bool = False) -> dict[str, str]:
    """Return the configuration of an application for a table: its ``spark.conf``, completed.

    The one rule for jobs of Airflow, jobs by hand and ``firnline --engine spark``.

    Args:
        table: the table.
        elsewhere: its driver has not the files of this machine.
    """
    merge = table.merge
    return with_defaults(
        table.spark.conf, merge.kernel_memory, merge.kernel_threads, elsewhere=elsewhere
    )


def with_defaults(
    conf: Mapping[str, str],
    kernel_memory: int | None = None,
    kernel_threads: int = 1,
    *,
    elsewhere: bool = False,
) -> dict[str, str]:
    """Return the configuration of a job: ``conf``, completed with the defaults.

    Args:
        conf: the user's settings (``spark.conf`` of the table).
        kernel_memory: bytes per kernel; determines the memory overhead of an executor. Standalone
            clusters do not account for it; YARN and Kubernetes kill executors without it.
        kernel_threads: threads of one kernel; a task takes as many of Spark's cores.
        elsewhere: as ``conf_of``.
    """
    defaults = dict(_DEFAULTS)
    if kernel_threads > 1:
        defaults["spark.task.cpus"] = str(kernel_threads)
    archive = archive_path()
    if not elsewhere and archive.exists() and " " not in str(archive):
        # Logging is off: Java reports an archive that does not fit, and continues without it.
        defaults["spark.driver.extraJavaOptions"] += (
            f" -XX:SharedArchiveFile={archive} -Xlog:cds=off -Xlog:cds+dynamic=off"
        )
    merged = {**defaults, **conf}
    sized = {"spark.executor.memoryOverhead", "spark.executor.memoryOverheadFactor"}
    if kernel_memory is not None and not sized.intersection(conf):
        cores = int(merged.get("spark.executor.cores", "1"))
        kernels = max(1, cores // int(merged.get("spark.task.cpus", "1")))
        each = max(kernel_memory * _MEMORY_MARGIN, kernel_memory + _LEAST_MARGIN)
        need = int(kernels * each) // _MIB
        merged["spark.executor.memoryOverhead"] = f"{need + 384}m"
    return merged


def archive_path() -> Path:
    """Return the path of the class archive, in a folder that only this user can write to.

    ``$FIRNLINE_CACHE``, else ``firnline`` in the user's cache folder.
    """
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    folder = os.environ.get("FIRNLINE_CACHE") or str(Path(cache, "firnline"))
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else shutil.which("java")
    return Path(folder, f"spark-{_installation(java)}.jsa")


@lru_cache(maxsize=8)
def _installation(java: str | None) -> str:
    """Return an id of this Java and pyspark: Java ignores an archive of any other."""
    try:
        pyspark = distribution("pyspark")
        jars = Path(str(pyspark.locate_file("pyspark/jars")))
        version = pyspark.version
    except PackageNotFoundError:
        return "none"
    parts = [jars, *([] if java is None else [Path(java).resolve()])]
    stamps = [f"{part}:{part.stat().st_mtime_ns if part.exists() else 0}" for part in parts]
    return f"{version}-{hashlib.sha256('|'.join(stamps).encode()).hexdigest()[:12]}"
