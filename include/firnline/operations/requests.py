"""Requests that runs send, for the estimates of plans."""

from __future__ import annotations

from firnline.store.sizes import PART_BYTES, put_requests

FIXED_REQUESTS = 10
"""Requests of a run besides log reads, inputs and outputs, at most: two listings, the probe of the
store (two puts, a get, a delete, once a process), and for the first transaction two puts and a
listing (of a table without a transaction two)."""
COMMIT_REQUESTS = 3
"""Those of each further transaction: two puts and a listing."""


def upload_requests(size: int, parts: int = 1) -> int:
    """Return the requests that write ``size`` bytes as so many objects, at most."""
    if parts == 1 or size <= PART_BYTES:
        return parts * put_requests(size)
    # Each but the last part of each upload is full.
    return 2 * parts + (size + parts * (PART_BYTES - 1)) // PART_BYTES
