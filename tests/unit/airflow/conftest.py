"""Airflow writes its settings file wherever it is first imported: not into anybody's home."""

from __future__ import annotations

import os

from tools.bootstrap import CACHE

os.environ["AIRFLOW_HOME"] = str(CACHE / "airflow-home")
