"""Seconds from `pip install` to a merged table on S3, with the commands of docs/tutorial.md alone.

    python -m benchmarks.firsthour [--extras] [--write]

Twice: with an empty cache of pip, which downloads everything, and with what that left. Each time
an empty environment is made, the wheel built and installed, and every block of the page up to the
merged table run in that environment, on the S3 server of the tests; what is printed is compared
with the page. That needs the core alone; ``--extras`` installs what the whole page needs.
``--write`` puts the figures into the page.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.measure import load_average
from tests.support.cli import Outcome
from tests.support.laptop import Laptop, laptop
from tests.support.pages import Reader, blocks
from tools.bootstrap import REPO

PAGE = REPO / "docs" / "tutorial.md"
SECTIONS = ("A bucket", "A table", "Import", "Append", "Merge")
"""Of the page, up to the merged table."""
_EXTRAS = re.compile(r"^uv pip install .*'\.(\[[a-z,]+\])'$", re.MULTILINE)
_PLACE = re.compile(r"(?<=<!-- firsthour -->\n).*?(?=<!-- /firsthour -->)", re.DOTALL)


@dataclass
class Steps:
    """Seconds of each step, in order."""

    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        """Add the time of what is done within to a step."""
        began = time.monotonic()
        yield
        spent = time.monotonic() - began
        self.seconds[name] = self.seconds.get(name, 0.0) + spent
        print(f"  firsthour {name:40s} {spent:6.1f} s", flush=True)


@dataclass
class Fresh(Reader):
    """Follows the page with the programs of an environment, each in a process of its own."""

    home: Path = field(default_factory=Path)
    """The environment."""

    def run_python(self, code: str, names: dict[str, Any] | None = None) -> str:  # noqa: ARG002
        """Run a block; return what it prints."""
        done = in_environment(self.home, "python", ["-c", self._here(code)])
        assert done.code == 0, done.err
        return done.out


def in_environment(home: Path, program: str, arguments: Sequence[str]) -> Outcome:
    """Run a program of an environment in the working folder."""
    done = subprocess.run(
        [str(home / "bin" / program), *arguments], capture_output=True, text=True, check=False
    )
    return Outcome(done.returncode, done.stdout, done.stderr)


def main() -> None:
    """Measure both, and print the figures."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.firsthour", description=__doc__)
    parser.add_argument("--write", action="store_true", help="put the figures into the page")
    parser.add_argument("--extras", action="store_true", help="with the extras that the page names")
    given = parser.parse_args()
    page = PAGE.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory(prefix="firnline-firsthour-") as work:
        cache = Path(work) / "cache"
        extras = _EXTRAS.findall(page)[0] if given.extras else ""
        cold = measured(Path(work) / "cold", cache, page, extras)
        warm = measured(Path(work) / "warm", cache, page, extras)
    text = table(cold.seconds, warm.seconds)
    sys.stdout.write(text)
    if given.write:
        PAGE.write_text(_PLACE.sub(lambda _: text, page), encoding="utf-8")


def measured(work: Path, cache: Path, page: str, extras: str) -> Steps:
    """Measure one time in a folder, with a cache of pip; the server is there before."""
    work.mkdir()
    steps, home = Steps(), work / "venv"
    with steps.timed("make an environment"):
        _run(sys.executable, "-m", "venv", home)
    pip = (home / "bin" / "python", "-m", "pip", "--cache-dir", cache)
    with steps.timed("build the wheel"):
        _run(*pip, "wheel", "-q", "--no-deps", "-w", work, REPO)
    (wheel,) = work.glob("*.whl")
    with steps.timed(f"`pip install 'firnline{extras}'`"):
        _run(*pip, "install", "-q", f"{wheel}{extras}")
    with laptop(work / "firnline") as at:
        _follow(page, home, work / "here", at, steps)
    shutil.rmtree(home)
    return steps


def _run(*command: str | Path) -> None:
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    subprocess.run([str(word) for word in command], check=True, env=env)


def _follow(page: str, home: Path, here: Path, at: Laptop, steps: Steps) -> None:
    here.mkdir()
    before = dict(os.environ)
    os.environ.pop("PYTHONPATH", None)
    os.environ |= {"PWD": str(here), "USER": "ana", "LOGNAME": "ana"}
    os.chdir(here)
    reader = Fresh(
        programs={
            "firnline": lambda arguments: in_environment(home, "firnline", arguments),
            "make": at.make,
        },
        printed=str,
        env=os.environ.__setitem__,
        instead={"/home/ana": str(here), **at.instead()},
        home=home,
    )
    try:
        for section in SECTIONS:
            with steps.timed(f"“{section}”"):
                reader.follow(list(blocks(page, [section])))
    finally:
        os.chdir(REPO)
        os.environ.clear()
        os.environ |= before


def table(cold: dict[str, float], warm: dict[str, float]) -> str:
    """Return the figures as a table of the page."""
    lines = ["", "| step | seconds | again |", "| --- | --: | --: |"]
    lines += [f"| {name} | {cold[name]:.1f} | {warm[name]:.1f} |" for name in cold]
    lines.append(f"| **in all** | **{sum(cold.values()):.0f}** | **{sum(warm.values()):.0f}** |")
    machine = f"{os.cpu_count()} cores with a load of {load_average():.0f}"
    said = f"Measured on {machine}, Python {platform.python_version()}, each command typed at once:"
    return "\n".join([*lines, "", said, "`python -m benchmarks.firsthour --write`.", ""])


if __name__ == "__main__":
    main()
