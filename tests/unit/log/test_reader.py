"""A listing of several pages is of several moments; what is read is a state all the same."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest

from firnline.commit.base import take_base
from firnline.commit.transaction import commit
from firnline.errors import LogCorruptError, LogLostError
from firnline.log.reader import read_log
from firnline.state.snapshot import read_snapshot
from firnline.state.survey import survey_log, survey_transactions
from tests.support.histories import RUN
from tests.support.log_tables import do_merge, merge_change, put_append, snapshot
from tests.support.paged import Paged
from tests.support.world import MemoryStore, make_world


class Torn:
    """The page ends with an append of a writer whose clock is ahead.

    Then transaction 1 is published, with a name before that append's, and transaction 2 behind it.
    """

    def __init__(self) -> None:
        self.world = world = make_world()
        self.keys = put_append(world, *["d=1"] * 30)
        base = take_base(world.table)
        change = merge_change(world, self.keys, base)
        put_append(world, t=world.clock.now + 10_000)

        def meanwhile() -> None:
            commit(world.table, base, change, RUN)
            do_merge(world, put_append(world))

        self.store = Paged(world.store, meanwhile)

    def names(self) -> list[int]:
        """Transactions by the names of their log files, in the order of the listing."""
        listing = read_log(self.world.store, self.world.table.paths).listing
        return [listing[key].name.seq for key in sorted(listing)]


def test_a_transaction_published_on_a_page_that_was_read_already_is_not_missed() -> None:
    torn = Torn()
    found = read_snapshot(torn.store, torn.world.table.paths)
    assert torn.names() == [0, 1, 0, 0, 2]
    assert found.seq == 2
    assert found.live == snapshot(torn.world).live
    assert not found.live.keys() & set(torn.keys)


def test_no_transaction_is_based_on_the_newest_one_without_the_one_before_it() -> None:
    torn = Torn()
    base = take_base(replace(torn.world.table, store=torn.store))
    assert base.snapshot.live == snapshot(torn.world).live
    assert sum(m.n or 0 for m in base.snapshot.live.values()) == 320


def test_a_listing_of_one_moment_is_read_once() -> None:
    torn = Torn()
    read_snapshot(torn.store, torn.world.table.paths)
    before = torn.world.store.counters.list
    snapshot(torn.world)
    assert torn.world.store.counters.list == before + 2  # of the log, of the transactions


def test_a_log_file_that_a_client_of_version_1_folded_and_deleted_is_looked_for_once_more() -> None:
    torn = Torn()
    read_snapshot(torn.store, torn.world.table.paths)
    world = torn.world
    (first,) = (key for key, item in snapshot(world).listing.items() if item.name.seq == 1)
    del world.store.objects[first]
    before = world.store.counters.list
    with pytest.raises(LogLostError, match="that of transaction 1 is gone"):
        snapshot(world)
    assert world.store.counters.list == before + 4


class Stale:
    """A store behind a cache, which answers with other bytes than the store has."""

    def __init__(self, store: MemoryStore, change: Callable[[bytes], bytes]) -> None:
        self.store, self.change = store, change

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    def get_many(self, keys: Collection[str]) -> Iterator[tuple[str, bytes | None]]:
        for key, data in self.store.get_many(keys):
            assert data is not None
            yield key, self.change(data)


def without_last_line(data: bytes) -> bytes:
    return data[: data.rstrip(b"\n").rindex(b"\n")]


@pytest.mark.parametrize("change", [without_last_line, lambda data: data + b"\n"])
def test_a_log_file_is_as_long_as_its_listing_says(change: Callable[[bytes], bytes]) -> None:
    """Without its last part it is a log file, too."""
    world = make_world()
    put_append(world, "d=1", "d=2")
    assert len(snapshot(world).live) == 2
    (key,) = snapshot(world).listing
    store, paths = Stale(world.store, change), world.table.paths
    with pytest.raises(LogCorruptError, match="bytes in the listing and") as raised:
        read_snapshot(store, paths)
    assert key in raised.value.message
    assert "cache or proxy" in raised.value.next_step
    (broken,) = survey_log(store, paths).broken.items()
    assert broken[0] == key
    assert broken[1].message == raised.value.message


class Asked(Stale):
    """Notes which keys it is asked for, with their sizes."""

    def __init__(self, store: MemoryStore) -> None:
        super().__init__(store, lambda data: data)
        self.sizes: dict[str, int] = {}

    def get_many(self, keys: Collection[str]) -> Iterator[tuple[str, bytes | None]]:
        assert isinstance(keys, Mapping)
        self.sizes |= keys
        return super().get_many(keys)


def test_whoever_reads_a_log_says_how_large_its_files_are() -> None:
    """So that no more of them are held in memory than is allowed (``store.transfer.Held``)."""
    world = make_world()
    do_merge(world, put_append(world, "d=1", "d=2"))
    paths = world.table.paths
    reads: list[Callable[[Asked], object]] = [
        lambda store: read_snapshot(store, paths, everything=True),
        lambda store: survey_log(store, paths),
        lambda store: survey_transactions(store, paths),
    ]
    for read in reads:
        store = Asked(world.store)
        read(store)
        assert store.sizes
        assert store.sizes == {key: len(world.store.objects[key][0]) for key in store.sizes}
