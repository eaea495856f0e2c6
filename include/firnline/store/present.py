"""Ask for an object that may not be there."""

from __future__ import annotations

from firnline.errors import ObjectNotFoundError
from firnline.store.base import ObjectMeta, Store


def head_or_none(store: Store, key: str) -> ObjectMeta | None:
    """Return what a HEAD says of an object; None if it is not there. Raises StoreError."""
    try:
        return store.head(key)
    except ObjectNotFoundError:
        return None
