"""Spark job: delete the rows of one table for which a condition is true.

    spark-submit spark_jobs/delete.py flights --run-id=… --options='{"where": "tail = 7"}'

The options are those of ``firnline delete``. Where the condition names people, give it in the
environment variable FIRNLINE_JOB_OPTIONS: any user can read argument lists. The arguments and the
output that all jobs share are described in ``firnline.spark.job``.
"""

from __future__ import annotations

import sys

from firnline.operations.registry import DELETE
from firnline.spark.job import Job

JOB = Job(DELETE)

if __name__ == "__main__":
    sys.exit(JOB.main(sys.argv[1:]))
