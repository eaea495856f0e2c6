"""A writer learns the columns of a table with few requests and without any marker."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import pytest

from firnline.errors import ForeignPathError, LogCorruptError
from firnline.ids import format_uuid7
from firnline.log import codec
from firnline.log.heads import HEAD_BYTES, read_schemas
from firnline.log.records import LogContent, LogTombstone, Marker
from tests.support.beside import Beside
from tests.support.cleanups import GRACE, clean_up
from tests.support.log_tables import SCHEMA, do_merge, put_append, snapshot
from tests.support.world import FaultyStore, MemoryStore, World, make_world


def requests(world: World) -> int:
    counters = world.store.counters
    return counters.get + counters.list


def test_every_log_file_says_its_columns_for_one_ranged_get() -> None:
    world = make_world()
    put_append(world)
    put_append(world, schema={"w": "VARCHAR"})
    before = requests(world)
    assert [schema for _, schema in read_schemas(world.store, world.table.paths)] == [
        SCHEMA,
        {"w": "VARCHAR"},
    ]
    assert requests(world) - before == 3


def test_log_files_that_a_transaction_folded_are_not_asked() -> None:
    world = make_world()
    keys = [key for _ in range(300) for key in put_append(world)]
    put_append(world, "d=2", schema={"w": "VARCHAR"})
    do_merge(world, keys)
    before = requests(world)
    columns: dict[str, str] = {}
    for _, schema in read_schemas(world.store, world.table.paths):
        columns |= schema
    assert columns == SCHEMA | {"w": "VARCHAR"}
    assert requests(world) - before <= 4


def test_a_schema_line_longer_than_the_first_look_is_read_to_its_end() -> None:
    world = make_world()
    wide = {f"column_{n}": "STRUCT(a INTEGER, b VARCHAR)" for n in range(2000)}
    put_append(world, schema=wide)
    assert sum(map(len, wide)) > HEAD_BYTES
    assert read_schemas(world.store, world.table.paths)[0][1] == wide


@pytest.mark.parametrize("tombstones", [0, 2])
def test_a_log_file_without_markers_ends_with_its_head(tombstones: int) -> None:
    """As clean-up leaves it once every part of a table is dropped and deleted."""
    world = make_world()
    stones = [LogTombstone(f"t/_log/{n:013d}_a.jsonl", 1) for n in range(tombstones)]
    data = codec.encode(LogContent(t=5, schema=SCHEMA, tombstones=stones))
    key = world.table.paths.txn_log(5, 1, world.ids.uuid7(5))
    world.store.put_new(key, data)
    assert read_schemas(world.store, world.table.paths) == [(key, SCHEMA)]
    foreign = world.table.paths.append_log(6, "host")
    world.store.put_new(foreign, b'{"v":"1","t":6,"sch":1,"f":2}\n{"w":"VARCHAR"}')
    found = dict(read_schemas(world.store, world.table.paths))
    assert found == {key: SCHEMA, foreign: {"w": "VARCHAR"}}
    for end in range(len(data) if tombstones else data.index(b'\n{"sum"')):
        world.store.objects[key] = (data[:end], 0)
        with pytest.raises(LogCorruptError, match=key):
            read_schemas(world.store, world.table.paths)


def test_clean_up_between_the_listing_and_any_look_loses_no_column() -> None:
    """Who carries the columns of a log file that is gone may be newer than the listing."""

    def busy() -> World:
        world = make_world()
        do_merge(world, put_append(world) + put_append(world, schema={"w": "VARCHAR"}))
        put_append(world, "d=2", schema={"x": "VARCHAR"})
        return world

    def clean(world: World) -> None:
        do_merge(world, list(snapshot(world).live))
        world.clock.advance(2 * GRACE)
        clean_up(world)

    calls = FaultyStore(busy().store)
    read_schemas(calls, busy().table.paths)
    assert len(calls.calls) > 2
    for when in range(len(calls.calls)):
        world = busy()
        store = Beside(world.store, when=when, act=partial(clean, world))
        columns = {c for _, schema in read_schemas(store, world.table.paths) for c in schema}
        assert columns == {*SCHEMA, "w", "x"}
        assert store.met


def test_a_log_file_that_ends_before_its_schema_is_named() -> None:
    world = make_world()
    put_append(world)
    (key,) = (k for k in world.store.objects if "/_log/" in k)
    data = world.store.objects[key][0]
    world.store.objects[key] = (data[: data.index(b"\n") + 5], 0)
    with pytest.raises(LogCorruptError, match=key):
        read_schemas(world.store, world.table.paths)


def test_a_log_file_that_clean_up_takes_meanwhile_is_no_error() -> None:
    world = make_world()
    put_append(world)
    put_append(world)
    first = sorted(k for k in world.store.objects if "/_log/" in k)[0]
    store = world.store
    get_heads = store.get_heads

    def cleaned(keys: list[str], length: int) -> object:
        store.objects.pop(first, None)
        return get_heads(keys, length)

    store.get_heads = cleaned  # type: ignore[method-assign, assignment]  # clean-up passes here
    assert len(read_schemas(store, world.table.paths)) == 1


@pytest.mark.parametrize("ours", [False, True])
def test_a_log_file_that_speaks_of_another_place_is_named(ours: bool) -> None:
    world = make_world()
    put_append(world)
    paths, t = world.table.paths, world.clock.now
    part = Marker("elsewhere/_data/x.parquet", 1, t, n=1, q=0)
    tombstone = LogTombstone("elsewhere/_log/1_w-1.jsonl", 1)
    key = paths.txn_log(t, 1, format_uuid7(t, 1)) if ours else paths.append_log(t, "w-1")
    markers, stones = ([], [tombstone]) if ours else ([part], [])
    content = LogContent(t=t, schema=SCHEMA, markers=markers, tombstones=stones)
    world.store.put_new(key, codec.encode(content))
    with pytest.raises(ForeignPathError, match=f"of log file {key} points to 'elsewhere/"):
        read_schemas(world.store, paths)


class Cut:
    """A store behind a cache that keeps no more than some bytes of each object."""

    def __init__(self, store: MemoryStore, kept: int) -> None:
        self.store, self.kept = store, kept

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    def get_heads(self, keys: Sequence[str], length: int) -> Iterator[tuple[str, bytes | None]]:
        yield from self.store.get_heads(keys, min(length, self.kept))

    def get_range(self, key: str, start: int, length: int) -> bytes:
        return self.store.get_range(key, start, max(0, min(length, self.kept - start)))


@pytest.mark.parametrize("folded", [False, True])
@pytest.mark.parametrize("kept", [0, 5, 60])
def test_a_log_file_that_is_shorter_than_its_listing_says_is_named(kept: int, folded: bool) -> None:
    """And nobody asks for bytes behind its end for ever."""
    world = make_world()
    keys = put_append(world)
    if folded:
        do_merge(world, keys)
    with pytest.raises(LogCorruptError, match=f"bytes in the listing and {kept} when read"):
        read_schemas(Cut(world.store, kept), world.table.paths, {})
