"""Check, before the first group, that the executors have a Python with the packages of a kernel.

Without them every group would fail in turn, each as if its parts were at fault. One job of a few
tasks checks it, once per application. Only this module, ``tasks`` and the list of packages are
loaded on the executors; they need nothing but Python, and pyarrow on a Connect server, which
requires it to call them.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import shutil
import sys
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from firnline.errors import EnvironmentFaultError
from firnline.spark.executors import ALWAYS, CHAIN
from firnline.spark.tasks import collect, is_connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from firnline.store.access import StoreAccess

_KEYS = "AWS_ACCESS_KEY_ID"
_MISSING = re.compile(r"ModuleNotFoundError: No module named '([\w.]+)'")
_BROKEN = re.compile(r"(?:^|\s)ImportError: (.+)")
_NO_PROGRAM = re.compile(
    # Not for want of memory or processes (errors 12 and 11), which a later attempt may have.
    r'Cannot run program "(?P<path>[^"\n]+)".*?\berror(?:=|: )(?!1[12]\b)\d+\W+(?P<why>[\w ]+)'
)
_NO_PYTHON = re.compile(r"^ *(?P<path>\S+) -m \S*daemon\b", re.MULTILINE)
"""The command that Spark names where a program has answered as no Python does."""
_ENDED = re.compile(r"Error from python worker:\n(?P<said>.*?)\nPYTHONPATH was:", re.DOTALL)
_VERSIONS = re.compile(
    r"has different version: (?P<theirs>[\d.]+) than that in driver: (?P<own>[\d.]+),"
)
_TASKS = 8
"""Maximum number of tasks that check: executors usually share an image."""
_asked: WeakKeyDictionary[SparkSession, frozenset[str]] = WeakKeyDictionary()
"""Packages that the executors of a session are known to have."""


def check(
    session: SparkSession,
    root: str,
    access: StoreAccess | None,
    slots: int,
    more: Collection[str] = (),
) -> None:
    """Check the executors, once per session; skipped if tasks run in this very Python.

    Costs one Spark job of up to eight tasks; another one where ``more`` names other packages.

    Args:
        session: classic or Connect; firnline is already distributed to it.
        root: root URL of the table.
        access: credentials for the executors; None: those that they find themselves.
        slots: number of concurrent tasks.
        more: packages that this work needs besides those of every kernel.

    Raises:
        EnvironmentFaultError: names what is missing, or is of a version that firnline does not
            work with, and how to install it; or a Python that cannot be started, or is of another
            version.
    """
    wanted = frozenset(ALWAYS).union(more)
    if wanted <= _asked.get(session, frozenset()) or is_this_python(session):
        return
    function = Ask(tuple(sorted(wanted)), boto3_unless_keys=_may_need_chain(root, access))
    tasks = max(1, min(slots, _TASKS))
    with faults(function.packages):
        texts = collect(session, function, tasks, tasks)
    _refuse({pair for text in texts for pair in json.loads(text).items()})
    _asked[session] = wanted | _asked.get(session, frozenset())


def is_local(session: SparkSession) -> bool:
    """Return True if tasks run on the driver's machine: a local master that is not remote."""
    # The local master of a Connect server is local to the server, not to us.
    if is_connect(session):
        return False
    return str(session.conf.get("spark.master", "") or "").startswith("local")


def is_this_python(session: SparkSession) -> bool:
    """Return True if tasks run in the driver's own Python, which has firnline and its packages."""
    if not is_local(session):
        return False
    chosen = session.conf.get("spark.sql.execution.pyspark.python", None)
    found = shutil.which(chosen or session.sparkContext.pythonExec)
    if found is None:
        return False
    # A link of another environment to the same program has other packages.
    here, there = Path(sys.executable), Path(found).absolute()
    return there.parent == here.parent and there.samefile(here)


def _may_need_chain(root: str, access: StoreAccess | None) -> bool:
    if not root.startswith("s3://"):
        return False
    return access is None or access.access_key is None or access.role_arn is not None


@dataclass(frozen=True)
class Ask:
    """The function of a job (``spark.tasks``): returns versions by package; null: it is missing."""

    packages: tuple[str, ...]
    boto3_unless_keys: bool

    def __call__(self, _number: int, /) -> list[str]:
        """Look in the process of this task."""
        return [json.dumps(self.found())]

    def found(self) -> dict[str, str | None]:
        """Return the version of each package in this process.

        None: it cannot be imported; where that is the fault of a package that it needs in turn,
        that one is named. Empty: it does not state a version.
        """
        wanted = self.packages
        if self.boto3_unless_keys and not os.environ.get(_KEYS):
            wanted = (*wanted, CHAIN)
        return dict(_look(name) for name in wanted)


