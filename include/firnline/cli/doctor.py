"""Checks of an installation: packages, Java, settings, Airflow, and the store of each table.

Each check is a row of its own and never ends the others.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from firnline.child_process import own_python
from firnline.cli.mirrored import check_columns
from firnline.errors import FirnlineError, ObjectNotFoundError
from firnline.extras import EXTRAS, to_install, two_pysparks
from firnline.settings.launchers import PLATFORMS, section_of
from firnline.store.base import Changes
from firnline.units import about_duration, counted

if TYPE_CHECKING:
    from firnline.settings.launchers import SparkSettings
    from firnline.settings.load import Settings, TableSettings
    from firnline.store.access import StoreAccess
    from firnline.table import Table

State = Literal["ok", "missing", "wrong", "not checked"]
_SKEW_MS = 60_000
"""Difference of clocks from which on it is wrong; those of writers and runs may differ by minutes
(docs/guarantees.md), so one minute leaves room."""
_AIRFLOW_S = 120
_LIBRARIES = ("duckdb", "pyarrow", "obstore", "boto3", "pydantic")
"""Of the core, those on whose versions most depends."""
_PACKAGES = {"airflow": "apache-airflow", "grpc": "grpcio"}
"""Package, as it is imported, -> distribution, where they differ."""


@dataclass(frozen=True, slots=True)
class Check:
    """One row."""

    what: str
    state: State
    found: str
    next_step: str = ""

    @property
    def bad(self) -> bool:
        """Return True if something has to be done before firnline works."""
        return self.state == "wrong"


def examine(
    load: Callable[[], Settings | None],
    opened: Callable[[TableSettings], Table],
    names: Sequence[str],
    *,
    write: bool,
) -> Iterator[Check]:
    """Yield the checks one by one, the quick ones first.

    Requests for each package of jobs elsewhere: 1 GET and 3 HEADs; for each platform a page of its
    jobs on the way.

    Requests per table: 1 LIST (for a root without a table those of ``require_table``); for one
    whose settings name a mirror those of ``read_snapshot``; with
    ``write`` besides 4 for the probe of the store, and 1 PUT, 1 HEAD and 1 DELETE for its clock.

    Args:
        load: loads the settings file; None: there is none, and none was named.
        opened: opens a table.
        names: of the tables to look at; empty for all of the settings.
        write: also try what needs the right to write.
    """
    yield Check("Python", "ok", f"{sys.version.split()[0]}, {sys.executable}")
    yield Check("firnline", "ok", f"{version('firnline')}, {Path(__file__).parents[1]}")
    yield _libraries()
    yield from _packages()
    yield from _two_pysparks()
    yield _java()
    try:
        settings = load()
    except FirnlineError as error:
        yield _wrong("settings file", error)
        return
    if settings is None:
        step = "`firnline init` writes one; a table that is given by its root needs none"
        yield Check("settings file", "missing", "there is none, so no table was looked at", step)
        return
    tables = settings.tables
    count = counted(len(tables), "table")
    wrong = len(settings.broken)
    more = f", and {wrong} that {'has' if wrong == 1 else 'have'} mistakes" if wrong else ""
    yield Check("settings file", "ok", f"{settings.path}, {count}{more}")
    for each in settings.unread:
        yield _wrong(each.path.name, each.error)
    yield from _airflow(settings)
    packages: set[str] = set()
    for name in names or (*tables, *settings.broken):
        try:
            table = opened(settings.table(name))
        except FirnlineError as error:
            yield _wrong(name, error)
            continue
        yield from examine_store(table, write=write)
        url = table.settings.spark.package
        if url is not None and url not in packages and table.settings.spark.chosen in PLATFORMS:
            packages.add(url)
            yield _package(url, table.access)


def _package(url: str, access: StoreAccess | None) -> Check:
    """Return whether a package is complete, and of this version of firnline."""
    from firnline.launch.desk import Desk

    publish = "run `firnline spark publish URL` with the folder above it"
    try:
        desk = Desk.open(url, access)
        package = desk.package()
        for name in package.files:
            desk.store.head(desk.paths.file(name))
    except ObjectNotFoundError as error:
        return Check("package", "wrong", f"{url} is not complete: {error.message}", publish)
    except FirnlineError as error:
        return Check("package", "wrong", error.message, error.next_step)
    there, here = package.manifest.version, version("firnline")
    if there != here:
        found = f"{url} has firnline {there}, and here is {here}"
        return Check("package", "wrong", found, f"{publish}, and name it in spark.package")
    carried = "which it carries" if package.manifest.carries_python else "which the platform needs"
    found = f"{url}, complete, for Python {package.manifest.python}, {carried}"
    return Check("package", "ok", found)


def _wrong(what: str, error: FirnlineError) -> Check:
    """Return the check that an error ends; mistakes, which have a line each, follow each other."""
    mistakes = " ".join([error.headline, "; ".join(error.listed)]).strip()
    return Check(what, "wrong", mistakes, error.next_step)


def _libraries() -> Check:
    there, gone = [], []
    for name in _LIBRARIES:
        try:
            there.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            gone.append(name)
    if gone:
        step = "install firnline again, with its dependencies"
        return Check("libraries", "wrong", f"not installed: {', '.join(gone)}", step)
    return Check("libraries", "ok", ", ".join(there))


def _packages() -> Iterator[Check]:
    for package in sorted(EXTRAS):
        try:
            installed = version(_PACKAGES.get(package, package))
        except PackageNotFoundError:
            step = f"{to_install(package)}, if you need it"
            yield Check(package, "missing", "not installed", step)
        else:
            less = _reduced() if package == "airflow" else ""
            step = "see docs/support.md" if less else ""
            yield Check(package, "ok", f"{installed}, {less}" if less else installed, step)


def _reduced() -> str:
    """Return what the Airflow here has not got, as a clause; empty for one that has everything."""
    from firnline.airflow.versions import reduced

    return reduced()


def _two_pysparks() -> Iterator[Check]:
    """Yield a check if pyspark-client, which Airflow's provider asks for, lies over pyspark."""
    fault = two_pysparks()
    if fault is not None:
        yield Check("pyspark-client", "wrong", fault.message, fault.next_step)


