"""A run that stood still for longer than half the grace looks again, or does not go on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from firnline.errors import SnapshotUnstableError, StoreUnavailableError, UsageError
from firnline.operations.in_time import ATTEMPTS, InTime, looked
from tests.support.world import World, make_world

HOUR = 3_600_000


class Looks:
    """Looks that take as long as they are told, and fail or not."""

    def __init__(self, world: World, *hours: float, fails: int = 0) -> None:
        self.world, self.hours, self.fails, self.made = world, iter(hours), fails, 0

    def __call__(self, time: InTime) -> int:
        self.made += 1
        self.world.clock.advance(int(next(self.hours) * HOUR))
        if self.made <= self.fails:
            raise UsageError("parts are missing", next_step="copy them")
        return self.made


def test_one_that_took_longer_than_half_the_grace_is_repeated() -> None:
    world = make_world(cleanup={"grace": "24h"})
    assert looked(world.table, Looks(world, 12)) == 1
    assert looked(world.table, Looks(world, 12.1, 24, 1)) == 3


def test_what_a_late_one_complains_of_is_not_told() -> None:
    world = make_world(cleanup={"grace": "24h"})
    assert looked(world.table, Looks(world, 13, 1, fails=1)) == 2
    with pytest.raises(UsageError, match="parts are missing"):
        looked(world.table, Looks(world, 13, 1, fails=2))


@pytest.mark.parametrize("fails", [0, ATTEMPTS])
def test_where_each_is_late_one_sentence_says_so(fails: int) -> None:
    world = make_world(cleanup={"grace": "24h"})
    looks = Looks(world, *[13] * ATTEMPTS, fails=fails)
    with pytest.raises(SnapshotUnstableError, match="took longer than half its grace") as error:
        looked(world.table, looks)
    assert "(12h) each of 3 times" in error.value.message
    assert looks.made == ATTEMPTS


def test_the_grace_is_that_of_the_table_once_it_is_known() -> None:
    world = make_world(cleanup={"grace": "24h"})
    hours: Iterator[int] = iter([2, 0])

    def look(time: InTime) -> int:
        time.under(world.settings, 2 * HOUR)
        slept = next(hours)
        world.clock.advance(slept * HOUR)
        return slept

    assert looked(world.table, look) == 0


def test_a_store_that_does_not_answer_is_told_at_once() -> None:
    world = make_world()

    def look(time: InTime) -> int:
        world.clock.advance(48 * HOUR)
        assert time.is_over
        raise StoreUnavailableError("no answer", next_step="try again")

    with pytest.raises(StoreUnavailableError):
        looked(world.table, look)


def test_what_is_about_to_be_done_too_late_is_refused() -> None:
    world = make_world(cleanup={"grace": "24h"})
    time = InTime.since(world.table, world.clock.elapsed)
    world.clock.advance(12 * HOUR)
    time.refuse("before it could write a")
    world.clock.advance(1)
    with pytest.raises(SnapshotUnstableError, match="half the grace before it could write a"):
        time.refuse("before it could write a")
