"""Only keys change when a log file is moved, and only those of the table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from firnline.appends.append import Appender
from firnline.errors import FirnlineError, ForeignPathError, LogCorruptError
from firnline.log import codec, relocation, txn_file
from firnline.log.records import Delete, LogContent, LogTombstone, Marker, TxnMark
from firnline.paths import TablePaths
from tests.support.histories import append, delete_lazily, filled, merge
from tests.support.log_tables import do_merge, put_append
from tests.support.world import make_world

PREFIXES = ["t", "", "a/b", 'q"uote', "ünï", "t/_data/x", "_data"]


def log_file(paths: TablePaths, parts: int = 2) -> bytes:
    """A transaction's."""
    content = LogContent(
        t=9,
        schema={"a": "BIGINT"},
        markers=[
            Marker(p=paths.data_part("d=1", f"{n}"), b=n, t=n, tmb=n or None, o=(1, 2))
            for n in range(parts)
        ],
        tombstones=[LogTombstone(paths.append_log(3, "w-1"), 4)],
        deletes=[Delete("i", 2, 8, msgspec.Raw(b'{"op":"=","column":"a","value":"t/_data/d=1"}'))],
        other=[b'{"note":"t/_data/x"}'],
        x=TxnMark(2, "00000000-0001-7000-8000-000000000001", "merge", 5, (1,)),
    )
    return codec.encode(content)


@pytest.mark.parametrize("old", PREFIXES)
@pytest.mark.parametrize("new", PREFIXES)
def test_moved_is_what_would_have_been_written_there(old: str, new: str) -> None:
    here, there = TablePaths(old), TablePaths(new)
    moved = relocation.move_log("k", log_file(here), here, there)
    assert moved == log_file(there)
    assert relocation.named_by_log("k", moved).fits(there)


def test_real_ones_come_back_as_they_were(tmp_path: Path) -> None:
    world = filled()
    append(world, 24, by=Appender(world.table, writer="billing"))
    merge(world, tmp_path)
    delete_lazily(world, 5)
    old, new = world.table.paths, TablePaths("else/where")
    seen = 0
    for key, (data, _) in world.store.objects.items():
        moves = {"_log": relocation.move_log, "_txn": relocation.move_txn}
        move = moves.get(key.split("/")[1])
        if move is not None:
            seen += 1
            there = key.replace("t/", "else/where/", 1)
            assert move(key, move(there, data, old, new), new, old) == data
    assert seen == 10


def test_a_published_log_file_and_its_transaction_still_agree() -> None:
    world = make_world()
    do_merge(world, put_append(world) + put_append(world))
    old, new = world.table.paths, TablePaths("n")
    key = old.txn(1)
    data = relocation.move_txn(new.txn(1), world.store.objects[key][0], old, new)
    header, inner = txn_file.decode(new.txn(1), data, new)
    published = header.log.replace("n/", "t/", 1)
    assert inner == relocation.move_log("k", world.store.objects[published][0], old, new)


def test_json_of_other_clients() -> None:
    lines: list[dict[str, Any]] = [
        {"v": "1", "t": 5, "sch": 1, "tmb": 2, "f": 3},
        {"a": "BIGINT"},
        {"t": 4, "p": "ü/_log/4_w.jsonl"},
        {"b": 7, "p": "ü/_data/d=1/x.parquet", "t": 5, "more": {"p": "ü/_data/"}},
    ]
    data = "\n".join(json.dumps(line) for line in lines).encode()
    moved = relocation.move_log("k", data, TablePaths("ü"), TablePaths("n"))
    found = [json.loads(line) for line in moved.split(b"\n")]
    assert [line.pop("p") for line in found[2:]] == ["n/_log/4_w.jsonl", "n/_data/d=1/x.parquet"]
    assert [line.pop("p") for line in lines[2:]] == ["ü/_log/4_w.jsonl", "ü/_data/d=1/x.parquet"]
    assert found == lines


def test_the_old_prefix_is_read_from_the_keys() -> None:
    def prefixes(prefix: str, **parts: int) -> set[str]:
        return set(relocation.named_by_log("k", log_file(TablePaths(prefix), **parts)).prefixes())

    assert prefixes("t") == {"t"}
    assert prefixes("") == {""}
    assert prefixes("t/_data/x") == {"t/_data/x"}, "a log tombstone tells which"
    data = b'{"v":1,"t":1,"sch":1,"f":2}\n{"a":"BIGINT"}\n'
    part = b'{"p":"t/_data/x/_data/f.parquet","b":1,"t":1}'
    assert relocation.named_by_log("k", data + part).prefixes() == {"t", "t/_data/x"}
    assert relocation.named_by_log("k", data + part).fits(TablePaths("t"))
    assert relocation.named_by_log("k", data[:-1]).nothing


@pytest.mark.parametrize(
    "key",
    ["u/_data/d=1/x.parquet", "t/_log/x.parquet", "t/_data/../x", "_data/x"],
)
def test_a_key_of_another_place_is_an_error(key: str) -> None:
    data = b'{"v":1,"t":1,"sch":1,"f":2}\n{"a":"BIGINT"}\n'
    data += json.dumps({"p": key, "b": 1, "t": 1}).encode()
    with pytest.raises(ForeignPathError):
        relocation.move_log("k", data, TablePaths("t"), TablePaths("n"))


def test_no_damaged_byte_goes_unnoticed() -> None:
    paths = TablePaths("t")
    data = log_file(paths)
    for at in range(len(data)):
        damaged = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
        with pytest.raises(FirnlineError):
            relocation.move_log("k", damaged, paths, TablePaths("n"))
    header = b'{"v":1,"seq":2}'
    with pytest.raises(LogCorruptError):
        relocation.move_txn("k", codec.seal(header, data), paths, TablePaths("n"))


def test_a_certificate_keeps_what_it_says() -> None:
    plain = {
        "version": 1,
        "id": "i",
        "root": "s3://b/t",
        "parts": [{"key": "t/_data/a", "rows": 1, "later": "t/_data/a"}],
        "failed": ["t/_data/b", "u/_data/b"],
        "remaining": [{"kind": "log text", "objects": ["t/_log/c", "t/_txn/d", "t/_ckpt/e"]}],
        "later": {"n": 1.5},
    }
    data = msgspec.json.encode(plain)
    moved = relocation.move_certificate("k", data, TablePaths("t"), TablePaths("n"))
    assert json.loads(moved) == {
        **plain,
        "parts": [{"key": "n/_data/a", "rows": 1, "later": "t/_data/a"}],
        "failed": ["n/_data/b", "u/_data/b"],
        "remaining": [{"kind": "log text", "objects": ["n/_log/c", "n/_txn/d", "n/_ckpt/e"]}],
    }
    assert relocation.move_certificate("k", moved, TablePaths("t"), TablePaths("n")) == moved
    with pytest.raises(LogCorruptError):
        relocation.move_certificate("k", data[:-1], TablePaths("t"), TablePaths("n"))
