"""Which columns of a file get dictionaries: those that it makes smaller, and quicker to write.

A dictionary of values that hardly repeat costs two to three times the time of the values alone, and
more bytes: measured with numbers, times, decimals and texts, compressed with zstd.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from firnline.types.arrow import is_list

DICTIONARY_SHARE = 5
"""A row group has a dictionary for a column of at most a fifth as many values as rows, which is
DuckDB's own rule."""
_SAMPLE_ROWS = 16_384
_ALL_DIFFER = 0.96
"""Fraction of different values in the sample from which a row group has more than a dictionary
holds: 200,000 values in any order show 0.96 of 16,384."""


def with_dictionaries(rows: pa.Table) -> dict[str, int]:
    """Return the columns of Parquet that get a dictionary, and how many values they have.

    Args:
        rows: of one row group; its successors get the same.
    """
    return dict(_distinct(rows, rows.num_rows // DICTIONARY_SHARE))


def leaves_in(rows: pa.Table) -> Iterator[tuple[str, pa.ChunkedArray]]:
    """Yield the columns of Parquet: their paths, and their values where rows have any."""
    for name, column in zip(rows.column_names, rows.columns, strict=True):
        yield from _leaves_of(name, column)


def _leaves_of(path: str, values: pa.ChunkedArray) -> Iterator[tuple[str, pa.ChunkedArray]]:
    kind = values.type
    if not pa.types.is_nested(kind) and not isinstance(kind, pa.BaseExtensionType):
        yield path, values
    elif pa.types.is_struct(kind):
        for field, child in zip(kind, values.flatten(), strict=True):
            yield from _leaves_of(f"{path}.{field.name}", child)
    elif pa.types.is_map(kind):
        # Those of nulls and other rows too: it is a sample of values.
        keys = pa.chunked_array([chunk.keys for chunk in values.chunks], kind.key_type)
        items = pa.chunked_array([chunk.items for chunk in values.chunks], kind.item_type)
        yield from _leaves_of(f"{path}.key_value.key", keys)
        yield from _leaves_of(f"{path}.key_value.value", items)
    elif is_list(kind):
        yield from _leaves_of(f"{path}.list.element", pc.list_flatten(values))
    elif isinstance(kind, pa.BaseExtensionType):
        plain = pa.chunked_array([chunk.storage for chunk in values.chunks], kind.storage_type)
        yield from _leaves_of(path, plain)
    else:
        yield path, values  # a view of a list, which no part has


def _distinct(rows: pa.Table, most: int) -> Iterator[tuple[str, int]]:
    """Yield the columns with at most so many values, and how many they have."""
    for name, column in leaves_in(rows):
        if pa.types.is_boolean(column.type):
            continue  # two values need no dictionary
        if pa.types.is_dictionary(column.type):
            count = max(len(chunk.dictionary) for chunk in column.chunks)
        else:
            if len(column) > _SAMPLE_ROWS and _all_differ(column.slice(0, _SAMPLE_ROWS)):
                continue
            count = pc.count_distinct(column).as_py()
        if count <= most:
            yield name, count


def _all_differ(sample: pa.ChunkedArray) -> bool:
    found: bool = pc.count_distinct(sample).as_py() > _ALL_DIFFER * len(sample)
    return found
