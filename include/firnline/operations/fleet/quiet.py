"""The hours in which the planner of the fleet starts nothing."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from firnline.settings.fleet import FleetSettings, minutes_of


def quiet_now(settings: FleetSettings, now_ms: int) -> str | None:
    """Return the quiet hours that a time (unix ms) lies in, as a reason; None outside of them.

    The end is not part of the hours. They are those of a clock on the wall: on the day of a change
    to summer time they begin and end as on any other day.
    """
    local = datetime.fromtimestamp(now_ms / 1000, UTC).astimezone(ZoneInfo(settings.time_zone))
    minute = local.hour * 60 + local.minute
    for hours in settings.quiet_hours:
        start, end = minutes_of(hours)
        within = start <= minute < end if start < end else minute >= start or minute < end
        if within:
            return f"quiet hours {hours} {settings.time_zone}"
    return None
