"""Settings of the fleet: the top-level section ``fleet``, which holds for all tables together.

docs/settings-reference.md is generated from it.
"""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, model_validator

from firnline.errors import UsageError
from firnline.settings.notifiers import NotifierSettings
from firnline.settings.sections import Schedule, Section, check_zone
from firnline.units import format_size, parse_size

_PER_DAY = re.compile(r"(?P<size>.*\S)\s*/\s*(?:day|d)", re.IGNORECASE | re.DOTALL)
_HOURS = re.compile(r"(\d{2}):(\d{2})-(\d{2}):(\d{2})")
_DAY_MINUTES = 24 * 60


def parse_budget(value: object) -> int:
    """Return the bytes a day of ``2TiB/day``. Raises ValueError."""
    match = _PER_DAY.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        shown = repr(value)[:100]
        raise ValueError(f"{shown} is not a budget; write bytes a day as 2TiB/day")
    try:
        size = parse_size(match["size"])
    except UsageError as error:
        raise ValueError(f"{error.message}; write bytes a day as 2TiB/day") from None
    if size < 1:
        raise ValueError("a budget of nothing merges nothing; set more, or null for no limit")
    return size


def format_budget(budget: int) -> str:
    """Return ``2TiB/day``."""
    return f"{format_size(budget)}/day"


def minutes_of(hours: str) -> tuple[int, int]:
    """Return the minutes of the day at which ``22:00-06:30`` begins and ends.

    Raises ValueError: it is not of this form, or has no duration.
    """
    match = _HOURS.fullmatch(hours)
    numbers = [int(each) for each in match.groups()] if match is not None else []
    if numbers and numbers[1] < 60 and numbers[3] < 60:
        start, end = numbers[0] * 60 + numbers[1], numbers[2] * 60 + numbers[3]
        if start < _DAY_MINUTES and end <= _DAY_MINUTES and start != end:
            return start, end
    raise ValueError(f"{hours[:100]!r} are not hours of a day; write 08:00-18:30 or 22:00-06:00")


def _check_hours(hours: str) -> str:
    minutes_of(hours)
    return hours


Budget = Annotated[
    int,
    BeforeValidator(parse_budget),
    PlainSerializer(format_budget, return_type=str, when_used="json"),
]
"""Bytes a day, parsed from ``2TiB/day`` and written in this form in JSON."""
Hours = Annotated[str, AfterValidator(_check_hours)]


class FleetSettings(Section):
    """The planner of the fleet, for operations with `schedule: fleet`."""

    schedule: Schedule | None = Field(
        default="@hourly",
        description="Schedule of the DAG `fleet__merge`, which reads the logs of these tables and "
        "starts merges, and clean-up, TTL and verify, where there is something to do. It "
        "publishes mirrors, too: with the default a mirror shows an append an hour later at most, "
        "whatever its `every` says. null: only by hand; each table then has a clean-up and a TTL "
        "DAG that run each day, and a verify DAG that runs each week.",
    )
    budget: Budget | None = Field(
        default=None,
        description="Bytes that the merges it starts may read within 24 hours, such as "
        "`2TiB/day`; what saves most requests per byte comes first. null: no limit.",
    )
    quiet_hours: tuple[Hours, ...] = Field(
        default=(),
        description="Hours of the day in which it starts nothing, such as `08:00-18:30` or "
        "`22:00-06:00`, in `fleet.time_zone`.",
    )
    time_zone: str = Field(
        default="UTC", description="IANA name of the time zone of `fleet.quiet_hours`."
    )
    concurrency: int = Field(
        default=16,
        ge=1,
        le=256,
        description="Logs that are read at the same time. Each takes the memory of one table's "
        "log.",
    )
    max_runs: int | None = Field(
        default=None,
        ge=1,
        le=100_000,
        description="Merges that one run of the planner starts at most. null: no limit.",
    )
    alerts: NotifierSettings = Field(
        default=NotifierSettings(),
        description="Notification of a failed run of the planner, such as one that could not "
        "read a table, of a planner that is silent for two hours, and of their end.",
    )

    @model_validator(mode="before")
    @classmethod
    def _one_range(cls, value: Any) -> Any:  # noqa: ANN401 - pydantic gives what the file holds
        """Take a single range of hours for a list of one."""
        if isinstance(value, dict) and isinstance(value.get("quiet_hours"), str):
            return {**value, "quiet_hours": [value["quiet_hours"]]}
        return value

    @model_validator(mode="after")
    def _check(self) -> FleetSettings:
        check_zone(self.time_zone)
        return self
