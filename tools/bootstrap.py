"""Set this clone up: a virtual environment from the lock, and a Java that Spark can run on.

Run by `make setup` with the machine's own Python, before anything is installed: standard library
only. Does nothing, in well under two seconds, when the environment matches the lock.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

REPO = Path(__file__).resolve().parents[1]
VENV = REPO / ".venv"
CACHE = REPO / ".cache"
STAMP = VENV / ".firnline-stamp"
JAVA_HOME_FILE = CACHE / "java-home"
"""File from which the Makefile reads JAVA_HOME."""

UV_VERSION = "0.13.8"
JAVA_LEAST = 17
"""Minimum major version of Java for Spark 4."""
PYTHONS = ((3, 11), (3, 12), (3, 13), (3, 14))


class SetupError(Exception):
    """One sentence: what is missing and what to do about it."""


def run(*command: str | Path, quiet: bool = False) -> None:
    """Run a program in the repository's folder. Raises SetupError naming it when it fails."""
    words = [str(word) for word in command]
    done = subprocess.run(
        words, cwd=REPO, check=False, text=True, capture_output=quiet, env=_environment()
    )
    if done.returncode != 0:
        if quiet:
            sys.stderr.write((done.stdout + done.stderr)[-4000:])
        raise SetupError(
            f"`{' '.join(words)}` ended with {done.returncode}; repair what it says above and run "
            "`make setup` again"
        )


