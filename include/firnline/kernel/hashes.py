"""State between which hashes the rows of an output lie, by a hash that no DuckDB release changes.

DuckDB's own ``hash()`` may differ between versions and machines, so nothing that is kept can depend
on it. This one is ``types.murmur3.hash_rows``, called by DuckDB with vectors of rows. Measured with
DuckDB 2.0 and 1.5 M rows in eight outputs: 100 to 140 ns of CPU a row, 6 to 8 % of the merge.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from duckdb.func import ARROW, SPECIAL

from firnline.kernel.duckdb import ROW_HASH
from firnline.kernel.task import Bucket
from firnline.types.hashes import BUCKET_MASK, Hashes, HashRange
from firnline.types.murmur3 import form_of, form_of_sql, hash_rows
from firnline.types.sql import quote_name

_QUICK = frozenset({"long", "date", "timestamp", "text", "uuid"})
"""Forms that are hashed as vectors; a decimal is hashed value by value (2,000 ns)."""
_BATCH_ROWS = 65_536


def forms_of(kinds: Sequence[str]) -> tuple[str, ...] | None:
    """Return the forms by which rows are spread; None if a type has none that is quick to hash."""
    forms = tuple(form for kind in kinds if (form := form_of_sql(kind)) in _QUICK)
    return forms if len(forms) == len(kinds) else None


def hash_expression(
    connection: duckdb.DuckDBPyConnection, columns: Sequence[str], forms: Sequence[str]
) -> str:
    """Return the expression for the hash of a row, 0 to 2**32 - 1; never null.

    Args:
        connection: gets the function.
        columns: names.
        forms: their ``forms_of``.
    """
    connection.create_function(
        ROW_HASH,
        _hash,
        None,  # any number of columns of any type
        duckdb.sqltype("UINTEGER"),
        type=ARROW,
        null_handling=SPECIAL,
    )
    listed = ", ".join(
        # DuckDB hands out a UUID as text.
        f"unhex(replace(CAST({quote_name(name)} AS VARCHAR), '-', ''))"
        if form == "uuid"
        else quote_name(name)
        for name, form in zip(columns, forms, strict=True)
    )
    return f"{ROW_HASH}({listed})"


def _hash(*columns: pa.ChunkedArray) -> pa.Array:
    return pa.array(hash_rows(columns))


def buckets_in(
    file: Path | bytes, wanted: Sequence[Bucket], columns: Sequence[tuple[str, str]], known: Hashes
) -> Hashes:
    """Return the buckets that the rows of an output are in: a range for each one wanted.

    Reads the columns that are hashed, and nothing else. A column that has no hash is left out.

    Args:
        file: the output, or where it lies.
        wanted: columns and numbers of buckets.
        columns: (name, SQL type) of the output.
        known: ranges that hold for the output; what they are about is not read again.
    """
    kinds, stated = dict(columns), {each.about for each in known}
    ranges: list[HashRange] = []
    for each in wanted:
        form = form_of_sql(kinds.get(each.column, ""))
        if form is None or ((each.column,), (form,), each.count) in stated:
            continue
        source = pa.BufferReader(file) if isinstance(file, bytes) else file
        with pq.ParquetFile(source) as output:
            if form_of(output.schema_arrow.field(each.column).type) == form:
                rows = output.iter_batches(_BATCH_ROWS, columns=[each.column])
                ranges.append(range_of(rows, (each.column,), (form,), each.count))
    return tuple(ranges)


def range_of(
    rows: Iterable[pa.RecordBatch], columns: tuple[str, ...], forms: tuple[str, ...], buckets: int
) -> HashRange:
    """Return the range of all rows of a part, by hashing them.

    Args:
        rows: with these columns at least.
        columns: names.
        forms: their ``form_of``.
        buckets: number of buckets; 0 for a range of the hash itself.
    """
    extremes: list[int] = []
    for batch in rows:
        values = pa.Table.from_batches([batch]).select(list(columns)).drop_null()
        if values.num_rows:
            hashes = hash_rows(values.columns)
            if buckets:
                hashes = (hashes & np.uint32(BUCKET_MASK)) % np.uint32(buckets)
            extremes += [int(hashes.min()), int(hashes.max())]
    return HashRange(
        columns, forms, buckets, min(extremes, default=None), max(extremes, default=None)
    )
