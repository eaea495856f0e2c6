"""The DAG files of an Airflow: a few lines each, which call ``firnline.airflow.dag_factory``.

All else that Airflow loads is in the package: the policy and the plugin by their entry points, and
the Spark jobs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError
from pathlib import Path

from firnline.cli import output
from firnline.cli.confirm import agreed, refuse_silence
from firnline.cli.failures import done
from firnline.cli.files import local_path
from firnline.errors import EnvironmentFaultError, UsageError, some

DAGS = "dags"
_ALL_TABLES = '''\
"""firnline's DAGs for all tables: one of each operation, and the planner.

`firnline init --airflow FOLDER` has written this file. An upgrade of the package needs no other
one. What is said here, as in `dag_factory(own=False, queue="maintenance")`, goes before the section
`airflow` of the settings: docs/airflow.md.
"""

from firnline.airflow import dag_factory

dag_factory(own=False)
'''
_OWN_DAGS = '''\
"""firnline's DAGs of one table each, for the tables that ask for them or have a schedule.

Airflow ends a file that takes too long. With hundreds of these DAGs put copies in the place of this
file that share the tables: `firnline_own_dags_1_of_4.py` to `firnline_own_dags_4_of_4.py`. What is
said here goes before the section `airflow` of the settings: docs/airflow.md.
"""

from firnline.airflow import dag_factory

dag_factory(shared=False, file=__file__)
'''
FILES = {"firnline_all_tables.py": _ALL_TABLES, "firnline_own_dags.py": _OWN_DAGS}
"""Name in the folder of DAGs -> text."""
_MAKING = re.compile(r"\b(?:dag_factory|make_for_all_tables|make_of_single_tables)\s*\(")
"""Of a file that makes firnline's DAGs."""
_SHARE = re.compile(r"firnline_own_dags_\d+_of_\d+\.py")
_COPIED = Path("plugins", "firnline_plugin", "pool_guard_plugin.py")
_OLD_PLUGIN = "class FirnlinePlugin"


@dataclass(frozen=True, slots=True)
class Wanted:
    """A DAG file that is to be there."""

    path: Path
    text: str

    @property
    def state(self) -> str:
        """Return ``new``, ``same``, or ``edited`` for a file that makes DAGs in lines of its own.

        Raises UsageError: there is a file that makes none.
        """
        found = _read(self.path)
        if found is None:
            return "new"
        if found == self.text:
            return "same"
        if not _MAKING.search(found):
            raise UsageError(
                f"{self.path} is there, and makes no DAGs of firnline",
                next_step="give it another name, and run the same command again",
            )
        return "edited"


def write_dag_files(folder: Path, *, yes: bool, dry_run: bool) -> bool:
    """Write the DAG files below a folder of Airflow, once somebody has agreed to it.

    A file that is there is never replaced: its lines may be the users'.

    Args:
        folder: which has, or gets, the folder of DAGs.
        yes: ask nobody.
        dry_run: only show what would be written.

    Returns:
        False if it was not agreed to.

    Raises:
        UsageError: the folder is a URL, another file there makes the same DAGs, a file of one of
            the names makes none, or nobody can be asked.
        EnvironmentFaultError: a file cannot be read or written, or Airflow 2 is here.
    """
    folder = local_path(folder, "--airflow")
    _refuse_old()
    wanted = wanted_files(folder)
    _refuse_twice(folder / DAGS, wanted)
    states = [each.state for each in wanted]
    to_write = [each for each, state in zip(wanted, states, strict=True) if state == "new"]
    for each, state in zip(wanted, states, strict=True):
        _show(each, state)
    if dry_run:
        return True
    if to_write and not yes:
        names = " and ".join(str(each.path) for each in to_write)
        refuse_silence(f"to write {names}", as_json=False)
        if not agreed(f"Write {names}?"):
            return False
    for each in to_write:
        _write(each)
    _advise(folder)
    return True


def _refuse_old() -> None:
    """Raise EnvironmentFaultError if the Airflow here cannot import the files."""
    try:
        from firnline.airflow.versions import refuse_old
    except PackageNotFoundError:
        return  # they may be for an Airflow elsewhere
    refuse_old("the DAG files")


def wanted_files(folder: Path) -> list[Wanted]:
    """Return the DAG files. Where shares of the tables have taken the place of one it is left out.

    Raises EnvironmentFaultError.
    """
    dags = folder / DAGS
    shared = any(_SHARE.fullmatch(path.name) for path in _python_files(dags))
    left = "firnline_own_dags.py" if shared else ""
    return [Wanted(dags / name, text) for name, text in FILES.items() if name != left]


def _python_files(folder: Path) -> Iterator[Path]:
    try:
        yield from sorted(folder.glob("*.py"))
    except OSError as error:
        raise _unusable(folder, "read", error) from None


def _refuse_twice(dags: Path, wanted: list[Wanted]) -> None:
    """Raise UsageError for other files that make our DAGs, each of which may be there once."""
    ours = {each.path.name for each in wanted}
    others = [
        str(path)
        for path in _python_files(dags)
        if path.name not in ours
        and not _SHARE.fullmatch(path.name)
        and _MAKING.search(_read(path) or "")
    ]
    if others:
        it = "it" if len(others) == 1 else "them"
        raise UsageError(
            f"{some(others)} would make the same DAGs",
            next_step=f"remove {it}, and a copied spark_jobs/ too, and run the same command again; "
            f"or go on with {it}",
        )


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _unusable(path, "read", error) from None


def _show(wanted: Wanted, state: str) -> None:
    if state == "new":
        output.plain(f"{wanted.path}, a new file:")
        for line in wanted.text.split('"""\n')[-1].strip().splitlines():
            output.plain(f"  {line}".rstrip())
    else:
        why = "" if state == "same" else ", with lines of yours"
        output.plain(f"{wanted.path} is there already{why}: it stays as it is.")
    output.line()


def _write(wanted: Wanted) -> None:
    """Write the file at once: Airflow reads nothing or all of it."""
    new = wanted.path.with_name(f".{wanted.path.name}.new")
    try:
        wanted.path.parent.mkdir(parents=True, exist_ok=True)
        new.write_text(wanted.text, encoding="utf-8")
        new.replace(wanted.path)
    except OSError as error:
        raise _unusable(wanted.path, "written", error) from None
    done(f"{wanted.path} is written")


def _unusable(path: Path, what: str, error: OSError) -> EnvironmentFaultError:
    return EnvironmentFaultError(
        f"{path} cannot be {what}: {error.strerror or error}",
        next_step="give the folder of an Airflow with --airflow",
    )


def _advise(folder: Path) -> None:
    plugin = folder / _COPIED
    if _OLD_PLUGIN in (_read(plugin) or ""):
        output.line(f"{plugin} is a copy of what the package registers itself: remove it.")
    output.line("The DAG files are there. What to do next:")
    for step in (
        "firnline settings check",
        "firnline pools > pools.json",
        "airflow pools import pools.json",
        "for dag in merge ttl tombstone_cleanup verify; do airflow dags unpause $dag; done",
        "firnline doctor",
    ):
        output.plain(f"  {step}")
