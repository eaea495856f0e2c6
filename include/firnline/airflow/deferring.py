"""Decide if a trigger waits for the jobs of a table."""

from __future__ import annotations

from firnline.airflow import versions
from firnline.settings.launchers import PLATFORMS, SparkSettings


def wants_to_defer(spark: SparkSettings) -> bool:
    """Return True if the jobs run elsewhere, and the settings, or else Airflow's, ask for it."""
    if spark.chosen not in PLATFORMS:
        return False
    if spark.deferrable is not None:
        return spark.deferrable
    found: bool = versions.sdk_conf.getboolean("operators", "default_deferrable", fallback=False)
    return found
