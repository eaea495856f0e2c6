"""Settings of notifications: the sections ``alerts`` of a table and of the fleet."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from firnline.settings.fields import Duration, duration_between
from firnline.settings.sections import Section


class NotifierSettings(Section):
    """Notification of failed runs and of questions that wait for a person."""

    notifier: str | None = Field(
        default=None,
        pattern=r"^[A-Za-z_][\w.]*\.[A-Za-z_]\w*$",
        description="Dotted path of an Airflow notifier class, or of a callback function, that "
        "is called when a run failed for good, and when a task waits for a person. null: none.",
    )
    arguments: dict[str, str] = Field(
        default_factory=dict, description="Keyword arguments of the notifier."
    )


class AlertSettings(NotifierSettings):
    """Notifications of failed runs, waiting questions and missed deadlines."""

    merge_deadline: Annotated[Duration, duration_between("1m", "365d")] | None = Field(
        default=None,
        description="Time in which a merge run has to succeed after it was queued; a run that "
        "misses it raises a deadline alert. null: none.",
    )
