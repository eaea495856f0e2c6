"""Publish firnline for jobs on other platforms: entry point, environment and wheel, by digest.

The folder is named after what is in it, so publishing the same twice writes nothing, and no run
gets another code than its settings name (``firnline.launch.package``).
"""

from __future__ import annotations

import hashlib
import json
import sys
import tempfile
import zipfile
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import distribution
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from firnline.errors import EnvironmentFaultError, ObjectNotFoundError, UsageError, some
from firnline.launch.package import (
    ENTRY,
    ENVIRONMENT,
    MANIFEST,
    Manifest,
    PackagePaths,
    wheel_name,
)
from firnline.paths import Root
from firnline.spark.elsewhere import ENTRY as ENTRY_POINT
from firnline.spark.pack import pack
from firnline.store.client import open_store

if TYPE_CHECKING:
    from firnline.store.access import StoreAccess

_WHEEL = "Wheel-Version: 1.0\nGenerator: firnline\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
_EPOCH = (1980, 1, 1, 0, 0, 0)
"""Time of every entry of the wheel, so that two of the same code are equal."""
_DIGITS = 12
_OF_A_PYTHON = frozenset(("bin", "include", "lib", "share", "BUILD"))
"""What the folder of a relocatable Python has in it."""


@dataclass(frozen=True, slots=True)
class Published:
    """What is published."""

    url: str
    manifest: Manifest
    bytes: int
    written: bool
    """False if it was there already, or nothing was to be written."""


def publish(
    root: str,
    access: StoreAccess | None,
    *,
    aws: bool = True,
    python: Path | None = None,
    dry_run: bool = False,
    on_progress: Callable[[int, int], None] = lambda *_: None,
) -> Published:
    """Publish what is installed here below a root URL.

    Requests: 1 GET; for what is not there yet 4 PUTs, those of large files in parts.

    Args:
        root: URL of a folder: ``s3://bucket/firnline``.
        access: endpoint and credentials.
        aws: include what gets credentials from the AWS chain.
        python: root of a relocatable Python to include, such as uv installs.
        dry_run: only make the files and say where they would go.
        on_progress: takes the number of files packed and of all.

    Raises:
        UsageError: no such URL; or the Python is none, or of another version than this one.
        EnvironmentFaultError: a package is not installed here.
        StoreError: the store refuses.
    """
    Root.parse(root, source=True)
    own = _refuse_other_python(python)
    with tempfile.TemporaryDirectory(prefix="firnline-publish-") as folder:
        environment = Path(folder, ENVIRONMENT)
        packed = pack(environment, aws=aws, own=True, python=own, on_progress=on_progress)
        version = packed.packages["firnline"]
        files = {ENTRY: Path(folder, ENTRY), ENVIRONMENT: environment}
        files[ENTRY].write_text(ENTRY_POINT)
        files[wheel_name(version)] = _wheel(Path(folder), version)
        manifest = Manifest(
            version=version,
            digest=_digest(files),
            python=packed.python,
            platform=packed.platform,
            carries_python=own is not None,
            packages=packed.packages,
        )
        url = f"{root.rstrip('/')}/{version}-{manifest.digest}"
        size = sum(file.stat().st_size for file in files.values())
        written = not dry_run and _put(url, access, files, manifest)
    return Published(url, manifest, size, written)


def _put(url: str, access: StoreAccess | None, files: dict[str, Path], manifest: Manifest) -> bool:
    """Write the files, the manifest last; return False if all of it is there."""
    store, paths = open_store(url, access), PackagePaths.of(url)
    try:
        store.get(paths.file(MANIFEST))
    except ObjectNotFoundError:
        for name, file in files.items():
            store.put_file(paths.file(name), file)
        store.put_new(paths.file(MANIFEST), msgspec.json.encode(manifest))
        return True
    return False


def _digest(files: dict[str, Path]) -> str:
    whole = hashlib.sha256()
    for name, file in sorted(files.items()):
        with file.open("rb") as content:
            whole.update(f"{name} {hashlib.file_digest(content, 'sha256').hexdigest()}\n".encode())
    return whole.hexdigest()[:_DIGITS]


def _refuse_other_python(python: Path | None) -> Path | None:
    """Return the folder of a Python without symbolic links. Raises UsageError."""
    if python is None:
        return None
    number = f"{sys.version_info.major}.{sys.version_info.minor}"
    step = (
        f"give the folder of a relocatable one: `uv python install {number}`, then the "
        f"folder above bin/ of what `uv python find {number}` prints"
    )
    if not (python / "bin" / f"python{number}").is_file():
        raise UsageError(
            f"{python} holds no bin/python{number}, the Python of the packages here",
            next_step=step,
        )
    others = sorted(each.name for each in python.iterdir() if each.name not in _OF_A_PYTHON)
    if others:
        raise UsageError(
            f"{python} is not the folder of a Python alone: it also has {some(others)}",
            next_step=step,
        )
    return python.resolve()


def _wheel(folder: Path, version: str) -> Path:
    """Write the wheel of the package that runs here."""
    import firnline

    package = Path(firnline.__file__).parent
    metadata = distribution("firnline").read_text("METADATA")
    if metadata is None:
        raise EnvironmentFaultError(
            "the package firnline is not installed here, so its wheel cannot be made",
            next_step="install it by pip or uv and publish there",
        )
    info = f"firnline-{version}.dist-info"
    target, record = folder / wheel_name(version), []
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in _entries(package, info, metadata):
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), data, zipfile.ZIP_DEFLATED)
            digest = urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record.append(f"{name},sha256={digest},{len(data)}")
        name = f"{info}/RECORD"
        lines = "\n".join([*record, f"{name},,", ""])
        archive.writestr(zipfile.ZipInfo(name, _EPOCH), lines, zipfile.ZIP_DEFLATED)
    return target


def _entries(package: Path, info: str, metadata: str) -> Iterator[tuple[str, bytes]]:
    for path in sorted(package.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            yield path.relative_to(package.parent).as_posix(), path.read_bytes()
    yield f"{info}/METADATA", metadata.encode()
    yield f"{info}/WHEEL", _WHEEL.encode()


def to_json(published: Published) -> dict[str, object]:
    """Return it as plain data."""
    manifest = json.loads(msgspec.json.encode(published.manifest))
    return {
        "package": published.url,
        "bytes": published.bytes,
        "written": published.written,
        **manifest,
    }
