"""Check, before the first group, that the executors have the Python modules of a kernel.

Without them every group would fail in turn, each as if its parts were at fault. One job of a few
tasks checks it, once per application. Only this module is sent to the executors; it needs nothing
but Python and pyarrow, which Spark requires to call it.
"""

from __future__ import annotations

import importlib
import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from weakref import WeakSet

from firnline.errors import EnvironmentFaultError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from firnline.store.access import StoreAccess

MODULES = ("pyarrow", "msgspec", "duckdb", "obstore")
"""Modules that every kernel imports."""
CHAIN = "boto3"
"""Module that gets credentials from the default AWS chain."""
_KEYS = "AWS_ACCESS_KEY_ID"
_MISSING = re.compile(r"ModuleNotFoundError: No module named '([\w.]+)'")
_BROKEN = re.compile(r"(?:^|\s)ImportError: (.+)")
_TASKS = 8
"""Maximum number of tasks that check: executors usually share an image."""
_asked: WeakSet[SparkSession] = WeakSet()


def check(session: SparkSession, root: str, access: StoreAccess | None, slots: int) -> None:
    """Check the executors, once per session; skipped if tasks run in this very Python.

    Costs one Spark job of up to eight tasks.

    Args:
        session: classic or Connect; firnline is already distributed to it.
        root: root URL of the table.
        access: credentials for the executors; None: those that they find themselves.
        slots: number of concurrent tasks.

    Raises:
        EnvironmentFaultError: names what is missing and how to install it.
    """
    if session in _asked or _is_this_python(session):
        return
    function = Ask(MODULES, boto3_unless_keys=_may_need_chain(root, access))
    tasks = max(1, min(slots, _TASKS))
    try:
        numbers = session.range(0, tasks, 1, numPartitions=tasks)
        found = numbers.mapInArrow(function, "missing string").toArrow()
    except Exception as error:
        fault = missing_module(str(error))
        if fault is None:
            raise
        raise fault from error
    missing = sorted({name for name in found["missing"].to_pylist() if name})
    if missing:
        raise _lacking(missing)
    _asked.add(session)


def _is_this_python(session: SparkSession) -> bool:
    """Return True if tasks run in the driver's own Python: a local master that is not remote."""
    if type(session).__module__.startswith("pyspark.sql.connect"):
        return False
    master = str(session.conf.get("spark.master", "") or "")
    worker = session.conf.get("spark.pyspark.python", None) or os.environ.get("PYSPARK_PYTHON")
    return master.startswith("local") and worker == sys.executable


def _may_need_chain(root: str, access: StoreAccess | None) -> bool:
    if not root.startswith("s3://"):
        return False
    return access is None or access.access_key is None or access.role_arn is not None


@dataclass(frozen=True)
class Ask:
    """The function of ``mapInArrow``: names of modules that cannot be imported, one per row."""

    modules: tuple[str, ...]
    boto3_unless_keys: bool

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        for _ in batches:
            yield pa.record_batch({"missing": pa.array(self.missing(), pa.string())})

    def missing(self) -> list[str]:
        """Return those that are missing in this process."""
        wanted: Iterable[str] = self.modules
        if self.boto3_unless_keys and not os.environ.get(_KEYS):
            wanted = (*self.modules, CHAIN)
        return [name for name in wanted if not _importable(name)]


def _importable(name: str) -> bool:
    try:
        importlib.import_module(name)
    except ImportError:
        return False
    return True


def missing_module(text: str) -> EnvironmentFaultError | None:
    """Return the error for a task that failed because of a missing module; else None."""
    found = _MISSING.findall(text)
    if found:
        return _lacking(sorted({name.partition(".")[0] for name in found}))
    broken = _BROKEN.search(text)
    if broken is None:
        return None
    return EnvironmentFaultError(
        f"a Python module cannot be loaded on the executors: {broken[1].strip()[:200]}",
        next_step="install the same versions there as on the driver",
    )


def _lacking(names: Sequence[str]) -> EnvironmentFaultError:
    are = " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
    if "firnline" in names:
        step = 'leave spark.firnline.ship on, or install firnline in the image ("false" says that)'
    else:
        step = (
            f"install {are} in the Python of the executors (spark.pyspark.python, PYSPARK_PYTHON "
            "or their image), or send a packed environment with spark.archives; no part is at fault"
        )
    return EnvironmentFaultError(
        f"the Spark executors lack the Python module{'s' if len(names) > 1 else ''} {are}",
        next_step=step,
    )
