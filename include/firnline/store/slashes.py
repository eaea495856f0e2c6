"""Move objects whose keys have an empty segment (two slashes), which obstore cannot name.

S3 keeps such a key as it is. A client of log version 1 makes them (``TablePaths.part_key``). boto3
names them, and is imported lazily.
"""

from __future__ import annotations

from firnline.errors import ObjectNotFoundError
from firnline.paths import Root
from firnline.store.access import StoreAccess
from firnline.store.base import Counters, Store
from firnline.store.multipart import open_bucket, translated


class Slashes:
    """The objects of one bucket on S3."""

    def __init__(self, root: Root, access: StoreAccess, counters: Counters) -> None:
        self._bucket, self._counters = root.bucket, counters
        self._where, self._client = open_bucket(root, access)

    def move(self, source: str, key: str) -> bool:
        """Copy an object within the store and delete it; return False if it is not there.

        Raises StoreError: a request failed. What was copied before stays; run it again.
        """
        from botocore.exceptions import ClientError

        place = {"Bucket": self._bucket, "Key": source}
        self._counters.add({"put": 1})
        with translated(f"copying {source} in {self._where}"):
            try:
                self._client.copy(place, self._bucket, key)
            except ClientError as error:
                if error.response.get("Error", {}).get("Code") in {"404", "NoSuchKey"}:
                    return False
                raise
        self._counters.add({"delete": 1})
        with translated(f"deleting {source} in {self._where}"):
            self._client.delete_object(**place)
        return True


class InStore:
    """The objects of a store that names every key."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def move(self, source: str, key: str) -> bool:
        """Copy an object within the store and delete it; return False if it is not there.

        Raises StoreError.
        """
        try:
            self._store.copy(source, key)
        except ObjectNotFoundError:
            return False
        for answer in self._store.delete_many([source]):
            if answer.error is not None:
                raise answer.error
        return True


def open_slashes(root: str, access: StoreAccess | None, store: Store) -> Slashes | InStore | None:
    """Return what moves objects of a table's store; None for a folder, which has no such keys.

    Raises StoreAccessError: no credentials.
    """
    parsed = Root.parse(root)
    if parsed.scheme == "file":
        return None
    if parsed.scheme != "s3":
        return InStore(store)
    resolved = StoreAccess.from_env() if access is None else access
    return Slashes(parsed, resolved, store.counters)
