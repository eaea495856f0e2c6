"""Spark job: rewrite partitions of one table, by a filter or by a query.

    spark-submit spark_jobs/rewrite.py flights --run-id=… --options='{"where": "carrier != 1"}'

The options are those of ``firnline rewrite``. The arguments and the output that all jobs share are
described in ``firnline.spark.job``.
"""

from __future__ import annotations

import sys

from firnline.operations.registry import REWRITE
from firnline.spark.job import Job

JOB = Job(REWRITE)

if __name__ == "__main__":
    sys.exit(JOB.main(sys.argv[1:]))
