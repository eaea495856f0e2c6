"""Batch deletes: each key has an answer of its own, and only a yes counts as gone."""

from __future__ import annotations

from pathlib import Path

from firnline.store.client import open_store


def test_what_cannot_be_deleted_is_told_and_the_rest_of_the_batch_goes(tmp_path: Path) -> None:
    store = open_store(f"file://{tmp_path}/t")
    for name in ("a", "locked/inside", "z"):
        store.put_new(f"t/{name}", b"x")
    keys = ["t/a", "t/locked", "t/gone", "t/z"]  # a folder with something in it is no object
    answers = list(store.delete_many(keys))
    assert [answer.key for answer in answers] == keys
    assert [answer.error is None for answer in answers] == [True, False, True, True]
    assert [meta.key for meta in store.list("t/")] == ["t/locked/inside"]
