"""The silence of the fleet: what its planner cannot tell, because it does not run.

A planner that fails is told by its own run. One that is never started, whose run never ends or
whose DAG is gone would be missed by nobody, and tables would degrade in silence.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from airflow.configuration import conf
from airflow.models.dag import DagModel
from airflow.models.dagrun import DagRun
from sqlalchemy import func, select

from firnline.airflow.figures import time_text
from firnline.airflow.troubles import PLANNER, Trouble
from firnline.operations.dag_ids import FLEET
from firnline.settings.load import Settings
from firnline.units import DAY_MS

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

LIMIT_MS = DAY_MS // 12
"""Two hours beyond the time by the schedule: a run of the planner may take 50 minutes."""
CONFIRM_MS = 5 * 60_000
"""Time for which every look has to find the planner silent, before it is reported: a scheduler that
has just started, or a planner that was paused, has its next run within a minute."""
_UNDER_WAY = ("queued", "running")
SILENT = Trouble(PLANNER, "silent")


@dataclass(frozen=True, slots=True)
class Planner:
    """State of the planner's DAG in Airflow's database; times in unix ms."""

    paused: bool
    stale: bool
    """No DAG file has it any more."""
    parsed_ms: int | None
    next_ms: int | None
    """When the next run by the schedule is to begin; it is not moved while one is missing."""
    begun_ms: int | None
    """When the oldest run that has not ended was queued."""


def read_planner(session: Session) -> Planner | None:
    """Return what Airflow knows of the planner; None if it has no such DAG."""
    dag = session.get(DagModel, FLEET)
    if dag is None:
        return None
    query = select(func.min(DagRun.queued_at)).where(
        DagRun.dag_id == FLEET, DagRun.state.in_(_UNDER_WAY)
    )
    return Planner(
        bool(dag.is_paused),
        bool(dag.is_stale),
        _ms(dag.last_parsed_time),
        # A run that somebody starts by hand has a turn with those of the schedule.
        _ms(dag.next_dagrun_create_after) if _by_schedule() else None,
        _ms(session.scalar(query)),
    )


def _by_schedule() -> bool:
    return bool(conf.getboolean("scheduler", "use_job_schedule", fallback=True))


def _ms(at: datetime | None) -> int | None:
    return None if at is None else int(at.timestamp() * 1000)


def is_wanted(settings: Settings | None) -> bool:
    """Return True if the planner's DAG is to be there, and by a clock; so if nothing is known."""
    if settings is None:
        return True
    return settings.needs_planner and settings.fleet.schedule is not None


def silence(planner: Planner | None, *, wanted: bool, up_ms: int, now_ms: int) -> str | None:
    """Return a sentence if no run of the planner has ended for too long; None otherwise.

    Args:
        planner: what Airflow knows of it.
        wanted: ``is_wanted``.
        up_ms: unix ms since which this is looked at.
        now_ms: unix ms.
    """
    if planner is not None and planner.paused:
        return None
    if planner is None or planner.stale:
        since_ms = up_ms if planner is None else planner.parsed_ms or up_ms
        return _gone(since_ms) if wanted and now_ms - since_ms >= LIMIT_MS else None
    late = [at for at in (planner.next_ms, planner.begun_ms) if at and now_ms - at >= LIMIT_MS]
    return _late(min(late)) if late else None


def _gone(since_ms: int) -> str:
    return (
        f"Airflow has had no DAG {FLEET} since {time_text(since_ms)} UTC, so no table is looked "
        "at; read the import errors of the DAG files, and the log of the DAG processor"
    )


def _late(due_ms: int) -> str:
    return (
        f"the run of {FLEET} that was due at {time_text(due_ms)} UTC has not ended, so no table is "
        "looked at; look whether one is stuck, and whether workers have slots for its task"
    )


def well_again(subjects: Iterable[str]) -> str:
    """Return what is told of troubles that are over."""
    words: Mapping[str, str] = {PLANNER: "the planner is no longer silent"}
    return "; ".join(words.get(each, f"{each} can be read again") for each in subjects)
