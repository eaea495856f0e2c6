"""Engines that are not ours read a mirror again that was damaged and repaired."""

from __future__ import annotations

import pytest

import firnline
from firnline.log.txn_file import RunIdentity
from firnline.operations.mirror.check import run_check
from firnline.operations.mirror.run import run_mirror
from firnline.operations.operation import Work
from firnline.operations.options import MirrorOptions
from tests.mirrors.conftest import Mirrored, by_datafusion, by_polars, in_order
from tests.mirrors.lazily import Lazily

RUN = RunIdentity(run_id="r")
REPAIR = MirrorOptions(repair=True)


def overwrite(mirrored: Mirrored, key: str, data: bytes) -> None:
    store = mirrored.table().store
    assert [answer.error for answer in store.delete_many([key])] == [None]
    store.put_new(key, data)


@pytest.mark.parametrize("word", [b'"protocol"', b'"metaData"', b'"add"'])
def test_engines_read_a_mirror_that_was_repaired(mirrored: Mirrored, word: bytes) -> None:
    mirrored.append(0)
    mirrored.publish()
    mirrored.append(6)
    mirrored.publish()
    table = mirrored.table()
    key = table.paths.delta_version(0)
    lines = table.store.get(key).splitlines(keepends=True)
    overwrite(mirrored, key, b"".join(line for line in lines if word not in line))
    assert not run_check(mirrored.table()).same
    run_mirror(Work(mirrored.table(), RUN), REPAIR)
    assert len(mirrored.same()) == 12
    assert run_check(mirrored.table()).same
    mirrored.append(12)
    mirrored.publish()
    assert len(mirrored.same()) == 18


@pytest.mark.parametrize("gone", ["vectors", "index", "both"])
def test_engines_read_vectors_that_were_deleted_and_made_again(
    mirrored: Mirrored, gone: str
) -> None:
    lazily = Lazily(mirrored.root, mirrored.scratch)
    lazily.append(0)
    lazily.delete("k in (1, 4)")
    assert lazily.shown() == [0, 2, 3, 5]
    table = lazily.table()
    keys = [meta.key for meta in table.store.list(table.paths.vectors_dir)]
    index = {key for key in keys if key.endswith(".json")}
    chosen = {"vectors": set(keys) - index, "index": index, "both": set(keys)}[gone]
    assert [answer.error for answer in table.store.delete_many(sorted(chosen))]
    run_mirror(Work(lazily.table(), RUN), REPAIR)
    ours = in_order(firnline.scan(lazily.table()).to_arrow().to_pylist())
    for read in (by_datafusion, by_polars):
        assert in_order(read(lazily.url, lazily.options)) == ours
    assert run_check(lazily.table()).same
    lazily.append(6)
    assert lazily.shown() == [0, 2, 3, 5, *range(6, 12)]
