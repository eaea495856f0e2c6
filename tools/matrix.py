"""The versions beside which firnline is tested: an environment for each, and what runs in it.

    python -m tools.matrix                     # the cells, and whether their environments are made
    python -m tools.matrix run                 # those of `make test`
    python -m tools.matrix run --all           # all of them
    python -m tools.matrix run airflow-3.1     # one

An environment is resolved as of a date: what its Airflow or Spark was released with is what people
have beside it, and the newest of everything may break an older Airflow by itself. Only packages of
firnline's own that are newer than that date are taken as of today. Environments stay in ``.cache``
until the cell says something else.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import Requirement

from firnline.errors import EnvironmentFaultError
from tools.bootstrap import REPO, ensure_uv
from tools.environments import ensure, home_of
from tools.pythons import ensure as ensure_python
from tools.samples import sample_name

TESTS = REPO / "tests" / "matrix"
NEWEST = "2026-11-25"
"""Date of what no cell holds back; moved on when a cell is added."""
YOUNG = ("duckdb", "obstore", "pytest", "pyspark")
"""Requirements whose oldest version, or the one that is meant, is younger than a cell's date."""
PROVIDERS = tuple(
    f"apache-airflow-providers-{name}" for name in ("amazon", "apache-spark", "standard")
)
DEVELOPMENT = ("pytest",)
SLICES = 3
"""Parts into which the files of unit tests are divided; ``make test`` runs one of them."""
OF_UNITS = (
    *("pytest>=9", "pytest-xdist", "hypothesis", "httpx", "greenlet", "psutil", "psycopg[binary]"),
    *("moto", "statsd", "pyspark"),
)
OF_IMAGE = (
    *("aiobotocore", "amazon", "async", "celery", "cncf-kubernetes", "common-io", "docker", "fab"),
    *("ftp", "google", "hashicorp", "http", "microsoft-azure", "openlineage", "pandas", "postgres"),
    *("redis", "sftp", "slack", "snowflake", "ssh", "statsd"),
)
"""Extras that Airflow's own image is made with, but for those that need a compiler."""
EXTRAS = ("airflow", "spark", "spark-connect", "smoke")
"""Extras of firnline that the Dockerfile installs."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One environment."""

    name: str
    test: str
    """Module of ``tests/matrix``."""
    packages: tuple[str, ...] = ()
    """What it is about, each with its version, besides what firnline requires."""
    until: str = NEWEST
    """Day up to which everything else is resolved."""
    python: tuple[int, int] = (3, 11)
    lowest: bool = False
    """Take the lowest version of each requirement of firnline, not the newest."""
    nightly: bool = False
    """Not in ``make test``."""
    units: bool = False
    """Its environment has what the repository's own tests need; ``test`` is a folder of them."""
    of_image: bool = False
    """It is filled as the Dockerfile fills an image: nothing of firnline's is in it before."""

    @property
    def folder(self) -> str:
        """Name of its environment, which changes with what is in it."""
        told = repr((self, requirements(), NEWEST))
        return f"matrix/{self.name}-{hashlib.sha256(told.encode()).hexdigest()[:8]}"


def airflow(version: str, until: str, *, nightly: bool = False) -> Cell:
    """Return a cell of an Airflow, with the packages of a day on which it was the newest."""
    packages = (f"apache-airflow=={version}", *PROVIDERS)
    name = f"airflow-{_minor(version)}"
    return Cell(name, "test_airflow_cell.py", packages, until, nightly=nightly)


def units(version: str, until: str) -> Cell:
    """Return a cell in which the unit tests of Airflow's side run beside another Airflow."""
    packages = (f"apache-airflow=={version}", *PROVIDERS, *OF_UNITS)
    name = f"units-{_minor(version)}"
    return Cell(name, "tests/unit/airflow", packages, until, nightly=True, units=True)


def image(version: str, until: str) -> Cell:
    """Return a cell of the image that is built on one of an Airflow."""
    packages = (f"apache-airflow[{','.join(OF_IMAGE)}]=={version}", "pip")
    name = f"image-{_minor(version)}"
    newest = (3, 13)
    return Cell(name, "test_image_cell.py", packages, until, newest, nightly=True, of_image=True)


