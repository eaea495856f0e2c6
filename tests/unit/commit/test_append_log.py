"""The one put that makes rows visible."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from firnline.commit.append_log import publish_append
from firnline.errors import CommitUnknownError, TransactionError
from firnline.log import codec
from firnline.log.records import LogContent
from firnline.store.create import Attempt
from tests.support.log_tables import SCHEMA
from tests.support.world import Sleeping, World, make_world


def publish(world: World, store: Any = None, attempt: Attempt | None = None) -> str:
    t = world.clock.now
    key = world.table.paths.append_log(t, "w-018bcfe5-6801-7000-8000-000000000009")
    content = LogContent(t=t, schema=SCHEMA)
    table = world.table if store is None else replace(world.table, store=store)
    told = attempt or Attempt()
    publish_append(table, key, content, world.clock.elapsed, told, begins=False, stated=True)
    return key


def test_a_log_file_of_somebody_else_under_its_name_is_an_error_and_nothing_is_published() -> None:
    world, attempt = make_world(), Attempt()
    key = publish(world)
    world.store.objects[key] = (codec.encode(LogContent(t=1, schema={})), world.clock.now)
    before = dict(world.store.objects)
    with pytest.raises(TransactionError, match="was not written by this"):
        publish(world, attempt=attempt)
    assert world.store.objects == before
    assert not attempt.may_stand, "its parts may be deleted"


def test_a_put_that_never_arrived_is_sent_again_as_long_as_there_is_time() -> None:
    world = make_world()
    store = Sleeping(world.store, clock=world.clock, what="/_log/", ms=world.settings.append.ttl)
    key = publish(world, store)
    assert store.lost == [key]
    assert key in world.store.objects


@pytest.mark.parametrize(("ttl", "minutes"), [("20m", 20), ("6h", 30)])
def test_one_that_slept_longer_than_it_may_does_not_send_its_second_put(
    ttl: str, minutes: int
) -> None:
    """By ``append.ttl`` a delete of its rows may be forgotten; by the grace, its log file gone."""
    world, attempt = make_world(cleanup={"grace": "1h"}, append={"ttl": ttl}), Attempt()
    ms = minutes * 60_000 + 1
    store = Sleeping(world.store, clock=world.clock, what="/_log/", ms=ms)
    with pytest.raises(CommitUnknownError, match="too late to try again"):
        publish(world, store, attempt)
    assert len(store.lost) == 1
    assert attempt.may_stand, "else its parts would be deleted"
    assert not [key for key in world.store.objects if "/_log/" in key]


def test_only_an_append_that_begins_a_table_says_what_the_table_is() -> None:
    world = make_world()
    assert codec.decode(publish(world), _data(world), world.table.paths).properties == []


def _data(world: World) -> bytes:
    (found,) = [data for key, (data, _) in world.store.objects.items() if "/_log/" in key]
    return found
