"""Bucket hash: 32-bit Murmur3 (x86 variant, seed 0) over whole Arrow columns.

The hashed bytes follow the Apache Iceberg specification, appendix B, so that buckets are the same
as in Iceberg: integers, dates, times (microseconds) and timestamps (microseconds) as 8 bytes little
endian, decimals as the shortest big-endian two's complement of the unscaled value, strings as
UTF-8, UUIDs as 16 bytes big endian, binary unchanged.
"""

# ruff: noqa: TID253 - rows are handled here; no DAG file imports it at parse

from __future__ import annotations

from decimal import Decimal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

_C1 = np.uint32(0xCC9E2D51)
_C2 = np.uint32(0x1B873593)
_U32 = npt.NDArray[np.uint32]


def can_hash(kind: pa.DataType) -> bool:
    """Return True if the specification defines a hash for the type (floats, booleans: no)."""
    return _is_long(kind) or pa.types.is_decimal(kind) or _is_bytes(kind)


def hash_column(column: pa.ChunkedArray) -> npt.NDArray[np.int32]:
    """Return the hash of every value; the hashes of nulls are meaningless.

    Args:
        column: of a type that ``can_hash`` accepts, not dictionary encoded.
    """
    if isinstance(column.type, pa.BaseExtensionType):
        storage = [chunk.storage for chunk in column.chunks]
        return hash_column(pa.chunked_array(storage, column.type.storage_type))
    kind = column.type
    if _is_long(kind):
        hashes = _hash_long(_as_long(column))
    elif pa.types.is_decimal(kind):
        hashes = _hash_bytes(
            pa.array([_decimal_bytes(value, kind.scale) for value in column.to_pylist()])
        )
    else:
        hashes = _hash_bytes(column.cast(pa.large_binary()).combine_chunks())
    return hashes.view(np.int32)


def _is_long(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_date(kind) or _has_unit(kind))


def _has_unit(kind: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(kind) or pa.types.is_time(kind))


def _is_bytes(kind: pa.DataType) -> bool:
    if isinstance(kind, pa.BaseExtensionType):
        return isinstance(kind, pa.UuidType)
    plain = (pa.string(), pa.large_string(), pa.binary(), pa.large_binary())
    return kind in plain or bool(pa.types.is_fixed_size_binary(kind))


def _as_long(column: pa.ChunkedArray) -> npt.NDArray[np.int64]:
    kind = column.type
    factor, divisor = 1, 1
    if _has_unit(kind):
        factor = {"s": 1_000_000, "ms": 1_000}.get(kind.unit, 1)
        divisor = 1_000 if kind.unit == "ns" else 1
    if kind == pa.date64():
        column = column.cast(pa.date32())
    if column.type.bit_width == 32 and not pa.types.is_integer(kind):
        column = column.cast(pa.int32())
    elif not pa.types.is_integer(kind):
        column = column.cast(pa.int64())
    values: npt.NDArray[np.int64] = column.fill_null(0).to_numpy().astype(np.int64)
    return np.floor_divide(values * factor, divisor)


def _decimal_bytes(value: Decimal | None, scale: int) -> bytes | None:
    if value is None:
        return None
    unscaled = int(value.scaleb(scale))
    # One more bit than the magnitude for the sign; -128 fits one byte, 128 takes two.
    bits = (unscaled if unscaled >= 0 else ~unscaled).bit_length() + 1
    return unscaled.to_bytes((bits + 7) // 8, "big", signed=True)


def _rotate(values: _U32, by: int) -> _U32:
    return (values << np.uint32(by)) | (values >> np.uint32(32 - by))


def _mix(hashes: _U32, block: _U32) -> _U32:
    hashes = hashes ^ (_rotate(block * _C1, 15) * _C2)
    return _rotate(hashes, 13) * np.uint32(5) + np.uint32(0xE6546B64)


def _finish(hashes: _U32, length: int) -> _U32:
    hashes = hashes ^ np.uint32(length)
    hashes = (hashes ^ (hashes >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    hashes = (hashes ^ (hashes >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    return hashes ^ (hashes >> np.uint32(16))


def _hash_long(values: npt.NDArray[np.int64]) -> _U32:
    words = values.view(np.uint64)
    low = (words & np.uint64(0xFFFFFFFF)).astype(np.uint32)
    high = (words >> np.uint64(32)).astype(np.uint32)
    return _finish(_mix(_mix(np.zeros(len(values), np.uint32), low), high), 8)


def _hash_bytes(array: pa.Array) -> _U32:
    """Hash all values of one length at a time, as a matrix, column by column."""
    array = array.cast(pa.large_binary())
    _, offset_buffer, data_buffer = array.buffers()
    offsets = np.frombuffer(offset_buffer, np.int64)[array.offset : array.offset + len(array) + 1]
    data = np.frombuffer(data_buffer or b"", np.uint8)
    lengths = np.diff(offsets)
    hashes = np.zeros(len(array), np.uint32)
    for length in np.unique(lengths):
        rows = np.flatnonzero(lengths == length)
        matrix = data[offsets[:-1][rows][:, None] + np.arange(length)]
        hashes[rows] = _hash_matrix(matrix, int(length))
    return hashes


def _hash_matrix(matrix: npt.NDArray[np.uint8], length: int) -> _U32:
    hashes = np.zeros(len(matrix), np.uint32)
    words = matrix.astype(np.uint32)
    whole = length // 4 * 4
    for at in range(0, whole, 4):
        hashes = _mix(hashes, _word(words[:, at : at + 4]))
    if length > whole:
        hashes = hashes ^ (_rotate(_word(words[:, whole:]) * _C1, 15) * _C2)
    return _finish(hashes, length)


def _word(octets: _U32) -> _U32:
    """Return up to four bytes of each row as a little-endian number."""
    word = np.zeros(len(octets), np.uint32)
    for position in range(octets.shape[1]):
        word |= octets[:, position] << np.uint32(8 * position)
    return word
