"""Create an object, and know afterwards whose it is."""

from __future__ import annotations

from collections.abc import Callable

from firnline.errors import (
    ObjectExistsError,
    ObjectNotFoundError,
    OutcomeUnknownError,
    StoreUnavailableError,
)
from firnline.store.base import Store

ATTEMPTS = 4
"""Puts, each with a read-back. Two would do for a store that answers one put at a time."""


def create(
    store: Store, key: str, data: bytes, *, may_put: Callable[[], bool] = lambda: True
) -> bytes | None:
    """Create-only put that reads back whatever it cannot be sure of.

    Args:
        store: where.
        key: of an object that only this caller, or a rival for the same number, writes.
        data: holds a UUIDv7 of its writer.
        may_put: asked before a put is repeated. A machine that was suspended between two of them
            must not put what others have given up on in the meantime.

    Returns:
        None when the object holds ``data``; else the bytes of whoever was first.

    Why reading back decides it: objects are never overwritten, so what is there once stays, and
    whoever reads it last reads the winner. Every file created this way holds a UUIDv7 of its
    writer (append id, transaction id), so equal bytes are our own put, or somebody who published
    the same transaction for us, which is as good. That covers

    - 'already exists' for our own put: its answer was lost and the client sent it again;
    - 'already exists' for a rival's put;
    - 409 of two puts in flight, neither of which need have been stored: nothing is there, so
      put again; create-only makes that harmless whatever the first one does later;
    - no answer at all: as above, for it is there or it is not.

    Raises:
        OutcomeUnknownError: the store went silent between the put and the read-back, or kept
            refusing what it does not have. The object may be there, now or later.
    """
    reason = ""
    for attempt in range(ATTEMPTS):
        if attempt and not may_put():
            reason += ", and it is too late to try again"
            break
        try:
            store.put_new(key, data)
        except (ObjectExistsError, OutcomeUnknownError) as doubt:
            reason = doubt.message
        else:
            return None
        try:
            found = store.get(key)
        except ObjectNotFoundError:
            continue
        except StoreUnavailableError as error:
            reason = error.message
            break
        return None if found == data else found
    raise OutcomeUnknownError(
        f"nobody can say whether {key} was stored: {reason}",
        next_step="run it again when the store answers; nothing was deleted",
    )
