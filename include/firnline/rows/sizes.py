"""How large rows become once every value stands by itself, as a part has it.

Dictionaries and runs hold a value once that many rows repeat, so their own size says little.
"""

# ruff: noqa: TID253 - rows are handled here; no DAG file imports it at parse

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc


def decoded_bytes(rows: pa.Table) -> int:
    """Return the bytes of rows in memory when nothing is stored once for many of them."""
    return sum(_bytes(chunk) for column in rows.columns for chunk in column.chunks)


def _bytes(array: pa.Array) -> int:
    kind = array.type
    if isinstance(kind, pa.BaseExtensionType):
        return _bytes(array.storage)
    if pa.types.is_dictionary(kind):
        return _sum(_lengths(array.dictionary).take(array.indices))
    if pa.types.is_run_end_encoded(kind):
        runs = pa.RunEndEncodedArray.from_arrays(array.run_ends, _lengths(array.values))
        return _sum(pc.run_end_decode(runs.slice(array.offset, len(array))))
    if pa.types.is_struct(kind):
        return sum(map(_bytes, array.flatten()))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _bytes(array.flatten())
    # `nbytes` of views needs pyarrow 22.
    if pa.types.is_string_view(kind) or pa.types.is_binary_view(kind):
        return _bytes(array.cast(pa.large_binary()))
    if pa.types.is_list_view(kind) or pa.types.is_large_list_view(kind):
        return int(array.get_total_buffer_size())
    return int(array.nbytes)


def _lengths(values: pa.Array) -> pa.Array:
    """Return the bytes of each value; of a value that is nested the mean."""
    kind = values.type
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return pc.binary_length(values)
    if pa.types.is_large_string(kind) or pa.types.is_large_binary(kind):
        return pc.binary_length(values)
    mean = -(-_bytes(values) // max(1, len(values)))
    return pa.array([mean] * len(values), pa.int64())


def _sum(lengths: pa.Array) -> int:
    return int(pc.sum(lengths.cast(pa.int64())).as_py() or 0)