def _java() -> Check:
    from firnline.spark.session import check_java

    if find_spec("pyspark") is None:
        return Check("Java", "not checked", "only Spark needs it, and pyspark is not installed")
    from firnline.spark.versions import OLDEST_JAVA

    try:
        return Check("Java", "ok", f"{check_java()} (Spark needs {OLDEST_JAVA} or newer)")
    except FirnlineError as error:
        return Check("Java", "wrong", error.message, error.next_step)


def _airflow(settings: Settings) -> Iterator[Check]:
    if find_spec("airflow") is None:
        return
    home = Path(os.environ.get("AIRFLOW_HOME") or Path.home() / "airflow")
    if not home.is_dir():
        step = "set AIRFLOW_HOME, and run this where Airflow runs"
        yield Check("Airflow", "not checked", f"there is no folder {home}", step)
        return
    ids = _connections(settings)
    alerts = [table.alerts.notifier for table in settings.tables.values()]
    told = sorted({each for each in (*alerts, settings.fleet.alerts.notifier) if each})
    platforms = _platforms(settings)
    asked = json.dumps({"connections": sorted(ids), "notifiers": told, "platforms": platforms})
    command = own_python("firnline.airflow.installation", asked)
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=_AIRFLOW_S
        )
        answer = json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else None
    except (subprocess.TimeoutExpired, ValueError, IndexError):
        answer = None
    if answer is None:
        step = "run `airflow db check`, with the environment of Airflow"
        yield Check("Airflow", "wrong", f"the database of {home} does not answer", step)
        return
    yield from _pools(settings, answer["slots"])
    for name in answer["missing"]:
        step = f"create it with `airflow connections add {name} ...` (docs/deploy.md)"
        yield Check("connection", "wrong", f"Airflow has no connection {name}", step)
    for name, why in answer["silent"].items():
        step = "correct alerts.notifier, or install what it needs wherever Airflow runs"
        yield Check("notifier", "wrong", f"{name} cannot be imported: {why}", step)
    if heard := [name for name in told if name not in answer["silent"]]:
        yield Check("notifiers", "ok", ", ".join(heard))
    present = sorted(ids.difference(answer["missing"]))
    if present:
        yield Check("connections", "ok", ", ".join(present))
    for name in platforms:
        message, step = answer["deaf"].get(name, ("", ""))
        yield Check("platform", "wrong" if message else "ok", message or f"{name} answers", step)


