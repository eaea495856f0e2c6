"""Texts in columns of the type JSON: one that is none would make its whole part unreadable."""

# ruff: noqa: TID253 - rows are handled here; no DAG file imports it at parse

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pyarrow as pa

from firnline.types.arrow import holds

# Numbers stay texts: JSON has no largest one.
_DECODE = msgspec.json.Decoder(float_hook=str).decode


def malformed(column: pa.ChunkedArray) -> str | None:
    """Return what is wrong with the first text of a column that is no JSON; None if all are.

    What is accepted is what RFC 8259 calls JSON; DuckDB reads it and a little more, and refuses a
    whole part for anything else.

    Args:
        column: of any type; texts of JSON may stand at any depth.
    """
    if not holds(column.type, _is_json):
        return None
    for chunk in column.chunks:
        for texts in _texts(chunk):
            for text in texts.to_pylist():
                try:
                    if text is not None:
                        _DECODE(text)
                except (msgspec.MsgspecError, RecursionError) as error:
                    shown = repr(text if len(text) <= 40 else f"{text[:39]}…")
                    return f"{shown} is no JSON: {error}"
    return None


def _is_json(kind: pa.DataType) -> bool:
    return isinstance(kind, pa.JsonType)


def _texts(array: pa.Array) -> Iterator[pa.Array]:
    kind = array.type
    if _is_json(kind):
        yield array.storage
    elif pa.types.is_struct(kind):
        for inner in array.flatten():
            yield from _texts(inner)
    elif pa.types.is_map(kind):
        yield from _texts(array.keys)
        yield from _texts(array.items)
    elif pa.types.is_nested(kind):
        yield from _texts(array.flatten())
