"""Batch deletes with a result for every key.

S3 deletes 1,000 keys a request and returns a result for each, but obstore raises the first error
and drops the other results. boto3 returns all of them, but would be a second client with its own
configuration of endpoint, credentials and timeouts, for a rare case. So a batch in which a key
failed is halved until each failing key is alone: deletes are idempotent, and one failing key among
1,000 costs about 20 more requests, none of which S3 bills.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice

import obstore

from firnline.errors import StoreError
from firnline.store import transfer
from firnline.store.base import Deleted
from firnline.store.failures import Failure, classify
from firnline.store.requests import Requests

BATCH = 1_000
"""Keys of one DeleteObjects request, the limit of S3."""
CONCURRENCY = 8
"""Concurrent batches. A caller that limits the request rate passes fewer keys a call."""


def delete_many(requests: Requests, keys: Iterable[str]) -> Iterator[Deleted]:
    """Delete keys; yields one result per key, in order; a missing object counts as deleted."""
    todo = iter(keys)
    while batch := tuple(islice(todo, BATCH)):
        if requests.backend.scheme == "s3":
            yield from _batches(requests, [batch, *_more(todo)])
        elif requests.backend.scheme == "file":
            yield from _files(requests, batch)
        else:
            # Google and memory have no batch delete; Azure's fails on a missing object.
            yield from transfer.each(batch, lambda key: _single(requests, key))


def _more(todo: Iterator[str]) -> Iterator[tuple[str, ...]]:
    """Yield further batches to send concurrently."""
    for _ in range(CONCURRENCY - 1):
        if batch := tuple(islice(todo, BATCH)):
            yield batch


def _batches(requests: Requests, batches: Sequence[tuple[str, ...]]) -> Iterator[Deleted]:
    if len(batches) == 1:
        yield from _batch(requests, batches[0])
        return
    with ThreadPoolExecutor(len(batches), thread_name_prefix="firnline-delete") as pool:
        for answers in pool.map(lambda batch: list(_batch(requests, batch)), batches):
            yield from answers


def _files(requests: Requests, keys: Sequence[str]) -> Iterator[Deleted]:
    """Delete local files in one call: one by one they take three times as long."""

    def delete() -> None:
        obstore.delete(requests.readable(*keys), list(keys))
        requests.count(delete=len(keys))

    try:
        requests.run("DELETE", f"{len(keys)} files from {keys[0]}", delete, attempts=1)
    except StoreError:
        # One of them is missing or cannot be deleted, and the error does not say which.
        yield from transfer.each(keys, lambda key: _single(requests, key))
    else:
        yield from (Deleted(key) for key in keys)


def _batch(requests: Requests, keys: Sequence[str]) -> Iterator[Deleted]:
    failures: list[Failure] = []

    def delete() -> None:
        requests.count(delete=1)
        obstore.delete(requests.readable(*keys), list(keys))

    name = keys[0] if len(keys) == 1 else f"{len(keys)} keys from {keys[0]}"
    try:
        requests.run("DELETE", name, delete, failures=failures)
    except StoreError as error:
        if failures[-1].per_key and len(keys) > 1:
            middle = len(keys) // 2
            yield from _batch(requests, keys[:middle])
            yield from _batch(requests, keys[middle:])
        else:
            # The batch failed as a whole: the error holds for every key.
            yield from (Deleted(key, error) for key in keys)
    else:
        yield from (Deleted(key) for key in keys)


def _single(requests: Requests, key: str) -> Deleted:
    def delete() -> None:
        requests.count(delete=1)
        try:
            obstore.delete(requests.readable(key), key)
        except FileNotFoundError as error:
            if classify(error).kind != "not-found":
                raise  # the bucket is missing

    try:
        requests.run("DELETE", key, delete)
    except StoreError as error:
        return Deleted(key, error)
    return Deleted(key)
