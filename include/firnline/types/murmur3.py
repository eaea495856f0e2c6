"""Bucket hash: 32-bit Murmur3 (x86 variant, seed 0) over whole Arrow columns.

The hashed bytes follow the Apache Iceberg specification, appendix B, so that buckets are the same
as in Iceberg: integers, dates, times (microseconds) and timestamps (microseconds) as 8 bytes little
endian, decimals as the shortest big-endian two's complement of the unscaled value, strings as
UTF-8, UUIDs as 16 bytes big endian, binary unchanged.
"""

# ruff: noqa: TID253 - rows are handled here; no DAG file imports it at parse

from __future__ import annotations

from collections.abc import Sequence
from decimal import Context, Decimal
from uuid import UUID

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from firnline.errors import PartSchemaError
from firnline.types.arrow import parse_type
from firnline.types.values import Scalar, bound_key

_C1 = np.uint32(0xCC9E2D51)
_C2 = np.uint32(0x1B873593)
_U32 = npt.NDArray[np.uint32]
_EXACT = Context(prec=100)
"""For 38 digits: the context of the calling thread might round, and so change a hash."""
_DAY_NS = 86_400_000_000_000
_UNIT_NS = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}


def can_hash(kind: pa.DataType) -> bool:
    """Return True if the specification defines a hash for the type (floats, booleans: no)."""
    return _is_long(kind) or pa.types.is_decimal(kind) or _is_bytes(kind)


def form_of(kind: pa.DataType) -> str | None:
    """Return the name of the bytes that stand for a value; None for a type without literals.

    Equal values of two types have equal hashes if and only if the types have one form: ``long``,
    ``date``, ``timestamp``, ``decimal`` and the scale, ``text``, ``uuid``.
    """
    if pa.types.is_decimal(kind):
        return f"decimal{kind.scale}"
    for matches, form in _FORMS:
        if matches(kind):
            return form
    return None


def form_of_sql(sql_type: str) -> str | None:
    """Return ``form_of`` the Arrow type of a SQL type; None for a type without literals.

    HUGEINT has none either: DuckDB and Arrow write it in different ways.
    """
    if bound_key(sql_type) is None or sql_type.endswith("HUGEINT"):
        return None
    try:
        return form_of(parse_type(sql_type))
    except PartSchemaError:
        return None


def hash_rows(columns: Sequence[pa.ChunkedArray]) -> npt.NDArray[np.uint32]:
    """Return one hash for the values of each row, 0 to 2**32 - 1; a null counts as 0.

    Of one column its hash as an unsigned number. The hash h of the columns so far and the hash of
    one more are combined as the hash of the integer h * 2**32 + the other.

    Args:
        columns: at least one, of one length, of types that ``can_hash`` accepts.
    """
    found: list[_U32] = []
    for column in columns:
        hashes = hash_column(column).view(np.uint32)
        if column.null_count:
            hashes = hashes.copy()
            hashes[column.is_null().to_numpy()] = 0
        found.append(hashes)
    return combine_hashes(found)


def combine_hashes(columns: Sequence[_U32]) -> _U32:
    """Return the hash of rows from the hashes of their values, column by column."""
    whole, *rest = columns
    for hashes in rest:
        both = (whole.astype(np.uint64) << np.uint64(32)) | hashes.astype(np.uint64)
        whole = _hash_long(both.view(np.int64))
    return whole


def hash_literals(sql_type: str, values: Sequence[Scalar]) -> _U32 | None:
    """Return the hashes of literals, as ``hash_rows`` of a column that holds them.

    Args:
        sql_type: the column's type.
        values: not null, in the JSON form of ``types.values``.

    Returns None if the type has no form, or its column cannot hold one of the values.
    """
    if form_of_sql(sql_type) is None:
        return None
    kind = parse_type(sql_type)
    try:
        array = _literals(kind, sql_type, values)
    except (pa.ArrowException, ValueError, TypeError, OverflowError):
        return None
    return hash_rows([pa.chunked_array([array])])


def _literals(kind: pa.DataType, sql_type: str, values: Sequence[Scalar]) -> pa.Array:
    if isinstance(kind, pa.UuidType):
        return kind.wrap_array(pa.array([UUID(str(v)).bytes for v in values], kind.storage_type))
    if pa.types.is_decimal(kind):
        return pa.array([Decimal(str(value)) for value in values], kind)
    key = bound_key(sql_type)
    if pa.types.is_date(kind) and key is not None:
        return pa.array([key(value) // _DAY_NS for value in values], pa.int32()).cast(kind)
    if pa.types.is_timestamp(kind) and key is not None:
        return pa.array([key(v) // _UNIT_NS[kind.unit] for v in values], pa.int64()).cast(kind)
    return pa.array(values, kind)


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


_FORMS = (
    (pa.types.is_integer, "long"),
    (pa.types.is_date, "date"),
    (pa.types.is_timestamp, "timestamp"),
    (pa.types.is_string, "text"),
    (pa.types.is_large_string, "text"),
    (lambda kind: isinstance(kind, pa.UuidType), "uuid"),
)


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
    unscaled = int(value.scaleb(scale, _EXACT))
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
    if len(lengths) and lengths.min() == lengths.max():  # keys often have one length
        length = int(lengths[0])
        same = data[offsets[0] : offsets[-1]].reshape(len(array), length)
        return _hash_matrix(same, length)
    hashes = np.zeros(len(array), np.uint32)
    for length in np.unique(lengths):
        rows = np.flatnonzero(lengths == length)
        matrix = data[offsets[:-1][rows][:, None] + np.arange(length)]
        hashes[rows] = _hash_matrix(matrix, int(length))
    return hashes


def _hash_matrix(matrix: npt.NDArray[np.uint8], length: int) -> _U32:
    hashes = np.zeros(len(matrix), np.uint32)
    whole = length // 4 * 4
    if whole:
        words = np.ascontiguousarray(matrix[:, :whole]).view("<u4")
        for at in range(whole // 4):
            hashes = _mix(hashes, words[:, at].astype(np.uint32))
    if length > whole:
        rest = _word(matrix[:, whole:].astype(np.uint32))
        hashes = hashes ^ (_rotate(rest * _C1, 15) * _C2)
    return _finish(hashes, length)


def _word(octets: _U32) -> _U32:
    """Return up to three bytes of each row as a little-endian number."""
    word = np.zeros(len(octets), np.uint32)
    for position in range(octets.shape[1]):
        word |= octets[:, position] << np.uint32(8 * position)
    return word
