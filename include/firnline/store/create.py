"""Create an object, and determine afterwards whose put won."""

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
from firnline.store.sizes import PART_BYTES

ATTEMPTS = 4
"""Puts at most, each with a read-back. Two suffice for a store that serializes puts."""


@dataclass(slots=True)
class Attempt:
    """The state of a create-only put: whether it may have stored its object, or may still do so.

    It is set before the put is sent, so it is right whatever ends the put: an error, Ctrl-C, a
    signal, a lack of memory. A return value could not state it for an unexpected exception.
    """

    may_stand: bool = False
    """False before the put is sent, and once it is certain that it has no effect."""


def create(
    store: Store,
    key: str,
    data: bytes,
    *,
    may_put: Callable[[], bool] = lambda: True,
    attempt: Attempt | None = None,
) -> bytes | None:
    """Put an object create-only, and read it back if the outcome is unclear.

    Args:
        store: the store.
        key: of an object that only this caller, or a rival for the same number, writes.
        data: bytes that contain a UUIDv7 of their writer.
        may_put: called before a put is repeated. A machine that was suspended between two puts
            must not put what others have given up on in the meantime.
        attempt: updated before each put is sent, and afterwards when it certainly had no effect:
            another writer's object is there, or the store clearly refused the first put.

    Returns:
        None when the object holds ``data``; else the bytes of the writer that was first.

    Reading back decides the outcome, because objects are never overwritten: the bytes found are
    those of the winner. Every file created this way contains a UUIDv7 of its writer (append id,
    transaction id), so equal bytes come from this put, or from another process that published the
    same transaction, which is as good. That covers

    - 'already exists' for the own put: its answer was lost and the client sent it again;
    - 'already exists' for a rival's put;
    - 409 of two concurrent puts, neither of which need have been stored: when nothing is found,
      put again; create-only makes that safe even if the first put takes effect later;
    - no answer at all: as above, since the object is there or it is not.

    Raises:
        OutcomeUnknownError: the store stopped answering between the put and the read-back, or
            kept refusing puts of an object that it does not have. The object may exist, now or
            later.
    """
    attempt = attempt or Attempt()
    reason = ""
    for number in range(ATTEMPTS):
        if number and not may_put():
            reason += ", and it is too late to try again"
            break
        attempt.may_stand = True
        try:
            store.put_new(key, data)
        except (ObjectExistsError, OutcomeUnknownError) as doubt:
            reason = doubt.message
        except StoreError:
            # A clear refusal. If it is of a later put, an earlier one may still take effect.
            attempt.may_stand = number > 0
            raise
        else:
            return None
        try:
            stored = store.get(key)
        except ObjectNotFoundError:
            continue
        except StoreUnavailableError as error:
            reason = error.message
            break
        attempt.may_stand = stored == data
        return None if attempt.may_stand else stored
    raise OutcomeUnknownError(
        f"it is unknown whether {key} was stored: {reason}",
        next_step="run it again when the store answers; nothing was deleted",
    )


def overwrite(store: Store, key: str, data: bytes) -> None:
    """Overwrite an object with ``data``: readers see the old bytes or the new ones.

    Objects of a table are created once and never overwritten, with two exceptions. The log of a
    table that was copied or renamed is rewritten for the new place; until then no reader accepts
    it. The birth record is overwritten by a downgrade: it is the only object that a table keeps
    under one name, and a DELETE that lands late would take away what was created after it.

    Requests: 1 PUT, more for a multipart upload. After that, or when the answer was lost, 1 GET:
    a failed upload is recognised by its size alone, and the old object may have the same size.

    Raises StoreError; the object is the old one or the new one then.
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
        f"{key} was uploaded, but still holds other bytes", next_step="run it again"
    )


def _holds(store: Store, key: str, data: bytes) -> bool:
    try:
        return store.get(key) == data
    except ObjectNotFoundError:
        return False
