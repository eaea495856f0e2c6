"""firnline itself, sent to executors on other machines: one version on both sides."""

from __future__ import annotations

import tempfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakSet

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OPT_OUT = "spark.firnline.ship"
"""Spark setting; "false" where the executors' image has firnline installed."""
_shipped: WeakSet[SparkSession] = WeakSet()
_folders: list[tempfile.TemporaryDirectory[str]] = []


def ship(session: SparkSession) -> None:
    """Send the package, once a session, unless its tasks run in this machine's own Python.

    What firnline needs (duckdb, obstore, pyarrow, msgspec) must be installed there.
    """
    if session in _shipped:
        return
    master = str(session.conf.get("spark.master", "") or "")
    wanted = str(session.conf.get(OPT_OUT, "true") or "true").lower()
    # The local master of a Connect server is local to the server, not to us.
    is_here = master.startswith("local") and not is_connect(session)
    if not is_here and wanted != "false":
        folder = tempfile.TemporaryDirectory(prefix="firnline-")
        # Executors that come later fetch it from here; the folder goes away with this process.
        _folders.append(folder)
        session.addArtifacts(str(zip_package(Path(folder.name))), pyfile=True)
    _shipped.add(session)


def is_connect(session: SparkSession) -> bool:
    """Whether the session is one on a Connect server."""
    return type(session).__module__.startswith("pyspark.sql.connect")


def zip_package(folder: Path) -> Path:
    """A zip of the package, importable as it is."""
    import firnline

    package = Path(firnline.__file__).parent
    target = folder / "firnline.zip"
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(package.rglob("*.py")):
            archive.write(path, path.relative_to(package.parent))
    return target
