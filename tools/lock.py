"""The lock: what pyproject.toml declares, resolved once, with hashes, without any address.

    python -m tools.lock make [--upgrade]   resolve (needs uv and the package registry)
    python -m tools.lock check              do the three files agree? (offline)

`requirements.lock` is everything, for developers and CI; `requirements.txt` is what the product
needs, for the image. Not uv.lock: it names the registry it was made with beside every file.
"""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
import tomllib
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tools.bootstrap import REPO, ensure_uv

LOCK = "requirements.lock"
RUNTIME = "requirements.txt"
IMAGE = ("airflow", "spark", "spark-connect", "smoke")
"""Extras of what the image installs."""
PYTHON_LEAST = "3.11"

_HEADER = """\
# {purpose}
# Made by `make lock` from pyproject.toml; never edited by hand (`make check` would notice).
# declarations: sha256:{digest}
"""
_PURPOSE = {
    LOCK: "All that firnline and its developers need, for Python 3.11 and newer.",
    RUNTIME: "All that firnline needs, for its image: the runtime part of requirements.lock.",
}
_PIN = re.compile(r"^(?P<name>[\w.-]+)==(?P<version>[^\s;]+)\s*(?:;\s*(?P<marker>.*))?")
_HASH = re.compile(r"--hash=(sha256:[0-9a-f]{64})")
_DIGEST = re.compile(r"^# declarations: sha256:([0-9a-f]{64})$", re.MULTILINE)
_ADDRESS = re.compile(r"://|--(?:extra-)?index-url|--find-links|@ ")


@dataclass(frozen=True)
class Declared:
    """The requirements that pyproject.toml declares."""

    runtime: list[str]
    developer: list[str]
    groups: list[str]
    excluded: list[str]
    digest: str


@dataclass(frozen=True)
class Pins:
    """One locked file. ``pins``: (name, version, marker) to its hashes."""

    digest: str | None
    pins: dict[tuple[str, str, str], frozenset[str]] = field(default_factory=dict)
    addresses: list[str] = field(default_factory=list)

    def versions(self) -> dict[str, list[str]]:
        """Versions by name: several where the Python versions differ."""
        found = defaultdict(list)
        for name, version, _ in self.pins:
            found[name].append(version)
        return found


def read_declared(repo: Path) -> Declared:
    """The declarations of pyproject.toml and a digest of all that decides the resolution."""
    with (repo / "pyproject.toml").open("rb") as file:
        pyproject: dict[str, Any] = tomllib.load(file)
    project, groups = pyproject["project"], pyproject.get("dependency-groups", {})
    extras = project.get("optional-dependencies", {})
    excluded = pyproject.get("tool", {}).get("uv", {}).get("exclude-dependencies", [])
    build = pyproject["build-system"]["requires"]
    deciding = {
        "python": project["requires-python"],
        "runtime": sorted(project["dependencies"]),
        "extras": {name: sorted(extra) for name, extra in extras.items()},
        "groups": {name: sorted(group) for name, group in groups.items()},
        "build": sorted(build),
        "excluded": sorted(excluded),
    }
    text = json.dumps(deciding, sort_keys=True, separators=(",", ":"))
    return Declared(
        runtime=[*project["dependencies"], *(one for name in IMAGE for one in extras[name])],
        developer=[
            *build,
            *(one for each in (*extras.values(), *groups.values()) for one in each),
        ],
        groups=list(groups),
        excluded=[canonicalize_name(name) for name in excluded],
        digest=hashlib.sha256(text.encode()).hexdigest(),
    )


def read_pins(path: Path) -> Pins:
    """Parse a locked requirements file (the only form that `make` writes)."""
    text = path.read_text(encoding="utf-8")
    digest = _DIGEST.search(text)
    pins: dict[tuple[str, str, str], frozenset[str]] = {}
    addresses = []
    for line in text.replace("\\\n", " ").splitlines():
        if _ADDRESS.search(line):
            addresses.append(line.split("--hash")[0].strip())
        elif found := _PIN.match(line):
            marker = (found["marker"] or "").split("--hash")[0].strip()
            key = (canonicalize_name(found["name"]), found["version"], marker)
            pins[key] = frozenset(_HASH.findall(line))
    return Pins(digest[1] if digest else None, pins, addresses)


