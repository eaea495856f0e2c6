"""Plans an import of a folder's files into partitions: pure, refuses before any copy."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from firnline.errors import ForeignPathError, PartSchemaError, PartUnreadableError, UsageError
from firnline.parquet.footers import FooterFacts
from firnline.paths import NULL_VALUE, TablePaths, quote_value
from firnline.settings.load import PartitionField, TableSettings
from firnline.store.base import ObjectMeta
from firnline.types.order import Order
from firnline.types.schema import SchemaUnion
from firnline.types.values import Scalar, Stats

if TYPE_CHECKING:
    import pyarrow as pa

COPY_LIMIT = 5 * 2**30
"""Bytes that S3 copies in one request."""
_PARQUET = re.compile(r".+\.(parquet|parq|pq)", re.IGNORECASE)
_CAST = "write the file anew with the table's type, or import it into another table"
_FIXED_REQUESTS = 6
"""Two listings, the heads of the log, the history, the log file; rounded up."""


class ImportedFrom(msgspec.Struct, frozen=True):
    """The record of an import in the log, which prevents a second import by mistake."""

    id: str
    """Append id."""
    source: str
    """Key prefix of the folder, ending in ``/``."""
    t: int
    """Time of the import, unix ms."""
    files: int


class _Record(msgspec.Struct, frozen=True):
    imported: ImportedFrom


def record_line(record: ImportedFrom) -> bytes:
    """The extension record of a log file."""
    return msgspec.json.encode(_Record(record))


def records_of(lines: Iterable[bytes]) -> list[ImportedFrom]:
    """Return the imports among a table's extension records."""
    decode = msgspec.json.Decoder(_Record).decode
    return [decode(line).imported for line in lines if line.startswith(b'{"imported":')]


@dataclass(frozen=True, slots=True)
class PlannedFile:
    """One file that becomes a part."""

    source: str
    partition: str | None
    """None: of several partitions, or of which nobody knows."""
    rows: int
    bytes: int
    stats: Stats
    in_place: bool
    sorted_by: Order = ()
    """Sort order that its footer states; empty: none."""
    row_groups: tuple[tuple[int, int], ...] = ()
    """Of a file that is split: rows and uncompressed bytes of each."""


