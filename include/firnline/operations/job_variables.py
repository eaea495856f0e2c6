"""Variables by which an Airflow task passes things to the Spark job that it submits."""

from __future__ import annotations

OPTIONS_VARIABLE = "FIRNLINE_JOB_OPTIONS"
"""Variable with the job's options as JSON: any user can read argument lists, not environments."""
