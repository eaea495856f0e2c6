"""What a timetable says, whichever Airflow made it."""

from __future__ import annotations

from typing import Any


def cron_of(timetable: Any) -> str:
    """The cron expression of a timetable; its attribute is private before Airflow 3.2."""
    return str(getattr(timetable, "expression", None) or timetable._expression)