def _look(name: str) -> tuple[str, str | None]:
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        return (error.name or name).partition(".")[0], None
    except ImportError:
        return name, None
    try:
        return name, version(name)
    except PackageNotFoundError:
        return name, str(getattr(module, "__version__", ""))


@contextmanager
def faults(all_of: Sequence[str] = ()) -> Iterator[None]:
    """Raise EnvironmentFaultError for a job that failed because of the Python of an executor.

    Args:
        all_of: see ``fault_of``.
    """
    try:
        yield
    except Exception as error:
        fault = fault_of(str(error), all_of)
        if fault is None:
            raise
        raise fault from error


def fault_of(text: str, all_of: Sequence[str] = ()) -> EnvironmentFaultError | None:
    """Return the error for a task that failed because of the Python of its executor; else None.

    Args:
        text: of the error.
        all_of: packages to install, of which the task could look for no other one.
    """
    found = _MISSING.findall(text)
    if found:
        return _lacking(sorted({name.partition(".")[0] for name in found}), all_of)
    if versions := _VERSIONS.search(text):
        return EnvironmentFaultError(
            f"the Spark executors run Python {versions['theirs']} and this driver Python "
            f"{versions['own']}, and Spark needs the same minor version in both",
            next_step=_choose(versions["own"]),
        )
    if why := _unable_to_start(text):
        return EnvironmentFaultError(
            f"the Python of the Spark executors cannot be started: {why}",
            next_step=_choose(f"{sys.version_info.major}.{sys.version_info.minor}"),
        )
    broken = _BROKEN.search(text)
    if broken is None:
        return None
    return EnvironmentFaultError(
        f"a Python module cannot be loaded on the executors: {broken[1].strip()[:200]}",
        next_step="install the same versions there as on the driver",
    )


def _unable_to_start(text: str) -> str | None:
    """Return why no Python process came up on an executor; None if one did."""
    if program := _NO_PROGRAM.search(text):
        return f"{program['path']}: {program['why'].strip()}"
    if "Bad data in pyspark.daemon's standard output" in text and (
        other := _NO_PYTHON.search(text)
    ):
        return f"{other['path']} does not answer as a Python"
    said = _ENDED.search(text)
    if said is None or not said["said"].strip() or "emory" in said["said"]:
        return None
    return said["said"].strip().splitlines()[-1].strip()[:200]


def _choose(version: str) -> str:
    return (
        f"let spark.pyspark.python (or PYSPARK_PYTHON) name a Python {version} that every executor "
        "has; no part is at fault"
    )


def _refuse(found: Collection[tuple[str, str | None]]) -> None:
    """Raise EnvironmentFaultError for packages that are missing or of a version that is no use."""
    missing = sorted(name for name, number in found if number is None)
    if missing:
        raise _lacking(missing)
    declared = _declared()
    wrong = sorted(
        (name, number)
        for name, number in found
        if number and name in declared and not _fits(number, declared[name])
    )
    if not wrong:
        return
    have = _joined([f"{name} {number}" for name, number in wrong])
    need = _joined([name + declared[name] for name in dict(wrong)])
    raise EnvironmentFaultError(
        f"the Spark executors have {have}, and firnline needs {need}",
        next_step=_how_to_install(need),
    )


def _declared() -> dict[str, str]:
    """Return the versions that firnline declares, by package; none if it is not installed here."""
    from packaging.requirements import Requirement

    try:
        declared = requires("firnline") or []
    except PackageNotFoundError:  # run from a folder of sources
        return {}
    wanted = (Requirement(text) for text in declared)
    return {one.name: str(one.specifier) for one in wanted}


def _fits(number: str, specifier: str) -> bool:
    from packaging.specifiers import SpecifierSet

    return SpecifierSet(specifier).contains(number, prereleases=True)


def _joined(names: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _how_to_install(what: str) -> str:
    return (
        f"install {what} in the Python of the executors (spark.pyspark.python, PYSPARK_PYTHON or "
        "their image), or send the archive of `firnline spark pack` with spark.archives; no part "
        "is at fault"
    )


def _lacking(names: Sequence[str], all_of: Sequence[str] = ()) -> EnvironmentFaultError:
    are = _joined(names)
    if "firnline" in names:
        step = 'leave spark.firnline.ship on, or install firnline in the image ("false" says that)'
    else:
        step = _how_to_install(_joined(sorted({*names, *all_of})))
    return EnvironmentFaultError(
        f"the Spark executors lack the Python package{'s' if len(names) > 1 else ''} {are}",
        next_step=step,
    )
