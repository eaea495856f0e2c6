from __future__ import annotations

import asyncio
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from firnline.errors import (
    EnvironmentFaultError,
    ObjectNotFoundError,
    StoreAccessError,
    StoreError,
    UsageError,
)
from firnline.store import client, deletes, transfer
from firnline.store.client import ObjectClient, open_store
from firnline.store.connect import forget_memory
from tests.support.store_contract import StoreContract


class SmallPages(StoreContract):
    """Which are as long as they are because of S3."""

    page = 100

    @pytest.fixture(autouse=True)
    def _pages(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(client, "PAGE", self.page)
        monkeypatch.setattr(deletes, "BATCH", self.page)


class TestFolder(SmallPages):
    @pytest.fixture
    def store(self, tmp_path: Path) -> ObjectClient:
        return open_store(f"file://{tmp_path}/lake/table")

    @pytest.fixture
    def prefix(self) -> str:
        return "table"


class TestMemory(SmallPages):
    @pytest.fixture
    def store(self) -> Iterator[ObjectClient]:
        yield open_store("memory://contract/table")
        forget_memory("contract")

    @pytest.fixture
    def prefix(self) -> str:
        return "table"


def test_a_folder_that_is_not_there_reads_as_empty_and_is_made_by_a_write(tmp_path: Path) -> None:
    store = open_store(f"file://{tmp_path}/not/yet/table")
    assert list(store.list("table/_log/")) == []
    with pytest.raises(ObjectNotFoundError):
        store.get("table/_log/a")
    assert next(store.delete_many(["table/a"])).error is None
    assert not (tmp_path / "not").exists()
    other = open_store(f"file://{tmp_path}/not/yet/table")
    other.put_new("table/_log/a", b"1")
    assert [meta.key for meta in store.list("table/_log/")] == ["table/_log/a"]
    assert (tmp_path / "not/yet/table/_log/a").read_bytes() == b"1"


@pytest.mark.long
def test_a_listing_stays_whole_while_others_write_and_delete(tmp_path: Path) -> None:
    store = open_store(f"file://{tmp_path}/t")
    kept = [f"t/l/{number:04d}" for number in range(200)]
    for key in kept:
        store.put_new(key, b"x")
    stop = threading.Event()

    def churn(name: str) -> None:
        while not stop.is_set():
            store.put_new(f"t/l/{name}/below/x", b"y")
            assert next(store.delete_many([f"t/l/{name}/below/x"])).error is None
            (tmp_path / f"t/l/{name}/below").rmdir()

    with ThreadPoolExecutor(2) as pool:
        busy = [pool.submit(churn, name) for name in ("a", "b")]
        try:
            for _ in range(100):
                listed = [meta.key for meta in store.list("t/l/")]
                assert [key for key in listed if "below" not in key] == kept
        finally:
            stop.set()
        assert [task.result() for task in busy] == [None, None]


def test_names_in_memory_are_shared_within_the_process() -> None:
    open_store("memory://shared/t").put_new("t/a", b"1")
    assert open_store("memory://shared/t").get("t/a") == b"1"
    assert list(open_store("memory://other/t").list("t/")) == []
    forget_memory("shared")
    assert list(open_store("memory://shared/t").list("t/")) == []


def test_reading_many_works_inside_a_running_event_loop(tmp_path: Path) -> None:
    store = open_store(f"file://{tmp_path}/t")
    keys = [f"t/{number}" for number in range(50)]
    for key in keys:
        store.put_new(key, b"x")

    async def inside() -> int:
        return len(list(store.get_many(keys)))

    assert asyncio.run(inside()) == 50


@pytest.mark.parametrize("stated", [True, False])
def test_of_large_objects_few_are_read_ahead(stated: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfer, "BYTES_AHEAD", 50)
    store = open_store("memory://read-ahead/t")
    sizes = {f"t/{number:02}": 10 for number in range(40)}
    for key in sizes:
        store.put_new(key, b"x" * 10)
    results = store.get_many(sizes if stated else list(sizes))
    for taken in range(1, 20):
        assert next(results) == (f"t/{taken - 1:02}", b"x" * 10)
        # Five are held besides the one that is taken; of unknown sizes eight at first.
        assert taken <= store.counters.get <= taken + (5 if stated or taken > 3 else 8)
    assert len(list(results)) == 21
    forget_memory("read-ahead")


def test_a_folder_without_permission_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("no folder")
    store = open_store(f"file://{tmp_path}/file/below/table")
    with pytest.raises(StoreError, match=f"{tmp_path}/file") as raised:
        store.put_new("table/a", b"")
    assert "\n" not in str(raised.value)


def test_a_read_only_folder_is_an_access_error(tmp_path: Path) -> None:
    folder = tmp_path / "lake"
    folder.mkdir()
    folder.chmod(stat.S_IRUSR | stat.S_IXUSR)
    try:
        (folder / "probe").touch()
    except OSError:
        with pytest.raises(StoreAccessError, match="permission denied; let this user read and"):
            open_store(f"file://{folder}/t").put_new("t/a", b"")
    else:
        # Root writes anywhere; what it cannot write to answers another error of the same class.
        with pytest.raises(StoreError):
            open_store("file:///proc/none/t").put_new("t/a", b"")
    finally:
        folder.chmod(stat.S_IRWXU)


@pytest.mark.parametrize("root", ["s3:/x", "ftp://a/b", "x", ""])
def test_what_is_no_root_is_refused(root: str) -> None:
    with pytest.raises(UsageError):
        open_store(root)


def test_azure_without_an_account_is_an_access_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_NAME", raising=False)
    with pytest.raises(StoreAccessError, match="Account must be specified") as raised:
        open_store("az://container/t")
    assert not isinstance(raised.value, EnvironmentFaultError)


def test_no_aws_credentials_anywhere_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with pytest.raises(StoreAccessError, match="no AWS credentials for s3://bucket"):
        open_store("s3://bucket/t")
    monkeypatch.setenv("AWS_PROFILE", "none")
    with pytest.raises(StoreAccessError, match="profile"):
        open_store("s3://bucket/t")


def test_a_store_shows_where_it_is_and_no_more(tmp_path: Path) -> None:
    assert repr(open_store(f"file://{tmp_path}/t")) == f"<store file://{tmp_path}>"


@pytest.mark.long
def test_a_forked_process_is_told_instead_of_hanging(tmp_path: Path) -> None:
    code = f"""
import os, signal
from firnline.errors import StoreError
from firnline.store import client
from firnline.store.client import open_store
open_store("file://{tmp_path}/t").put_new("t/a", b"1")
if os.fork() == 0:
    signal.alarm(600)
    try:
        open_store("file://{tmp_path}/t").get("t/a")
    except StoreError as error:
        print(error, flush=True)
    os._exit(0)
os.wait()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "was forked from one that had used a store" in done.stdout


def test_a_process_forked_before_the_first_request_works(tmp_path: Path) -> None:
    code = f"""
import os, signal
from firnline.store import client
from firnline.store.client import open_store
if os.fork() == 0:
    signal.alarm(600)
    open_store("file://{tmp_path}/t").put_new("t/a", b"1")
    os._exit(0)
os.wait()
print(open_store("file://{tmp_path}/t").get("t/a"))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "b'1'"
