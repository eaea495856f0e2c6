"""The store's own clock, by which the last-modified times of its objects are."""

from __future__ import annotations

from firnline.store.base import Changes, Store


def store_now_ms(store: Store, key: str) -> int:
    """Return the store's time, unix milliseconds; some stores state whole seconds, rounded down.

    Requests: 1 PUT of a small object, 1 HEAD and 1 DELETE.

    Args:
        store: the store.
        key: of the object, which does not exist and does not stay.

    Raises StoreError: there was no clear answer.
    """
    with Changes.none():
        store.put_new(key, b"what time is it")
        now = store.head(key).modified_ms
        for answer in store.delete_many([key]):
            if answer.error is not None:
                raise answer.error
    return now
