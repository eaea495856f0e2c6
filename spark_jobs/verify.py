"""Spark job: check one table, and read the footers of all its parts in Spark tasks.

    spark-submit spark_jobs/verify.py flights --run-id=… --options='{"deep": true}'

The report is always printed; findings other than notes end the job with exit code 1. The arguments
and the output that all jobs share are described in ``firnline.spark.job``.
"""

from __future__ import annotations

import sys

from firnline.operations.registry import VERIFY
from firnline.spark.job import Job

JOB = Job(VERIFY)

if __name__ == "__main__":
    sys.exit(JOB.main(sys.argv[1:]))
