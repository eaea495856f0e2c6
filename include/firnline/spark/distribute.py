"""Send firnline to executors on other machines, so that both sides have one version."""

from __future__ import annotations

import tempfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakSet

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OPT_OUT = "spark.firnline.ship"
"""Spark setting; "false" if the executors' image has firnline installed."""
_distributed: WeakSet[SparkSession] = WeakSet()
_folders: list[tempfile.TemporaryDirectory[str]] = []


def distribute(session: SparkSession) -> None:
    """Send the package, once per session, unless its tasks run in this machine's own Python.

    The dependencies (duckdb, obstore, pyarrow, msgspec) must be installed on the executors.
    """
    if session in _distributed:
        return
    master = str(session.conf.get("spark.master", "") or "")
    wanted = str(session.conf.get(OPT_OUT, "true") or "true").lower()
    # The local master of a Connect server is local to the server, not to us.
    is_here = master.startswith("local") and not is_connect(session)
    if not is_here and wanted != "false":
        folder = tempfile.TemporaryDirectory(prefix="firnline-")
        # Executors that start later fetch it from here; the folder is deleted with this process.
        _folders.append(folder)
        session.addArtifacts(str(zip_package(Path(folder.name))), pyfile=True)
    _distributed.add(session)


def is_connect(session: SparkSession) -> bool:
    """Return True if the session is one on a Connect server."""
    return type(session).__module__.startswith("pyspark.sql.connect")


def zip_package(folder: Path) -> Path:
    """Write the package into an importable zip file."""
    import firnline

    package = Path(firnline.__file__).parent
    target = folder / "firnline.zip"
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(package.rglob("*.py")):
            archive.write(path, path.relative_to(package.parent))
    return target
