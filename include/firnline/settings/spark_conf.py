"""Spark configuration of firnline's jobs, as text: spark-submit needs it before Python runs.

The JVM of a firnline job only schedules work and all rows pass through DuckDB, so only the fast
first tier of the JIT compiler is used. Measured (start of an application, CPU seconds): 10.5 with
Spark's defaults, 5.7 with these, 3.4 with a class archive as well (firnline.spark.archive).
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Mapping
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from firnline.settings.load import TableSettings

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


def conf_of(table: TableSettings) -> dict[str, str]:
    """Return the configuration of an application for a table: its ``spark.conf``, completed.

    The one rule for jobs of Airflow, jobs by hand and ``firnline --engine spark``.
    """
    merge = table.merge
    return with_defaults(table.spark.conf, merge.kernel_memory, merge.kernel_threads)


def with_defaults(
    conf: Mapping[str, str], kernel_memory: int | None = None, kernel_threads: int = 1
) -> dict[str, str]:
    """Return the configuration of a job: ``conf``, completed with the defaults.

    Args:
        conf: the user's settings (``spark.conf`` of the table).
        kernel_memory: bytes per kernel; determines the memory overhead of an executor. Standalone
            clusters do not account for it; YARN and Kubernetes kill executors without it.
        kernel_threads: threads of one kernel; a task takes as many of Spark's cores.
    """
    defaults = dict(_DEFAULTS)
    if kernel_threads > 1:
        defaults["spark.task.cpus"] = str(kernel_threads)
    archive = archive_path()
    if archive.exists() and " " not in str(archive):
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


_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_OWNED_KEYS = (
    "access|account|api|client|customer|decryption|encryption|hmac|master|private|sas|secret|service"
    "|shared|signing|ssh|storage|subscription"
)
_CREDENTIAL = re.compile(
    r"\w*secrets?|\w*passw(?:or)?d|\w*passphrase|pwd|pass|sas|creds?|\w*credentials?|\w*tokens?"
    rf"|api_?key|(?:{_OWNED_KEYS})_?keys?|connection_string|conn_str|dsn|airflow_conn"
)
"""Names of credentials, in words joined by ``_``."""
_ABOUT_IT = re.compile(
    r"\w*providers?|class|impl|\w*file|\w*path|location|dir|folder|type|enabled|length|size|bits"
    r"|endpoint|ur[il]|interval|ratio|wait|ttl|expiration|duration|algorithm|ref|retriever"
)
"""Words behind such a name that make it a path, a provider or a length, not a credential."""
_AZURE = re.compile(r"fs\.azure\.(account\.key|sas(?!\.token\.provider))\.", re.ASCII)
"""Prefix of credentials on Azure; the rest is the name of an account or container."""
_AZURE_ACCOUNT = re.compile(r"\.[^.]+\.(?:blob|dfs)\..+$")
_BUCKET = re.compile(r"(fs\.s3a)\.bucket\.[^.]+(?=\.)")
_NAMED_SECRETS = re.compile(r"spark\.kubernetes\.(?:driver|executor)\.(?:secrets|secretKeyRef)\.")
"""Settings that name Kubernetes secrets for a pod, which is the recommended way."""
_ENVIRONMENT = re.compile(r"spark\.(?:executorEnv|yarn\.appMasterEnv|kubernetes\.driverEnv)\.")
_PATHS = {"GOOGLE_APPLICATION_CREDENTIALS", "PWD", "OLDPWD"}
"""Variables that hold a path in spite of their names."""
_VALUE = re.compile(
    r"://[^/\s@]*:[^/\s@]+@|-----BEGIN |AccountKey=|SharedAccessSignature=|[?&]sig=", re.IGNORECASE
)
_JAVA_OPTION = re.compile(r"-D([^\s=]+)=")


def is_credential(name: str, value: str) -> bool:
    """Return True if a Spark setting seems to hold a credential of a store, a database or Spark.

    Judges by the words of the name: those of Hadoop's connectors (S3A, Azure, Google), of Spark
    and of environment variables (``spark.executorEnv.DB_PWD``). Names of classes, providers, files
    and Kubernetes secrets are not credentials. A value with a URL with a password, a private key,
    an Azure connection string or such a Java option (``-Dname=value``) is one.

    Args:
        name: of the setting, from ``spark.`` on, or of a Java system property.
        value: of the setting.
    """
    if _VALUE.search(value) or any(is_credential(n, "") for n in _JAVA_OPTION.findall(value)):
        return True
    if _AZURE.search(name):
        return True
    if _NAMED_SECRETS.match(name) or _ENVIRONMENT.sub("", name, count=1) in _PATHS:
        return False
    if name.endswith("encryption.key") and value.startswith("arn:"):
        return False  # S3A: the name of a key that KMS keeps
    stem = _BUCKET.sub(r"\1", _AZURE_ACCOUNT.sub("", name))
    words = [word.lower() for word in _WORDS.findall(stem)]
    return any(
        not any(_ABOUT_IT.fullmatch(later) for later in words[end:])
        for start in range(len(words))
        for end in (start + 1, start + 2)
        if _CREDENTIAL.fullmatch("_".join(words[start:end]))
    )


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
