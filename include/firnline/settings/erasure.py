"""Settings of erasure requests: the top-level section ``erasure``, for all tables together.

docs/settings-reference.md is generated from it.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field, model_validator

from firnline.errors import UsageError
from firnline.paths import Root, refuse_user
from firnline.settings.fields import Duration, duration_between
from firnline.settings.notifiers import NotifierSettings
from firnline.settings.sections import Schedule, Section
from firnline.units import DAY_MS


def _check_folder(url: str) -> str:
    """Return the URL of a folder without its trailing slash. Raises ValueError."""
    try:
        refuse_user(url, "folder")
        root = Root.parse(url, source=True)
    except UsageError as error:
        raise ValueError(str(error)) from None
    if root.scheme != "file" and not root.prefix:
        raise ValueError(f"{url!r} is a whole bucket; write {url.rstrip('/')}/erasures")
    return url.rstrip("/")


class ErasureSettings(Section):
    """Requests of people to be erased, from all tables that name their columns in `person`."""

    requests: Annotated[str, AfterValidator(_check_folder)] | None = Field(
        default=None,
        description="URL of the folder that keeps the requests with their keys until they are "
        "closed, outside of every table: `s3://bucket/erasures`. Whoever erases reads it with the "
        "credentials of the table. Variables of the environment are expanded. null: no requests "
        "are taken.",
    )
    connection_id: str | None = Field(
        default=None,
        min_length=1,
        description="Airflow connection with the credentials of that folder, as of a table. "
        "null: the usual chain of the store's cloud.",
    )
    within: Annotated[Duration, duration_between("1d", "365d")] = Field(
        default=30 * DAY_MS,
        description="Time after a request was received within which it is due, unless the request "
        "says another date.",
    )
    remind: Annotated[Duration, duration_between("0s", "365d")] = Field(
        default=7 * DAY_MS,
        description="Time before it is due from which a request that is not closed is told to the "
        "notifier, once a day.",
    )
    schedule: Schedule | None = Field(
        default="@daily",
        description="Schedule of the DAG `erase_person`, which asks whether the requests that wait "
        "may be carried out, all together. null: only by hand.",
    )
    alerts: NotifierSettings = Field(
        default=NotifierSettings(),
        description="Notification of requests that are due soon or overdue, of questions that "
        "wait, and of failed runs of `erase_person`.",
    )

    @model_validator(mode="after")
    def _check(self) -> ErasureSettings:
        if self.remind >= self.within:
            raise ValueError("remind must be shorter than within")
        return self
