"""LIST: pages of 1,000 in the order of the keys, resumed behind the last key after a failure."""

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
"""Keys of one LIST answer, as S3 bounds it."""
UNSORTED = {"file", "memory"}
"""Stores that list in no order."""


def to_meta(row: Row) -> ObjectMeta:
    """Our row for a row of obstore."""
    return ObjectMeta(row["path"], row["size"], round(row["last_modified"].timestamp() * 1000))


def in_order(requests: Requests, prefix: str, start_after: str | None) -> Iterator[ObjectMeta]:
    """Objects under ``prefix``, sorted by key; a prefix that does not exist is empty.

    Raises:
        StoreError: also when the store itself does not sort.
    """
    if requests.backend.scheme in UNSORTED:
        # They list in no order, and everything is at hand anyway.
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
    # What lists in no order cannot be resumed behind a key.
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
            stream = None  # the next attempt begins behind the last key that was seen
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
