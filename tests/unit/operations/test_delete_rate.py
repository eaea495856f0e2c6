"""The rate of deletes: what it waits, how it falls and how it rises."""

from __future__ import annotations

import pytest

from firnline.operations.delete_rate import FLOOR, DeleteRate
from tests.support.world import SetClock


def sent_at(rate: DeleteRate, clock: SetClock, batches: int, keys: int = 1_000) -> list[int]:
    """Times at which so many batches are sent, ms since the first."""
    began, times = clock.elapsed, []
    for _ in range(batches):
        clock.advance(max(0, rate.wait_ms()))
        times.append(clock.elapsed - began)
        rate.send(keys)
    return times


def test_batches_wait_for_the_keys_before_them() -> None:
    clock = SetClock()
    rate = DeleteRate(clock, 3_000)
    assert sent_at(rate, clock, 4) == [0, 333, 666, 999]
    assert not rate.slowed


def test_what_a_slow_answer_left_unused_is_not_made_up_for() -> None:
    clock = SetClock()
    rate = DeleteRate(clock, 1_000)
    sent_at(rate, clock, 1)
    clock.advance(10_000)
    assert sent_at(rate, clock, 3) == [0, 1_000, 2_000]


@pytest.mark.parametrize(
    ("refusals", "left"), [(1, 1_500), (2, 750), (3, 375), (4, 187), (5, FLOOR), (9, FLOOR)]
)
def test_each_refusal_halves_the_rate_down_to_its_floor(refusals: int, left: int) -> None:
    clock = SetClock()
    rate = DeleteRate(clock, 3_000)
    for _ in range(refusals):
        # What was allowed is sent for a while: a rate that was not used says less.
        turns = []
        for _ in range(10):
            clock.advance(max(0, rate.wait_ms()))
            turns.append(rate.send(min(1_000, rate.per_second)))
        assert rate.refused(turns[-1])
    assert left - 40 <= rate.per_second <= left
    assert rate.slowed


def test_refusals_of_what_was_sent_before_the_rate_fell_count_once() -> None:
    clock = SetClock()
    rate = DeleteRate(clock, 3_000)
    turns = [rate.send(1_000) for _ in range(8)]
    assert [rate.refused(turn) for turn in turns] == [True] + [False] * 7
    assert rate.per_second == 1_500


def test_half_of_what_was_sent_where_that_was_less_than_allowed() -> None:
    clock = SetClock()
    rate = DeleteRate(clock, 10_000_000)
    turn = [rate.send(1_000) for _ in range(8)][-1]
    clock.advance(2_000)
    assert rate.refused(turn)
    assert rate.per_second == 2_000


def test_a_limit_below_the_floor_stays() -> None:
    clock = SetClock()
    rate = DeleteRate(clock, 10)
    assert rate.refused(rate.send(1_000))
    assert rate.per_second == 10
    assert not rate.slowed


def test_after_a_refusal_there_is_a_pause_of_a_second() -> None:
    clock = SetClock()
    rate = DeleteRate(clock, 1_000_000)
    assert rate.refused(rate.send(1_000))
    assert rate.wait_ms() == 1_000


def test_successes_raise_the_rate_to_its_limit_in_half_a_minute_and_no_further() -> None:
    clock = SetClock()
    rate = DeleteRate(clock, 3_000)
    turns = [rate.send(1_000) for _ in range(8)]
    assert rate.refused(turns[0])
    assert rate.per_second == 1_500
    began, seen = clock.elapsed, []
    while rate.slowed:
        clock.advance(max(0, rate.wait_ms()))
        rate.send(1_000)
        rate.went_well(1_000)
        seen.append(rate.per_second)
    assert seen == sorted(seen)
    assert rate.per_second == 3_000
    # 50 keys a second more in each second; the batches before it were in advance by 2.7 s.
    assert 29_000 <= clock.elapsed - began <= 34_000
    rate.went_well(1_000)
    assert rate.per_second == 3_000
