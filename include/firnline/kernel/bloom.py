"""Which bloom filters an output has, as options of DuckDB's COPY.

DuckDB writes a filter for every column chunk that has a dictionary, and for no other; it cannot be
told for which columns. A chunk has a dictionary up to a number of distinct values, by default a
fifth of the row group's rows.
"""

from __future__ import annotations

import re

from firnline.kernel.duckdb import Try
from firnline.kernel.task import KernelTask

_BYTES_PER_DISTINCT = 80
"""What DuckDB allocates for a dictionary before it is filled, of a limit that is a power of 2.
Measured as the least ``memory_limit`` that does: 26 MB of BIGINT, 44 MB of UUID for 524,288."""
_DECIMAL = re.compile(r"DECIMAL\s*\(.*?\)", re.IGNORECASE)


def bloom_options(task: KernelTask, how: Try) -> list[str]:
    """Options of the COPY that writes an output."""
    filters = task.bloom_filters
    if filters is None:
        return ["WRITE_BLOOM_FILTER false"]
    options = [
        "WRITE_BLOOM_FILTER true",
        f"BLOOM_FILTER_FALSE_POSITIVE_RATIO {filters.false_positives}",
    ]
    limit = distinct_limit(task, how)
    if limit is not None:
        options.append(f"DICTIONARY_SIZE_LIMIT {limit}")
    return options


def distinct_limit(task: KernelTask, how: Try) -> int | None:
    """Distinct values of a row group up to which a column has a dictionary; None: DuckDB's own.

    No more than there is memory for, because all columns allocate theirs at once; never fewer than
    DuckDB's own limit.
    """
    if task.bloom_filters is None or task.bloom_filters.max_distinct is None:
        return None
    leaves = sum(_DECIMAL.sub("", kind).count(",") + 1 for _, kind in task.columns)
    fits = how.dictionary_bytes // (_BYTES_PER_DISTINCT * max(leaves, 1))
    power = 1 << (fits.bit_length() - 1) if fits else 0
    limit = min(task.bloom_filters.max_distinct, task.row_group_rows, power)
    return limit if limit >= task.row_group_rows // 5 else None
