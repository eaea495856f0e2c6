"""Files with the new rows of a replace: what a path or URL means, and their rows."""

# ruff: noqa: TID253 - rows are handled here; no DAG file imports it at parse

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from urllib.parse import urlsplit

import pyarrow as pa

from firnline.errors import UsageError
from firnline.paths import Root, refuse_user
from firnline.rows.source import check_files, read_files
from firnline.rows.staged import staged_batches
from firnline.table import Table
from firnline.types.schema import SchemaUnion

_ENDING = ".parquet"


@dataclass(frozen=True, slots=True)
class StagedFile:
    """One Parquet file with new rows."""

    name: str
    """Path or URL, for display."""
    bytes: int
    path: Path | None = None
    """Path on this machine."""
    key: str | None = None
    """Key in the bucket of the table."""


def staged_files(table: Table, sources: Sequence[str]) -> tuple[StagedFile, ...]:
    """Return the Parquet files that paths and URLs mean, in the order of their names.

    A folder or prefix means all ``.parquet`` below it, but for what begins with ``_`` or ``.``:
    Spark and others leave half-written files there.

    Requests: a LIST (per 1,000 objects) for each URL of the bucket.

    Args:
        table: its store is where URLs are looked up.
        sources: local paths, ``file://``, or URLs in the bucket of the table.

    Raises:
        UsageError: another bucket, nothing there, or no Parquet file below it.
    """
    by_name: dict[str, StagedFile] = {}
    for source in sources:
        files = _listed(table, source)
        if not files:
            raise UsageError(
                f"no Parquet file is at or below {source}",
                next_step="correct the name; to empty the interval ask for nothing (--nothing)",
            )
        by_name.update((file.name, file) for file in files)
    return tuple(by_name[name] for name in sorted(by_name))


def read_staged(
    files: Sequence[StagedFile], table: Table, known: SchemaUnion, scratch: Path
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of staged files in batches, after their footers were checked.

    Local footers are checked before the first row; an object's footer once it is copied to disk.

    Requests: one GET per object.

    Args:
        files: in order.
        table: its store holds the objects.
        known: columns of the table.
        scratch: folder for one copy at a time.

    Raises:
        PartUnreadableError, PartSchemaError, SchemaConflictError: names the file.
        UsageError: a file was deleted meanwhile.
    """
    here = [file.path for file in files if file.path is not None]
    if here:
        check_files(here, known)
    for file in files:
        if file.path is not None:
            yield from read_files([file.path])
        else:
            assert file.key is not None  # a file has a path or a key
            yield from staged_batches(table.store, file.key, file.name, known, scratch)


def _listed(table: Table, source: str) -> list[StagedFile]:
    refuse_user(source)
    root, parts = Root.parse(table.settings.root), urlsplit(source)
    if parts.scheme in {"", "file"}:
        return _local(Path(parts.path if parts.scheme else source))
    if (parts.scheme, parts.netloc) != (root.scheme, root.bucket):
        raise UsageError(
            f"{source} is not in {root.scheme}://{root.bucket}, where the table is",
            next_step="stage the rows there, or on this machine",
        )
    prefix = parts.path.lstrip("/")
    folder, before = prefix.rstrip("/") + "/", f"{root.scheme}://{root.bucket}/"
    return [
        StagedFile(before + meta.key, meta.size, key=meta.key)
        for meta in table.store.list(prefix)
        if meta.key == prefix
        or (meta.key.startswith(folder) and _is_wanted(meta.key.removeprefix(folder)))
    ]


def _local(path: Path) -> list[StagedFile]:
    if not path.is_dir():
        # A missing file is reported, with all others, when its footer is read.
        size = path.stat().st_size if path.is_file() else 0
        return [StagedFile(str(path), size, path=path)]
    return [
        StagedFile(str(file), file.stat().st_size, path=file)
        for file in sorted(path.rglob(f"*{_ENDING}"))
        if file.is_file() and _is_wanted(str(file.relative_to(path)))
    ]


def _is_wanted(below: str) -> bool:
    return below.endswith(_ENDING) and not any(
        segment.startswith(("_", ".")) for segment in PurePosixPath(below).parts
    )