def _connections(settings: Settings) -> set[str]:
    """Return the ids of the connections that tables need."""
    tables = settings.tables.values()
    named = [table.connection_id for table in tables]
    if _runs_dags():
        named += [_spark_connection(table.spark) for table in tables]
    return {name for name in named if name is not None}


def _spark_connection(spark: SparkSettings) -> str | None:
    """Return the connection that a table's jobs need; None if they need none, or a default."""
    if spark.chosen in PLATFORMS:
        return spark.account
    return None if spark.chosen == "none" else spark.conn_id


def _platforms(settings: Settings) -> dict[str, dict[str, Any]]:
    """Return the settings of each platform that tables name, by what the rows call it."""
    found: dict[str, dict[str, Any]] = {}
    for table in settings.tables.values():
        spark, launcher = table.spark, table.spark.chosen
        if launcher is None or launcher not in PLATFORMS:
            continue
        given = spark.model_dump(mode="json", include={"conn_id", "launcher", "package",
                                                       section_of(launcher)})  # fmt: skip
        given["launcher"] = launcher
        if given not in found.values():
            found[f"{launcher} of {table.name}"] = given
    return found


def _runs_dags() -> bool:
    """Return False for an Airflow whose tasks run the command line, which needs no connection."""
    from firnline.airflow.versions import AIRFLOW_3_0_PLUS

    return AIRFLOW_3_0_PLUS


def _pools(settings: Settings, slots: dict[str, int]) -> Iterator[Check]:
    from firnline.operations.pools import CREATE_POOLS, pool_problems, pools_json

    slots_by_name = {name: int(pool["slots"]) for name, pool in pools_json(settings).items()}
    problems = pool_problems(slots_by_name, slots)
    if not problems:
        yield Check("pools", "ok", f"all {len(slots_by_name)} of them")
    elif len(problems) == 1:
        yield Check("pools", "wrong", problems[0].partition(";")[0], CREATE_POOLS)
    else:
        first = problems[0].partition(",")[0]
        count = f"{len(problems)} of {counted(len(slots_by_name), 'pool')} are not as they must be"
        yield Check("pools", "wrong", f"{count}: {first}", CREATE_POOLS)


def examine_store(table: Table, *, write: bool) -> Iterator[Check]:
    """Yield the checks of one table's store; see ``examine``."""
    from firnline.state.health import require_table

    name, root = table.settings.name, table.settings.root
    try:
        require_table(table)
        yield Check(name, "ok", f"{root} can be listed and has a table")
    except FirnlineError as error:
        state: State = "missing" if error.exit_code == 2 else "wrong"
        yield Check(name, state, error.message, error.next_step)
        if state == "wrong":
            return
    else:
        yield from _mirrored(table)
    if not write:
        return
    for what, check in (("conditional puts", _conditional), ("clock", _clock)):
        try:
            yield Check(f"{name}, {what}", *check(table))
        except FirnlineError as error:
            yield Check(f"{name}, {what}", "wrong", error.message, error.next_step)


def _mirrored(table: Table) -> Iterator[Check]:
    """Yield whether the mirrors that the settings name can have the columns of the table."""
    if not table.settings.mirrors:
        return
    what = f"{table.settings.name}, mirror"
    try:
        count = check_columns(table)
    except FirnlineError as error:
        yield Check(what, "wrong", error.message, error.next_step)
    else:
        yield Check(what, "ok", f"{counted(count, 'column')}, each of which it can have")


def _conditional(table: Table) -> tuple[State, str]:
    from firnline.store.probe import probe

    probe(table.store, table.paths.prefix, ids=table.ids, clock=table.clock)
    return "ok", "a second create-only put of a key is refused"


def _clock(table: Table) -> tuple[State, str, str]:
    now = table.clock.now_ms()
    key = table.paths.probe(table.ids.uuid7(now))
    with Changes.none():
        table.store.put_new(key, b"")
        try:
            wrote = table.clock.now_ms()
            meta = table.store.head(key)
        finally:
            list(table.store.delete_many([key]))
    # The store's time has whole seconds.
    early, late = now - meta.modified_ms, meta.modified_ms - wrote
    skew = max(early - 1_000, late, 0)
    if skew <= _SKEW_MS:
        return "ok", "that of the store and of this machine agree to a minute", ""
    which = "behind" if late > early else "ahead of"
    sentence = f"this machine's clock is {about_duration(skew)} {which} the store's"
    return "wrong", sentence, "set this machine's clock (NTP)"
