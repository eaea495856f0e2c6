"""Where Arrow puts the smallest and the largest value of each page.

In the header of the page, or all of them in the page index. By headers DuckDB 2.0 takes each row of
a page for a null whose values are one text, where there are nulls beside them (``IS NULL``; not of
values of a dictionary, and not of pages that DuckDB itself has written).
"""

# ruff: noqa: TID253 - used by what writes parts; no DAG file imports it at parse

from __future__ import annotations

import pyarrow as pa

from firnline.types.arrow import holds


def go_into_index(schema: pa.Schema) -> bool:
    """Return True for columns whose bounds of pages must not be in the headers of the pages.

    The index has about 20 bytes a column more, in a part of one page.
    """
    return any(holds(field.type, _is_text) for field in schema)


def _is_text(kind: pa.DataType) -> bool:
    if isinstance(kind, pa.BaseExtensionType):
        return _is_text(kind.storage_type)
    if pa.types.is_dictionary(kind):
        return _is_text(kind.value_type)
    texts = (
        pa.types.is_string,
        pa.types.is_large_string,
        pa.types.is_string_view,
        pa.types.is_binary,
        pa.types.is_large_binary,
        pa.types.is_binary_view,
    )
    return any(matches(kind) for matches in texts)
