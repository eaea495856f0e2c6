"""Whose properties a table has that several appends begin at once."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from firnline.appends.append import Appender
from firnline.commit import append_log as birth
from firnline.commit.base import take_base
from firnline.commit.transaction import Change, commit
from firnline.log.txn_file import Counts, RunIdentity
from firnline.properties import record as birth_file
from firnline.properties.in_force import from_settings
from tests.support.log_tables import put_append
from tests.support.world import World, make_world

HOUR = 3_600_000


def began_by_others(**settings: Any) -> World:
    """A table whose first transaction says its properties, and that has no birth record."""
    world = make_world(**settings)
    put_append(world, schema={"id": "BIGINT"})
    change = Change("merge", (), (), Counts())
    commit(world.table, take_base(world.table), change, RunIdentity(run_id="r"))
    assert world.table.paths.birth not in world.store.objects
    return world


def test_without_a_birth_record_the_newest_transaction_says_it() -> None:
    world = began_by_others(append={"ttl": "2h"})
    found = birth.said(world.table, 1, born=False)
    assert found is not None
    assert found.append_ttl == 2 * HOUR
    assert birth.look_again(world.table) == found


def test_a_place_without_history_is_not_asked_for_it() -> None:
    world = make_world()
    assert birth.said(world.table, 0, born=False) is None
    assert world.store.counters.get == 0
    assert birth.look_again(world.table) is None
    assert (world.store.counters.get, world.store.counters.list) == (0, 1)


@pytest.mark.parametrize(
    ("seq", "born", "locking", "begins"),
    [
        (0, False, "fenced", True),
        (1, False, "fenced", False),
        (0, True, "fenced", False),
        (0, False, "pool-only", False),
    ],
)
def test_a_birth_record_is_written_where_there_is_nothing_yet_and_the_store_keeps_one(
    seq: int, born: bool, locking: str, begins: bool
) -> None:
    world = make_world(locking=locking)
    assert birth.begins(world.table, seq, born=born) is begins


def test_a_birth_record_of_somebody_else_stays() -> None:
    world, other = make_world(append={"ttl": "2h"}), make_world()
    log = world.table.paths.append_log(world.clock.now, "w-1")
    assert birth.write(world.table, log, world.clock.now)
    before = dict(world.store.objects)
    other.store.objects = world.store.objects
    assert not birth.write(other.table, log, other.clock.now + 1)
    assert world.store.objects == before
    data = before[world.table.paths.birth][0]
    assert birth_file.decode("", data).properties == from_settings(world.settings)


def test_an_append_to_a_table_with_transactions_says_nothing_of_it() -> None:
    world = began_by_others()
    before = world.store.counters.as_dict()
    result = Appender(world.table, known_schema={"id": "BIGINT"}).append(pa.table({"id": [1]}))
    assert result.q == 1
    assert world.table.paths.birth not in world.store.objects
    after = world.store.counters.as_dict()
    assert {kind: after[kind] - before[kind] for kind in ("put", "list")} == {"put": 2, "list": 2}
