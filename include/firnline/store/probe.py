"""Refuses a store that ignores create-only puts: there, two transactions could both commit."""

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
from firnline.store.base import Store
from firnline.store.create import create

_passed: set[tuple[str, str]] = set()
_lock = threading.Lock()


def probe(store: Store, prefix: str, *, ids: Ids | None = None, clock: Clock | None = None) -> None:
    """Put one key twice; the second put must be refused and the first body must stay.

    Four requests (put, put, get, delete), once for each table and process. What it writes lies
    under ``{prefix}/_probe/`` and is deleted again.

    Raises:
        StoreUnsafeError: the store overwrote the object, or accepted the second put.
        StoreError: the store failed; nothing is known of it then.
    """
    where = getattr(store, "where", None)
    seen = (where or f"{type(store).__name__} {id(store)}", prefix)
    with _lock:
        if seen in _passed:
            return
    name = (ids or SystemIds()).uuid7((clock or SystemClock()).now_ms())
    key = TablePaths(prefix).probe(name)
    finding = _put_twice(store, key, name)
    # Credentials that may write and not delete do for appends: the answer is not asked for.
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
        # Known by its identity only, which another object may have after it.
        weakref.finalize(store, _passed.discard, seen)


def _put_twice(store: Store, key: str, name: str) -> str | None:
    """What is wrong with the store, or None."""
    first, second = f"first {name}".encode(), f"second {name}".encode()
    if create(store, key, first) is not None:
        return "holds other bytes than were put"
    try:
        store.put_new(key, second)
    except ObjectExistsError:
        if _read_back(store, key) != first:
            return "refuses a second create-only put and yet overwrites the object"
        return None
    return "accepts a second create-only put"


def _read_back(store: Store, key: str) -> bytes:
    try:
        return store.get(key)
    except ObjectNotFoundError as error:
        # An orphan sweep, if this process stood still for more than a day between two requests.
        raise StoreUnavailableError(
            f"somebody deleted {key} while it was used to probe the store",
            next_step="run it again",
        ) from error


def forget() -> None:
    """Probe every store again (for tests)."""
    with _lock:
        _passed.clear()
