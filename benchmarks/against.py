"""Two commits compared: ``make bench AGAINST=COMMIT [SECTIONS=...] [ROUNDS=n]``.

The working tree (new) and a commit (old) run the same sections in turn, round by round, every other
round old first. Both are driven by the benchmarks of the working tree, with its Python and its
libraries: only ``include/`` differs. A table states what the new code needs for each second, CPU
second and byte of the old one, as the median of the ratios within the rounds, and between which of
them it lies. Other libraries are measured beside them both times: how far their ratios are from 1
is the noise of the machine.
"""

from __future__ import annotations

import io
import json
import os
import statistics
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.measure import environment

NEW, OLD = "new", "old"
Measured = tuple[float, float, float]
"""Seconds, CPU seconds and peak bytes of one round; 0: not measured."""
Round = Mapping[str, Measured]
"""Contender -> what it needed."""
_HEADS = ("contender", "old s", "new s", "time", "CPU", "peak memory")
_NONE = "-"


@dataclass(frozen=True, slots=True)
class Asked:
    """What is compared: sections, rounds of each, where inputs are kept, and the sizes."""

    sections: tuple[str, ...]
    rounds: int
    cache: Path
    small: bool = False
    sizes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Ratio:
    """New by old: the median of the rounds, the least and the most."""

    median: float
    least: float
    most: float

    def __str__(self) -> str:
        return f"{self.median:.2f} ({self.least:.2f} to {self.most:.2f})"


class DoesNotRunError(Exception):
    """A section failed on one of the codes; says how."""


def ratio(new: Sequence[float], old: Sequence[float]) -> Ratio | None:
    """Return the ratios of a contender's rounds; None if a round was not measured.

    Args:
        new: a figure of each round; 0: not measured.
        old: the same of the other code, in the same rounds.
    """
    if not new or not all(new) or not all(old):
        return None
    found = [one / other for one, other in zip(new, old, strict=True)]
    return Ratio(statistics.median(found), min(found), max(found))


def table(new: Sequence[Round], old: Sequence[Round]) -> str:
    """Return a table of all contenders, which has a dash for what only one code has.

    Args:
        new: the rounds of the new code, at least one.
        old: those of the old one, as many.
    """
    rows: list[tuple[str, ...]] = [_HEADS]
    for name in dict.fromkeys([*new[0], *old[0]]):
        ours, theirs = _of(name, new), _of(name, old)
        shared = (
            [ratio(*pair) for pair in zip(ours, theirs, strict=True)] if ours and theirs else []
        )
        cells = [str(one) if one is not None else _NONE for one in shared] or [_NONE] * 3
        rows.append((name, _seconds(theirs), _seconds(ours), *cells))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
    return "\n".join(lines) + "\n"


def _of(name: str, rounds: Sequence[Round]) -> list[tuple[float, ...]]:
    """Return the times, CPU times and peaks of a contender; nothing if it is not in all rounds."""
    if not all(name in one for one in rounds):
        return []
    return list(zip(*(one[name] for one in rounds), strict=True))


def _seconds(figures: Sequence[tuple[float, ...]]) -> str:
    seconds = statistics.median(figures[0]) if figures else 0
    return f"{seconds:.3f}" if seconds else _NONE


def compare(commit: str, repository: Path, asked: Asked) -> int:
    """Print a table for each section.

    Args:
        commit: the old code, as Git names it.
        repository: the new code, and all benchmarks.
        asked: what to compare.

    Returns:
        0; 1 if a section failed on the new code, or none runs on the old one.

    Raises:
        SystemExit: Git knows no such commit.
    """
    sha, old = checked_out(commit, repository)
    codes = {NEW: repository / "include", OLD: old / "include"}
    print(
        f"new: the working tree; old: {sha[:12]}; time, CPU and peak memory are new / old, as the"
    )
    print("median of the rounds (least to most). Other libraries: the noise of this machine.\n")
    failed, compared = False, 0
    for section in asked.sections:
        rounds: dict[str, list[Round]] = {NEW: [], OLD: []}
        try:
            for number in range(asked.rounds):
                for which in (NEW, OLD) if number % 2 == 0 else (OLD, NEW):
                    tables = old / asked.cache.name if which == OLD else asked.cache
                    found = _round(section, which, codes[which], tables, repository, asked)
                    rounds[which].append(found)
        except DoesNotRunError as error:
            print(f"{section}: {error}\n", flush=True)
            failed = failed or str(error).startswith(NEW)
            continue
        compared += 1
        count = f"{asked.rounds} rounds" if asked.rounds > 1 else "one round"
        print(f"{section}, {count}\n{table(rounds[NEW], rounds[OLD])}", flush=True)
    return int(failed or not compared)


def checked_out(commit: str, repository: Path) -> tuple[str, Path]:
    """Return a commit's id and a folder with its ``include/``, made once.

    Raises SystemExit: Git knows no such commit.
    """
    git = ["git", "-C", str(repository)]
    asked = subprocess.run(
        [*git, "rev-parse", "--verify", "--quiet", f"{commit}^{{commit}}"],
        capture_output=True,
        text=True,
        check=False,
    )
    if asked.returncode:
        raise SystemExit(f"{commit} is no commit of this repository: see git log")
    sha = asked.stdout.strip()
    folder = repository / ".cache" / "against" / sha
    if not (folder / "complete").exists():
        folder.mkdir(parents=True, exist_ok=True)
        packed = subprocess.run([*git, "archive", sha, "include"], capture_output=True, check=True)
        with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as files:
            files.extractall(folder, filter="data")
        (folder / "complete").touch()
    return sha, folder


def _round(
    section: str, which: str, code: Path, tables: Path, repository: Path, asked: Asked
) -> Round:
    """Measure one round of a section. Raises DoesNotRunError."""
    print(f"  {section}: {which} code", file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory() as folder:
        to = Path(folder) / "figures.json"
        command = [sys.executable, "-m", "benchmarks", section, "--rounds=1", f"--figures={to}"]
        command += [f"--cache={asked.cache.absolute()}", f"--tables={tables.absolute()}"]
        command += [
            *(["--small"] if asked.small else []),
            *(f"--size={one}" for one in asked.sizes),
        ]
        done = subprocess.run(
            command,
            cwd=repository,
            env=environment({"PYTHONPATH": os.pathsep.join([str(code), str(repository)])}),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
        if done.returncode:
            said = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
            raise DoesNotRunError(f"{which} code: does not run: {said[-1]}")
        found: dict[str, Any] = json.loads(to.read_text())
    if Path(found["code"]) != code / "firnline":
        raise DoesNotRunError(f"{which} code: {found['code']} was measured instead of {code}")
    return {one["name"]: tuple(one["rounds"][0]) for one in found[section]}
