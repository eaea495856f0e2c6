"""Which files of a folder become which parts of a table: pure, all refusals before any copy."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from firnline.errors import PartSchemaError, PartUnreadableError, UsageError
from firnline.operations.import_files.partition import partition_of
from firnline.parquet.footers import FooterFacts
from firnline.paths import TablePaths
from firnline.settings.load import TableSettings
from firnline.store.base import ObjectMeta
from firnline.types.schema import SchemaUnion
from firnline.types.values import Stats

COPY_LIMIT = 5 * 2**30
"""Bytes that S3 copies in one request."""
_PARQUET = re.compile(r".+\.(parquet|parq|pq)", re.IGNORECASE)
_CAST = "write the file anew with the table's type, or import it into another table"
_FIXED_REQUESTS = 6
"""Two listings, the heads of the log, the history, the log file; rounded up."""


class ImportedFrom(msgspec.Struct, frozen=True):
    """What an import leaves in the log, so that nobody imports the same folder twice unawares."""

    id: str
    """Append id."""
    source: str
    """Key prefix of the folder, ending in ``/``."""
    t: int
    """When, unix ms."""
    files: int


class _Record(msgspec.Struct, frozen=True):
    imported: ImportedFrom


def record_line(record: ImportedFrom) -> bytes:
    """The extension record of a log file."""
    return msgspec.json.encode(_Record(record))


def records_of(lines: Iterable[bytes]) -> list[ImportedFrom]:
    """The imports among a table's extension records."""
    decode = msgspec.json.Decoder(_Record).decode
    return [decode(line).imported for line in lines if line.startswith(b'{"imported":')]


@dataclass(frozen=True, slots=True)
class PlannedFile:
    """One file that becomes a part."""

    source: str
    partition: str
    rows: int
    bytes: int
    stats: Stats
    in_place: bool


@dataclass(frozen=True, slots=True)
class ImportPlan:
    """What an import would do."""

    files: tuple[PlannedFile, ...]
    columns: dict[str, str]
    """Of the table and of all files, column -> SQL type."""
    own: dict[str, str]
    """Of the files."""
    empty: tuple[str, ...]
    """Files without a row."""
    ignored: tuple[str, ...]
    """Objects that are no Parquet files, by their names."""
    known: int
    """Files in place that are parts already."""
    footers: int

    @property
    def nothing_to_do(self) -> bool:
        """There is no file to import."""
        return not self.files

    @property
    def requests(self) -> int:
        """Estimate: a GET per footer, a copy per file that does not lie in place, a few more."""
        copies = sum(not f.in_place for f in self.files)
        return self.footers + copies + _FIXED_REQUESTS

    @property
    def partitions(self) -> dict[str, list[PlannedFile]]:
        """Files by partition."""
        found: dict[str, list[PlannedFile]] = {}
        for file in self.files:
            found.setdefault(file.partition, []).append(file)
        return dict(sorted(found.items()))

    def to_json(self) -> dict[str, Any]:
        """Plain data: totals and a row per partition."""
        return {
            "files": len(self.files),
            "rows": sum(f.rows for f in self.files),
            "bytes": sum(f.bytes for f in self.files),
            "copies": sum(not f.in_place for f in self.files),
            "requests": self.requests,
            "partitions": [
                {
                    "partition": name,
                    "files": len(files),
                    "rows": sum(f.rows for f in files),
                    "bytes": sum(f.bytes for f in files),
                }
                for name, files in self.partitions.items()
            ],
            "columns": self.columns,
            "empty": list(self.empty),
            "ignored": list(self.ignored),
            "known": self.known,
        }


def sort_out(objects: Iterable[ObjectMeta], source: str) -> tuple[list[ObjectMeta], list[str]]:
    """Parquet files of a folder, and everything else.

    Names (also of folders) that begin with ``_`` or ``.`` are not data, as for Spark and Hive.

    Raises UsageError for the folder of a table of another format, which holds old versions too.
    """
    files: list[ObjectMeta] = []
    ignored: list[str] = []
    for meta in objects:
        segments = meta.key.removeprefix(source).split("/")
        if "_delta_log" in segments or meta.key.endswith(".metadata.json"):
            raise UsageError(
                f"{source} is a Delta or Iceberg table ({meta.key}), whose folder also holds "
                "files that are no longer part of it",
                next_step="write its current rows to Parquet with an engine that reads it, and "
                "import those",
            )
        hidden = any(segment.startswith(("_", ".")) for segment in segments)
        if hidden or _PARQUET.fullmatch(segments[-1]) is None:
            ignored.append(meta.key)
        else:
            files.append(meta)
    return files, ignored


def plan_import(
    settings: TableSettings,
    paths: TablePaths,
    source: str,
    footers: Sequence[FooterFacts],
    known: SchemaUnion,
    *,
    ignored: Sequence[str] = (),
    already: int = 0,
) -> ImportPlan:
    """Decide which file goes into which partition.

    Args:
        settings: of the table.
        paths: of the table.
        source: key prefix of the folder, ending in ``/``.
        footers: of its Parquet files, with statistics of the partition columns.
        known: the table's columns; grows by those of the files.
        ignored: what is no Parquet file.
        already: files in place that are parts already.

    Raises:
        PartUnreadableError, PartSchemaError: a file that does not read, or holds what no part can.
        SchemaConflictError: two files, or a file and a log file, give one column different types.
        UsageError: a file's partition cannot be told, or it spans several, or it is too large.
    """
    planned: list[PlannedFile] = []
    empty: list[str] = []
    own: dict[str, str] = {}
    for facts in footers:
        _check(facts)
        known.add(f"file {facts.key}", facts.columns, next_step=_CAST)
        if not facts.rows:
            empty.append(facts.key)
            continue
        own |= facts.columns
        in_place = facts.key.startswith(paths.data_dir)
        if not in_place and facts.bytes > COPY_LIMIT and settings.root.startswith("s3://"):
            raise UsageError(
                f"{facts.key} has {facts.bytes} bytes, and a store copies at most {COPY_LIMIT} in "
                "one request",
                next_step=f"copy it to {paths.data_dir} by other means and import that folder",
            )
        partition = partition_of(settings, paths, source, facts, in_place)
        planned.append(
            PlannedFile(facts.key, partition, facts.rows, facts.bytes, facts.stats, in_place)
        )
    _check_columns(settings, known)
    return ImportPlan(
        files=tuple(planned),
        columns=known.columns,
        own={name: known.columns[name] for name in own},
        empty=tuple(empty),
        ignored=tuple(ignored),
        known=already,
        footers=len(footers),
    )


def _check(facts: FooterFacts) -> None:
    if facts.error is not None:
        bad_columns = facts.key not in facts.error
        error = PartSchemaError if bad_columns else PartUnreadableError
        where = f"{facts.key}: " if bad_columns else ""
        raise error(where + facts.error, next_step=facts.next_step)


def _check_columns(settings: TableSettings, known: SchemaUnion) -> None:
    for name in settings.statistics_columns:
        if known.columns and name not in known.columns:
            raise UsageError(
                f"the settings of table {settings.name} name column {name!r}, and files and table "
                f"have {', '.join(known.columns)}",
                next_step="correct partition_by, sort_by, cluster_by, primary_key, version or ttl",
            )
