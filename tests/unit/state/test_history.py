from __future__ import annotations

from dataclasses import replace

from firnline.log.txn_file import TxnHeader
from firnline.state.history import history
from tests.support.histories import append, drop, filled
from tests.support.world import FaultyStore, World


def dropped(*partitions: str) -> World:
    world = filled(2)
    for partition in partitions:
        drop(world, partition)
    return world


def by_number(headers: list[TxnHeader]) -> dict[int, TxnHeader]:
    return {header.seq: header for header in headers}


def test_known_headers_are_not_read_again_but_the_newest_of_them() -> None:
    world = dropped("day=0", "day=1")
    known = by_number(history(world.table))
    append(world, 50)
    drop(world, "day=0")
    used = FaultyStore(world.store)
    found = history(replace(world.table, store=used), known=known)
    assert [header.seq for header in found] == [3, 2, 1]
    assert found == history(world.table)
    first = world.table.paths.txn(1)
    assert not [call for call in used.calls if first in call]


def test_headers_of_a_table_that_was_made_anew_are_not_taken_for_its_own() -> None:
    known = by_number(history(dropped("day=0", "day=1").table))
    for world in (dropped("day=1"), dropped("day=1", "day=0"), filled(1)):
        assert history(world.table, known=known) == history(world.table)


def test_no_more_than_the_newest_are_returned() -> None:
    world = dropped("day=0", "day=1")
    known = by_number(history(world.table))
    assert [header.seq for header in history(world.table, 1, known)] == [2]
    assert [header.seq for header in history(world.table, 1)] == [2]
