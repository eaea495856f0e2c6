"""Spark job of `update` as Airflow submits it: see ``firnline.spark.job``."""

from __future__ import annotations

import sys

from firnline.operations.registry import UPDATE
from firnline.spark.job import Job

JOB = Job(UPDATE)

if __name__ == "__main__":
    sys.exit(JOB.main(sys.argv[1:]))
