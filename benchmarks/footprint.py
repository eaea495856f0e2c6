"""What the core takes: bytes on disk, and the time until it can be used, for docs/python.md.

    python -m benchmarks.footprint [--write]

The wheel is built and installed into an empty environment, with the versions of the lock. Times
are those of nine processes each, from start to end; those of an import are without the time of an
interpreter that does nothing. ``--write`` puts the section into the page.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import astuple, dataclass
from pathlib import Path

from benchmarks.measure import load_average
from tools.bootstrap import REPO, ensure_uv

PAGE = REPO / "docs" / "python.md"
ROUNDS = 9
MB = 10**6
_PLACE = re.compile(r"(?<=<!-- footprint -->\n).*?(?=<!-- /footprint -->)", re.DOTALL)
_TABLE = """
import firnline
for n in range(4):
    firnline.append("file://{root}", [{{"n": n}}])
"""


def install(folder: Path) -> tuple[Path, Path]:
    """Return the wheel, and the ``bin`` folder of an environment that has only what it requires."""
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=REPO, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    uv, home = str(ensure_uv()), folder / "env"
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    subprocess.run([uv, "venv", "-q", "-p", version, str(home)], check=True)
    lock = ["-c", str(REPO / "requirements.lock")]
    place = ["--python", str(home / "bin" / "python")]
    subprocess.run([uv, "pip", "install", "-q", *place, *lock, str(wheel)], check=True)
    return wheel, home / "bin"


def size_of(folder: Path) -> int:
    """Return the bytes of all files in a folder, without compiled modules."""
    files = (each for each in folder.rglob("*") if each.is_file() and each.suffix != ".pyc")
    return sum(each.stat().st_size for each in files)


@dataclass(frozen=True)
class Start:
    """Seconds of processes that do the same."""

    median: float
    fastest: float
    cpu: float
    """Median."""

    def __sub__(self, other: Start) -> Start:
        """Return what it takes more than another; at least nothing."""
        both = zip(astuple(self), astuple(other), strict=True)
        return Start(*(max(mine - its, 0.0) for mine, its in both))


def started(*command: str | Path, cwd: Path) -> Start:
    """Measure a process, after one that fills the caches."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    spent, cpu = [], []
    for _ in range(ROUNDS + 1):
        began = time.monotonic()
        with subprocess.Popen(
            list(map(str, command)), cwd=cwd, env=env, stdout=subprocess.DEVNULL
        ) as process:
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        assert process.returncode == 0, command
        spent.append(time.monotonic() - began)
        cpu.append(usage.ru_utime + usage.ru_stime)
    return Start(statistics.median(spent[1:]), min(spent[1:]), statistics.median(cpu[1:]))


def starts(home: Path, work: Path) -> dict[str, Start]:
    """Return the times of each start, by what is started."""
    python, firnline, root = home / "python", home / "firnline", f"{work}/flights"
    subprocess.run([str(python), "-c", _TABLE.format(root=root)], check=True, cwd=work)
    nothing = started(python, "-c", "pass", cwd=work)

    def code(text: str) -> Start:
        return started(python, "-c", text, cwd=work) - nothing

    url = f"file://{root}"
    return {
        "`import firnline`": code("import firnline"),
        "`firnline.open_table`, as the first name": code("import firnline; firnline.open_table"),
        "`firnline.scan`, as the first name": code("import firnline; firnline.scan"),
        "`firnline --help`": started(firnline, "--help", cwd=work),
        "`firnline history` of a small table": started(firnline, "history", url, cwd=work),
        "`firnline plan merge` of a small table": started(firnline, "plan", "merge", url, cwd=work),
    }


def section(wheel: int, core: int, found: dict[str, Start]) -> str:
    """Return the text of the page."""
    sizes = (
        f"The wheel has {wheel / MB:.2f} MB, the core with all that it requires {core / MB:.0f} MB."
    )
    lines = ["", sizes, "", "| start | median | fastest | CPU time |", "| --- | --: | --: | --: |"]
    for what, each in found.items():
        lines.append(f"| {what} | {' | '.join(map(_shown, astuple(each)))} |")
    machine = f"{os.cpu_count()} cores with a load of {load_average():.0f}"
    said = f"Measured on {machine}, Python {platform.python_version()}, {ROUNDS} processes each:"
    return "\n".join([*lines, "", said, "`python -m benchmarks.footprint --write`.", ""])


def _shown(spent: float) -> str:
    return f"{spent * 1000:.0f} ms" if spent < 0.1 else f"{spent:.2f} s"


def main() -> None:
    """Measure, and print or write the section."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.footprint", description=__doc__)
    parser.add_argument("--write", action="store_true", help="put the section into the page")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="firnline-footprint-") as work:
        wheel, home = install(Path(work))
        core = size_of(home.parent / "lib")
        text = section(wheel.stat().st_size, core, starts(home, Path(work)))
    sys.stdout.write(text)
    if given.write:
        page = PAGE.read_text(encoding="utf-8")
        PAGE.write_text(_PLACE.sub(lambda _: text, page), encoding="utf-8")


if __name__ == "__main__":
    main()
