"""Puts other bytes under a key that has some already.

Objects of a table are created once and never overwritten. The one exception is a table that was
copied or renamed: until its log is written for the new place no reader takes it for a table.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from firnline.errors import ObjectNotFoundError, StoreError
from firnline.store.base import Store
from firnline.store.client import PART_BYTES


def overwrite(store: Store, key: str, data: bytes) -> None:
    """Upload ``data`` over whatever is there: readers see the old bytes or the new ones.

    Requests: 1 PUT, more for what is large enough for a multipart upload. Then, or when the answer
    was lost, 1 GET: an upload that fails is recognised by its size alone, and the old object may
    have the same.

    Raises StoreError; then the object is the old one or the new one.
    """
    failure: StoreError | None = None
    with tempfile.TemporaryDirectory(prefix="firnline-overwrite-") as folder:
        path = Path(folder) / "object"
        path.write_bytes(data)
        try:
            store.put_file(key, path)
        except StoreError as error:
            if not error.retryable:
                raise
            failure = error
    if failure is None and len(data) <= PART_BYTES:
        return
    if _holds(store, key, data):
        return
    raise failure or StoreError(
        f"{key} was uploaded, and still holds other bytes", next_step="run it again"
    )


def _holds(store: Store, key: str, data: bytes) -> bool:
    try:
        return store.get(key) == data
    except ObjectNotFoundError:
        return False
