"""What users say of firnline's DAGs in Airflow: queue, retries, callbacks and the like.

The section ``airflow`` at the top of the file holds for all DAGs, that of a table for its own DAGs.
Each may say it for one operation besides. Lists and callbacks are plain text: nothing is imported.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator

from firnline.settings.fields import Duration, duration_between
from firnline.settings.sections import Operation, Section
from firnline.units import parse_utc

_NAMED = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*[.:][A-Za-z_]\w*")
_NO_SCHEDULE = (
    "a schedule has one place, and that is the operation's own section of a table: merge.schedule, "
    "cleanup.schedule, ttl.schedule, verify.schedule, sweep.schedule or import.schedule; "
    "fleet.schedule is that of the planner"
)


def _check_named(path: str) -> str:
    if _NAMED.fullmatch(path) is None:
        raise ValueError(
            f"{path!r} names no function; write package.module:name, such as "
            "our_alerts.airflow:page_somebody"
        )
    return path


def _check_date(text: str) -> str:
    try:
        parse_utc(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a date; write 2026-01-31 or 2026-01-31T12:00") from None
    return text


def _as_text(value: Any) -> Any:  # noqa: ANN401 - pydantic gives what the file holds
    """Return a date as text: YAML reads ``2026-01-31`` as one."""
    return value.isoformat() if hasattr(value, "isoformat") else value


Named = Annotated[str, AfterValidator(_check_named)]
"""A function of the users, by its module and its name."""
Text = Annotated[str, Field(min_length=1, max_length=250)]


class DagSection(Section):
    """What can be said of DAGs and of their tasks, in the words of Airflow; null: as without it."""

    retries: int | None = Field(
        default=None, ge=0, le=1_000, description="Retries of a task after a transient error."
    )
    retry_delay: Annotated[Duration, duration_between("1s", "1d")] | None = Field(
        default=None, description="Time before the first retry; each further one waits longer."
    )
    max_retry_delay: Annotated[Duration, duration_between("1s", "1d")] | None = Field(
        default=None, description="Longest time before a retry."
    )
    queue: Text | None = Field(default=None, description="Queue of the executor.")
    pool: Text | None = Field(
        default=None,
        description="Pool of the tasks that hold no lock of a table, such as `plan`, `report`, "
        "`mirror` and those of an import. The task that works is in the pool of its table always: "
        "that is the lock.",
    )
    executor: Text | None = Field(
        default=None, description="Executor, by its name in Airflow's configuration."
    )
    executor_config: dict[str, Any] | None = Field(
        default=None,
        description="Configuration for the executor, as plain data. `pod_override` is a pod as in "
        "a manifest of Kubernetes.",
    )
    priority_weight: int | None = Field(
        default=None, ge=-1_000_000, le=1_000_000, description="Priority in a queue or a pool."
    )
    weight_rule: Literal["downstream", "upstream", "absolute"] | None = Field(
        default=None, description="How the priority of a task counts those before or after it."
    )
    owner: Text | None = Field(default=None, description="Owner that Airflow shows.")
    tags: tuple[Annotated[str, Field(min_length=1, max_length=100)], ...] = Field(
        default=(), description="Tags besides those that the DAGs have; of all levels together."
    )
    start_date: Annotated[str, AfterValidator(_check_date)] | None = Field(
        default=None,
        description="Start date of the DAGs, UTC. Not of `rewrite_partitions`, whose backfills may "
        "begin at any time.",
    )
    max_active_tasks: int | None = Field(
        default=None, ge=1, le=100_000, description="Tasks of a DAG that run at once."
    )
    on_failure_callback: Named | None = Field(
        default=None,
        description="Function that is called with Airflow's context when a run has failed, besides "
        "`alerts`: `package.module:name`. It is imported when it is called.",
    )
    on_success_callback: Named | None = Field(
        default=None, description="Likewise when a run has succeeded."
    )
    on_retry_callback: Named | None = Field(
        default=None, description="Likewise when a task is retried."
    )

    @model_validator(mode="before")
    @classmethod
    def _refuse_schedule(cls, given: Any) -> Any:  # noqa: ANN401 - pydantic gives what the file holds
        if not isinstance(given, Mapping):
            return given
        if "schedule" in given:
            raise ValueError(_NO_SCHEDULE)
        return {k: _as_text(v) if k == "start_date" else v for k, v in given.items()}

    @property
    def said(self) -> dict[str, Any]:
        """Return what is said, by the name that Airflow has for it; None undoes a wider level."""
        own = type(self).model_fields.keys() - {"operations"}
        return {name: getattr(self, name) for name in sorted(own & self.model_fields_set)}


class AirflowSettings(DagSection):
    """The DAGs and their tasks: queue, retries, callbacks and others that Airflow has."""

    operations: dict[Operation, DagSection] = Field(
        default_factory=dict,
        description="The same for the DAGs of one operation, by its name: `merge: {queue: large}`.",
    )

    def levels(self, operation: str | None) -> Iterator[dict[str, Any]]:
        """Yield what is said of all operations, and then what is of this one."""
        yield self.said
        for name, section in self.operations.items():
            if name == operation:
                yield section.said


def moment(text: str) -> datetime:
    """Return a start date of the settings, in UTC."""
    from datetime import UTC

    return datetime.fromtimestamp(parse_utc(text) / 1000, UTC)
