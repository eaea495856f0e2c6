"""What lies in a folder that is imported: data files, and what is none."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from firnline.errors import CommitConflictError, UsageError
from firnline.store.base import ObjectMeta, Store

_PARQUET = re.compile(r".+\.(parquet|parq|pq)", re.IGNORECASE)
_OTHERS = (
    ("Delta", re.compile(r"(^|.*/)_delta_log/.*")),
    ("Iceberg", re.compile(r"(^|.*/)metadata/[^/]*\.metadata\.json")),
    ("Iceberg", re.compile(r".*\.metadata\.json")),
    ("Hudi", re.compile(r"(^|.*/)\.hoodie/.*")),
    ("Paimon", re.compile(r"(^|.*/)snapshot/snapshot-\d+")),
)
"""What the folder of a table of another format has; also files that are no part of it any more."""
_ABOVE = ("_delta_log/", ".hoodie/", "metadata/", "snapshot/")
"""Folders by which a folder above shows such a table."""
_MOST_ABOVE = 4
"""Folders above that are looked at."""


@dataclass(frozen=True, slots=True)
class Listing:
    """The objects of a folder."""

    files: tuple[ObjectMeta, ...]
    """Parquet files by their names, and what has a name without an ending, as Hive writes them."""
    left_out: tuple[str, ...]
    """Keys of what is no data: by its name, or because it is excluded or has no byte."""


def sort_out(objects: Iterable[ObjectMeta], source: str, exclude: Sequence[str] = ()) -> Listing:
    """Return the data files of a folder, and what is left out.

    Names (also of folders) that begin with ``.`` are not data, nor those that begin with ``_``
    unless they state a column (``_day=2024-01-01``), as for Spark.

    Args:
        objects: below the folder.
        source: its key prefix, ending in ``/``.
        exclude: globs over the paths below the folder.

    Raises:
        UsageError: it holds a table of another format, whose folder has old versions too.
    """
    files: list[ObjectMeta] = []
    left_out: list[str] = []
    for meta in objects:
        path = meta.key.removeprefix(source)
        _refuse_other(path, source)
        if not meta.size and (path.endswith("/") or _is_hidden(path) or "$folder$" in path):
            continue  # it stands for a folder, or says that a job has ended
        if _is_data(path, meta.size) and not any(fnmatchcase(path, g) for g in exclude):
            files.append(meta)
        else:
            left_out.append(meta.key)
    return Listing(tuple(files), tuple(left_out))


def refuse_inside_of_other(store: Store, source: str) -> None:
    """Raise UsageError for a folder inside of a table of another format.

    Requests: 4 LIST for each of the four folders above, of which none is read on.
    """
    above = source.rstrip("/").split("/")[:-1]
    for depth in range(len(above), max(0, len(above) - _MOST_ABOVE), -1):
        folder = "/".join(above[:depth]) + "/"
        for name in _ABOVE:
            first = next(iter(store.list(f"{folder}{name}")), None)
            if first is not None:
                _refuse_other(first.key.removeprefix(folder), folder)


def refuse_rewritten(store: Store, source: str, taken: Collection[ObjectMeta]) -> None:
    """Raise CommitConflictError if a file is no longer what it was when the folder was listed.

    What was read of it since, its footer first, and what was copied may be of two contents. No
    store copies on condition everywhere, so they are listed again.

    Requests: a LIST per 1,000 objects between the first and the last of them.

    Args:
        store: of the folder.
        source: its key prefix, ending in ``/``.
        taken: the files, as they were listed.
    """
    missing = {meta.key: meta for meta in taken}
    if not missing:
        return
    first, last = min(missing), max(missing)
    for meta in store.list(source, start_after=first[:-1]):
        if meta.key > last:
            break
        if missing.get(meta.key) == meta:
            del missing[meta.key]
    for key in sorted(missing):
        more = f", and {len(missing) - 1:,} others," if len(missing) > 1 else ""
        raise CommitConflictError(
            f"{key}{more} was written again or deleted while it was imported",
            next_step="import again; nothing was taken",
        )


def is_named_parquet(key: str) -> bool:
    """Return True for a file whose name says what it is."""
    return _PARQUET.fullmatch(key.rpartition("/")[2]) is not None


def _is_data(path: str, size: int) -> bool:
    name = path.rpartition("/")[2]
    # What says that it is Parquet and has no byte is a fault, and no marker of anybody.
    named = _PARQUET.fullmatch(name) is not None
    return not _is_hidden(path) and (named or (size > 0 and "." not in name))


def _is_hidden(path: str) -> bool:
    return any(s.startswith(".") or (s.startswith("_") and "=" not in s) for s in path.split("/"))


def _refuse_other(path: str, source: str) -> None:
    for format_name, pattern in _OTHERS:
        if pattern.fullmatch(path) is not None:
            raise UsageError(
                f"{source} is a {format_name} table ({source}{path}), whose folder also holds "
                "files that are no longer part of it",
                next_step="write its current rows to Parquet with an engine that reads it, and "
                "import those",
            )
