from __future__ import annotations

import pytest

from firnline.settings.cron import PRESETS, check_schedule


@pytest.mark.parametrize(
    "text",
    [
        *PRESETS,
        "* * * * *",
        "15 * * * *",
        "*/10 0-6 1,15 jan-mar MON-FRI",
        "0 0 31 12 7",
        "5-50/5 * * * *",
    ],
)
def test_what_airflow_runs_is_accepted(text: str) -> None:
    assert check_schedule(text) == text


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("61 * * * *", "minute"),
        ("* 24 * * *", "hour"),
        ("* * 0 * *", "day of month"),
        ("* * * 13 *", "month"),
        ("* * * * 8", "day of week"),
        ("* * * foo *", "month"),
        ("9-3 * * * *", "minute"),
        ("*/0 * * * *", "minute"),
        ("5/0 * * * *", "minute"),
        ("1,,2 * * * *", "minute"),
        ("*-5 * * * *", "minute"),
        ("- * * * *", "minute"),
    ],
)
def test_the_field_that_is_wrong_is_named(text: str, named: str) -> None:
    with pytest.raises(ValueError, match=f"is not valid for {named};"):
        check_schedule(text)


@pytest.mark.parametrize("text", ["", "@reboot", "hourly", "* * * *", "* * * * * *"])
def test_anything_else_is_told_what_a_schedule_is(text: str) -> None:
    with pytest.raises(ValueError, match="five cron fields"):
        check_schedule(text)
