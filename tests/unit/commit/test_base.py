"""What a transaction is planned on: the newest state, and what the table says of itself."""

from __future__ import annotations

from dataclasses import replace

import pytest

from firnline.commit.base import HEADER_BYTES, of_history, take_base
from firnline.errors import LogLostError
from firnline.properties.in_force import from_settings
from tests.support.histories import append, filled
from tests.support.log_tables import do_merge, part_key, put_append, snapshot
from tests.support.v1_client import V1Client
from tests.support.world import FaultyStore, World, make_world

DAY = 86_400_000


def calls(world: World) -> list[str]:
    """What a base costs; properties are those of the table."""
    store = FaultyStore(world.store)
    take_base(replace(world.table, store=store))
    return store.calls


def test_a_history_of_which_nothing_is_left_says_nothing_of_the_properties() -> None:
    world = make_world()
    assert [of_history(world.table, seq) for seq in (0, 7)] == [None, None]


def test_a_header_that_is_longer_than_what_is_read_of_it_says_nothing() -> None:
    world = make_world()
    key = world.table.paths.txn(7)
    world.store.put_new(key, b"{" + b" " * HEADER_BYTES)
    assert of_history(world.table, 7) is None


@pytest.mark.long
def test_the_history_says_the_properties_as_of_a_transaction_or_the_birth_record() -> None:
    world = filled(1)
    expected = from_settings(world.settings)
    assert of_history(world.table, 0) == of_history(world.table, 7) == expected
    do_merge(world, list(snapshot(world).live)[:1])
    assert of_history(world.table, 1) == expected


def test_a_log_that_says_the_properties_is_all_that_a_base_reads() -> None:
    world = filled(1)
    assert calls(world) == ["list t/_log/", "list t/_txn/", "get many"]
    do_merge(world, list(snapshot(world).live)[:1])
    append(world, 6)
    (first,) = [key for key, item in snapshot(world).listing.items() if item.name.seq]
    assert calls(world) == ["list t/_log/", "list t/_txn/", "get many", "get many"]
    assert first in world.store.objects


def test_a_table_without_history_is_not_asked_for_it() -> None:
    world = make_world()
    V1Client(world).append("d=1")
    assert calls(world) == ["list t/_log/", "list t/_txn/", "get many"]


def test_old_objects_without_a_log_are_a_lost_table_but_for_who_takes_them_in() -> None:
    world = make_world()
    part_key(world)
    assert take_base(world.table).seq == 0, "an append that is under way has brought it"
    world.clock.advance(10 * DAY)
    with pytest.raises(LogLostError):
        take_base(world.table)
    before = world.store.counters.list
    assert take_base(world.table, may_hold_objects=True).snapshot.live == {}
    assert world.store.counters.list - before == 2
    put_append(world)
    assert len(take_base(world.table).snapshot.live) == 1, "a table may have orphans"
