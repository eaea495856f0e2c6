"""Spark job: give rows of one table new values where a condition is true.

    spark-submit spark_jobs/update.py t --run-id=… --options='{"set": ["n = 1"], "where": "n = 2"}'

The options are those of ``firnline update``. The arguments and the output that all jobs share are
described in ``firnline.spark.job``.
"""

from __future__ import annotations

import sys

from firnline.operations.registry import UPDATE
from firnline.spark.job import Job

JOB = Job(UPDATE)

if __name__ == "__main__":
    sys.exit(JOB.main(sys.argv[1:]))
