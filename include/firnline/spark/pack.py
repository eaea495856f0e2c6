"""An archive with the Python packages that executors need, for ``spark.archives``.

It holds what is installed here: the packages of ``firnline.spark.executors`` and those that they
need in turn, without tests, headers and compiled Python. Neither Python itself nor firnline is in
it: executors have a Python of the same version, and firnline is sent to them. Two archives of one
installation are equal, byte by byte.
"""

from __future__ import annotations

import gzip
import sys
import sysconfig
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import Distribution, PackageNotFoundError, PackagePath, distribution
from pathlib import Path

from firnline.errors import EnvironmentFaultError, UsageError
from firnline.spark.executors import ALWAYS, CHAIN, READING, SOURCE, SPLITTING

_LEFT_OUT = {"__pycache__", "tests", "include", ".."}
"""Folders of a package that nothing imports at run time."""
_ENDINGS = {".pyc", ".pyi", ".pyx", ".pxd", ".pxi", ".h", ".hpp", ".c", ".a"}
_OF_THE_INSTALLER = {"RECORD", "INSTALLER", "REQUESTED", "direct_url.json"}
_LEVEL = 6


@dataclass(frozen=True, slots=True)
class Packed:
    """An archive that was made."""

    path: Path
    bytes: int
    packages: dict[str, str]
    """Version by package."""
    python: str
    """Version of Python that the packages are for, such as ``3.11``."""
    platform: str
    """System and processor that they are for, such as ``linux-x86_64``."""


def pack(
    target: Path,
    *,
    aws: bool = True,
    source: bool = False,
    on_progress: Callable[[int, int], None] = lambda *_: None,
) -> Packed:
    """Write the archive; an existing file is replaced once the new one is complete.

    Args:
        target: file to write, ending in ``.tar.gz`` or ``.tgz``: Spark goes by the ending.
        aws: include what gets credentials from the AWS chain.
        source: include what the data source ``format("firnline")`` needs.
        on_progress: takes the number of files packed and of all.

    Raises:
        UsageError: another ending, or a folder that does not exist.
        EnvironmentFaultError: a package is not installed here, or not by an installer that states
            its files.
    """
    if not target.name.endswith((".tar.gz", ".tgz")):
        raise UsageError(
            f"{target} does not end in .tar.gz, by which Spark knows how to unpack it",
            next_step="name it firnline-executors.tar.gz, for one",
        )
    if not target.parent.is_dir():
        raise UsageError(f"there is no folder {target.parent}", next_step="create it first")
    more = [*([CHAIN] if aws else []), *(SOURCE if source else [])]
    found = closure([*ALWAYS, READING, SPLITTING, *more])
    half = target.with_name(f".{target.name}.half")
    try:
        with (
            half.open("wb") as file,
            gzip.GzipFile("", "wb", _LEVEL, file, mtime=0) as packed,
            tarfile.open(fileobj=packed, mode="w") as archive,
        ):
            paths = [path for name in sorted(found) for path in _files(found[name])]
            for count, path in enumerate(paths, 1):
                _add(archive, path)
                on_progress(count, len(paths))
        half.replace(target)
    finally:
        half.unlink(missing_ok=True)
    return Packed(
        path=target,
        bytes=target.stat().st_size,
        packages={name: found[name].version for name in sorted(found)},
        python=f"{sys.version_info.major}.{sys.version_info.minor}",
        platform=sysconfig.get_platform(),
    )


def closure(names: list[str]) -> dict[str, Distribution]:
    """Return installed packages and all that they need in turn, by canonical name.

    Raises EnvironmentFaultError: one is not installed.
    """
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    found: dict[str, Distribution] = {}
    wanted = list(names)
    while wanted:
        name = canonicalize_name(wanted.pop())
        if name in found:
            continue
        found[name] = _installed(name)
        needs = [Requirement(text) for text in found[name].requires or ()]
        wanted += [
            one.name for one in needs if one.marker is None or one.marker.evaluate({"extra": ""})
        ]
    return found


def _installed(name: str) -> Distribution:
    try:
        return distribution(name)
    except PackageNotFoundError:
        raise EnvironmentFaultError(
            f"the Python package {name} is not installed here, so it cannot be packed",
            next_step="install firnline with its dependencies, and pack there",
        ) from None


def _files(package: Distribution) -> Iterator[PackagePath]:
    """Yield the files of a package that are needed at run time, in the order of their names."""
    if package.files is None:
        raise EnvironmentFaultError(
            f"the installed package {package.name} does not state its files",
            next_step="install firnline into an environment by pip or uv and pack there",
        )
    for path in sorted(package.files):
        in_info = path.parts[0].endswith(".dist-info")
        if _LEFT_OUT.intersection(path.parts[:-1]) or path.suffix in _ENDINGS:
            continue
        if in_info and path.name in _OF_THE_INSTALLER:
            continue
        yield path


def _add(archive: tarfile.TarFile, path: PackagePath) -> None:
    here = Path(str(path.locate()))
    entry = tarfile.TarInfo(path.as_posix())
    entry.size, entry.mode = here.stat().st_size, 0o644
    with here.open("rb") as content:
        archive.addfile(entry, content)
