"""Requests that runs send, for the estimates of plans."""

from __future__ import annotations

FIXED_REQUESTS = 10
"""Requests of a run besides log reads, inputs and outputs, at most: two listings, the probe of the
store (two puts, a get, a delete, once a process), and for the first transaction two puts and a
listing (of a table without a transaction two)."""
COMMIT_REQUESTS = 3
"""Those of each further transaction: two puts and a listing."""
_PUT_BYTES = 16 * 1024 * 1024


def upload_requests(size: int, parts: int = 1) -> int:
    """Return the requests that write ``size`` bytes as so many parts, at most."""
    return parts if size <= _PUT_BYTES else 2 * parts + size // _PUT_BYTES
