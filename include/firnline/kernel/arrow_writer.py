"""Parquet files as DuckDB would have written them, by Arrow: which tasks, and the writer (RFC 14).

The schema is made DuckDB's by ``parquet.join.adopt``; codec, dictionaries and filters are chosen
here.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from firnline.kernel.duckdb import Try
from firnline.kernel.task import KernelTask
from firnline.parquet import page_bounds
from firnline.parquet.arrow_versions import as_large_pages, writes_bloom_filters
from firnline.parquet.encodings import leaves_in, with_dictionaries
from firnline.types.sql import SqlType, parse_sql_type

_TYPES = frozenset({
    "BIGINT", "BLOB", "BOOLEAN", "DATE", "DECIMAL", "DOUBLE", "FLOAT", "INTEGER", "SMALLINT",
    "TIMESTAMP", "TIMESTAMP WITH TIME ZONE", "TINYINT", "UBIGINT", "UINTEGER", "USMALLINT",
    "UTINYINT", "VARCHAR",
})  # fmt: skip
"""Types that Arrow and DuckDB write as the same values; ``adopt`` compares the columns."""
_NESTED = frozenset({"LIST", "MAP", "STRUCT"})
"""Types that are written as the same values if their fields are."""


def is_written_by_arrow(task: KernelTask, *, nested: bool = False) -> bool:
    """Return True if Arrow can write the columns and filters of a task as DuckDB does.

    Args:
        task: the group.
        nested: also lists, maps and structs.
    """
    filters = task.bloom_filters
    if filters is not None and (filters.max_distinct is not None or not writes_bloom_filters()):
        return False
    kinds = [parse_sql_type(kind) for _, kind in task.columns]
    return all(kind is not None and _is_written(kind, nested) for kind in kinds)


def _is_written(kind: SqlType, nested: bool) -> bool:
    if kind.name in _TYPES:
        return True
    return nested and kind.name in _NESTED and all(_is_written(of, True) for _, of in kind.fields)


def open_writer(
    sink: Path | pa.NativeFile, first: pa.Table, task: KernelTask, how: Try
) -> pq.ParquetWriter:
    """Open a file; its first row group says which columns get dictionaries and filters.

    Args:
        sink: a new local file, or memory.
        first: the rows of its first row group.
        task: the group.
        how: bounds the dictionaries.
    """
    distinct = with_dictionaries(first)
    filters = task.bloom_filters
    filtered: dict[str, Any] = {}
    if filters is not None:
        fpp = filters.false_positives
        options = {name: {"ndv": max(n, 1), "fpp": fpp} for name, n in distinct.items()}
        filtered = {"bloom_filter_options": options}
    return pq.ParquetWriter(
        sink,
        first.schema,
        compression="zstd",
        compression_level=task.compression_level,
        use_dictionary=list(distinct),
        write_statistics=_with_statistics(first),
        dictionary_pagesize_limit=max(how.row_group_bytes // 2, 2**20),
        store_decimal_as_integer=True,
        store_schema=False,
        write_page_index=page_bounds.go_into_index(first.schema),
        **as_large_pages(),
        **filtered,
    )


def columns_with_nan(rows: pa.Table) -> set[str]:
    """Return the columns that hold a NaN, which Arrow leaves out of its bounds."""
    return {
        name
        for name in rows.column_names
        if pa.types.is_floating(rows[name].type) and pc.any(pc.is_nan(rows[name])).as_py()
    }


def check_texts(rows: pa.Table) -> None:
    """Raise ArrowInvalid for texts that are not UTF-8, which DuckDB refuses to read."""
    for _, column in leaves_in(rows):
        for chunk in column.chunks:
            values = chunk.dictionary if pa.types.is_dictionary(chunk.type) else chunk
            if pa.types.is_string(values.type):
                values.validate(full=True)


def _with_statistics(rows: pa.Table) -> list[str]:
    """Return the leaves with statistics: all but nested floats, whose bounds leave out NaN.

    Of columns at the top those with a NaN lose their bounds afterwards (``columns_with_nan``).
    """
    leaves = [(path, pa.types.is_floating(values.type)) for path, values in leaves_in(rows)]
    plain = {field.name for field in rows.schema if not pa.types.is_nested(field.type)}
    # One path may be that of two leaves: of `"s.x" DOUBLE` and of `s STRUCT(x DOUBLE)`.
    several = {path for path, count in Counter(path for path, _ in leaves).items() if count > 1}
    return [
        path for path, is_float in leaves if not is_float or (path in plain and path not in several)
    ]
