"""The differences of older versions of pyarrow, and how they are handled.

| pyarrow | |
| --- | --- |
| before 25 | reads UUID and JSON as bytes and texts, unless it is told not to |
| before 24 | writes no Bloom filters |
| from 23 | begins a page after 20,000 rows, unless it is told not to |
| before 22 | writes times of day as those of UTC, which DuckDB reads as ``TIME WITH TIME ZONE`` |

Before 21 nothing makes it read or write a UUID, which is why firnline requires that one.
"""

from __future__ import annotations

import pyarrow as pa

from firnline.errors import EnvironmentFaultError
from firnline.types.arrow import holds

MAJOR = int(pa.__version__.partition(".")[0])
"""Of the pyarrow that is installed."""
AS_ANNOTATED = {"arrow_extensions_enabled": True}
"""Options of Arrow's ``ParquetFile`` by which it reads UUID and JSON as such."""
_TIMES, _PAGES, _FILTERS = 22, 23, 24
"""Versions of pyarrow that were the first to do it."""
_MOST_ROWS = 2**31 - 1


def writes_bloom_filters() -> bool:
    """Return True if Arrow's ``ParquetWriter`` takes ``bloom_filter_options``."""
    return MAJOR >= _FILTERS


def as_large_pages() -> dict[str, int]:
    """Return options of Arrow's ``ParquetWriter`` by which only bytes end a page.

    Short pages of numbers cost a tenth of the time in which a column is written.
    """
    return {"max_rows_per_page": _MOST_ROWS} if MAJOR >= _PAGES else {}


def refuse_changed(schema: pa.Schema) -> None:
    """Raise EnvironmentFaultError for a column that would be written as one of another type."""
    if MAJOR >= _TIMES:
        return
    for field in schema:
        if holds(field.type, pa.types.is_time):
            raise EnvironmentFaultError(
                f"pyarrow {pa.__version__} writes times of day as those of UTC, and column "
                f"{field.name!r} has some",
                next_step=f"install a newer one (pip install 'pyarrow>={_TIMES}')",
            )
