"""Objects of a local folder are read as files, and what is unusual by obstore: nothing differs."""

from __future__ import annotations

import stat
from pathlib import Path

import obstore
import pytest

from firnline.errors import StoreError
from firnline.store.client import ObjectClient, open_store
from firnline.store.folder import is_usual, read_file

CONTENT = b"0123456789"
RANGES = [(0, 5), (8, 5), (10, 5), (20, 5), (3, 4), (0, 10)]
KEYS = [
    "t/a",
    "t/empty",
    "t/d=1/a b.parquet",
    "t/folder",
    "t/none",
    "t/a/below",
    "t/" + "x" * 300,
    "t/locked",
    "t/odd#1",
    "t/100%20",
    "t/ümlaut",
    "t//a",
    "t/../t/a",
    "t/./a",
    "t/.hidden",
    "t/a/",
    "/t/a",
]


@pytest.fixture
def store(tmp_path: Path) -> ObjectClient:
    for name in ("a", "d=1/a b.parquet", "odd#1", "100%20", "ümlaut", ".hidden", "locked"):
        path = tmp_path / "t" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(CONTENT)
    (tmp_path / "t/folder").mkdir()
    (tmp_path / "t/empty").touch()
    (tmp_path / "t/locked").chmod(0)
    return open_store(f"file://{tmp_path}/t")


def outcome(store: ObjectClient, key: str, span: tuple[int, int] | None) -> object:
    before = store.counters.as_dict()
    try:
        found: object = store.get(key) if span is None else store.get_range(key, *span)
    except StoreError as error:
        found = type(error), str(error)
    after = store.counters.as_dict()
    return found, {name: after[name] - before[name] for name in after}


@pytest.mark.parametrize("span", [None, *RANGES])
@pytest.mark.parametrize("key", KEYS)
def test_a_file_is_read_as_obstore_reads_it(
    key: str, span: tuple[int, int] | None, store: ObjectClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = outcome(store, key, span)
    monkeypatch.setattr("firnline.store.folder.is_usual", lambda _: False)
    assert outcome(store, key, span) == found


def test_a_usual_file_is_read_without_obstore(
    store: ObjectClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(obstore, "get", lambda *_, **__: pytest.fail("obstore was asked"))
    assert store.get("t/a") == CONTENT
    assert store.get_range("t/d=1/a b.parquet", 8, 5) == b"89"
    assert store.counters.as_dict()["get"] == 2
    assert store.counters.as_dict()["bytes_in"] == 12


@pytest.mark.long
@pytest.mark.parametrize(
    "key", ["", "a//b", "/a", "a/", "..", "a/..", "a/./b", "a#1", "a%2F", "a\nb", "ä", "a\\b"]
)
def test_a_key_that_may_be_another_path_is_left_to_obstore(key: str) -> None:
    assert not is_usual(key)


def test_what_is_no_file_of_this_user_has_no_bytes(tmp_path: Path) -> None:
    assert read_file(str(tmp_path)) is None
    assert read_file(str(tmp_path / "none")) is None
    path = tmp_path / "a"
    path.write_bytes(CONTENT)
    assert read_file(str(path)) == CONTENT
    path.chmod(stat.S_IWUSR)
    assert read_file(str(path)) in (None, CONTENT)  # root reads it all the same
