"""DAGs for all tables: one of each operation, whose runs name their table, and the planner.

Airflow parses every file again and again, so all of these are made by one.
"""

from __future__ import annotations

from pathlib import Path

from firnline.airflow.making import make_for_all_tables

make_for_all_tables(Path(__file__).resolve().parent.parent / "spark_jobs")
