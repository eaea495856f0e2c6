"""Fill the environment of a base image with what firnline needs, as the Dockerfile does it.

    python image.py requirements.txt WHEEL [EXTRA ...]

What the base has stays as it is: Airflow's own image and an Astro Runtime are sets that somebody
has tested together, and an Astro Runtime's Airflow is no package of the index. What the wheel needs
and the base has not, or has in a version that the wheel does not take, is taken from the lock, with
its hashes; then what that needs. A base whose Airflow is the lock's gets the whole lock. All
requirements are checked at the end: an image whose packages do not fit is never built.

Run by the base's own Python: standard library, and packaging, which Airflow requires.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from email.parser import HeaderParser
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

AIRFLOW = "apache-airflow"
EXCLUDED = frozenset({"pyspark-client"})
"""Airflow's Spark provider requires it; pyspark has the same files, and stands in for it."""


class ImageError(Exception):
    """One sentence: what does not fit, and what to do about it."""


@dataclass(frozen=True)
class Pin:
    """A package of the lock that is meant for this Python."""

    name: str
    version: str
    lines: str
    """Its entry of the lock, with its hashes."""


def read_lock(text: str) -> dict[str, Pin]:
    """Return the packages of a lock that are meant for this Python and system, by name."""
    pins: dict[str, Pin] = {}
    for entry in _entries(text):
        requirement = Requirement(entry.replace("\\\n", " ").split("--hash")[0].strip())
        if requirement.marker is not None and not requirement.marker.evaluate():
            continue
        name = canonicalize_name(requirement.name)
        (version,) = (each.version for each in requirement.specifier)
        pins[name] = Pin(name, version, entry)
    return pins


def _entries(text: str) -> Iterator[str]:
    """Split a lock: a package's line and the lines with its hashes, indented below it."""
    entry: list[str] = []
    for line in text.splitlines():
        if line.startswith("#") or not line.strip():
            continue
        if entry and not line.startswith(" "):
            yield "\n".join(entry)
            entry = []
        entry.append(line)
    if entry:
        yield "\n".join(entry)


@dataclass(frozen=True)
class Package:
    """A package that is installed, or the wheel that will be."""

    name: str
    version: str
    requires: tuple[str, ...]
    extras: tuple[str, ...] = ()
    """Those that are asked for."""

    def needs(self) -> Iterator[Requirement]:
        """What it requires on this Python."""
        for line in self.requires:
            requirement = Requirement(line)
            marker = requirement.marker
            if marker is None or any(marker.evaluate({"extra": e}) for e in ("", *self.extras)):
                yield requirement


def read_wheel(wheel: Path, extras: Sequence[str]) -> Package:
    """Return what a wheel says of itself."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (each for each in archive.namelist() if each.endswith(".dist-info/METADATA"))
        said = HeaderParser().parsestr(archive.read(name).decode("utf-8"))
    requires = tuple(said.get_all("Requires-Dist", []))
    return Package(canonicalize_name(said["Name"]), said["Version"], requires, tuple(extras))


def installed() -> dict[str, Package]:
    """Return what this environment has, by name."""
    return {
        (name := canonicalize_name(each.metadata["Name"])): Package(
            name, each.version, tuple(each.requires or ())
        )
        for each in metadata.distributions()
    }


def unmet(there: Mapping[str, Package], of: Iterable[Package]) -> dict[str, str]:
    """Return what packages need and have not: name -> who needs which version, for a sentence."""
    found: dict[str, str] = {}
    for package in of:
        for need in package.needs():
            name = canonicalize_name(need.name)
            have = there.get(name)
            if name in EXCLUDED or (have and need.specifier.contains(have.version, True)):
                continue
            wanted = f"{package.name} {package.version} needs {need.name}{need.specifier}"
            found[name] = f"{wanted} and there is {have.version if have else 'none'}"
    return found


def first(there: Mapping[str, Package], pins: Mapping[str, Pin], wheel: Package) -> set[str]:
    """Return the names of the packages that are taken from the lock at first.

    All of them where the base's Airflow is the lock's; else what the wheel needs and has not.
    """
    airflow = there.get(AIRFLOW)
    if airflow is None:
        raise ImageError(
            f"the base has no {AIRFLOW}; give an image of Airflow as the build argument BASE"
        )
    if AIRFLOW in pins and airflow.version == pins[AIRFLOW].version:
        return set(pins)
    return pins.keys() & unmet(there, [wheel]).keys()


def install(lock: Path, wheel: Package) -> None:
    """Install what is missing. Raises ImageError for packages that do not fit together."""
    pins, before = read_lock(lock.read_text(encoding="utf-8")), installed()
    clash = sorted(EXCLUDED & before.keys())
    if clash:
        _pip("uninstall", "-y", *clash)
    # What did not fit in the base is not our business.
    theirs = unmet(before, before.values())
    names, wrong = first(before, pins, wheel), {}
    while names:
        _install(pins[name] for name in sorted(names))
        there = installed()
        found = unmet(there, [wheel, *there.values()])
        wrong = {name: why for name, why in found.items() if theirs.get(name) != why}
        # What came just now may need more; a package of the lock is installed once.
        names = {name for name in wrong.keys() & pins.keys() if not _is(there, pins[name])}
    if wrong:
        raise ImageError(
            f"{'; '.join(wrong[name] for name in sorted(wrong))}; take a newer base, or run the "
            "kernels with a Python of their own (docs/support.md, Packages)"
        )


def _is(there: Mapping[str, Package], pin: Pin) -> bool:
    return pin.name in there and there[pin.name].version == pin.version


def _install(pins: Iterable[Pin]) -> None:
    text = "\n".join(pin.lines for pin in pins)
    with tempfile.NamedTemporaryFile("w", suffix=".txt", encoding="utf-8") as chosen:
        chosen.write(text + "\n")
        chosen.flush()
        _pip("install", "--no-cache-dir", "--no-deps", "--require-hashes", "-r", chosen.name)


def _pip(*words: str) -> None:
    done = subprocess.run([sys.executable, "-m", "pip", *words], check=False)
    if done.returncode != 0:
        raise ImageError(f"`pip {' '.join(words)}` ended with {done.returncode}: see above")


def main(arguments: Sequence[str]) -> int:
    """Return the exit code: 1 after a sentence that says what does not fit."""
    if len(arguments) < 2:
        sys.stderr.write(__doc__ or "")
        return 2
    lock, wheel, *extras = arguments
    try:
        install(Path(lock), read_wheel(Path(wheel), extras))
    except ImageError as error:
        sys.stderr.write(f"image: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