def _environment() -> dict[str, str]:
    # A developer's active environment must not be the one that is filled.
    return {name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"}


def apt_get_words() -> list[str] | None:
    """Return the first words of a command of apt-get, as root or by a ``sudo`` that asks nothing.

    None where there is no apt-get, or nobody may use it.
    """
    if shutil.which("apt-get") is None:
        return None
    # As a word of the command: sudo hands on no environment.
    words = ["env", "DEBIAN_FRONTEND=noninteractive", "apt-get"]
    if os.geteuid() == 0:
        return words
    if shutil.which("sudo") is None:
        return None
    asked = subprocess.run(["sudo", "-n", "true"], check=False, capture_output=True)
    return ["sudo", "-n", *words] if asked.returncode == 0 else None


# --- Java -----------------------------------------------------------------------------------------


def java_candidates() -> Iterator[Path]:
    """Java programs of this machine, the user's choice first."""
    if home := os.environ.get("JAVA_HOME"):
        yield Path(home) / "bin" / "java"
    if found := shutil.which("java"):
        yield Path(found)
    yield from sorted(Path("/usr/lib/jvm").glob("*/bin/java"), reverse=True)


def parse_java(settings: str) -> tuple[int, str]:
    """Major version and home from `java -XshowSettings:properties -version`; (0, "") without."""
    version = re.search(r"java\.specification\.version = (?:1\.)?(\d+)", settings)
    home = re.search(r"java\.home = (.+)", settings)
    if version is None or home is None:
        return 0, ""
    return int(version[1]), home[1].strip()


def ask_java(java: Path) -> tuple[int, str]:
    """Major version and home of one Java program; (0, "") when it does not run."""
    if not os.access(java, os.X_OK):
        return 0, ""
    done = subprocess.run(
        [java, "-XshowSettings:properties", "-version"],
        check=False,
        capture_output=True,
        text=True,
    )
    return parse_java(done.stderr + done.stdout)


def find_java() -> tuple[str | None, list[str]]:
    """The home of the first Java that is new enough, and what was seen before it."""
    seen: list[str] = []
    for java in java_candidates():
        major, home = ask_java(java)
        if major >= JAVA_LEAST:
            return home, seen
        seen.append(f"{java} (version {major or 'unknown'})")
    return None, seen


def ensure_java() -> str:
    """The home of a Java for Spark, installed if it may be. Raises SetupError."""
    home, seen = find_java()
    if home is None and (apt_get := apt_get_words()) is not None:
        print("setup: installing Java from packages.txt")
        packages = (REPO / "packages.txt").read_text(encoding="utf-8").split()
        run(*apt_get, "update", "-qq", quiet=True)
        run(*apt_get, "install", "-y", "-qq", "--no-install-recommends", *packages, quiet=True)
        home, seen = find_java()
    if home is None:
        found = f"found only {', '.join(seen)}" if seen else "found none"
        raise SetupError(
            f"Spark needs Java {JAVA_LEAST} or newer and this machine has none ({found}); install "
            "it (packages.txt names Debian's package) or point JAVA_HOME at one"
        )
    return home


# --- Python ---------------------------------------------------------------------------------------


def wanted_stamp() -> str:
    """Return a digest of the environment's sources; it is rebuilt if the digest changes."""
    pyproject = tomllib.loads((REPO / "pyproject.toml").read_text(encoding="utf-8"))
    # The settings of the linters are no reason to install anything.
    built_from = (pyproject["project"], pyproject["build-system"], pyproject["tool"].get("hatch"))
    digest = hashlib.sha256(repr((sys.version_info[:2], str(REPO), built_from)).encode())
    digest.update((REPO / "requirements.lock").read_bytes())
    return digest.hexdigest()


def ensure_uv() -> Path:
    """Return the uv of this machine, else the repository's own."""
    if found := shutil.which("uv"):
        return Path(found)
    home = CACHE / f"uv-{UV_VERSION}"
    uv = home / "bin" / "uv"
    if not uv.exists():
        print(f"setup: installing uv {UV_VERSION} into {home.relative_to(REPO)}")
        run(sys.executable, "-m", "venv", home, quiet=True)
        run(home / "bin" / "pip", "install", "-q", f"uv=={UV_VERSION}", quiet=True)
    return uv


def ensure_environment() -> bool:
    """Make .venv hold exactly what requirements.lock says, and this project, editable.

    False when it did already.
    """
    stamp = wanted_stamp()
    python = VENV / "bin" / "python"
    if python.exists() and STAMP.exists() and STAMP.read_text(encoding="utf-8") == stamp:
        return False
    uv = ensure_uv()
    print("setup: filling .venv from requirements.lock")
    STAMP.unlink(missing_ok=True)
    if not python.exists():
        run(uv, "venv", "-q", "--clear", "--python", sys.executable, VENV)
    run(uv, "pip", "sync", "-q", "--python", python, "--require-hashes", "requirements.lock")
    # The build backend comes from the lock as well, hence no isolated build.
    project = ("--no-deps", "--no-build-isolation", "--editable", ".")
    run(uv, "pip", "install", "-q", "--python", python, *project)
    STAMP.write_text(stamp, encoding="utf-8")
    return True


def forget_leftovers() -> None:
    """Have uv clear what its cache keeps and nothing names any more; never a reason to stop.

    What comes as source, as pyspark does, is built again wherever the index sends nothing to
    compare with, and each build stays: 6 GB a fresh clone's `make test`, until the disk is full.
    """
    try:
        run(ensure_uv(), "cache", "prune", "-q", quiet=True)
    except SetupError as error:
        print(f"setup: the cache of uv keeps what nothing needs: {error}")


def ensure_archive(java_home: str) -> None:
    """A class archive for Spark's JVM, which halves the start of every job; never a reason to stop.

    Made whenever the environment was: another pyspark needs another one.
    """
    print("setup: making the class archive for Spark")
    done = subprocess.run(
        [VENV / "bin" / "python", "-m", "firnline.spark.archive"],
        cwd=REPO,
        check=False,
        text=True,
        capture_output=True,
        env={**_environment(), "JAVA_HOME": java_home, "FIRNLINE_CACHE": str(CACHE / "firnline")},
    )
    if done.returncode != 0:
        reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        print(f"setup: Spark will start without a class archive, more slowly: {reason}")


def main() -> int:
    """Set up; 0, or 1 after one sentence on standard error."""
    try:
        if sys.version_info[:2] not in PYTHONS:
            names = " or ".join(f"{major}.{minor}" for major, minor in PYTHONS)
            raise SetupError(f"firnline needs Python {names}; name one: `make setup PYTHON=...`")
        CACHE.mkdir(exist_ok=True)
        java_home = ensure_java()
        JAVA_HOME_FILE.write_text(java_home, encoding="utf-8")
        if ensure_environment():
            forget_leftovers()
            ensure_archive(java_home)
    except SetupError as error:
        sys.stderr.write(f"setup: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
