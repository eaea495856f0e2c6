"""Create an object, and know afterwards whose it is."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from firnline.errors import (
    ObjectExistsError,
    ObjectNotFoundError,
    OutcomeUnknownError,
    StoreError,
    StoreUnavailableError,
)
from firnline.store.base import Store
from firnline.store.client import PART_BYTES

ATTEMPTS = 4
"""Puts, each with a read-back. Two would do for a store that answers one put at a time."""


@dataclass(slots=True)
class Attempt:
    """Tells whether a create-only put may have stored its object, or may still do so.

    It is set before the put is sent, so it holds whatever ends the put: an error, Ctrl-C, a signal,
    a lack of memory. A return value could not say it of an exception that nobody foresaw.
    """

    may_stand: bool = False
    """False while nothing was sent, and once it is certain that what was sent has no effect."""


def create(
    store: Store,
    key: str,
    data: bytes,
    *,
    may_put: Callable[[], bool] = lambda: True,
    attempt: Attempt | None = None,
) -> bytes | None:
    """Create-only put that reads back whatever it cannot be sure of.

    Args:
        store: where.
        key: of an object that only this caller, or a rival for the same number, writes.
        data: holds a UUIDv7 of its writer.
        may_put: asked before a put is repeated. A machine that was suspended between two of them
            must not put what others have given up on in the meantime.
        attempt: told before each put that it is sent, and afterwards when it surely had no effect:
            somebody else's object stands there, or the store refused the first one in clear words.

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
    told = attempt or Attempt()
    reason = ""
    for number in range(ATTEMPTS):
        if number and not may_put():
            reason += ", and it is too late to try again"
            break
        told.may_stand = True
        try:
            store.put_new(key, data)
        except (ObjectExistsError, OutcomeUnknownError) as doubt:
            reason = doubt.message
        except StoreError:
            # A clear refusal. Of a later put, too; but one before it may still take effect.
            told.may_stand = number > 0
            raise
        else:
            return None
        try:
            found = store.get(key)
        except ObjectNotFoundError:
            continue
        except StoreUnavailableError as error:
            reason = error.message
            break
        told.may_stand = found == data
        return None if told.may_stand else found
    raise OutcomeUnknownError(
        f"nobody can say whether {key} was stored: {reason}",
        next_step="run it again when the store answers; nothing was deleted",
    )


def overwrite(store: Store, key: str, data: bytes) -> None:
    """Upload ``data`` over whatever is there: readers see the old bytes or the new ones.

    Objects of a table are created once and never overwritten. The one exception is a table that was
    copied or renamed: until its log is written for the new place no reader takes it for a table.

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
