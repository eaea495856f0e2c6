"""A ``file://`` store has no symbolic links in it: they are refused, not followed, not skipped."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from firnline.errors import StoreAccessError
from firnline.store.client import ObjectClient, open_store


@pytest.fixture
def store(tmp_path: Path) -> ObjectClient:
    store = open_store(f"file://{tmp_path}/lake/t")
    store.put_new("t/_data/d=1/a", b"inside")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/b").write_bytes(b"outside")
    return store


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "lake/t/_data"


def test_a_listing_refuses_a_linked_folder_and_names_it(
    store: ObjectClient, data: Path, tmp_path: Path
) -> None:
    (data / "d=2").symlink_to(tmp_path / "outside")
    with pytest.raises(StoreAccessError, match=r"_data/d=2 is a symbolic link"):
        list(store.list("t/_data/"))


def test_a_listing_refuses_a_linked_file(store: ObjectClient, data: Path, tmp_path: Path) -> None:
    (data / "d=1/b").symlink_to(tmp_path / "outside/b")
    with pytest.raises(StoreAccessError, match=r"d=1/b is a symbolic link"):
        list(store.list("t/_data/"))


def test_a_link_to_nowhere_is_refused_too_since_its_folder_would_look_empty(
    store: ObjectClient, data: Path, tmp_path: Path
) -> None:
    (data.parent / "_log").symlink_to(tmp_path / "not mounted")
    with pytest.raises(StoreAccessError, match="_log is a symbolic link"):
        list(store.list("t/_log/"))


def test_a_loop_of_links_is_refused_as_any_link(store: ObjectClient, data: Path) -> None:
    (data / "d=1/up").symlink_to(data)
    with pytest.raises(StoreAccessError, match="symbolic link"):
        list(store.list("t/_data/"))


def _into(store: ObjectClient, path: Path) -> None:
    with path.open("wb") as file:
        store.get_range_into("t/_data/d=2/b", 0, 3, file)


REQUESTS: dict[str, Callable[[ObjectClient, Path], object]] = {
    "get": lambda store, _: store.get("t/_data/d=2/b"),
    "range": lambda store, _: store.get_range("t/_data/d=2/b", 0, 3),
    "range into": lambda store, there: _into(store, there / "copy"),
    "get_file": lambda store, there: store.get_file("t/_data/d=2/b", there / "copy"),
    "get_many": lambda store, _: list(store.get_many(["t/_data/d=2/b"])),
    "get_heads": lambda store, _: list(store.get_heads(["t/_data/d=2/b"], 3)),
    "head": lambda store, _: store.head("t/_data/d=2/b"),
    "put_new": lambda store, _: store.put_new("t/_data/d=2/new", b"x"),
    "put_file": lambda store, there: store.put_file("t/_data/d=2/new", there / "outside/b"),
    "copy from": lambda store, _: store.copy("t/_data/d=2/b", "t/_data/d=1/new"),
    "copy to": lambda store, _: store.copy("t/_data/d=1/a", "t/_data/d=2/new"),
}


@pytest.mark.parametrize("name", REQUESTS)
def test_no_request_goes_through_a_linked_folder(
    name: str, store: ObjectClient, data: Path, tmp_path: Path
) -> None:
    (data / "d=2").symlink_to(tmp_path / "outside")
    with pytest.raises(StoreAccessError, match=r"d=2 is a symbolic link"):
        REQUESTS[name](store, tmp_path)
    assert [path.name for path in (tmp_path / "outside").iterdir()] == ["b"]
    assert [path.name for path in (data / "d=1").iterdir()] == ["a"]


def test_a_delete_leaves_what_lies_behind_a_link_and_does_the_rest(
    store: ObjectClient, data: Path, tmp_path: Path
) -> None:
    (data / "d=2").symlink_to(tmp_path / "outside")
    (data / "d=1/b").symlink_to(tmp_path / "outside/b")
    keys = ["t/_data/d=2/b", "t/_data/d=1/a", "t/_data/d=1/b"]
    answers = {answer.key: answer.error for answer in store.delete_many(keys)}
    assert answers["t/_data/d=1/a"] is None
    assert "symbolic link" in str(answers["t/_data/d=2/b"])
    assert "symbolic link" in str(answers["t/_data/d=1/b"])
    assert (tmp_path / "outside/b").read_bytes() == b"outside"
    assert (data / "d=1/b").is_symlink()
    assert not (data / "d=1/a").exists()


def test_the_tables_own_folder_may_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "lake").mkdir()
    (tmp_path / "lake/t").symlink_to(tmp_path / "disk")
    (tmp_path / "way").symlink_to(tmp_path / "lake")
    store = open_store(f"file://{tmp_path}/way/t")
    store.put_new("t/_data/a", b"x")
    assert [meta.key for meta in store.list("t/_data/")] == ["t/_data/a"]
    assert store.get("t/_data/a") == b"x"
    assert next(store.delete_many(["t/_data/a"])).error is None
    assert (tmp_path / "disk/_data").is_dir()
