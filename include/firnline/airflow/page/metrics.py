"""The figures of all tables as gauges of Airflow: StatsD, Datadog or OpenTelemetry, as it is set.

Airflow's own facade sends them, so prefix, host and allowed names are those of ``[metrics]``. Plain
StatsD has no tags: there the table is a part of the name, as with Airflow's own metrics.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

from firnline.airflow.page.cache import STALE_MS
from firnline.airflow.page.fleet import Row
from firnline.operations.health.figures import Figures

PREFIX = "firnline"

Option = Callable[[str], bool]
"""Returns whether an option of Airflow's ``[metrics]`` is on."""


class Gauge(Protocol):
    """Airflow's ``stats.gauge``."""

    def __call__(self, stat: str, value: float, *, tags: dict[str, str] | None = None) -> None:
        """Set a gauge."""
        ...


FIGURES: dict[str, Callable[[Figures], float | None]] = {
    "partitions": lambda f: f.partitions,
    "parts": lambda f: f.parts,
    "small_parts": lambda f: f.small_parts,
    "rows": lambda f: f.rows,
    "bytes": lambda f: f.bytes,
    "merge_parts": lambda f: f.merge_parts,
    "merge_bytes": lambda f: f.merge_bytes,
    "merge_saves_requests": lambda f: f.saved,
    "dead_bytes": lambda f: f.dead_bytes,
    "deletable_bytes": lambda f: f.deletable_bytes,
    "expired_bytes": lambda f: f.expired_bytes,
    "deletes": lambda f: f.deletes,
    "log_files_read": lambda f: f.log_files_read,
}
"""Gauge -> its value; None where the table does not state it."""


def is_on(option: Option) -> bool:
    """Return True if Airflow sends metrics anywhere."""
    return any(map(option, ("statsd_on", "statsd_datadog_enabled", "otel_on")))


def in_name(option: Option) -> bool:
    """Return True if the table has to be a part of the name, since tags would be dropped."""
    tagged = option("statsd_datadog_enabled") or option("statsd_influxdb_enabled")
    return option("statsd_on") and not tagged


def values(row: Row, now_ms: int) -> Iterator[tuple[str, float]]:
    """Yield the gauges of a table with their values.

    ``readable`` is 0 for a table that cannot be read, or whose store has not answered for a minute;
    the figures are then the last that could be read, and ``age_seconds`` is their age.
    """
    known = row.known
    began = known.asked_ms if known.under_way else None
    silent = began is not None and now_ms - began > STALE_MS
    yield "readable", int(not known.problem and not silent)
    if row.score is not None:
        yield "score", row.score
    if known.looked_ms is not None:
        yield "age_seconds", _seconds(now_ms, known.looked_ms)
    figures = None if known.health is None else known.health.figures
    if figures is None:
        return
    for name, value in FIGURES.items():
        found = value(figures)
        if found is not None:
            yield name, found
    if "merge" in figures.last:
        yield "since_merge_seconds", _seconds(now_ms, figures.last["merge"].t)


def _seconds(now_ms: int, then_ms: int) -> float:
    # Never negative: StatsD takes a sign for a change of the gauge.
    return max(0, now_ms - then_ms) // 1000


class Metrics:
    """Sends the gauges of tables.

    Args:
        gauge: Airflow's.
        normalise: returns a table's name with the characters that names of metrics may have.
        named: the table is a part of the name, instead of a tag.
    """

    def __init__(self, gauge: Gauge, normalise: Callable[[str], str], *, named: bool) -> None:
        self._gauge = gauge
        self._normalise = normalise
        self._named = named

    def send(self, row: Row, now_ms: int) -> None:
        """Send the gauges of one table."""
        table = row.settings.name
        # A dot would begin another level of the name; Airflow replaces it in the same way.
        name = self._normalise(table.replace(".", "__"))
        for figure, value in values(row, now_ms):
            if self._named:
                self._gauge(f"{PREFIX}.{figure}.{name}", value)
            else:
                self._gauge(f"{PREFIX}.{figure}", value, tags={"table": table})
