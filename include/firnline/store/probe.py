"""Refuse a store that ignores create-only puts: there, two transactions could both commit."""

from __future__ import annotations

import threading
import weakref

from firnline.clock import Clock, SystemClock
from firnline.errors import (
    ObjectExistsError,
    ObjectNotFoundError,
    StoreUnavailableError,
    StoreUnsafeError,
)
from firnline.ids import Ids, SystemIds
from firnline.paths import TablePaths
from firnline.store.base import Changes, Store
from firnline.store.create import create

_LIVES_MS = 3_600_000
"""Age in ms that an object of a probe certainly reaches: sweeps leave alone what is younger."""
_passed: set[tuple[str, str]] = set()
_lock = threading.Lock()


def probe(store: Store, prefix: str, *, ids: Ids | None = None, clock: Clock | None = None) -> None:
    """Check that a second create-only put of a key is refused and leaves the first object.

    Four requests (put, put, get, delete), once for each table and process. The probe object is
    under ``{prefix}/_probe/`` and is deleted again.

    Raises:
        StoreUnsafeError: the store overwrote the object, or accepted the second put.
        StoreError: a request failed; the probe has no result then.
    """
    where = getattr(store, "where", None)
    seen = (where or f"{type(store).__name__} {id(store)}", prefix)
    with _lock:
        if seen in _passed:
            return
    clock = clock or SystemClock()
    name = (ids or SystemIds()).uuid7(clock.now_ms())
    key = TablePaths(prefix).probe(name)
    with Changes.none():
        finding = _put_twice(store, key, name, clock)
        # The result is ignored: credentials without permission to delete are enough for appends.
        list(store.delete_many([key]))
    if finding is not None:
        raise StoreUnsafeError(
            f"{seen[0]} {finding}: two transactions could both commit",
            next_step="use another store, or set `locking: pool-only` for the table and make sure "
            "that nothing but its Airflow pool ever runs two jobs at a time",
        )
    with _lock:
        _passed.add(seen)
    if where is None:
        # It is known by its id() only, which a later object may reuse.
        weakref.finalize(store, _passed.discard, seen)


def _put_twice(store: Store, key: str, name: str, clock: Clock) -> str | None:
    """Return the defect of the store, or None. Raises StoreUnavailableError: it took too long."""
    began = clock.elapsed_ms()
    first, second = f"first {name}".encode(), f"second {name}".encode()
    if create(store, key, first) is not None:
        return "holds other bytes than were put"
    try:
        store.put_new(key, second)
    except ObjectExistsError:
        if _read_back(store, key) != first:
            return "refuses a second create-only put and yet overwrites the object"
        return None
    if clock.elapsed_ms() - began > _LIVES_MS:
        raise _deleted(key)
    return "accepts a second create-only put"


def _read_back(store: Store, key: str) -> bytes:
    try:
        return store.get(key)
    except ObjectNotFoundError as error:
        raise _deleted(key) from error


def _deleted(key: str) -> StoreUnavailableError:
    """Return the error for an object that an orphan sweep took away while this process slept."""
    return StoreUnavailableError(
        f"somebody deleted {key} while it was used to probe the store",
        next_step="run it again",
    )


def forget() -> None:
    """Forget all results, so that every store is probed again (for tests)."""
    with _lock:
        _passed.clear()