def spark(version: str, *, nightly: bool = False) -> Cell:
    """Return a cell of a Spark."""
    packages = (f"pyspark=={version}", "pandas")
    return Cell(f"spark-{_minor(version)}", "test_spark_cell.py", packages, nightly=nightly)


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])


CELLS = (
    airflow("3.0.6", "2025-10-15", nightly=True),
    airflow("3.1.8", "2026-04-01"),
    airflow("3.2.2", "2026-06-20"),
    airflow("3.4.0b2", NEWEST),
    spark("3.5.6"),
    spark("4.0.2"),
    spark("4.1.4", nightly=True),
    spark("4.2.1", nightly=True),
    units("3.1.8", "2026-04-01"),
    units("3.2.2", "2026-06-20"),
    units("3.4.0b2", NEWEST),
    image("3.1.8", "2026-04-01"),
    image("3.2.2", "2026-06-20"),
    image("3.3.2", NEWEST),
    image("3.4.0b2", NEWEST),
    Cell("lowest", "test_bounds_cell.py", lowest=True),
    Cell("python-3.12", "test_bounds_cell.py", python=(3, 12), nightly=True),
    Cell("python-3.13", "test_bounds_cell.py", python=(3, 13), nightly=True),
    Cell("python-3.14", "test_bounds_cell.py", python=(3, 14)),
)


def requirements() -> list[str]:
    """Return what firnline itself requires, as pyproject.toml declares it."""
    declared = tomllib.loads((REPO / "pyproject.toml").read_text(encoding="utf-8"))
    required: list[str] = declared["project"]["dependencies"]
    return required


def environment(cell: Cell) -> Path:
    """Return the Python of a cell's environment, made on first use.

    Raises EnvironmentFaultError: it cannot be made here.
    """
    own = [_lowest(each) if cell.lowest else each for each in requirements()]
    packages = [*cell.packages] if cell.of_image else [*own, *cell.packages, *DEVELOPMENT]
    options = ["--exclude-newer", f"{cell.until}T00:00:00Z"]
    for name in YOUNG:
        options += ["--exclude-newer-package", f"{name}={NEWEST}"]
    newer = cell.python != sys.version_info[:2]
    return ensure(
        cell.folder,
        packages,
        _fill_image if cell.of_image else _install_firnline,
        interpreter=ensure_python("{}.{}".format(*cell.python)) if newer else sys.executable,
        options=options,
    )


def _lowest(requirement: str) -> str:
    """Return a requirement of the lowest version that it takes: ``numpy==1.26``."""
    parsed = Requirement(requirement)
    least = [each.version for each in parsed.specifier if each.operator == ">="]
    if len(least) != 1:
        raise EnvironmentFaultError(
            f"pyproject.toml requires {requirement}, without a lowest version",
            next_step="state it, as name>=version",
        )
    return f"{parsed.name}=={least[0]}"


def _fill_image(python: Path) -> None:
    """Install what the Dockerfile installs, and the package as in other cells."""
    with tempfile.TemporaryDirectory() as folder:
        build = ["build", "-q", "--wheel", "--out-dir", folder, str(REPO)]
        subprocess.run([str(ensure_uv()), *build], check=True)
        (wheel,) = Path(folder).glob("*.whl")
        program, lock = REPO / "tools" / "image.py", REPO / "requirements.txt"
        filling = [str(each) for each in (python, program, lock, wheel, *EXTRAS)]
        done = subprocess.run(filling, check=False, capture_output=True, text=True)
    if done.returncode != 0:
        raise EnvironmentFaultError(
            f"an image could not be filled: {(done.stdout + done.stderr).strip()[-500:]}",
            next_step="repair what it says, run the command again",
        )
    _install_firnline(python)


def _install_firnline(python: Path) -> None:
    """Install the package without its requirements, for its entry points."""
    uv = str(ensure_uv())
    subprocess.run(
        [uv, "pip", "install", "-q", "--python", str(python), "--no-deps", "--editable", str(REPO)],
        check=True,
    )


