"""Deletes in batches, with a result for every key.

S3 deletes 1,000 keys a request and returns a result for each, but obstore raises the first error
and drops the other results. boto3 returns all of them: a batch in which a key failed is sent once
more with a client of boto3, as deletes are idempotent. Where that client has no answer (a store may
want another checksum than it sends), the batch is halved until each failing key is alone, which is
about 20 requests for one failing key among 1,000; S3 bills none of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, islice
from typing import Any

import obstore

from firnline.errors import StoreError
from firnline.store import transfer
from firnline.store.base import Deleted
from firnline.store.failures import Failure, classify, of_key, to_error
from firnline.store.multipart import translated
from firnline.store.requests import Requests
from firnline.store.sizes import BATCH

AT_ONCE = 8
"""Concurrent batches on S3."""


def delete_many(requests: Requests, keys: Iterable[str]) -> Iterator[Deleted]:
    """Delete keys; yields one result per key, in order; a missing object counts as deleted."""
    todo = iter(keys)
    while batch := tuple(islice(todo, BATCH)):
        if requests.backend.scheme == "s3":
            yield from _batches(requests, [batch, *_more(todo)])
        else:
            yield from one_batch(requests, batch)


def one_batch(
    requests: Requests, keys: Sequence[str], *, patient: bool = True
) -> Iterator[Deleted]:
    """Delete at most 1,000 keys; yields one result per key, in order.

    Args:
        requests: to the bucket.
        keys: of the objects.
        patient: send again, within the bounds of any request, what the store refuses because it
            is asked too much; False: that is the caller's part, see ``Deleted.slow``.
    """
    if not keys:
        return iter(())
    if requests.backend.scheme == "s3":
        return _batch(requests, keys, patient=patient)
    if requests.backend.scheme == "file":
        return _files(requests, keys)
    # Google and memory have no batch delete; Azure's fails on a missing object.
    return transfer.each(keys, lambda key: _single(requests, key, patient=patient))


def _more(todo: Iterator[str]) -> Iterator[tuple[str, ...]]:
    """Yield further batches to send concurrently."""
    for _ in range(AT_ONCE - 1):
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


def _batch(requests: Requests, keys: Sequence[str], *, patient: bool = True) -> Iterator[Deleted]:
    failures: list[Failure] = []

    def delete() -> None:
        requests.count(delete=1)
        obstore.delete(requests.readable(*keys), list(keys))

    try:
        requests.run("DELETE", _named(keys), delete, failures=failures, patient=patient)
    except StoreError as error:
        last = failures[-1]
        if last.per_key and len(keys) > 1:
            yield from _answers(requests, keys, patient=patient)
        else:
            # The batch failed as a whole: the error holds for every key.
            yield from (Deleted(key, error, last.slow) for key in keys)
    else:
        yield from (Deleted(key) for key in keys)


def _named(keys: Sequence[str]) -> str:
    """Return what a request deletes, for messages."""
    return keys[0] if len(keys) == 1 else f"{len(keys)} keys from {keys[0]}"


def _answers(requests: Requests, keys: Sequence[str], *, patient: bool) -> Iterator[Deleted]:
    """Send a batch in which a key failed once more, so that every key has its own answer."""
    try:
        failed = _failed(requests, keys)
    except StoreError:
        middle = len(keys) // 2
        halves = (
            _batch(requests, half, patient=patient) for half in (keys[:middle], keys[middle:])
        )
        yield from chain.from_iterable(halves)
        return
    for key in keys:
        failure = failed.get(key)
        if failure is None:
            yield Deleted(key)
        else:
            error = to_error(failure, f"DELETE of {key}", requests.backend.where)
            yield Deleted(key, error, failure.slow)


def _failed(requests: Requests, keys: Sequence[str]) -> dict[str, Failure]:
    """Delete with the client that returns all answers; return the keys that failed.

    Raises StoreError: there was no answer. So it is if one is missing for a key.
    """
    what = f"DELETE of {_named(keys)} in {requests.backend.where}"
    with translated(what):
        client = requests.second()
        requests.count(delete=1)
        answer: dict[str, Any] = client.delete_objects(
            Bucket=requests.bucket, Delete={"Objects": [{"Key": key} for key in keys]}
        )
    failed = {row["Key"]: of_key(row.get("Code", "")) for row in answer.get("Errors", ())}
    answered = {row["Key"] for row in answer.get("Deleted", ())} | failed.keys()
    for key in keys:
        if key not in answered:
            failed[key] = Failure("other", "the store gave no answer for it", per_key=True)
    return failed


def _single(requests: Requests, key: str, *, patient: bool = True) -> Deleted:
    failures: list[Failure] = []

    def delete() -> None:
        requests.count(delete=1)
        try:
            obstore.delete(requests.readable(key), key)
        except FileNotFoundError as error:
            if classify(error).kind != "not-found":
                raise  # the bucket is missing

    try:
        requests.run("DELETE", key, delete, failures=failures, patient=patient)
    except StoreError as error:
        return Deleted(key, error, bool(failures) and failures[-1].slow)
    return Deleted(key)
