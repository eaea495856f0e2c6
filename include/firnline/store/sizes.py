"""How much one request takes: for uploads and deletes themselves and for plans of them."""

from __future__ import annotations

import math

BATCH = 1_000
"""Keys of one DeleteObjects request, the limit of S3."""
PART_BYTES = 16 * 2**20
"""Bytes of an upload part; a larger file is uploaded in several."""
_MAX_PARTS = 10_000


def part_bytes(size: int) -> int:
    """Return the bytes of each part in which a file of ``size`` bytes is uploaded."""
    return max(PART_BYTES, math.ceil(size / _MAX_PARTS))


def put_requests(size: int) -> int:
    """Return the requests that upload a file of ``size`` bytes.

    Of a file in several parts one begins the upload and one completes it.
    """
    return 1 if size <= PART_BYTES else 2 + math.ceil(size / part_bytes(size))
