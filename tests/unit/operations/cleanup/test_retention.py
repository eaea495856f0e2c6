"""How long transactions are kept: one rule for clean-up, checks and planners."""

from __future__ import annotations

import pytest

from firnline.operations.cleanup.retention import TXN_AGE_MS, TXN_KEPT, first_kept, kept_ms
from firnline.units import DAY_MS


@pytest.mark.parametrize(("grace_days", "kept_days"), [(0, 7), (3, 7), (6, 7), (7, 8), (20, 21)])
def test_transactions_are_kept_a_week_and_a_day_longer_than_the_grace(
    grace_days: int, kept_days: int
) -> None:
    assert kept_ms(grace_days * DAY_MS) == kept_days * DAY_MS
    assert kept_ms(0) == TXN_AGE_MS


def test_the_newest_hundred_are_kept_whatever_their_age() -> None:
    assert first_kept(250) == 151
    assert len(range(first_kept(250), 251)) == TXN_KEPT
