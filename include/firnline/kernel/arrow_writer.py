"""Parquet files as DuckDB would have written them, by Arrow: which tasks, and the writer (RFC 14).

The schema is made DuckDB's by ``parquet.join.adopt``; codec, dictionaries and filters are chosen
here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from firnline.kernel.duckdb import Try
from firnline.kernel.sql import DICTIONARY_SHARE
from firnline.kernel.task import KernelTask
from firnline.parquet.arrow_versions import writes_bloom_filters
from firnline.types.sql import SqlType, parse_sql_type

_TYPES = frozenset({
    "BIGINT", "BLOB", "BOOLEAN", "DATE", "DECIMAL", "DOUBLE", "FLOAT", "INTEGER", "SMALLINT",
    "TIMESTAMP", "TIMESTAMP WITH TIME ZONE", "TINYINT", "UBIGINT", "UINTEGER", "USMALLINT",
    "UTINYINT", "VARCHAR",
})  # fmt: skip
"""Types that Arrow and DuckDB write as the same values; ``adopt`` compares the columns."""
_NESTED = frozenset({"LIST", "MAP", "STRUCT"})
"""Types that are written as the same values if their fields are."""
_SAMPLE_ROWS = 16_384
_ALL_DIFFER = 0.96
"""Fraction of different values in the sample from which a row group has more than a dictionary
holds: 200,000 values in any order show 0.96 of 16,384."""


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
    distinct = dict(_distinct(first, first.num_rows // DICTIONARY_SHARE))
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
    for _, column in _leaves(rows):
        for chunk in column.chunks:
            values = chunk.dictionary if pa.types.is_dictionary(chunk.type) else chunk
            if pa.types.is_string(values.type):
                values.validate(full=True)


def _with_statistics(rows: pa.Table) -> list[str]:
    """Return the leaves with statistics: all but nested floats, whose bounds leave out NaN.

    Of columns at the top those with a NaN lose their bounds afterwards (``columns_with_nan``).
    """
    leaves = [(path, pa.types.is_floating(values.type)) for path, values in _leaves(rows)]
    plain = {field.name for field in rows.schema if not pa.types.is_nested(field.type)}
    # One path may be that of two leaves: of `"s.x" DOUBLE` and of `s STRUCT(x DOUBLE)`.
    several = {path for path, count in Counter(path for path, _ in leaves).items() if count > 1}
    return [
        path for path, is_float in leaves if not is_float or (path in plain and path not in several)
    ]


def _leaves(rows: pa.Table) -> Iterator[tuple[str, pa.ChunkedArray]]:
    """Yield the columns of Parquet: their paths, and their values where rows have any."""
    for name, column in zip(rows.column_names, rows.columns, strict=True):
        yield from _leaves_of(name, column)


def _leaves_of(path: str, values: pa.ChunkedArray) -> Iterator[tuple[str, pa.ChunkedArray]]:
    kind = values.type
    if pa.types.is_struct(kind):
        for field, child in zip(kind, values.flatten(), strict=True):
            yield from _leaves_of(f"{path}.{field.name}", child)
    elif pa.types.is_map(kind):
        # Those of nulls and other rows too: it is a sample of values.
        keys = pa.chunked_array([chunk.keys for chunk in values.chunks], kind.key_type)
        items = pa.chunked_array([chunk.items for chunk in values.chunks], kind.item_type)
        yield from _leaves_of(f"{path}.key_value.key", keys)
        yield from _leaves_of(f"{path}.key_value.value", items)
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        yield from _leaves_of(f"{path}.list.element", pc.list_flatten(values))
    else:
        yield path, values


def _distinct(rows: pa.Table, most: int) -> Iterator[tuple[str, int]]:
    """Yield the columns with at most so many values, and how many they have."""
    for name, column in _leaves(rows):
        if pa.types.is_boolean(column.type):
            continue  # two values need no dictionary
        if pa.types.is_dictionary(column.type):
            count = max(len(chunk.dictionary) for chunk in column.chunks)
        else:
            sample = column.slice(0, _SAMPLE_ROWS)
            if pc.count_distinct(sample).as_py() > _ALL_DIFFER * len(sample):
                continue
            count = pc.count_distinct(column).as_py()
        if count <= most:
            yield name, count
