"""Spark job: merge small parts of one table into large sorted ones.

    spark-submit spark_jobs/merge.py flights --run-id=… --partitions='sched_dep_month=2013-12'

Credentials come from the environment of the driver, never from arguments. The arguments and the
output that all jobs share are described in ``firnline.spark.job``.
"""

from __future__ import annotations

import sys

from firnline.operations.registry import MERGE
from firnline.spark.job import Job

JOB = Job(MERGE)

if __name__ == "__main__":
    sys.exit(JOB.main(sys.argv[1:]))
