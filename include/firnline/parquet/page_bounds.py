"""Decide whether Arrow writes the bounds of pages into a page index instead of their headers.

DuckDB 2.0 answers ``IS NULL`` wrongly by bounds in headers: where a page has one text, and nulls
beside it, it takes all rows of the page for nulls. Values of a dictionary, and pages that it has
written itself, are read rightly.
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
