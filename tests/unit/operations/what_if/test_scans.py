"""Means of what scans open: of the whole table, and of yesterday."""

from __future__ import annotations

from typing import Any

import pytest

from firnline.log.records import Marker
from firnline.operations.what_if.scans import Scans
from firnline.units import DAY_MS
from tests.support.world import make_world

HOUR_MS = DAY_MS // 24
MIDNIGHT = 1_700_006_400_000
"""2023-11-15."""


def scans(partition_by: tuple[str, ...] = ("day(ts)",)) -> Scans:
    return Scans(make_world(partition_by=list(partition_by)).settings, MIDNIGHT)


def part(name: str, t: int = MIDNIGHT, o: Any = None) -> Marker:
    return Marker(p=name, b=1, t=t, o=o)


def test_a_mean_weighs_each_count_by_its_time() -> None:
    counted = scans()
    counted.add("ts_day=2023-11-15", [part("a"), part("b")])
    counted.logs = 3
    counted.advance(MIDNIGHT + 3 * HOUR_MS)
    counted.remove("ts_day=2023-11-15", [part("a")])
    counted.logs = 1
    counted.advance(MIDNIGHT + 4 * HOUR_MS)
    means = counted.means()
    assert (means.parts, means.logs, means.yesterday) == (1.75, 2.5, None)


def test_yesterday_is_the_newest_partition_that_has_a_successor() -> None:
    counted = scans()
    counted.add("ts_day=2023-11-13", [part(f"a{n}") for n in range(9)])
    assert counted.yesterday is None
    counted.add("ts_day=2023-11-15", [part("b")])
    assert counted.yesterday == 9
    counted.add("ts_day=2023-11-14", [part("c"), part("d")])
    assert counted.yesterday == 2
    counted.add("ts_day=2099-01-01", [part("e")])  # a mistake of some sender
    assert counted.yesterday == 2
    counted.remove("ts_day=2023-11-14", [part("c"), part("d")])
    assert counted.yesterday == 9


def test_of_several_partitions_of_a_day_it_is_the_mean() -> None:
    counted = scans(("region", "day(ts)"))
    counted.add("region=a/ts_day=2023-11-14", [part("a"), part("b"), part("c")])
    counted.add("region=b/ts_day=2023-11-14", [part("d")])
    counted.add("region=b/ts_day=2023-11-15", [part("e")])
    counted.add("region=b/ts_day=__HIVE_DEFAULT_PARTITION__", [part("f")])
    assert counted.yesterday == 2


def test_without_times_of_partitions_it_is_what_came_the_day_before() -> None:
    counted = scans(())
    day_before = part("a", MIDNIGHT - HOUR_MS)
    counted.add("", [day_before, part("b", MIDNIGHT)])
    counted.add("", [part("c", MIDNIGHT, (MIDNIGHT - 3 * DAY_MS, MIDNIGHT))])
    counted.add("", [part("d", MIDNIGHT, (MIDNIGHT - 3 * DAY_MS, MIDNIGHT - 2 * DAY_MS))])
    assert counted.yesterday == 2
    counted.remove("", [day_before])
    assert counted.yesterday == 1
    counted.advance(MIDNIGHT + DAY_MS + HOUR_MS)
    assert counted.yesterday == 2  # b and c: their rows came on the 15th
    # On the 15th one part, and two for an hour of the 16th.
    assert counted.means().yesterday == pytest.approx((24 + 2) / 25)
