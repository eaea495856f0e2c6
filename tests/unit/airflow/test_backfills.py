"""The schedule of DAGs for backfills."""

from __future__ import annotations

from itertools import pairwise

import pendulum
import pytest
from airflow.timetables.base import DataInterval, TimeRestriction

from firnline.airflow.backfills import BackfillOnly

DAILY = BackfillOnly("@daily", timezone="UTC")
FIRST, LAST = pendulum.datetime(2024, 3, 1), pendulum.datetime(2024, 3, 3)
BEFORE = DataInterval(FIRST.subtract(days=1), FIRST)


@pytest.mark.parametrize("last", [None, BEFORE])
@pytest.mark.parametrize("catchup", [False, True])
def test_the_scheduler_has_no_run_to_make(last: DataInterval | None, *, catchup: bool) -> None:
    ours = TimeRestriction(earliest=FIRST, latest=None, catchup=catchup)
    info = DAILY.next_dagrun_info(last_automated_data_interval=last, restriction=ours)
    assert info is None


def test_a_backfill_has_an_interval_for_each_of_its_dates() -> None:
    dates = TimeRestriction(earliest=FIRST, latest=LAST, catchup=True)
    found: list[DataInterval] = []
    last = None
    while (
        info := DAILY.next_dagrun_info(last_automated_data_interval=last, restriction=dates)
    ) is not None:
        assert info.data_interval is not None
        last = info.data_interval
        found.append(last)
    days = [FIRST.add(days=n) for n in range(4)]
    assert found == [DataInterval(*each) for each in pairwise(days)]


def test_the_scheduler_makes_it_anew_from_what_it_has_stored() -> None:
    again = BackfillOnly.deserialize(DAILY.serialize())
    assert isinstance(again, BackfillOnly)
    assert again == DAILY
