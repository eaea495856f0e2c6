"""What every kind of store promises; a test class per kind inherits from it.

The class that inherits has two fixtures: ``store``, and ``prefix`` (an empty key prefix).
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from firnline.errors import ObjectExistsError, ObjectNotFoundError, StoreError
from firnline.store.client import ObjectClient
from firnline.store.create import create
from firnline.store.probe import probe
from firnline.store.sizes import PART_BYTES

KEYS = [
    "plain",
    "ts_month=2013-01/a.parquet",
    "two words/ü/日本",
    "percent%2Fslash/%25/%",
    "plus+and&and?and#and~",
    "d=__null__/x",
    "-minus", "0dash-a", "0dash/a", "0dash0a",
    "Upper", "upper",
]  # fmt: skip


def fill(store: ObjectClient, keys: list[str]) -> None:
    """Objects that hold their own keys."""
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda key: store.put_new(key, key.encode()), keys))


class StoreContract:
    """See the module."""

    page = 1_000
    """Objects of a page of a listing, and of a batch that is deleted."""

    def test_what_was_put_is_got(self, store: ObjectClient, prefix: str) -> None:
        store.put_new(f"{prefix}/_log/a", b"one")
        assert store.get(f"{prefix}/_log/a") == b"one"
        meta = store.head(f"{prefix}/_log/a")
        assert (meta.key, meta.size) == (f"{prefix}/_log/a", 3)
        assert meta.modified_ms > 1_700_000_000_000

    def test_an_empty_object_is_an_object(self, store: ObjectClient, prefix: str) -> None:
        store.put_new(f"{prefix}/e", b"")
        assert store.get(f"{prefix}/e") == b""
        assert store.get_range(f"{prefix}/e", 0, 10) == b""
        assert dict(store.get_heads([f"{prefix}/e", f"{prefix}/none"], 9)) == {
            f"{prefix}/e": b"",
            f"{prefix}/none": None,
        }

    def test_an_object_is_never_created_twice(self, store: ObjectClient, prefix: str) -> None:
        store.put_new(f"{prefix}/a", b"first")
        with pytest.raises(ObjectExistsError, match=f"{prefix}/a"):
            store.put_new(f"{prefix}/a", b"second")
        assert store.get(f"{prefix}/a") == b"first"

    def test_of_sixteen_that_create_one_wins(self, store: ObjectClient, prefix: str) -> None:
        for round_ in range(20):
            key = f"{prefix}/race/{round_}"
            with ThreadPoolExecutor(16) as pool:
                bodies = [f"writer {n}".encode() for n in range(16)]
                answers = list(pool.map(lambda body, k=key: create(store, k, body), bodies))
            winner = store.get(key)
            ours = [b for b, other in zip(bodies, answers, strict=True) if other is None]
            assert ours == [winner]
            assert {other for other in answers if other is not None} == {winner}

    def test_folders_are_listed_one_level_deep_whatever_their_names(
        self, store: ObjectClient, prefix: str
    ) -> None:
        fill(store, [f"{prefix}/{key}" for key in KEYS])
        before = store.counters.list
        assert list(store.list_folders(f"{prefix}/")) == [
            f"{prefix}/{name}/"
            for name in ("0dash", "d=__null__", "percent%2Fslash", "ts_month=2013-01", "two words")
        ]
        assert list(store.list_folders(f"{prefix}/two words/")) == [f"{prefix}/two words/ü/"]
        assert list(store.list_folders(f"{prefix}/percent%2Fslash/")) == [
            f"{prefix}/percent%2Fslash/%25/"
        ]
        assert list(store.list_folders(f"{prefix}/none/")) == []
        assert store.counters.list == before + 4

    def test_what_is_not_there_is_said_so(self, store: ObjectClient, prefix: str) -> None:
        for ask in (store.get, store.head, lambda key: store.get_range(key, 0, 1)):
            with pytest.raises(ObjectNotFoundError, match=f"{prefix}/none"):
                ask(f"{prefix}/none")

    def test_a_range_ends_with_the_object(self, store: ObjectClient, prefix: str) -> None:
        store.put_new(f"{prefix}/r", b"0123456789")
        cases = {
            (0, 4): b"0123",
            (8, 9): b"89",
            (9, 1): b"9",
            (10, 1): b"",
            (50, 5): b"",
            (3, 0): b"",
        }
        for (start, length), expected in cases.items():
            assert store.get_range(f"{prefix}/r", start, length) == expected

    def test_a_range_goes_to_the_position_of_a_file(
        self, store: ObjectClient, prefix: str, tmp_path: Path
    ) -> None:
        store.put_new(f"{prefix}/into", b"0123456789")
        with (tmp_path / "file").open("w+b") as file:
            file.write(b"ab")
            store.get_range_into(f"{prefix}/into", 3, 4, file)
            store.get_range_into(f"{prefix}/into", 8, 2, file)
        assert (tmp_path / "file").read_bytes() == b"ab345689"

    def test_keys_keep_every_character(self, store: ObjectClient, prefix: str) -> None:
        keys = [f"{prefix}/{key}" for key in KEYS]
        fill(store, keys)
        assert [meta.key for meta in store.list(f"{prefix}/")] == sorted(keys)
        assert dict(store.get_many(keys)) == {key: key.encode() for key in keys}
        assert [answer.error for answer in store.delete_many(keys)] == [None] * len(keys)
        assert list(store.list(f"{prefix}/")) == []

    @pytest.mark.parametrize("key", ["a//b", "a/../b", "a/./b", "a\nb"])
    def test_a_key_that_cannot_be_one_is_refused(
        self, store: ObjectClient, prefix: str, key: str
    ) -> None:
        for ask in (
            lambda: store.put_new(f"{prefix}/{key}", b""),
            lambda: store.get(f"{prefix}/{key}"),
        ):
            with pytest.raises(StoreError):
                ask()

    def test_a_listing_is_sorted_and_begins_where_told(
        self, store: ObjectClient, prefix: str
    ) -> None:
        keys = [f"{prefix}/l/{number:05d}" for number in range(2 * self.page + self.page // 2)]
        fill(store, list(reversed(keys)))
        before = store.counters.list
        assert [meta.key for meta in store.list(f"{prefix}/l/")] == keys
        assert store.counters.list - before == 3
        later, last = self.page + self.page // 2, len(keys) - 1
        for after, expected in ((later, keys[later + 1 :]), (last, []), (0, keys[1:])):
            listed = store.list(f"{prefix}/l/", start_after=keys[after])
            assert [meta.key for meta in listed] == expected
        between = store.list(f"{prefix}/l/", start_after=f"{prefix}/l/00009a")
        assert next(between).key == keys[10]

    def test_a_prefix_is_a_folder_and_not_the_begin_of_a_name(
        self, store: ObjectClient, prefix: str
    ) -> None:
        fill(store, [f"{prefix}/t/a", f"{prefix}/t2/a"])
        assert [meta.key for meta in store.list(f"{prefix}/t/")] == [f"{prefix}/t/a"]

    def test_what_does_not_exist_lists_empty(self, store: ObjectClient, prefix: str) -> None:
        assert list(store.list(f"{prefix}/none/")) == []
        assert store.counters.list == 1

    def test_many_are_read_at_once(self, store: ObjectClient, prefix: str) -> None:
        keys = [f"{prefix}/m/{number:04d}" for number in range(300)]
        fill(store, keys[::2])
        expected = {key: key.encode() if n % 2 == 0 else None for n, key in enumerate(keys)}
        before = store.counters.get
        assert dict(store.get_many(keys)) == expected
        assert store.counters.get - before == 300
        heads = dict(store.get_heads(keys, 4))
        assert heads == {key: body and body[:4] for key, body in expected.items()}

    def test_a_batch_delete_answers_for_every_key(self, store: ObjectClient, prefix: str) -> None:
        keys = [f"{prefix}/d/{number:05d}" for number in range(self.page + self.page // 2)]
        fill(store, keys)
        asked = [*keys, f"{prefix}/d/none"]
        answers = list(store.delete_many(asked))
        assert [answer.key for answer in answers] == asked
        assert [answer for answer in answers if answer.error is not None] == []
        assert list(store.list(f"{prefix}/d/")) == []

    @pytest.mark.parametrize("size", [0, 5, PART_BYTES, PART_BYTES + 1, 2 * PART_BYTES + 7])
    def test_a_file_goes_up_and_comes_down_unchanged(
        self, store: ObjectClient, prefix: str, tmp_path: Path, size: int
    ) -> None:
        up, down, key = tmp_path / "up", tmp_path / "down", f"{prefix}/_data/p.parquet"
        up.write_bytes(os.urandom(size))
        store.put_file(key, up)
        assert store.get_file(key, down) == size
        assert down.read_bytes() == up.read_bytes()
        parts = 1 if size <= PART_BYTES else 2 + -(-size // PART_BYTES)
        assert (store.counters.put, store.counters.get) == (parts, 1)
        assert store.counters.bytes_in == store.counters.bytes_out == size

    @pytest.mark.parametrize("size", [0, 5, PART_BYTES + 1])
    def test_a_copy_holds_the_same_bytes_and_none_of_them_passes_here(
        self, store: ObjectClient, prefix: str, tmp_path: Path, size: int
    ) -> None:
        path, source, key = tmp_path / "up", f"{prefix}/from/two words=ü%", f"{prefix}/to/deep/p"
        path.write_bytes(os.urandom(size))
        store.put_file(source, path)
        before = store.counters.as_dict()
        store.copy(source, key)
        after = store.counters.as_dict()
        assert {
            kind: after[kind] - before[kind] for kind in after if after[kind] != before[kind]
        } == {"put": 1}
        assert store.get(key) == store.get(source) == path.read_bytes()

    def test_a_copy_of_nothing_is_said_so(self, store: ObjectClient, prefix: str) -> None:
        store.put_new(f"{prefix}/there", b"x")
        with pytest.raises(ObjectNotFoundError, match=f"{prefix}/none"):
            store.copy(f"{prefix}/none", f"{prefix}/copy")
        assert [meta.key for meta in store.list(f"{prefix}/")] == [f"{prefix}/there"]

    def test_a_download_that_fails_leaves_no_file(
        self, store: ObjectClient, prefix: str, tmp_path: Path
    ) -> None:
        with pytest.raises(ObjectNotFoundError):
            store.get_file(f"{prefix}/none", tmp_path / "f")
        assert list(tmp_path.glob("f*")) == []

    def test_a_file_that_is_gone_is_no_traceback(
        self, store: ObjectClient, prefix: str, tmp_path: Path
    ) -> None:
        with pytest.raises(StoreError, match="cannot be read for the upload"):
            store.put_file(f"{prefix}/x", tmp_path / "none")

    def test_the_probe_takes_four_requests_and_leaves_nothing(
        self, store: ObjectClient, prefix: str
    ) -> None:
        probe(store, prefix)
        probe(store, prefix)
        counted = store.counters.as_dict()
        assert {name: counted[name] for name in ("put", "get", "delete", "list", "head")} == {
            "put": 2, "get": 1, "delete": 1, "list": 0, "head": 0,
        }  # fmt: skip
        assert list(store.list(f"{prefix}/")) == []
