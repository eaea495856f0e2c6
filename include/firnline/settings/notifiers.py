"""Settings of notifications: the sections ``alerts`` of a table and of the fleet."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, Field

from firnline.settings.fields import Duration, duration_between
from firnline.settings.sections import Section

_DOTTED = re.compile(r"[A-Za-z_][\w.]*\.[A-Za-z_]\w*")


def _check_notifier(path: str) -> str:
    if _DOTTED.fullmatch(path) is None:
        raise ValueError(
            f"{path!r} is not the dotted path of a class or a function; write module.name, such as "
            "airflow.providers.slack.notifications.slack.SlackNotifier"
        )
    return path


class NotifierSettings(Section):
    """Notification of failed runs and of questions that wait for a person."""

    notifier: Annotated[str, AfterValidator(_check_notifier)] | None = Field(
        default=None,
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