@dataclass(frozen=True, slots=True)
class ImportPlan:
    """The plan of an import."""

    files: tuple[PlannedFile, ...]
    """Files that are copied, or lie in place: each lies in one partition."""
    split: tuple[PlannedFile, ...]
    """Files whose rows are read and written, each into the partition that it belongs to."""
    columns: dict[str, str]
    """Columns of the table and of all files, column -> SQL type."""
    own: dict[str, str]
    """Columns of the files, column -> SQL type."""
    empty: tuple[str, ...]
    """Files without a row."""
    ignored: tuple[str, ...]
    """Names of objects that are not Parquet files."""
    known: int
    """Files in place that are parts already."""
    footers: int

    @property
    def nothing_to_do(self) -> bool:
        """Return True if there is no file to import."""
        return not self.files and not self.split

    @property
    def requests(self) -> int:
        """Estimate: a GET per footer, a copy per file that is not in place, a few more.

        Of files that are split, whose rows alone tell how many parts they make: a GET and a PUT.
        """
        copies = sum(not f.in_place for f in self.files)
        return self.footers + copies + 2 * len(self.split) + _FIXED_REQUESTS

    @property
    def partitions(self) -> dict[str, list[PlannedFile]]:
        """Files by partition."""
        found: dict[str, list[PlannedFile]] = {}
        for file in self.files:
            found.setdefault(file.partition or "", []).append(file)
        return dict(sorted(found.items()))

    def to_json(self) -> dict[str, Any]:
        """Plain data: totals and a row per partition, in which files that are split are not."""
        every = (*self.files, *self.split)
        return {
            "files": len(every),
            "rows": sum(f.rows for f in every),
            "bytes": sum(f.bytes for f in every),
            "copies": sum(not f.in_place for f in self.files),
            "split": {
                "files": len(self.split),
                "rows": sum(f.rows for f in self.split),
                "bytes": sum(f.bytes for f in self.split),
            },
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
    """Return the Parquet files of a folder, and everything else.

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
    split: bool = False,
) -> ImportPlan:
    """Decide which file goes into which partition.

    Args:
        settings: of the table.
        paths: of the table.
        source: key prefix of the folder, ending in ``/``.
        footers: of its Parquet files, with statistics of the partition columns.
        known: the table's columns; grows by those of the files.
        ignored: objects that are not Parquet files.
        already: files in place that are parts already.
        split: read and write the rows of a file of which the footer does not prove that they lie
            in one partition; False: such a file is refused.

    Raises:
        PartUnreadableError, PartSchemaError: a file that does not read, or holds what no part can.
        SchemaConflictError: two files, or a file and a log file, give one column different types.
        UsageError: a file's partition cannot be told, or it spans several, or it is too large.
    """
    planned: list[PlannedFile] = []
    apart: list[PlannedFile] = []
    empty: list[str] = []
    own: dict[str, str] = {}
    for facts in footers:
        _check(facts)
        known.add(f"file {facts.key}", facts.columns, next_step=_CAST)
        if not facts.rows:
            empty.append(facts.key)
            continue
        own |= facts.columns
        file = _planned(settings, paths, source, facts, split=split)
        (planned if file.partition is not None else apart).append(file)
    _check_columns(settings, known)
    return ImportPlan(
        files=tuple(planned),
        split=tuple(apart),
        columns=known.columns,
        own={name: known.columns[name] for name in own},
        empty=tuple(empty),
        ignored=tuple(ignored),
        known=already,
        footers=len(footers),
    )


def _planned(
    settings: TableSettings, paths: TablePaths, source: str, facts: FooterFacts, *, split: bool
) -> PlannedFile:
    """Return a file with its partition, or with None if its rows are to be read and written."""
    in_place = facts.key.startswith(paths.data_dir)
    try:
        partition = partition_of(settings, paths, source, facts, in_place)
    except NotOnePartitionError as error:
        if in_place:
            # Taken in as it is it would be a part that stays there, and be found again.
            raise UsageError(
                error.message,
                next_step=f"move it out of {paths.data_dir} and import that folder with --split",
            ) from None
        if not split:
            raise
        return PlannedFile(
            facts.key,
            None,
            facts.rows,
            facts.bytes,
            facts.stats,
            in_place=False,
            row_groups=facts.row_groups,
        )
    if not in_place and facts.bytes > COPY_LIMIT and settings.root.startswith("s3://"):
        raise UsageError(
            f"{facts.key} has {facts.bytes} bytes, and a store copies at most {COPY_LIMIT} in "
            "one request",
            next_step=f"copy it to {paths.data_dir} by other means and import that folder",
        )
    known = facts.rows, facts.bytes, facts.stats
    return PlannedFile(facts.key, partition, *known, in_place, facts.sorted_by)


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


class NotOnePartitionError(UsageError):
    """The footer of a file does not prove that its rows lie in one partition."""


_SPLIT = (
    "add --split, by which its rows are read and written, split it by partition, or give the "
    "table no partition_by"
)


def partition_of(
    settings: TableSettings, paths: TablePaths, source: str, facts: FooterFacts, in_place: bool
) -> str:
    """Return the partition path of a file.

    Args:
        settings: of the table. With ``partition_by`` the statistics have to prove it.
        paths: of the table.
        source: key prefix of the imported folder.
        facts: the file's footer.
        in_place: it lies under the table's ``_data/``.

    Raises UsageError that names the file; NotOnePartitionError if it may span partitions.
    """
    base = paths.data_dir if in_place else source
    folder = facts.key.removeprefix(base).rpartition("/")[0]
    if settings.partition_by:
        proven = "/".join(_segment(field, facts) for field in settings.partition_by)
        if in_place and proven != folder:
            raise UsageError(
                f"{facts.key} lies in partition {folder!r}, and its rows belong to {proven!r}",
                next_step="move it to the folder of its partition",
            )
        return proven
    if settings.partition is not None and re.fullmatch(settings.partition, folder) is None:
        raise UsageError(
            f"{facts.key} lies in {folder!r}, and partitions of table {settings.name} match "
            f"{settings.partition}",
            next_step="move it, or correct the setting partition",
        )
    try:
        paths.check_part(paths.data_part(folder, "part"))
    except ForeignPathError:
        raise UsageError(
            f"the folder of {facts.key} cannot be a partition", next_step="rename the folder"
        ) from None
    return folder


def _segment(field: PartitionField, facts: FooterFacts) -> str:
    """Return one level of the directory, proven by the file's statistics."""
    if field.column not in facts.columns:
        raise UsageError(
            f"{facts.key} has no column {field.column!r}, which {field} needs: a column that "
            "stands in the path alone is not in the rows",
            next_step="write the column into the file, or give the table no partition_by: then "
            "its partitions are the folders as they are",
        )
    bounds = facts.stats.get(field.column)
    if bounds is None:
        raise NotOnePartitionError(
            f"the footer of {facts.key} does not say between which values column "
            f"{field.column!r} lies, so nobody knows its partition",
            next_step=_SPLIT,
        )
    low, high, nulls = bounds
    label = quote_value(field.label)
    if nulls == facts.rows:
        return f"{label}={NULL_VALUE}"
    segments = _names(field, facts.columns[field.column], low, high)
    if nulls:
        segments.append(f"{label}={NULL_VALUE}")
    if len(set(segments)) > 1:
        raise NotOnePartitionError(
            f"the rows of {facts.key} lie in several partitions, from {segments[0]!r} to "
            f"{segments[-1]!r}",
            next_step=_SPLIT,
        )
    return segments[0]


def _names(field: PartitionField, kind: str, low: Scalar, high: Scalar) -> list[str]:
    """Return the segments of the smallest and largest value. Time transforms keep the order."""
    from firnline.parquet.partition import partition_batches

    if high is None or (low != high and field.transform in {"identity", "bucket"}):
        return [f"{field.label} of {low!r}", f"{field.label} of {high!r}"]
    rows = _table({field.column: kind}, [low, high])
    return [path for path, _ in partition_batches(rows, [field])]


def _table(columns: Mapping[str, str], values: Sequence[Scalar]) -> pa.Table:
    """Return the bounds as the column's own values."""
    import pyarrow as pa

    from firnline.types.arrow import to_arrow

    schema = to_arrow(columns)
    (field,) = schema
    array = pa.array(list(values))
    if pa.types.is_timestamp(field.type):
        # Bounds are texts with microseconds, also of a column that has coarser units.
        array = array.cast(pa.timestamp("us", field.type.tz))
    return pa.table([array.cast(field.type, safe=False)], schema=schema)
