"""Batch deletes with an answer for every key.

S3 deletes 1,000 keys a request and answers for each, but obstore raises the first error and keeps
the other answers to itself. boto3 gives them all; it would be a second client with its own idea of
endpoint, credentials and time-outs, for something that hardly ever happens. So a batch in which a
key failed is halved until each failing key stands alone: deletes are idempotent, and one bad key
among 1,000 costs about 20 more requests, none of which S3 bills.
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
"""Keys of one DeleteObjects request, as S3 bounds it."""
CONCURRENCY = 8
"""Batches under way at once. A caller that minds the store's rate asks for fewer keys a call."""


def delete_many(requests: Requests, keys: Iterable[str]) -> Iterator[Deleted]:
    """Delete; one answer per key, in order; an object that is not there counts as gone."""
    todo = iter(keys)
    while batch := tuple(islice(todo, BATCH)):
        if requests.backend.scheme == "s3":
            yield from _batches(requests, [batch, *_more(todo)])
        elif requests.backend.scheme == "file":
            yield from _files(requests, batch)
        else:
            # Google and memory know no batch; Azure's fails on a missing object.
            yield from transfer.each(batch, lambda key: _single(requests, key))


def _more(todo: Iterator[str]) -> Iterator[tuple[str, ...]]:
    """Further batches to send at the same time."""
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
    """Local files in one call: one by one they take three times as long."""

    def delete() -> None:
        obstore.delete(requests.readable(*keys), list(keys))
        requests.count(delete=len(keys))

    try:
        requests.run("DELETE", f"{len(keys)} files from {keys[0]}", delete, attempts=1)
    except StoreError:
        # One of them is not there or cannot be deleted, and nobody says which.
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
            # Refused or lost as a whole: it holds for every key.
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
                raise  # the bucket is not there

    try:
        requests.run("DELETE", key, delete)
    except StoreError as error:
        return Deleted(key, error)
    return Deleted(key)
