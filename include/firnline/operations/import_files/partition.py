"""The partition of an imported file: that of its folder, or the one that its footer proves."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from firnline.errors import ForeignPathError, UsageError
from firnline.operations.import_files.path_columns import own_folder
from firnline.operations.import_files.source import Folder
from firnline.parquet.footers import FooterFacts
from firnline.paths import NULL_VALUE, quote_value
from firnline.settings.load import PartitionField
from firnline.types.values import Scalar

if TYPE_CHECKING:
    import pyarrow as pa

_SPLIT = (
    "add --split, by which its rows are read and written, split it by partition, or give the "
    "table no partition_by"
)


class NotOnePartitionError(UsageError):
    """The footer of a file does not prove that its rows lie in one partition."""


def partition_of(into: Folder, facts: FooterFacts) -> str:
    """Return the partition path of a file.

    Args:
        into: folder and table. With ``partition_by`` the statistics have to prove it.
        facts: the file's footer.

    Raises UsageError that names the file; NotOnePartitionError if it may span partitions.
    """
    settings, paths, in_place = into.settings, into.paths, into.in_place(facts.key)
    base = paths.data_dir if in_place else into.source
    folder = own_folder(facts.key.removeprefix(base).rpartition("/")[0])
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
            f"{facts.key} has no column {field.column!r}, which {field} needs",
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
    if pa.types.is_integer(schema.field(0).type):
        return pa.table([pa.array(values, schema.field(0).type)], schema=schema)
    array = pa.array(list(values))
    if pa.types.is_timestamp(field.type):
        # Bounds are texts with microseconds, also of a column that has coarser units.
        array = array.cast(pa.timestamp("us", field.type.tz))
    return pa.table([array.cast(field.type, safe=False)], schema=schema)
