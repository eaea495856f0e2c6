"""Spark job: replace an interval of one table by staged rows, or by nothing.

    spark-submit spark_jobs/replace.py flights --run-id=… --options='{"start": "2024-03-05",
        "end": "2024-03-06", "files": ["s3://bucket/staged/2024-03-05/"]}'

The options are those of ``firnline replace``. Executors write the new rows and rewrite the parts
that the interval cuts; files on a path of the driver's machine are read by the driver. The
arguments and the output that all jobs share are described in ``firnline.spark.job``.
"""

from __future__ import annotations

import sys

from firnline.operations.registry import REPLACE
from firnline.spark.job import Job

JOB = Job(REPLACE)

if __name__ == "__main__":
    sys.exit(JOB.main(sys.argv[1:]))
