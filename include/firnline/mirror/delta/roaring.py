"""Sets of row numbers as Delta stores them: 64-bit Roaring bitmaps in their portable form.

A set is a list of 32-bit bitmaps by the upper half of the number, each a list of containers by the
upper 16 bits of the lower half: up to 4,096 numbers as an array, more as 8 KiB of bits. Containers
of runs, which other writers have, are not written. All numbers are little-endian.
"""

from __future__ import annotations

import struct
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from firnline.read.hidden import Rows

MAGIC = 1_681_511_377
"""Marks this form in a deletion vector."""
_COOKIE = 12_346
"""Marks a 32-bit bitmap without containers of runs."""
_ARRAY = 4_096
"""Numbers of a container up to which it is an array."""
_BITS = 8_192
"""Bytes of a container that is not."""


def encode(rows: Rows) -> bytes:
    """Return a set as the data of a deletion vector: the magic number, and the bitmaps."""
    import numpy as np

    uppers = rows >> 32
    keys = np.unique(uppers)
    pieces = [struct.pack("<iQ", MAGIC, len(keys))]
    for key in keys.tolist():
        first, end = np.searchsorted(uppers, [key, key + 1])
        pieces += [struct.pack("<I", key), _encode_32(rows[first:end] & 0xFFFF_FFFF)]
    return b"".join(pieces)


def _encode_32(rows: Rows) -> bytes:
    import numpy as np

    uppers = rows >> 16
    keys, firsts, counts = np.unique(uppers, return_index=True, return_counts=True)
    bodies: list[bytes] = []
    for first, count in zip(firsts.tolist(), counts.tolist(), strict=True):
        lower = (rows[first : first + count] & 0xFFFF).astype("<u2")
        bodies.append(lower.tobytes() if count <= _ARRAY else _bits(lower))
    heads = np.stack([keys, counts - 1], axis=1).astype("<u2").tobytes()
    start = 8 + len(heads) + 4 * len(bodies)
    offsets = start + np.cumsum([0, *map(len, bodies[:-1])])
    head = struct.pack("<II", _COOKIE, len(bodies)) + heads + offsets.astype("<u4").tobytes()
    return head + b"".join(bodies)


def _bits(lower: npt.NDArray[np.uint16]) -> bytes:
    import numpy as np

    flags = np.zeros(_BITS * 8, dtype=np.bool_)
    flags[lower] = True
    return np.packbits(flags, bitorder="little").tobytes()


def decode(data: bytes) -> Rows:
    """Return the set that ``encode`` made these bytes of. Raises ValueError for others."""
    import numpy as np

    try:
        pieces = list(_decode(data))
    except (struct.error, IndexError) as error:
        raise ValueError(f"it ends too early: {error}") from error
    return np.concatenate(pieces) if pieces else np.zeros(0, np.int64)


def _decode(data: bytes) -> Iterator[Rows]:
    magic, count = struct.unpack_from("<iQ", data, 0)
    if magic != MAGIC:
        raise ValueError(f"it begins with {magic}")
    at = 12
    for _ in range(count):
        (key,) = struct.unpack_from("<I", data, at)
        at = yield from _decode_32(data, at + 4, key << 32)


def _decode_32(data: bytes, at: int, base: int) -> Generator[Rows, None, int]:
    """Yield the numbers of each container; return where the bitmap ends."""
    import numpy as np

    cookie, count = struct.unpack_from("<II", data, at)
    if cookie != _COOKIE:
        raise ValueError(f"a bitmap in it begins with {cookie}")
    heads = struct.unpack_from(f"<{2 * count}H", data, at + 8)
    at += 8 + 8 * count
    for key, most in zip(heads[::2], heads[1::2], strict=True):
        length = 2 * (most + 1) if most < _ARRAY else _BITS
        body = data[at : at + length]
        if len(body) < length:
            raise ValueError("it ends too early")
        if most < _ARRAY:
            lower = np.frombuffer(body, "<u2").astype(np.int64)
        else:
            flags = np.unpackbits(np.frombuffer(body, np.uint8), bitorder="little")
            lower = np.flatnonzero(flags).astype(np.int64)
        yield lower + (base + (key << 16))
        at += length
    return at
