"""Write rows as Parquet parts: sorted, compressed, with statistics; columns on all idle cores.

Where a core is idle, columns of a large part are put in order and encoded side by side, each in a
file of its own, and their pages are joined as bytes.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from firnline.cores import Cores, side_by_side
from firnline.errors import (
    LARGER_SCRATCH,
    InvariantError,
    PartSchemaError,
    ScratchFullError,
    UsageError,
)
from firnline.next_steps import REPORT_UNCHANGED
from firnline.parquet import page_bounds
from firnline.parquet.arrow_versions import refuse_changed
from firnline.parquet.encodings import with_dictionaries
from firnline.parquet.io import leaves_of
from firnline.parquet.join import join_columns, read_footer, state
from firnline.types.order import Order, SortColumn, order_of

_PAGE_INDEX_ROWS = 100_000
"""Rows from which each part has a page index; smaller ones are read whole anyway."""
_DISK_FULL = {errno.ENOSPC, errno.EDQUOT}
_LEAST_BYTES = 8 * 2**20
"""Bytes of rows from which columns have files of their own: each has a price."""
_MOST_COLUMNS = 8
"""Columns of one file at most."""
_FILES = 16
"""Files of a part with as many columns: enough to keep some cores busy until the end."""


class PartFile(NamedTuple):
    """A part on local disk."""

    bytes: int
    sorted_by: Order
    """The order that its footer states."""


def runs_of(columns: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Yield columns in their order, some at once: those that have one file until they are joined.

    A file is opened once for all of its columns, and there are enough files for some cores.
    """
    count = min(_MOST_COLUMNS, -(-len(columns) // _FILES))
    for first in range(0, len(columns), count):
        yield tuple(columns[first : first + count])


def places_in_order(table: pa.Table, sort_by: Sequence[SortColumn]) -> pa.Array | None:
    """Return the numbers of rows in the table's order, nulls last; missing columns are ignored.

    Returns None where the rows stay where they are.

    Raises:
        UsageError: the type of a column has no order.
    """
    keys: list[tuple[str, str]] = []
    columns: dict[str, pa.ChunkedArray] = {}
    for field in sort_by:
        if field.column not in table.column_names:
            continue
        column = table.column(field.column)
        if pa.types.is_nested(column.type):
            raise UsageError(
                f"sort_by names column {field.column!r} of type {column.type}, which has no order",
                next_step="take it out of sort_by in the settings",
            )
        if isinstance(column.type, pa.BaseExtensionType):
            storage = [chunk.storage for chunk in column.chunks]
            column = pa.chunked_array(storage, column.type.storage_type)
        columns[field.column] = column
        keys.append((field.column, "descending" if field.descending else "ascending"))
    if not keys or table.num_rows < 2:
        return None
    return pc.sort_indices(pa.table(columns), sort_keys=keys)  # nulls at the end by default


def sort_rows(table: pa.Table, sort_by: Sequence[SortColumn]) -> pa.Table:
    """Return rows in the table's order. Raises UsageError as ``places_in_order``."""
    order = places_in_order(table, sort_by)
    return table if order is None else table.take(order)


def write_part(
    table: pa.Table,
    path: Path,
    *,
    sort_by: Sequence[SortColumn] = (),
    metadata: Mapping[str, str],
    compression_level: int,
    row_group_rows: int,
    cores: Cores | None = None,
) -> PartFile:
    """Write rows as one Parquet file: sorted, compressed with zstd, with statistics.

    Memory: a second copy of the rows at most, however many cores there are. Disk: once more the
    bytes of the file until it is complete, if they have room.

    Args:
        table: rows in the types of ``types.arrow.to_arrow``; at least one.
        path: new local file.
        sort_by: order of the rows.
        metadata: key-value pairs of the footer; those of the Arrow table are dropped.
        compression_level: of zstd.
        row_group_rows: rows per row group.
        cores: lends idle cores; None: this thread does all of it.

    Returns:
        Its size, and the order that its footer states.

    Raises:
        ScratchFullError: the disk is full.
        PartSchemaError: values are longer than Parquet can hold; names the column.
        UsageError: see ``places_in_order``.
        EnvironmentFaultError: this pyarrow writes another type than that of a column.
    """
    refuse_changed(table.schema)
    rows = table.replace_schema_metadata(None)
    # Nothing is stated of rows that lack a column of their order.
    stated = all(key.column in rows.column_names for key in sort_by)
    writing = _Writing(
        rows,
        path,
        places_in_order(rows, sort_by),
        order_of(sort_by) if stated else (),
        dict(metadata),
        compression_level,
        row_group_rows,
    )
    cores = cores or Cores()
    with _named_faults(rows, path):
        if not (_may_go_by_columns(rows, cores) and writing.by_columns(cores)):
            writing.whole()
        return PartFile(path.stat().st_size, writing.sorted_by)


def _may_go_by_columns(rows: pa.Table, cores: Cores) -> bool:
    """Return True if a core is idle for it: on one core it takes as long as all columns at once."""
    return cores.idle >= 1 and rows.num_columns > 1 and rows.nbytes >= _LEAST_BYTES


@dataclass(frozen=True, slots=True)
class _Writing:
    """One part on its way.

    Args:
        rows: in the order in which they came.
        path: new file.
        places: numbers of the rows in their order; None: they stay.
        sorted_by: what the footer states.
        metadata: key-value pairs of the footer.
        compression_level: of zstd.
        row_group_rows: rows per row group.
    """

    rows: pa.Table
    path: Path
    places: pa.Array | None
    sorted_by: Order
    metadata: dict[str, str]
    compression_level: int
    row_group_rows: int

    def whole(self) -> None:
        """Write the file at once."""
        rows = self._in_order(self.rows)
        self._write(rows, self.path, self.metadata, _sorting(rows, self.sorted_by))

    def by_columns(self, cores: Cores) -> bool:
        """Write files of some columns each, and join them; False if the disk is full of both."""
        form = self.path.with_suffix(".form")
        runs = list(runs_of(self.rows.column_names))
        files = [self.path.with_suffix(f".{number}") for number in range(len(runs))]
        jobs = [
            ((file, run), self.rows.select(run).nbytes)
            for file, run in zip(files, runs, strict=True)
        ]
        try:
            # The largest first: small ones fill the time that is left.
            side_by_side(
                sorted(jobs, key=lambda job: -job[1]),
                lambda job: self._write(self._in_order(self.rows.select(job[1])), job[0]),
                cores,
                self.rows.nbytes,
            )
            self._write(self.rows.slice(0, 0), form)
            footers = [read_footer(file) for file in files]
            if not join_columns(footers, self.path, self.metadata, read_footer(form)):
                raise InvariantError(
                    f"columns of {self.path.name} have another form alone",
                    next_step=REPORT_UNCHANGED,
                )
            state(self.path, self.sorted_by)
        except OSError as error:
            self.path.unlink(missing_ok=True)
            if error.errno in _DISK_FULL:
                return False
            raise
        finally:
            for file in (form, *files):
                file.unlink(missing_ok=True)
        return True

    def _in_order(self, rows: pa.Table) -> pa.Table:
        return rows if self.places is None else rows.take(self.places)

    def _has_index(self) -> bool:
        rows = self.rows  # those of all files where columns have files of their own
        return rows.num_rows >= _PAGE_INDEX_ROWS or page_bounds.go_into_index(rows.schema)

    def _write(
        self,
        rows: pa.Table,
        path: Path,
        metadata: Mapping[str, str] | None = None,
        sorting: list[pq.SortingColumn] | None = None,
    ) -> None:
        with pq.ParquetWriter(
            path,
            rows.schema,
            compression="zstd",
            compression_level=self.compression_level,
            use_dictionary=list(with_dictionaries(rows.slice(0, self.row_group_rows))),
            write_page_index=self._has_index(),
            write_statistics=_with_bounds(rows),
            sorting_columns=sorting,
            # Arrow's own copy of the schema would be most of a small part.
            store_schema=False,
        ) as writer:
            if metadata:
                writer.add_key_value_metadata(metadata)
            writer.write_table(rows, row_group_size=self.row_group_rows)


@contextmanager
def _named_faults(rows: pa.Table, path: Path) -> Iterator[None]:
    """Raise ScratchFullError and PartSchemaError as ``write_part`` does."""
    try:
        yield
    except OSError as error:
        if error.errno is None:  # not of the disk: a page of Parquet has 2 GiB at most
            name = max(rows.column_names, key=lambda each: rows.column(each).nbytes)
            raise PartSchemaError(
                f"column {name!r} has {rows.column(name).nbytes:,} bytes in {rows.num_rows:,} "
                f"rows, which no part holds: {error}",
                next_step="leave out the longest values, or split them over several rows",
            ) from None
        full = error.errno in _DISK_FULL
        raise ScratchFullError(
            f"a part with {rows.num_rows} rows cannot be written to {path.parent}: "
            f"{'the disk is full' if full else error.strerror}",
            next_step=LARGER_SCRATCH,
        ) from None


def _with_bounds(rows: pa.Table) -> list[str]:
    """Return the columns with bounds in the footer: none with NaN, and no nested ones.

    Arrow leaves NaN out of its bounds, and readers for which it is the greatest number (DuckDB,
    Spark) would skip row groups with NaN.
    """
    return [
        field.name
        for field, column in zip(rows.schema, rows.columns, strict=True)
        if not pa.types.is_nested(field.type)
        and not (pa.types.is_floating(field.type) and pc.any(pc.is_nan(column)).as_py())
    ]


def _sorting(rows: pa.Table, order: Order) -> list[pq.SortingColumn] | None:
    counts = map(leaves_of, rows.schema.types)
    places = dict(zip(rows.column_names, accumulate(counts, initial=0), strict=False))
    return [pq.SortingColumn(places[key.column], key.descending) for key in order] or None
