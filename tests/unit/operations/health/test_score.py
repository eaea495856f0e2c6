from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firnline.operations.health.figures import Figures
from firnline.operations.health.score import score, unreadable

QUIET = Figures(
    seq=9,
    newest_ms=1,
    partitions=2,
    parts=10,
    rows=100,
    bytes=1_000,
    small_parts=0,
    merge_parts=0,
    merge_outputs=0,
    merge_bytes=0,
    dead_parts=0,
    dead_bytes=0,
    deletable_bytes=0,
    merge_due=None,
    next_due=None,
    last_due=None,
    expired_parts=0,
    expired_bytes=0,
    deletes=0,
    log_files=10,
    log_bytes=100,
    log_files_read=10,
    last={},
    differs=(),
    holds=0,
)


def having(**figures: Any) -> Figures:
    return msgspec.structs.replace(QUIET, **figures)


def test_a_table_with_nothing_to_do_has_all_points_and_no_reason() -> None:
    assert (score(QUIET).points, score(QUIET).reasons) == (100, ())
    assert score(having(parts=0, bytes=0, rows=0)).points == 100


@pytest.mark.parametrize(
    ("figures", "points", "text"),
    [
        ({"merge_parts": 8, "merge_outputs": 2}, 70, "8 parts, 6 requests a scan, wait for"),
        ({"dead_bytes": 1_000, "deletable_bytes": 1_000}, 90, "1000 B wait for a clean-up"),
        ({"dead_bytes": 1_000}, 100, ""),  # the grace is not over: nothing can be done yet
        ({"expired_parts": 1, "expired_bytes": 500}, 95, "500 B are past their time to live"),
        ({"log_files_read": 100}, 100, ""),
        ({"log_files_read": 1_000}, 85, "1,000 log files for every reader"),
        ({"differs": ("primary_key",)}, 90, "settings differ: primary_key"),
        ({"problems": ("no merge can be planned: x; y",)}, 80, "no merge can be planned: x; y"),
    ],
    ids=str,
)
def test_every_missing_point_has_its_reason(
    figures: dict[str, Any], points: int, text: str
) -> None:
    found = score(having(**figures))
    assert found.points == points
    assert [reason.points for reason in found.reasons] == [100 - points] * (points < 100)
    assert all(text in reason.text for reason in found.reasons)


def test_the_largest_reason_comes_first() -> None:
    found = score(having(merge_parts=10, merge_outputs=1, differs=("deletes",)))
    assert [reason.points for reason in found.reasons] == [45, 10]


def test_a_table_that_cannot_be_read_has_no_points() -> None:
    found = unreadable("cannot be read: it is gone")
    assert (found.points, [reason.points for reason in found.reasons]) == (0, [100])


counts = st.integers(0, 10**12)


@given(
    st.builds(
        having,
        parts=counts,
        bytes=counts,
        merge_parts=counts,
        deletable_bytes=counts,
        dead_bytes=counts,
        expired_bytes=counts,
        log_files_read=counts,
        differs=st.sampled_from([(), ("deletes",)]),
        problems=st.lists(st.just("p; q"), max_size=9).map(tuple),
    )
)
def test_a_score_stays_within_its_bounds_and_adds_up(figures: Figures) -> None:
    found = score(figures)
    assert 0 <= found.points <= 100
    assert found.points == max(0, 100 - sum(reason.points for reason in found.reasons))
    assert all(reason.points > 0 for reason in found.reasons)
