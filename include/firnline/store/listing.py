"""List objects in key order, in pages of 1,000; after a failure it resumes at the last key."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import obstore

from firnline.errors import StoreError
from firnline.store.base import ObjectMeta
from firnline.store.requests import LIBRARY_ERRORS, Requests

if TYPE_CHECKING:
    from obstore import ListStream
    from obstore import ObjectMeta as Row

PAGE = 1_000
"""Keys of a LIST page, the limit of S3."""
UNSORTED = {"file", "memory"}
"""Stores whose listings are not sorted."""


def to_meta(row: Row) -> ObjectMeta:
    """Convert an obstore row."""
    return ObjectMeta(row["path"], row["size"], round(row["last_modified"].timestamp() * 1000))


def in_order(requests: Requests, prefix: str, start_after: str | None) -> Iterator[ObjectMeta]:
    """Yield the objects under ``prefix``, sorted by key; none when it does not exist.

    Raises:
        StoreError: a request failed, or the listing of the store is not sorted.
    """
    if requests.backend.scheme in UNSORTED:
        # Their listings are not sorted, and are local anyway.
        yield from sorted(_objects(requests, prefix, start_after), key=lambda meta: meta.key)
        return
    last = start_after
    for meta in _objects(requests, prefix, start_after):
        if last is not None and meta.key <= last:
            raise StoreError(
                f"{requests.backend.where} lists {meta.key} after {last}, which is out of order",
                next_step="use a general purpose bucket; a directory bucket does not sort",
            )
        last = meta.key
        yield meta


def _objects(requests: Requests, prefix: str, start_after: str | None) -> Iterator[ObjectMeta]:
    if not requests.folder_exists():
        requests.count(list=1)
        return
    after, first = start_after, True
    # An unsorted listing cannot be resumed after a key.
    attempts = 1 if requests.backend.scheme in UNSORTED else None
    stream: ListStream[Sequence[Row]] | None = None

    def page() -> tuple[ObjectMeta, ...]:
        nonlocal stream
        try:
            if stream is None:
                store, folder = requests.listable(prefix), prefix.rstrip("/")
                stream = obstore.list(store, folder, offset=after, chunk_size=PAGE)
            rows = next(stream, ())
        except LIBRARY_ERRORS:
            requests.count(list=1)
            stream = None  # the next attempt begins after the last key of the previous page
            raise
        if rows or first:
            requests.count(list=1)
        return tuple(to_meta(row) for row in rows)

    while True:
        rows = requests.run("LIST", prefix, page, attempts=attempts)
        yield from rows
        # obstore fills its chunks across pages, so a short one is the last.
        if len(rows) < PAGE:
            return
        after, first = rows[-1].key, False
