"""Settings of what deletes, checks and tells: frozen models beside ``settings_sections``."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from firnline.settings.sections import Schedule, Section
from firnline.units import Duration, duration_between

Operation = Literal[
    "merge",
    "tombstone_cleanup",
    "ttl",
    "remove_partitions",
    "rewrite_partitions",
    "delete_where",
    "replace",
    "restore",
    "erase",
    "orphan_sweep",
    "verify",
    "rebuild",
]
"""What a DAG exists for: the part of its id before ``__``."""

ALL_OPERATIONS: tuple[Operation, ...] = Operation.__args__  # type: ignore[attr-defined] # typing's


class RewriteSettings(Section):
    """Rewriting partitions by a filter or a query."""

    max_removed_fraction: float = Field(
        default=0.5,
        ge=0,
        le=1,
        description="Part of a partition's rows, 0 to 1. A rewrite that would remove more of a "
        "partition needs force: a filter that was meant the other way round does.",
    )
    time_limit: Annotated[Duration, duration_between("1s", "1d")] = Field(
        default=3_600_000,
        description="Duration, 1s to 1d. How long a user's query may run on one group.",
    )


class SweepSettings(Section):
    """Objects that no log file names."""

    schedule: Schedule | None = Field(
        default=None,
        description="Cron (UTC) or preset for the list of orphans; deleting them is approved by "
        "hand. null: by hand.",
    )


class VerifySettings(Section):
    """Comparing the log with what lies in the store."""

    schedule: Schedule | None = Field(
        default="@weekly", description="Cron (UTC) or preset; null: by hand."
    )


class AlertSettings(Section):
    """Who is told when something fails or does not happen."""

    notifier: str | None = Field(
        default=None,
        pattern=r"^[A-Za-z_][\w.]*\.[A-Za-z_]\w*$",
        description="Dotted path of an Airflow notifier class (or a callback), called when a run's "
        "task failed for good; null: nobody.",
    )
    arguments: dict[str, str] = Field(
        default_factory=dict, description="Keyword arguments of the notifier class."
    )
    merge_deadline: Annotated[Duration, duration_between("1m", "365d")] | None = Field(
        default=None,
        description="Duration. A merge run that has not ended this long after it was due raises a "
        "deadline alert; null: none.",
    )
