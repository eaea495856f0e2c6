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
OWN = "firnline"
_OWN_ENDINGS = {".py", ".js", ".typed"}
"""Of the files of firnline itself, whose folder may be one of sources, where anything may lie."""
PYTHON_FOLDER = "python"
"""Folder in the archive of a Python that is included."""


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
    own: bool = False,
    python: Path | None = None,
    on_progress: Callable[[int, int], None] = lambda *_: None,
) -> Packed:
    """Write the archive; an existing file is replaced once the new one is complete.

    Args:
        target: file to write, ending in ``.tar.gz`` or ``.tgz``: Spark goes by the ending.
        aws: include what gets credentials from the AWS chain.
        source: include what the data source ``format("firnline")`` needs.
        own: include firnline itself and all that it needs, for a driver.
        python: root of a relocatable Python to include as ``python/``.
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
    found = closure([*ALWAYS, READING, SPLITTING, *more, *([OWN] if own else [])])
    half = target.with_name(f".{target.name}.half")
    try:
        with (
            half.open("wb") as file,
            gzip.GzipFile("", "wb", _LEVEL, file, mtime=0) as packed,
            tarfile.open(fileobj=packed, mode="w") as archive,
        ):
            files = [file for name in sorted(found) for file in _files_of(found[name])]
            files += [] if python is None else list(_tree(python, PYTHON_FOLDER))
            for count, (here, name) in enumerate(files, 1):
                _add(archive, here, name)
                on_progress(count, len(files))
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
        found[name] = installed(name)
        needs = [Requirement(text) for text in found[name].requires or ()]
        wanted += [
            one.name for one in needs if one.marker is None or one.marker.evaluate({"extra": ""})
        ]
    return found


def installed(name: str) -> Distribution:
    """Return an installed package. Raises EnvironmentFaultError."""
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


def _files_of(package: Distribution) -> Iterator[tuple[Path, str]]:
    """Yield the files of a package, and their names in the archive."""
    if package.name == OWN:
        yield from own_files()
        return
    for path in _files(package):
        yield Path(str(path.locate())), path.as_posix()


def own_files() -> Iterator[tuple[Path, str]]:
    """Yield the files of firnline that runs here, and their names in an archive or a wheel.

    It may be installed as a link to its sources, which its installer does not list.
    """
    import firnline

    for path, name in _tree(Path(firnline.__file__).parent, OWN):
        if path.suffix in _OWN_ENDINGS:
            yield path, name


def _tree(folder: Path, name: str) -> Iterator[tuple[Path, str]]:
    """Yield the files of a folder by name, without hidden ones, compiled Python and tests."""
    for path in sorted(folder.rglob("*")):
        inside = path.relative_to(folder)
        hidden = any(part.startswith(".") for part in inside.parts)
        left_out = {"__pycache__", "test", "tests"}.intersection(inside.parts[:-1])
        if path.is_file() and not hidden and not left_out:
            yield path, f"{name}/{inside.as_posix()}"


def _add(archive: tarfile.TarFile, here: Path, name: str) -> None:
    entry = tarfile.TarInfo(name)
    status = here.stat()
    entry.size, entry.mode = status.st_size, 0o755 if status.st_mode & 0o100 else 0o644
    with here.open("rb") as content:
        archive.addfile(entry, content)
