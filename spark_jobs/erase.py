r"""Spark job: erase every row of one table that has one of the given keys.

    FIRNLINE_JOB_OPTIONS='{"columns": ["user"], "keys": [["u-1"]]}' \
        spark-submit spark_jobs/erase.py users --run-id=…

The options are those of ``firnline erase``. Keys are passed in the environment or in a file, never
in an argument: any user can read argument lists. The arguments and the output that all jobs share
are described in ``firnline.spark.job``.
"""

from __future__ import annotations

import sys

from firnline.operations.registry import ERASE
from firnline.spark.job import Job

JOB = Job(ERASE)

if __name__ == "__main__":
    sys.exit(JOB.main(sys.argv[1:]))
