"""Objects with two slashes in their keys, which obstore cannot name."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError

from firnline.errors import StoreAccessError
from firnline.store import multipart
from firnline.store.access import StoreAccess
from firnline.store.base import Counters
from firnline.store.failures import classify, to_error
from firnline.store.slashes import InStore, Slashes, open_slashes
from tests.support.world import MemoryStore, SetClock

ACCESS = StoreAccess(access_key="a", secret_key="s", endpoint="http://127.0.0.1:1")


class Client:
    """A client of boto3 for one bucket."""

    def __init__(self, *keys: str, refuses: str = "") -> None:
        self.keys, self.refuses = set(keys), refuses

    def copy(self, source: dict[str, str], bucket: str, key: str) -> None:
        assert (source["Bucket"], bucket) == ("b", "b")
        if self.refuses:
            raise _answer(self.refuses, 403)
        if source["Key"] not in self.keys:
            raise _answer("404", 404)
        self.keys.add(key)

    def delete_object(self, *, Bucket: str, Key: str) -> None:  # noqa: N803 - names of boto3
        assert Bucket == "b"
        self.keys.discard(Key)


def _answer(code: str, status: int) -> ClientError:
    said: Any = {"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return ClientError(said, "CopyObject")


def opened(client: Client, monkeypatch: pytest.MonkeyPatch) -> Slashes:
    monkeypatch.setattr(multipart, "s3_client", lambda *_: client)
    found = open_slashes("s3://b/t", ACCESS, MemoryStore(SetClock()))
    assert isinstance(found, Slashes)
    return found


def test_an_object_is_copied_and_then_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    client = Client("t/_data//x")
    assert opened(client, monkeypatch).move("t/_data//x", "t/_data/x")
    assert client.keys == {"t/_data/x"}


def test_what_is_not_there_is_not_moved(monkeypatch: pytest.MonkeyPatch) -> None:
    client = Client()
    assert not opened(client, monkeypatch).move("t/_data//x", "t/_data/x")
    assert client.keys == set()


def test_what_the_store_refuses_is_an_error_and_nothing_is_deleted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    client = Client("t/_data//x", refuses="AccessDenied")
    with pytest.raises(StoreAccessError, match="copying t/_data//x"):
        opened(client, monkeypatch).move("t/_data//x", "t/_data/x")
    assert client.keys == {"t/_data//x"}


def test_requests_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(multipart, "s3_client", lambda *_: Client("t/_data//x"))
    store = MemoryStore(SetClock())
    found = open_slashes("s3://b/t", ACCESS, store)
    assert found is not None
    found.move("t/_data//x", "t/_data/x")
    assert store.counters == Counters(put=1, delete=1)


def test_a_folder_has_no_such_keys_and_other_stores_move_by_themselves() -> None:
    store = MemoryStore(SetClock())
    assert open_slashes("file:///data/t", None, store) is None
    found = open_slashes("memory://b/t", None, store)
    assert isinstance(found, InStore)
    store.objects["t/_data//x"] = (b"rows", 1)
    assert found.move("t/_data//x", "t/_data/x")
    assert not found.move("t/_data//x", "t/_data/x")
    assert list(store.objects) == ["t/_data/x"]


def test_a_listing_that_fails_because_of_such_a_key_names_the_way_out() -> None:
    said = ValueError(
        'Encountered object with invalid path: Path "t/_data//x" contained empty path segment'
    )
    error = to_error(classify(said), "LIST of t/_data/", "s3://b")
    assert "firnline relocate" in error.next_step