@dataclass(frozen=True, slots=True)
class Turn:
    """What one run of ``make test`` does of what takes turns."""

    number: int
    merges: str
    """Name of the cell with a merge by a DAG."""
    units: str
    """Name of the cell of which a slice of the unit tests runs."""

    @classmethod
    def of(cls, cells: Sequence[Cell], sample: str) -> Turn:
        """Return the turn that a sample, such as a commit, chooses."""
        number = int(hashlib.sha256(sample.encode()).hexdigest(), 16)
        airflows = [each.name for each in cells if not each.nightly and "airflow" in each.name]
        units = [each.name for each in cells if each.units]
        return cls(number, airflows[number % len(airflows)], units[number // 7 % len(units)])


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a cell."""

    cell: Cell
    passed: bool
    seconds: float
    tail: str
    """Last lines of its tests."""


def run(cell: Cell, turn: Turn | None = None) -> Outcome:
    """Run the tests of a cell in its environment. Raises EnvironmentFaultError.

    Args:
        cell: the cell.
        turn: what ``make test`` runs of it; None: all.
    """
    python = environment(cell)
    began = time.monotonic()
    done = subprocess.run(
        [str(python), "-m", "pytest", "-q", *_arguments(cell, turn)],
        cwd=REPO,
        env=_surroundings(),
        check=False,
        capture_output=True,
        text=True,
    )
    tail = "\n".join((done.stdout + done.stderr).splitlines()[-40:])
    return Outcome(cell, done.returncode == 0, time.monotonic() - began, tail)


def _surroundings() -> dict[str, str]:
    """Return the environment of the tests: what an Airflow has not is left out there."""
    kept = {name: value for name, value in os.environ.items() if name != "FIRNLINE_NO_SKIP"}
    return {**kept, "AIRFLOW__CORE__LOAD_EXAMPLES": "False"}


def _arguments(cell: Cell, turn: Turn | None) -> list[str]:
    if cell.units:
        files = sorted(str(file) for file in (REPO / cell.test).rglob("test_*.py"))
        return ["-n", "2", *(files if turn is None else files[turn.number % SLICES :: SLICES])]
    merges = turn is None or turn.merges == cell.name
    left_out = [] if merges else ["-m", "not turn"]
    alone = ["--confcutdir", str(TESTS), "--rootdir", str(TESTS), "--strict-markers"]
    return ["-p", "no:cacheprovider", *alone, *left_out, str(TESTS / cell.test)]


def chosen(names: Sequence[str], *, all_of_them: bool) -> list[Cell]:
    """Return the cells of these names; without names those of ``make test``, or all.

    Raises EnvironmentFaultError: there is none of a name.
    """
    by_name = {cell.name: cell for cell in CELLS}
    unknown = [name for name in names if name not in by_name]
    if unknown:
        raise EnvironmentFaultError(
            f"there is no cell {unknown[0]}", next_step=f"give some of {', '.join(by_name)}"
        )
    if names:
        return [by_name[name] for name in names]
    return [cell for cell in CELLS if all_of_them or not cell.nightly]


def main(arguments: Sequence[str]) -> int:
    """Return the exit code: 1 if a cell fails, 2 if it cannot be made."""
    given = _parser().parse_args(arguments)
    try:
        cells = chosen(given.cells, all_of_them=given.all)
        if given.do == "list":
            for cell in cells:
                made = "made" if (home_of(cell.folder) / "complete").exists() else "not made"
                print(f"{cell.name:14}{made:10}{'nightly' if cell.nightly else 'make test'}")
            return 0
        turn = None if given.cells or given.all else Turn.of(CELLS, sample_name())
        if turn is not None:
            cells += chosen([turn.units], all_of_them=False)
        failed = [cell.name for cell in cells if not _told(run(cell, turn))]
    except EnvironmentFaultError as error:
        print(f"matrix: {error}", file=sys.stderr)
        return 2
    if failed:
        print(f"matrix: {', '.join(failed)} failed", file=sys.stderr)
    return 1 if failed else 0


def _told(outcome: Outcome) -> bool:
    word = "passed" if outcome.passed else "FAILED"
    print(f"{outcome.cell.name:14}{word:8}{outcome.seconds:6.1f} s", flush=True)
    if not outcome.passed:
        print(outcome.tail, flush=True)
    return outcome.passed


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tools.matrix",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("do", nargs="?", choices=("list", "run"), default="list")
    parser.add_argument("cells", nargs="*", metavar="CELL", help="only these")
    parser.add_argument("--all", action="store_true", help="the nightly ones, too")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
