"""Folders one level deep: of a local disk, and of keys that obstore cannot name."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import obstore
import pytest
from botocore.exceptions import ClientError
from obstore.exceptions import InvalidPathError

from firnline.errors import LinkRefusedError, StoreAccessError, StoreError
from firnline.store import multipart
from firnline.store.access import StoreAccess
from firnline.store.client import ObjectClient, open_store
from firnline.store.requests import RetryPolicy
from tests.support.world import SetClock

ACCESS = StoreAccess(access_key="a", secret_key="s", endpoint="http://127.0.0.1:1")


def folders(store: ObjectClient, prefix: str = "lake/") -> list[str]:
    return [each.removeprefix(prefix) for each in store.list_folders(prefix)]


# --- a local disk ---------------------------------------------------------------------------------


@pytest.fixture
def local(tmp_path: Path) -> ObjectClient:
    return open_store(f"file://{tmp_path}/lake")


def test_a_folder_without_any_file_is_none(local: ObjectClient, tmp_path: Path) -> None:
    (tmp_path / "lake/empty/_log/more").mkdir(parents=True)
    (tmp_path / "lake/deep/a/b").mkdir(parents=True)
    (tmp_path / "lake/deep/a/b/file").write_text("x")
    (tmp_path / "lake/file").write_text("x")
    assert folders(local) == ["deep/"]
    assert folders(local, "lake/deep/") == ["a/"]
    assert local.counters.list == 2


def test_a_place_that_is_not_there_or_is_a_file_has_none(
    local: ObjectClient, tmp_path: Path
) -> None:
    assert folders(local) == []
    (tmp_path / "lake").write_text("x")
    assert folders(local) == []


def test_links_to_folders_are_folders_that_are_not_listed(
    local: ObjectClient, tmp_path: Path
) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "lake").mkdir()
    (tmp_path / "lake/link").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "lake/self").symlink_to(tmp_path / "lake")
    (tmp_path / "lake/dangling").symlink_to(tmp_path / "none")
    assert folders(local) == ["link/", "self/"]
    assert local.counters.list == 1
    for below in ("lake/link/", "lake/self/", "lake/self/self/"):
        with pytest.raises(LinkRefusedError, match="is a symbolic link"):
            folders(local, below)
    assert local.counters.list == 1


def test_the_place_itself_may_be_a_link(local: ObjectClient, tmp_path: Path) -> None:
    (tmp_path / "elsewhere/deep").mkdir(parents=True)
    (tmp_path / "elsewhere/deep/file").write_text("x")
    (tmp_path / "lake").symlink_to(tmp_path / "elsewhere")
    assert folders(local) == ["deep/"]


def test_a_name_that_is_no_text_is_left_out(local: ObjectClient, tmp_path: Path) -> None:
    bad = os.fsencode(tmp_path) + b"/lake/\xff"
    os.makedirs(bad)  # noqa: PTH103 - no Path has bytes
    Path(os.fsdecode(bad + b"/x")).write_text("x")
    assert folders(local) == []


def test_a_folder_that_nobody_may_look_into_is_one_and_listing_it_fails(
    local: ObjectClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed, look = tmp_path / "lake/closed", os.scandir
    closed.mkdir(parents=True)

    def scandir(path: str) -> Any:
        if closed.samefile(path):  # the tests may run as root, to whom every folder is open
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return look(path)

    with monkeypatch.context() as patch:  # pytest needs it, too, to take the folder away
        patch.setattr("os.scandir", scandir)
        assert folders(local) == ["closed/"]
        with pytest.raises(StoreError):
            folders(local, "lake/closed/")


# --- keys that obstore cannot name ----------------------------------------------------------------


class Client:
    """A client of boto3 that lists two pages, or fails."""

    def __init__(self, *pages: list[str]) -> None:
        self.pages, self.asked = pages, list[dict[str, str]]()

    def list_objects_v2(self, **request: str) -> dict[str, Any]:
        self.asked.append(request)
        if not self.pages:
            said: Any = {
                "Error": {"Code": "AccessDenied"},
                "ResponseMetadata": {"HTTPStatusCode": 403},
            }
            raise ClientError(said, "ListObjectsV2")
        number = int(request.get("ContinuationToken", "0"))
        last = number == len(self.pages) - 1
        more = {} if last else {"IsTruncated": True, "NextContinuationToken": str(number + 1)}
        return {"CommonPrefixes": [{"Prefix": p} for p in self.pages[number]], **more}


def s3(client: Client, monkeypatch: pytest.MonkeyPatch) -> ObjectClient:
    def refuse(*_: object) -> None:
        raise InvalidPathError('Path "lake//" contained empty path segment')

    monkeypatch.setattr(obstore, "list_with_delimiter", refuse)
    monkeypatch.setattr(multipart, "s3_client", lambda *_: client)
    return open_store("s3://bucket/lake", ACCESS, SetClock(), RetryPolicy(attempts=1))


def test_folders_that_obstore_refuses_are_listed_without_those_that_no_root_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    client = Client(["lake//", "lake/b/", "lake/a b/"], ["lake/%2F/", "lake/../", "lake/./"])
    store = s3(client, monkeypatch)
    assert folders(store) == ["%2F/", "a b/", "b/"]
    assert store.counters.list == 3
    assert client.asked == [
        {"Bucket": "bucket", "Prefix": "lake/", "Delimiter": "/"},
        {"Bucket": "bucket", "Prefix": "lake/", "Delimiter": "/", "ContinuationToken": "1"},
    ]


def test_what_the_store_refuses_is_one_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(StoreAccessError, match="LIST of lake/"):
        folders(s3(Client(), monkeypatch))


def test_a_store_without_such_a_client_says_what_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store("memory://folders")

    def refuse(*_: object) -> None:
        raise InvalidPathError('Path "lake//" contained empty path segment')

    monkeypatch.setattr(obstore, "list_with_delimiter", refuse)
    with pytest.raises(StoreError, match="an empty segment in its key"):
        folders(store)
