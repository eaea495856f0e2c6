"""A first transaction without its log file: not published yet, or the log is lost."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from firnline.commit.base import take_base
from firnline.commit.transaction import Change, commit
from firnline.errors import LogCorruptError
from firnline.log import codec
from firnline.log.records import Marker
from firnline.log.txn_file import Counts, RunIdentity
from tests.support.beside import Beside
from tests.support.log_tables import do_merge, part_key, put_append, snapshot
from tests.support.world import World, make_world


def unpublished(world: World) -> None:
    """A first transaction whose committer died before it published: it merges all parts."""
    log = do_merge(world, sorted(snapshot(world).live)).header.log
    del world.store.objects[log]


def lose_log(world: World) -> None:
    for key in [k for k in world.store.objects if "/_log/" in k]:
        del world.store.objects[key]


def refuses(world: World) -> None:
    before = dict(world.store.objects)
    with pytest.raises(LogCorruptError, match=r"transaction 1 .*; `firnline rebuild`"):
        take_base(world.table)
    assert world.store.objects == before


def test_a_first_transaction_that_nobody_published_is_published_by_the_next() -> None:
    world = make_world()
    put_append(world)
    put_append(world)
    unpublished(world)
    (late,) = put_append(world)
    base = take_base(world.table)
    assert base.seq == 1
    assert late in base.snapshot.live
    assert len(base.snapshot.live) == 2


def test_a_first_transaction_is_not_published_where_the_log_is_lost() -> None:
    # It would make what it holds look like all there is, and everything since like orphans.
    world = make_world()
    put_append(world)
    put_append(world)
    do_merge(world, sorted(snapshot(world).live))
    put_append(world)
    lose_log(world)
    refuses(world)


def test_an_append_after_the_log_was_lost_makes_no_difference() -> None:
    world = make_world()
    put_append(world)
    do_merge(world, sorted(snapshot(world).live))
    lose_log(world)
    put_append(world)
    refuses(world)


def test_a_log_that_a_v1_client_cleaned_up_is_not_lost() -> None:
    # It has folded the append and deletes its log file before anybody publishes.
    world = make_world()
    (part,) = put_append(world)
    (log,) = snapshot(world).listing
    unpublished(world)
    merged_by_v1(world, log, part)
    del world.store.objects[log]
    assert take_base(world.table).seq == 1


def merged_by_v1(world: World, log: str, *parts: str) -> None:
    world.clock.advance(1)
    t = world.clock.now
    lines = [
        {"v": "1", "t": t, "sch": 1, "tmb": 2, "f": 3},
        {"ts": "TIMESTAMP", "v": "INTEGER"},
        {"p": log, "t": t},
        *({"p": part, "b": 100, "t": t} for part in parts),
    ]
    name = f"{world.table.paths.log_dir}{t}_m_host.jsonl"
    world.store.put_new(name, "\n".join(map(json.dumps, lines)).encode())


@pytest.mark.parametrize("objects_too", [False, True])
def test_a_first_transaction_that_buried_a_part_was_not_committed_on_an_empty_log(
    objects_too: bool,
) -> None:
    # A large log file of a v1 client is not folded, so no tombstone names it.
    world = make_world()
    keys = put_append(world, *(f"d={day}" for day in range(200)))
    (log,) = snapshot(world).listing
    merged_by_v1(world, log, *keys)
    del world.store.objects[log]
    committed = do_merge(world, keys[:1])
    content = codec.decode(log, world.store.get(committed.header.log), world.table.paths)
    assert not content.tombstones
    lose_log(world)
    for key in keys[1:] if objects_too else ():
        del world.store.objects[key]  # and no object is left that it does not name
    refuses(world)


def test_a_first_transaction_on_an_empty_log_is_published_whatever_became_of_the_log() -> None:
    # Nothing in it says that there was a log file before: see docs/guarantees.md.
    world = make_world()
    key = part_key(world)
    new = Marker(p=key, b=1, t=0, n=1)
    change = Change(
        op="replace",
        replaces=(),
        adds=(new,),
        columns={"v": "INTEGER"},
        counts=Counts(parts_out=1, rows_out=1, rows_added=1),
    )
    commit(world.table, take_base(world.table), change, RunIdentity(run_id="r"))
    lose_log(world)
    assert set(take_base(world.table).snapshot.live) == {key}


def test_a_rival_between_the_two_listings_does_not_make_the_log_look_lost() -> None:
    world = make_world()

    def rival() -> None:
        put_append(world)
        unpublished(world)

    store = Beside(world.store, what="list t/_txn", act=rival)
    assert take_base(replace(world.table, store=store)).seq == 1
