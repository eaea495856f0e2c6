"""Spark job of `erase` as Airflow submits it: see ``firnline.spark.job``."""

from __future__ import annotations

import sys

from firnline.operations.registry import ERASE
from firnline.spark.job import Job

JOB = Job(ERASE)

if __name__ == "__main__":
    sys.exit(JOB.main(sys.argv[1:]))
