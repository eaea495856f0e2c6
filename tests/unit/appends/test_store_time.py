"""What a writer knows of the store's clock: one that is ahead is refused, a right one never is."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace

import pyarrow as pa
import pytest

from firnline.appends.append import Appender
from firnline.appends.store_time import StoreTime
from firnline.errors import ClockAheadError
from firnline.log.dated import FAR_MS
from tests.support.log_tables import do_merge, snapshot
from tests.support.world import START_MS, SetClock, World, make_world

DAY = 86_400_000
YEARS = 10 * 365 * DAY


def test_a_clock_that_is_ahead_of_the_store_is_refused_once_that_is_known() -> None:
    """A transaction that was not there at the last look says how late it is at most."""
    world = make_world()
    clock = SetClock(world.clock.now + YEARS, world.clock.elapsed)
    appender = Appender(replace(world.table, clock=clock))
    first = appender.append(pa.table({"v": [1]}))
    assert first.log_key is not None, "one look at the history says nothing"
    _later(world, clock)
    do_merge(world, list(snapshot(world).live))
    _later(world, clock)
    before = dict(world.store.objects)
    with pytest.raises(ClockAheadError, match="clock") as refused:
        appender.append(pa.table({"v": [2]}))
    assert refused.value.next_step.startswith("set this machine's clock")
    assert world.store.objects == before, "no part stays"
    lists = world.store.counters.list
    clock.now -= YEARS
    assert appender.append(pa.table({"v": [2]})).log_key is not None
    assert world.store.counters.list - lists <= 2


@pytest.mark.parametrize("quiet", [0, 3_600_000, YEARS])
@pytest.mark.parametrize("behind", [0, YEARS])
def test_a_clock_that_is_right_or_behind_is_never_refused(quiet: int, behind: int) -> None:
    world = make_world()
    clock = SetClock(world.clock.now - behind, world.clock.elapsed)
    appender = Appender(replace(world.table, clock=clock))
    for number in range(4):
        assert appender.append(pa.table({"v": [number]})).log_key is not None
        _later(world, clock, quiet)
        do_merge(world, list(snapshot(world).live))
        _later(world, clock, quiet)


@pytest.mark.parametrize(
    ("ahead", "passed", "refused"),
    [
        (FAR_MS, 1_000, False),
        (FAR_MS + 1, 1_000, True),
        (FAR_MS + 1, DAY, True),
        (FAR_MS + 1, DAY + 1, False),
        (YEARS, DAY + 1, False),
    ],
)
def test_what_a_machine_counted_itself_is_believed_for_a_day(
    ahead: int, passed: int, refused: bool
) -> None:
    """Its count drifts, and by it a clock that is right would be ahead one day."""
    known = StoreTime()
    known.refuse_ahead(START_MS + YEARS, 0)  # nothing is known yet
    known.appeared(START_MS, 500)
    with pytest.raises(ClockAheadError) if refused else nullcontext():
        known.refuse_ahead(START_MS + passed + ahead, 500 + passed)


def _later(world: World, clock: SetClock, ms: int = 60_000) -> None:
    world.clock.advance(ms)
    clock.advance(ms)
