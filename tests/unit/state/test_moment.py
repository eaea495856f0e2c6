from __future__ import annotations

import datetime
from typing import Any

import pytest

from firnline.commit.base import take_base
from firnline.errors import UsageError
from firnline.state.moment import At, Moment, parse_moment, snapshot_at, time_ms
from tests.support.log_tables import do_merge, put_append
from tests.support.world import START_MS, make_world

NOON = datetime.datetime(2026, 1, 31, 12, tzinfo=datetime.UTC)
NOON_MS = 1_769_860_800_000


@pytest.mark.parametrize(
    ("at", "means"),
    [
        (7, Moment(seq=7)),
        ("0", Moment(seq=0)),
        (" 999999999 ", Moment(seq=999_999_999)),
        ("1000000000", Moment(ms=10**9)),
        (NOON_MS, Moment(ms=NOON_MS)),
        ("2026-01-31T13:00:00+01:00", Moment(ms=NOON_MS)),
        ("2026-01-31T12:00:00", Moment(ms=NOON_MS)),
        ("2026-01-31", Moment(ms=NOON_MS - 12 * 3_600_000)),
        (NOON, Moment(ms=NOON_MS)),
    ],
)
def test_a_moment_is_a_time_or_a_transaction(at: At, means: Moment) -> None:
    assert parse_moment(at, NOON_MS) == means


@pytest.mark.parametrize(
    ("at", "said"),
    [
        ("yesterday", "is not a time"),
        (-1, "is not a time"),
        (True, "is not a time"),
        (1.5, "is not a time"),
        (b"1", "is not a time"),
        (object(), "is not a time"),
        (NOON.replace(tzinfo=None), "has no zone"),
        (NOON_MS + 1, "lies in the future"),
    ],
)
def test_what_is_neither_is_refused(at: Any, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        parse_moment(at, NOON_MS)


def test_a_transaction_stands_for_the_state_right_after_it_whoever_asks() -> None:
    world = make_world()
    (first,) = put_append(world)
    (second,) = put_append(world)
    do_merge(world, [first, second])
    world.clock.advance(10)  # an append of the transaction's own millisecond would count with it
    put_append(world)
    assert len(snapshot_at(world.table, 1).live) == 1
    assert len(snapshot_at(world.table, "0").live) == 2
    assert len(snapshot_at(world.table).live) == 2
    state = take_base(world.table).snapshot
    before = world.store.counters.get
    assert time_ms(world.table, 1, state) == state.times[-1][0] > START_MS
    assert world.store.counters.get - before == 1, "one for the head"


def test_a_transaction_that_is_not_there_is_wrong_usage() -> None:
    world = make_world()
    put_append(world)
    with pytest.raises(UsageError, match="has no transaction"):
        snapshot_at(world.table, 1)
    with pytest.raises(UsageError, match="no table"):
        snapshot_at(make_world("memory://other/t").table)
