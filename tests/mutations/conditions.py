"""Switches each condition of modules off, one at a time, and names those that nothing misses.

python -m tests.mutations.conditions MODULE ... [--seeds N] [--shown FILE] [--all]

MODULE is a file of the package without its ending: ``operations/cleanup/plan``. Exit code 1 when a
condition survives that ``tests.mutations.survivors`` does not judge.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence, Set
from dataclasses import dataclass
from pathlib import Path

import hypothesis
import pytest

from tests.mutations.catalogue import SOURCES
from tests.mutations.forked import Runs, Tests, loaded
from tests.mutations.survivors import SURVIVORS
from tests.mutations.switches import Switch, exchange, switches_of
from tools.bootstrap import REPO

_PACKAGE = REPO / "include" / "firnline"
_TESTS = ("tests/unit", "tests/hazards", "tests/interop")
_OTHERS = ("airflow", "cli", "dev", "spark", "store")
"""Folders of tests/unit that have nothing to say of the modules below them."""


@dataclass(frozen=True)
class Module:
    """A module whose conditions are switched off."""

    name: str
    """As it was asked for: ``operations/cleanup/plan``."""
    source: str
    switches: tuple[Switch, ...]

    @property
    def path(self) -> Path:
        """Of its file."""
        return _PACKAGE / f"{self.name}.py"

    @property
    def imported(self) -> str:
        """Its name as Python imports it."""
        return "firnline." + self.name.replace("/", ".")

    @property
    def tests(self) -> frozenset[str]:
        """Files of tests that mirror it, and those that catch its mutations."""
        named = {
            test
            for each in SOURCES
            if each.file.endswith(f"firnline/{self.name}.py")
            for test in each.caught_by
        }
        folder, _, stem = self.name.rpartition("/")
        return frozenset({f"tests/unit/{folder}/test_{stem}.py".replace("//", "/"), *named})

    @classmethod
    def of(cls, name: str) -> Module:
        """From its file."""
        source = (_PACKAGE / f"{name}.py").read_text(encoding="utf-8")
        return cls(name, source, tuple(switches_of(source)))


def main(arguments: Sequence[str]) -> int:
    """Return the exit code."""
    given = _parser().parse_args(arguments)
    modules = [Module.of(name.removesuffix(".py")) for name in given.modules]
    tests = given.tests or [*_TESTS, *(f"--ignore=tests/unit/{name}" for name in _OTHERS)]
    judged = set() if given.all else {(s.module, s.function, s.switch) for s in SURVIVORS}
    loop = _Loop(modules, given.seeds, judged, given.shown, given.seconds)
    with tempfile.TemporaryDirectory(prefix="firnline-conditions-", dir=_memory()) as place:
        os.environ["TMPDIR"] = tempfile.tempdir = place
        words = ["-q", "-s", "--tb=native", f"--basetemp={place}/pytest", *tests]
        pytest.main(words, plugins=[loop])
    return loop.told()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.mutations.conditions",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "modules", nargs="+", metavar="MODULE", help="such as operations/cleanup/plan"
    )
    parser.add_argument("--tests", nargs="+", metavar="PATH", help="instead of the unit tests")
    parser.add_argument("--seeds", type=int, default=20, help="of the simulation; 0: none")
    parser.add_argument("--shown", type=Path, help="keeps what tests run, for next time")
    parser.add_argument("--seconds", type=float, default=60, help="of tests for a condition")
    parser.add_argument("--all", action="store_true", help="also those that are judged already")
    return parser


def _memory() -> str | None:
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


class _Loop:
    """Takes the place of pytest's own loop over the tests."""

    def __init__(
        self,
        modules: Sequence[Module],
        seeds: int,
        judged: Set[tuple[str, str, str]],
        shown: Path | None,
        limit: float,
    ) -> None:
        self._shown, self._limit = shown, limit
        self._modules, self._seeds, self._judged = modules, seeds, judged
        self._tried: Counter[str] = Counter()
        self._survived: Counter[str] = Counter()
        self._finished = False

    def pytest_collection(self) -> None:
        """Before tests take over the settings: a failure need not be made short."""
        phases = (hypothesis.Phase.explicit, hypothesis.Phase.generate)
        hypothesis.settings.register_profile("conditions", phases=phases, database=None)
        hypothesis.settings.load_profile("conditions")

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Run the tests once as they are, and then those that run a condition, for each of them."""
        loaded()
        runs = Runs([item for item in session.items if _is_quick(item)])
        tests = runs.traced({str(module.path) for module in self._modules}, self._shown)
        print(f"{len(tests.seconds)} tests, {sum(tests.seconds.values()):.0f} s", flush=True)
        for nodeid in tests.failed:
            print(f"  fails without any change, and is left out: {nodeid}", flush=True)
        for module in self._modules:
            for switch in module.switches:
                if (module.name, switch.owner, switch.text) not in self._judged:
                    self._try(runs, tests, module, switch)
            tried, survived = self._tried[module.name], self._survived[module.name]
            print(f"{module.name}: {tried} switched off, {survived} missed", flush=True)
        self._finished = True
        return True

    def _try(self, runs: Runs, tests: Tests, module: Module, switch: Switch) -> None:
        self._tried[module.name] += 1
        code = switch.compiled(module.source, str(module.path))
        target = importlib.import_module(module.imported)
        wanted = tests.of(str(module.path), switch.lines, switch.around, module.tests, self._limit)
        by = runs.caught(wanted, lambda: exchange(target, switch.owner, code), self._seeds)
        if by:
            tests.caught(by)
            return
        self._survived[module.name] += 1
        where = f"{module.name}:{switch.lines.start} {switch.owner}"
        print(f"MISSED {where} ({len(wanted)} tests)\n    {switch.text}", flush=True)

    def told(self) -> int:
        """Print the result; return the exit code."""
        if not self._finished:
            print("the tests did not run", file=sys.stderr)
            return 2
        survived, tried = self._survived.total(), self._tried.total()
        print(f"{tried - survived} of {tried} are missed by a test; {len(self._judged)} judged")
        return 1 if survived else 0


def _is_quick(item: pytest.Item) -> bool:
    """Whether a test needs neither a server nor a store of another process."""
    fixtures: Sequence[str] = getattr(item, "fixturenames", ())
    return not {"s3_server", "store_root", "s3_root"}.intersection(fixtures)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