def problems(repo: Path) -> list[str]:
    """Return a sentence for each disagreement of pyproject.toml and the two locked files."""
    declared = read_declared(repo)
    lock, runtime = read_pins(repo / LOCK), read_pins(repo / RUNTIME)
    found = []
    for name, pins in ((LOCK, lock), (RUNTIME, runtime)):
        if pins.digest != declared.digest:
            found.append(f"{name} was made from other declarations than pyproject.toml's")
        found += [f"{name} names an address: {line}" for line in pins.addresses]
        found += [
            f"{name} has no hash of {key[0]}" for key, known in pins.pins.items() if not known
        ]
        found += [
            f"{name} pins {excluded}, which pyproject.toml excludes"
            for excluded in declared.excluded
            if excluded in pins.versions()
        ]
    found += _unmet(RUNTIME, runtime, declared.runtime)
    found += _unmet(LOCK, lock, [*declared.runtime, *declared.developer])
    for key, hashes in runtime.pins.items():
        # What only the runtime has a condition for, developers need in any case.
        if hashes not in (lock.pins.get(key), lock.pins.get((*key[:2], ""))):
            found.append(f"{RUNTIME} pins {key[0]} {key[1]} otherwise than {LOCK}")
    return found


def _unmet(file: str, pins: Pins, declarations: list[str]) -> list[str]:
    versions = pins.versions()
    found = []
    for declaration in declarations:
        wanted = Requirement(declaration)
        have = versions.get(canonicalize_name(wanted.name), [])
        if not have or not all(wanted.specifier.contains(version, True) for version in have):
            found.append(f"{file} pins {', '.join(have) or 'nothing'} for `{declaration}`")
    return found


def make(repo: Path, *, upgrade: bool) -> None:
    """Resolve both files again; pins that are still valid stay unless ``upgrade``."""
    declared = read_declared(repo)
    groups = [word for name in declared.groups for word in ("--group", name)]
    options = ["--all-extras", *groups, *(["--upgrade"] if upgrade else [])]
    _compile(repo, LOCK, options, declared.digest)
    # Constrained by the whole lock: the same versions, only fewer.
    (repo / RUNTIME).unlink(missing_ok=True)
    image = [word for name in IMAGE for word in ("--extra", name)]
    _compile(repo, RUNTIME, [*image, "--constraint", LOCK], declared.digest)


def _compile(repo: Path, file: str, options: list[str], digest: str) -> None:
    command = [
        *(str(ensure_uv()), "pip", "compile", "pyproject.toml", "-q", "--generate-hashes"),
        *("--universal", "--python-version", PYTHON_LEAST, "--no-header", "--no-annotate"),
        *("--no-emit-index-url", "--no-emit-find-links", "-o", file, *options),
    ]
    subprocess.run(command, cwd=repo, check=True)
    path = repo / file
    body = "\n".join(
        line for line in path.read_text(encoding="utf-8").splitlines() if not line.startswith("#")
    )
    header = _HEADER.format(purpose=_PURPOSE[file], digest=digest)
    path.write_text(header + body + "\n", encoding="utf-8")


def main(arguments: list[str]) -> int:
    """0 when the files agree, 1 after a line for each thing in which they do not, 2 on usage."""
    if not arguments or arguments[0] not in {"make", "check"}:
        sys.stderr.write((__doc__ or "") + "\n")
        return 2
    if arguments[0] == "make":
        make(REPO, upgrade="--upgrade" in arguments)
    found = problems(REPO)
    for problem in found:
        sys.stderr.write(f"lock: {problem}\n")
    if found:
        sys.stderr.write("lock: run `make lock` and commit what it writes\n")
        return 1
    print("lock: pyproject.toml, requirements.lock and requirements.txt agree")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
