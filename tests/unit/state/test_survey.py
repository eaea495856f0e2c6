"""What there is of a log and of the transactions, also where some of it does not read."""

from __future__ import annotations

from firnline.state.survey import survey_log, survey_transactions
from tests.support.log_tables import do_merge, put_append, snapshot
from tests.support.world import World, make_world


def merged_twice() -> World:
    world = make_world()
    for _ in range(2):
        do_merge(world, put_append(world, "d=1", "d=1"))
    return world


def test_a_whole_log_is_what_a_snapshot_reads() -> None:
    world = merged_twice()
    found = survey_log(world.store, world.table.paths)
    assert found.listing == snapshot(world).listing
    assert found.contents == snapshot(world).contents
    assert (dict(found.broken), found.strange) == ({}, ())


def test_what_does_not_read_stands_beside_what_does() -> None:
    world = merged_twice()
    key = min(k for k in world.store.objects if "/_log/" in k)
    data, at = world.store.objects[key]
    world.store.objects[key] = (data[:-4], at)
    world.store.objects["t/_log/notes.txt"] = (b"", at)
    found = survey_log(world.store, world.table.paths)
    assert list(found.broken) == [key]
    assert found.strange == ("t/_log/notes.txt",)
    assert len(found.contents) == len(found.listing) - 1 == 3


def test_the_union_of_the_transactions_is_the_state_that_they_left() -> None:
    world = merged_twice()
    found = survey_transactions(world.store, world.table.paths)
    assert (found.newest, sorted(found.headers), found.broken) == (2, [1, 2], {})
    state = snapshot(world)
    assert {p: m.tmb for p, m in found.parts.items()} == {p: m.tmb for p, m in state.parts.items()}
    early = survey_transactions(world.store, world.table.paths, upto=1)
    assert early.newest == 2
    assert early.parts.keys() < found.parts.keys()


def test_a_transaction_that_does_not_read_is_in_no_union() -> None:
    world = merged_twice()
    data, at = world.store.objects["t/_txn/00000000000000000002.jsonl"]
    world.store.objects["t/_txn/00000000000000000002.jsonl"] = (data[:-1], at)
    world.store.objects["t/_txn/more"] = (b"x", at)
    found = survey_transactions(world.store, world.table.paths)
    assert list(found.broken) == ["t/_txn/00000000000000000002.jsonl"]
    assert (found.numbers, sorted(found.headers), found.strange) == ([1, 2], [1], ["t/_txn/more"])
