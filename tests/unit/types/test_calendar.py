from __future__ import annotations

import datetime

from hypothesis import given
from hypothesis import strategies as st

from firnline.types.calendar import civil_from_days, date_text, days_from_civil, timestamp_text

EPOCH = datetime.date(1970, 1, 1)


@given(days=st.integers(-(10**9), 10**9))
def test_a_date_of_any_year_comes_back(days: int) -> None:
    year, month, day = civil_from_days(days)
    assert 1 <= month <= 12
    assert 1 <= day <= 31
    assert days_from_civil(year, month, day) == days


@given(date=st.dates())
def test_dates_agree_with_the_standard_library(date: datetime.date) -> None:
    days = (date - EPOCH).days
    assert civil_from_days(days) == (date.year, date.month, date.day)
    assert date_text(days) == date.isoformat()


@given(moment=st.datetimes())
def test_timestamps_agree_with_the_standard_library(moment: datetime.datetime) -> None:
    since = moment - datetime.datetime(1970, 1, 1)  # noqa: DTZ001 - naive on both sides
    text = timestamp_text(since // datetime.timedelta(microseconds=1))
    assert text == moment.isoformat(timespec="microseconds")


def test_years_outside_of_four_digits_are_written_in_full() -> None:
    assert date_text(days_from_civil(12345, 1, 2)) == "12345-01-02"
    assert date_text(days_from_civil(-44, 3, 15)) == "-0044-03-15"
