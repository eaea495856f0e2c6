"""Publish firnline for jobs on other platforms: entry point, environment and wheel, by digest.

The folder is named after what is in it, so publishing the same twice writes only what is missing or
damaged, and no run gets another code than its settings name (``firnline.launch.package``).
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import tempfile
import zipfile
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import distribution
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from firnline.errors import (
    EnvironmentFaultError,
    ObjectNotFoundError,
    StoreAccessError,
    UsageError,
    some,
)
from firnline.launch.package import (
    ENTRY,
    ENVIRONMENT,
    MANIFEST,
    Manifest,
    PackagePaths,
    wheel_name,
)
from firnline.paths import Root
from firnline.settings.packages import refuse_elsewhere
from firnline.spark.elsewhere import ENTRY as ENTRY_POINT
from firnline.spark.pack import OWN, installed, own_files, pack
from firnline.store.client import ObjectClient, open_store

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
    repaired: tuple[str, ...] = ()
    """Files that were written again, or for the first time, into a package that was there."""


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

    What is there is compared by its size, and the manifest by its content: files that are missing
    or of another size, and a manifest that does not read or says something else, are written again,
    the manifest last. The folder is called by the digest of the files, so they are the same bytes.

    Requests: 1 LIST, before anything is packed (one for 1,000 objects of packages of this version
    and of their jobs); 1 GET of a manifest that is there; a PUT for each file that is written, of
    four, those of large files in parts. A dry run sends none.

    Args:
        root: URL of a folder: ``s3://bucket/firnline``.
        access: endpoint and credentials.
        aws: include what gets credentials from the AWS chain.
        python: root of a relocatable Python to include, such as uv installs.
        dry_run: only make the files and say where they would go.
        on_progress: takes the number of files packed and of all.

    Raises:
        UsageError: a URL at which no platform reads a package; or the Python is none, or of
            another version than this one.
        EnvironmentFaultError: a package is not installed here.
        StoreAccessError: no credentials, or a folder that cannot be written.
        StoreError: the store refuses.
    """
    refuse_elsewhere(root)
    own = _refuse_other_python(python)
    place = None if dry_run else _Place.look(root, access, installed(OWN).version)
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
        size = sum(file.stat().st_size for file in files.values())
        said = Path(folder, MANIFEST)
        said.write_bytes(msgspec.json.encode(manifest))
        name = f"{version}-{manifest.digest}"
        new, wrote = (True, []) if place is None else place.put(name, {**files, MANIFEST: said})
    url = f"{root.rstrip('/')}/{name}"
    return Published(url, manifest, size, bool(wrote), () if new else tuple(wrote))


@dataclass(frozen=True, slots=True)
class _Place:
    """The folder of all packages, as it was before anything was packed."""

    store: ObjectClient
    prefix: str
    """Of its keys; ends in ``/`` unless it is empty."""
    sizes: dict[str, int]
    """Bytes by key of the packages of this version and of their jobs."""

    @classmethod
    def look(cls, root: str, access: StoreAccess | None, version: str) -> _Place:
        """List the packages of a version. Raises StoreError; StoreAccessError before packing."""
        parsed, store = Root.parse(root, source=True), open_store(root, access)
        if parsed.scheme == "file":
            _refuse_closed(Path(parsed.bucket, parsed.prefix))
        prefix = f"{parsed.prefix}/" if parsed.prefix else ""
        before = f"{prefix}{version}-"
        listed = takewhile(
            lambda meta: meta.key.startswith(before), store.list(prefix, start_after=before)
        )
        return cls(store, prefix, {meta.key: meta.size for meta in listed})

    def put(self, name: str, files: dict[str, Path]) -> tuple[bool, list[str]]:
        """Write what is missing or differs, in the order of the files.

        Args:
            name: of the package's folder.
            files: of the package, the manifest last.

        Returns:
            True if nothing of it was there, and the names of what was written.
        """
        keys = {each: PackagePaths(f"{self.prefix}{name}").file(each) for each in files}
        wrong = [each for each, file in files.items() if not self._is_there(keys[each], file)]
        for each in wrong:
            self.store.put_file(keys[each], files[each])
        return self.sizes.keys().isdisjoint(keys.values()), wrong

    def _is_there(self, key: str, file: Path) -> bool:
        if self.sizes.get(key) != file.stat().st_size:
            return False
        return file.name != MANIFEST or self._says(key, file.read_bytes())

    def _says(self, key: str, data: bytes) -> bool:
        try:
            return self.store.get(key) == data
        except ObjectNotFoundError:
            return False  # deleted since it was listed


def _refuse_closed(folder: Path) -> None:
    """Raise StoreAccessError for a folder that cannot be made or written to."""
    above = next(each for each in (folder, *folder.parents) if each.exists())
    if not above.is_dir() or not os.access(above, os.W_OK | os.X_OK):
        what = "cannot be written to" if above.is_dir() else "is no folder"
        raise StoreAccessError(
            f"nothing can be published at {folder}: {above} {what}",
            next_step="give another folder, or correct its permissions",
        )


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
    metadata = distribution("firnline").read_text("METADATA")
    if metadata is None:
        raise EnvironmentFaultError(
            "the package firnline is not installed here, so its wheel cannot be made",
            next_step="install it by pip or uv and publish there",
        )
    info = f"firnline-{version}.dist-info"
    target, record = folder / wheel_name(version), []
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in _entries(info, metadata):
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), data, zipfile.ZIP_DEFLATED)
            digest = urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record.append(f"{name},sha256={digest},{len(data)}")
        name = f"{info}/RECORD"
        lines = "\n".join([*record, f"{name},,", ""])
        archive.writestr(zipfile.ZipInfo(name, _EPOCH), lines, zipfile.ZIP_DEFLATED)
    return target


def _entries(info: str, metadata: str) -> Iterator[tuple[str, bytes]]:
    yield from ((name, path.read_bytes()) for path, name in own_files())
    yield f"{info}/METADATA", metadata.encode()
    yield f"{info}/WHEEL", _WHEEL.encode()


def to_json(published: Published) -> dict[str, object]:
    """Return it as plain data."""
    manifest = json.loads(msgspec.json.encode(published.manifest))
    return {
        "package": published.url,
        "bytes": published.bytes,
        "written": published.written,
        "repaired": list(published.repaired),
        **manifest,
    }
