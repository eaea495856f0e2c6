"""Speed of a run, and the time that is left."""

from __future__ import annotations

import pytest

from firnline.cli.pace import Pace
from tests.support.world import SetClock


def ran(*told: tuple[int, int], total: int = 1_000) -> Pace:
    """A run that told, at seconds since its beginning, how much was done."""
    clock = SetClock()
    pace, at = Pace(clock), 0
    for seconds, done in told:
        clock.advance(1_000 * (seconds - at))
        at = seconds
        pace.take(done, total)
    return pace


def test_a_run_of_less_than_two_seconds_has_no_estimate() -> None:
    assert ran((0, 0), (1, 500)).in_words("part") == ""
    assert ran((0, 0), (5, 0)).in_words("part") == ""
    assert ran().in_words("part") == ""


@pytest.mark.parametrize(
    ("told", "words"),
    [
        (((0, 0), (2, 80)), "40 parts a second, about 23 seconds left"),
        (((0, 0), (10, 10)), "1 part a second, about 16 minutes left"),
        (((0, 0), (50, 10)), "12 parts a minute, about 82 minutes left"),
        (((0, 0), (50, 1)), "1 part a minute, about 14 hours left"),
        (((0, 0), (3_000, 2)), "2 parts an hour, about 17 days left"),
        (((0, 0), (10_000, 1)), "less than 1 part an hour, about 116 days left"),
        (((0, 0), (10, 1_000)), "100 parts a second"),
    ],
)
def test_speed_and_rest_are_in_plain_words(told: tuple[tuple[int, int], ...], words: str) -> None:
    assert ran(*told).in_words("part") == words


def test_the_speed_is_that_of_the_last_minute() -> None:
    pace = ran((0, 0), (100, 100), (110, 110), (120, 130), (160, 210), (170, 230))
    assert pace.rate == pytest.approx(2.0)


def test_time_before_the_first_unit_could_be_done_does_not_count() -> None:
    assert ran((100, 0), (102, 4)).rate == pytest.approx(2.0)


def test_a_run_that_plans_again_begins_again() -> None:
    assert ran((0, 0), (10, 500), (20, 0), (30, 10)).rate == pytest.approx(1.0)


def test_each_stage_of_a_run_has_a_speed_of_its_own() -> None:
    clock = SetClock()
    pace = Pace(clock)
    for done in (10, 20):
        clock.advance(5_000)
        pace.take(done, 20, "footer")
    for done in (20, 1_020):  # the second stage counts more at once than the first in all
        clock.advance(1_000)
        pace.take(done, 2_020, "file")
    assert pace.in_words("file") == "1,000 files a second, about 1 second left"


def test_without_a_total_there_is_a_speed_and_no_rest() -> None:
    assert ran((0, 0), (10, 20), total=0).in_words("footer") == "2 footers a second"
